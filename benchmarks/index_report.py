"""The figures of ``benchmarks.index``: as lines of JSON, as tables, and as pictures over size."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from benchmarks.processes import Memory
from stream_dedup.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "index-size.svg"
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

    def __str__(self) -> str:
        """In words."""
        return (
            f"{self.name}: filled at {self.us:.1f} µs each ({self.processor_us:.1f} of processor time), longest pause "
            f"{self.longest_ms:.0f} ms (by processor time {self.longest_processor_ms:.0f}; 99.9 %: "
            f"{self.p999_ms:.1f}; a loop alone {self.machine_ms:.0f}), bytes on disk each: "
            f"{self.disk_bytes:.0f}, of these {self.list_bytes:.0f} of posting lists"
        )

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

    def __str__(self) -> str:
        """In words."""
        return (
            f"{self.name}, {self.memory_mib} MiB: opened in {self.seconds:.2f} s ({self.processor_s:.2f} of processor "
            f"time), first answer after {self.first_s:.2f} s, warm after {self.warm_s:.1f} s, "
            f"memory {sum(self.memory):,.0f} MiB, {self.bytes_each:.0f} bytes each"
        )

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

    def __str__(self) -> str:
        """In words."""
        return (
            f"{self.name}, {self.memory_mib} MiB, {self.search}: look-up and insert {self.median_us:.1f} µs "
            f"(mean {self.mean_us:.1f}), slowest batch {self.slowest_ms:.0f} ms, {self.candidates:,.0f} candidates, "
            f"memory {sum(self.memory):,.0f} MiB"
        )

    def cells(self, peers: dict[tuple[Any, ...], Peer]) -> list[str]:
        """Cells of the table."""
        peer = peers.get((self.block_bits, self.tables, self.articles, self.memory_mib, self.distance))
        beside = ["not asked", ""]
        if peer is not None:
            beside = (
                [peer.why_not, ""] if peer.us is None else [f"{peer.us:,.0f}", f"{peer.us / self.median_us:,.0f} x"]
            )
        return [
            self.search,
            f"{self.memory_mib:,}: {self.held_mib:,.0f}",
            f"{self.median_us:.1f}",
            f"{self.mean_us:.1f}",
            f"{self.slowest_ms:.0f}",
            f"{self.expected:,.0f}",
            f"{self.candidates:,.0f}",
            f"{sum(self.memory):,.0f}",
            *beside,
        ]


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
        return f"{self.name}, SimhashIndex, k = {self.distance}: {found}"


KINDS: dict[str, type[Figure]] = {kind.__name__: kind for kind in (Filled, Opened, Searched, Peer)}


def to_json(figure: Figure) -> str:
    """A figure as a line of JSON."""
    return json.dumps({"kind": type(figure).__name__} | asdict(figure))


def read_figures(path: Path) -> Iterator[Figure]:
    """Read the figures of a file.

    Raises:
        UserError: a line is no figure.
    """
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        try:
            fields = json.loads(line)
            kind = KINDS[fields.pop("kind")]
            if "memory" in fields:
                fields["memory"] = Memory(*fields["memory"])
            yield kind(**fields)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            msg = f"{path}, line {number}: no figure of benchmarks.index ({error}); delete it"
            raise UserError(msg) from error


def print_tables(figures: Sequence[Figure]) -> None:
    """Print what was found as tables."""
    peers = {
        (one.block_bits, one.tables, one.articles, one.memory_mib, one.distance): one
        for one in figures
        if isinstance(one, Peer)
    }
    for tables in dict.fromkeys(one.tables for one in figures):
        own = [one for one in figures if one.tables == tables]
        print(f"\n{tables} tables")
        _print_table(Searched.HEAD, [(one, one.cells(peers)) for one in own if isinstance(one, Searched)])
        _print_table(Filled.HEAD, [(one, one.cells()) for one in own if isinstance(one, Filled)])
        _print_table(Opened.HEAD, [(one, one.cells()) for one in own if isinstance(one, Opened)])


def _print_table(head: Sequence[str], rows: Sequence[tuple[Figure, list[str]]]) -> None:
    if not rows:
        return
    print(f"\n| bits | articles | {' | '.join(head)} |\n| ---: |" + " ---: |" * (1 + len(head)))
    for figure, cells in rows:
        print(f"| {figure.block_bits} | {figure.articles:,} | {' | '.join(cells)} |", flush=True)


def draw(figures: Sequence[Figure], path: Path = PICTURE) -> Path:
    """Draw the figures over size as one picture: a line for each number of bits of a block."""
    import matplotlib as mpl  # noqa: PLC0415 - takes long to load
    from matplotlib.figure import Figure as Picture  # noqa: PLC0415 - as above

    filled = [one for one in figures if isinstance(one, Filled)]
    opened = _of_the_first_memory([one for one in figures if isinstance(one, Opened)])
    searched = _of_the_first_memory([one for one in figures if isinstance(one, Searched) and one.distance is None])
    # Text stays text, and the same figures make the same bytes.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "index", "font.size": 9}):
        picture = Picture(figsize=(11, 7), layout="constrained")
        places = picture.subplots(2, 3).flat
        _lines(next(places), "Filling", "µs an article", filled, [lambda one: one.us])
        _lines(next(places), "Look-up and insert", "µs an article, mean", searched, [lambda one: one.mean_us])
        pauses = [lambda one: one.longest_ms, lambda one: one.p999_ms]
        _lines(next(places), "Pauses: longest batch; 99.9 % dashed", "ms", filled, pauses)
        first = [lambda one: one.first_s, lambda one: one.seconds]
        _lines(next(places), "First answer; opening alone dashed", "s", opened, first)
        _lines(next(places), "Memory", "bytes an article", opened, [lambda one: one.bytes_each])
        disk = [lambda one: one.disk_bytes, lambda one: one.list_bytes]
        _lines(next(places), "Disk; posting lists alone dashed", "bytes an article", filled, disk)
        picture.savefig(path, metadata={"Date": None})
    return path


def _of_the_first_memory(figures: Sequence[Any]) -> list[Any]:
    return [one for one in figures if one.memory_mib == figures[0].memory_mib]


def _lines(axes: Axes, title: str, unit: str, figures: Sequence[Any], values: Sequence[Callable[[Any], float]]) -> None:
    """Draw one of the six: a line for each number of bits (and of look-ups), dashed for the second value."""
    widths = sorted({one.block_bits for one in figures})
    series = sorted({(one.block_bits, getattr(one, "lookups", 0)) for one in figures})
    for bits, lookups in series:
        own = [one for one in figures if (one.block_bits, getattr(one, "lookups", 0)) == (bits, lookups)]
        own.sort(key=lambda one: one.articles)
        name = f"{bits} bits, {lookups} look-ups" if lookups else f"{bits} bits"
        ranks = [other for width, other in series if width == bits]
        for value, style in zip(values, ("-", "--"), strict=False):
            axes.plot(
                [one.articles for one in own],
                [value(one) for one in own],
                style,
                color=f"C{widths.index(bits)}",
                alpha=1 - 0.3 * ranks.index(lookups),
                marker=".",
                label=name if style == "-" else None,
            )
    axes.set(title=title, xlabel="articles", ylabel=unit, xscale="log", ylim=(0, None))
    axes.grid(visible=True, alpha=0.3)
    if series:
        axes.legend(fontsize=8)
