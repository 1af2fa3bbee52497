"""The figures of ``benchmarks.fingerprint``: as tables, and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "fingerprint-length.svg"
STYLES = {"profile article": "C0-", "profile comment": "C2-", "profile simhash": "C1-"}
"""Of the lines in the picture; that of the peer is black."""


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


def draw(figures: Sequence[Timed], peer: str, kinds: Sequence[str], path: Path = PICTURE) -> Path:
    """Draw microseconds a character over length for these kinds of text, and the ratios to the peer of all others."""
    import matplotlib as mpl  # noqa: PLC0415 - takes long to load
    from matplotlib.figure import Figure as Picture  # noqa: PLC0415 - as above

    # Text stays text, and the same figures make the same bytes.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "fingerprint", "font.size": 9}):
        picture = Picture(figsize=(11, 7), layout="constrained")
        places = picture.subplots(2, 2).flat
        for kind in kinds:
            _lines(next(places), kind, [one for one in figures if one.point == kind], peer)
        others = [one for one in figures if one.point not in kinds and one.contender != peer]
        _bars(next(places), f"Other texts: time beside {peer}", others)
        picture.savefig(path, metadata={"Date": None})
    return path


def _lines(axes: Axes, title: str, figures: Sequence[Timed], peer: str) -> None:
    for name in dict.fromkeys(one.contender for one in figures):
        own = sorted((one for one in figures if one.contender == name), key=lambda one: one.characters)
        style = "k--" if name == peer else STYLES.get(name, "C3-")
        each = [one.us / one.characters for one in own]
        axes.plot([one.characters for one in own], each, style, marker=".", label=name)
    axes.set(title=title, xlabel="characters of a text", ylabel="µs a character", xscale="log", yscale="log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=8)


def _bars(axes: Axes, title: str, figures: Sequence[Timed]) -> None:
    points = list(dict.fromkeys((one.point, one.characters) for one in figures))
    names = list(dict.fromkeys(one.contender for one in figures))
    height = 0.8 / max(1, len(names))
    for number, name in enumerate(names):
        own = {(one.point, one.characters): one.beside for one in figures if one.contender == name}
        rows = [at + number * height for at, point in enumerate(points) if point in own]
        values = [own[point] for point in points if point in own]
        axes.barh(rows, values, height, color=STYLES.get(name, "C3-")[:2], label=name)
    labels = [f"{point}, {characters:,}" for point, characters in points]
    axes.set(title=title, yticks=[at + 0.3 for at in range(len(points))], yticklabels=labels)
    axes.axvline(1, color="k", linestyle="--")
    axes.invert_yaxis()
    axes.grid(visible=True, alpha=0.3, axis="x")
    axes.legend(fontsize=8, loc="lower right")


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
