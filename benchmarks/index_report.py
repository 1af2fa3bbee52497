"""The figures of ``benchmarks.index`` as tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from benchmarks.processes import Memory

MIB = 1 << 20


@dataclass(frozen=True)
class Figure:
    """Of an index of so many bits a block and tables, with so many articles."""

    block_bits: int
    tables: int
    articles: int

    @property
    def name(self) -> str:
        """Where it was taken."""
        tables = "" if self.tables == 4 else f", {self.tables} tables"
        return f"{self.block_bits} bits{tables}, {self.articles:,} articles"


@dataclass(frozen=True)
class Filled(Figure):
    """Filling from the size before on; microseconds and bytes an article."""

    HEAD: ClassVar = (
        "filling, µs an article",
        "processor time, µs",
        "longest pause, ms",
        "by processor time",
        "99.9 %, ms",
        "a loop alone, ms",
        "disk, bytes an article",
        "of these posting lists",
    )

    us: float
    processor_us: float
    longest_ms: float
    longest_processor_ms: float
    p999_ms: float
    machine_ms: float
    """Longest time for which a loop that does nothing stood still, right after: pauses of the machine."""
    disk_bytes: float
    list_bytes: float

    def cells(self) -> list[str]:
        """Cells of the table."""
        times = [f"{self.us:.1f}", f"{self.processor_us:.1f}"]
        pauses = [f"{self.longest_ms:.0f}", f"{self.longest_processor_ms:.0f}", f"{self.p999_ms:.1f}"]
        pauses.append(f"{self.machine_ms:.0f}")
        return times + pauses + [f"{each:.0f}" for each in (self.disk_bytes, self.list_bytes)]


@dataclass(frozen=True)
class Opened(Figure):
    """Opening, and the memory after it."""

    HEAD: ClassVar = (
        "index.memory_mib",
        "opening, s",
        "processor time, s",
        "first answer, s",
        "warm, s",
        "memory, MiB",
        "bytes an article",
    )

    memory_mib: int
    seconds: float
    processor_s: float
    first_s: float
    warm_s: float
    memory: Memory

    @property
    def bytes_each(self) -> float:
        """Bytes of memory an article."""
        return sum(self.memory) * MIB / self.articles

    def cells(self) -> list[str]:
        """Cells of the table."""
        times = [f"{each:.2f}" for each in (self.seconds, self.processor_s, self.first_s)]
        sizes = [f"{each:,.0f}" for each in (sum(self.memory), self.bytes_each)]
        return [f"{self.memory_mib:,}", *times, f"{self.warm_s:.1f}", *sizes]


@dataclass(frozen=True)
class Searched(Figure):
    """Look-up and insert together; ``distance`` is None in directed search."""

    HEAD: ClassVar = (
        "search",
        "index.memory_mib: held",
        "µs an article: median",
        "mean",
        "slowest batch, ms",
        "candidates expected",
        "seen",
        "memory, MiB",
        "SimhashIndex, µs: median",
        "ratio",
    )

    memory_mib: int
    distance: int | None
    lookups: int
    held_mib: float
    median_us: float
    mean_us: float
    slowest_ms: float
    candidates: float
    memory: Memory

    @property
    def search(self) -> str:
        """The search in words."""
        return f"{self.lookups} probes" if self.distance is None else f"k = {self.distance}"

    @property
    def expected(self) -> float:
        """Entries compared with an article where fingerprints are random."""
        return self.lookups * self.articles / (1 << self.block_bits)

    def cells(self) -> list[str]:
        """Cells of the table, those of the peer left out."""
        return [
            self.search,
            f"{self.memory_mib:,}: {self.held_mib:,.0f}",
            f"{self.median_us:.1f}",
            f"{self.mean_us:.1f}",
            f"{self.slowest_ms:.0f}",
            f"{self.expected:,.0f}",
            f"{self.candidates:,.0f}",
            f"{sum(self.memory):,.0f}",
        ]

    def beside(self, peers: Sequence[Peer]) -> list[str]:
        """Cells of the peer."""
        at = (self.block_bits, self.tables, self.articles, self.memory_mib, self.distance)
        for peer in peers:
            if (peer.block_bits, peer.tables, peer.articles, peer.memory_mib, peer.distance) == at:
                return (
                    [peer.why_not, ""] if peer.us is None else [f"{peer.us:,.0f}", f"{peer.us / self.median_us:,.0f} x"]
                )
        return ["not asked", ""]


@dataclass(frozen=True)
class Peer(Figure):
    """The median of the peer's index in microseconds, or why there is none."""

    memory_mib: int
    distance: int
    us: float | None
    why_not: str

    def __str__(self) -> str:
        """In words."""
        found = self.why_not if self.us is None else f"{self.us:,.0f} µs"
        return f"SimhashIndex, k = {self.distance}: {found}"


FigureT = TypeVar("FigureT", Filled, Opened, Searched, Peer)


def tell(figure: FigureT) -> FigureT:
    """Print a figure to standard error, and return it."""
    said = str(figure)
    if not isinstance(figure, Peer):
        said = ", ".join(f"{name} {cell}" for name, cell in zip(figure.HEAD, figure.cells(), strict=False))
    print(f"{figure.name}: {said}", file=sys.stderr, flush=True)
    return figure


def print_tables(figures: Sequence[Figure]) -> None:
    """Print what was found as tables."""
    peers = [one for one in figures if isinstance(one, Peer)]
    for tables in dict.fromkeys(one.tables for one in figures):
        own = [one for one in figures if one.tables == tables]
        print(f"\n{tables} tables")
        _print_table(
            Searched.HEAD, [(one, one.cells() + one.beside(peers)) for one in own if isinstance(one, Searched)]
        )
        _print_table(Filled.HEAD, [(one, one.cells()) for one in own if isinstance(one, Filled)])
        _print_table(Opened.HEAD, [(one, one.cells()) for one in own if isinstance(one, Opened)])


def _print_table(head: Sequence[str], rows: Sequence[tuple[Figure, list[str]]]) -> None:
    if not rows:
        return
    print(f"\n| bits | articles | {' | '.join(head)} |\n| ---: |" + " ---: |" * (1 + len(head)))
    for figure, cells in rows:
        print(f"| {figure.block_bits} | {figure.articles:,} | {' | '.join(cells)} |", flush=True)
