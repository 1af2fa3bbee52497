"""The figures of ``benchmarks.fingerprint`` as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Timed:
    """Processor time of one contender at one point: the median of its turns."""

    point: str
    """What texts these are."""
    characters: int
    """Mean of them."""
    bytes: int
    """Mean of them, in UTF-8."""
    contender: str
    us: float
    """Microseconds a text."""
    beside: float
    """Median of the ratios to the peer in the same turn."""


def timed(point: str, texts: Sequence[str], times: dict[str, list[float]], peer: str) -> list[Timed]:
    """Return the figures of one point: microseconds a text of each contender by turns."""
    characters, size = (round(sum(each) / len(texts)) for each in (map(len, texts), map(_bytes, texts)))
    return [
        Timed(point, characters, size, name, median(own), median(a / b for a, b in zip(own, times[peer], strict=True)))
        for name, own in times.items()
    ]


def print_point(figures: Sequence[Timed], others: Sequence[str] = ()) -> None:
    """Print the contenders of one point; ``others``: contenders that ratios are printed to besides the peer."""
    bases = {one.contender: one.us for one in figures}
    names = [name for name in others if name in bases]
    peer = next(one.contender for one in figures if one.beside == 1.0)
    print(f"\n{figures[0].point}: {figures[0].characters:,} characters, {figures[0].bytes:,} bytes each\n")
    print(
        f"| | µs a text | MB/s | x {' | x '.join((peer, *names))} |\n| --- | ---: | ---: |"
        + " ---: |" * (1 + len(names))
    )
    for one in figures:
        ratios = [f"{one.beside:.2f}", *(f"{one.us / bases[name]:.2f}" for name in names)]
        print(f"| {one.contender} | {one.us:,.1f} | {one.bytes / one.us:.1f} | {' | '.join(ratios)} |", flush=True)


def print_sweep(figures: Sequence[Timed]) -> None:
    """Print a row for each text and length, with the microseconds of each contender and its ratio to the peer."""
    names = list(dict.fromkeys(one.contender for one in figures))
    print(f"\n| text | characters | {' | '.join(names)} |\n| --- | ---: |" + " ---: |" * len(names))
    points = dict.fromkeys((one.point, one.characters) for one in figures)
    for point, characters in points:
        own = {one.contender: one for one in figures if (one.point, one.characters) == (point, characters)}
        cells = [f"{own[name].us:,.1f} ({own[name].beside:.2f})" if name in own else "" for name in names]
        print(f"| {point} | {characters:,} | {' | '.join(cells)} |", flush=True)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
