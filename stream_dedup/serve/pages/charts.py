"""The numbers of the drawings: bits of two signatures, bars over time. Templates make SVG of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stream_dedup.core.model import BLOCK_BITS, FINGERPRINT_BITS

BITS_IN_ROW = 32
CELL = 10
"""Units of a bit's width; rows are two bits and a gap high."""
_BLOCK_GAP = 4
_ROW_HEIGHT = 26
_SURE = 4
"""Margins below it are drawn as unsure: a quarter of their range."""
CHART_BAR = 6
"""Units of a bar's width."""


@dataclass(frozen=True, slots=True)
class BitCell:
    """One bit of two signatures."""

    number: int
    x: int
    y: int
    a: int
    b: int
    margin: int | None
    """Of B; None where the scheme keeps no margin of this bit."""

    @property
    def differs(self) -> bool:
        """Whether the two bits differ."""
        return self.a != self.b

    @property
    def unsure(self) -> bool:
        """Whether B's bit is likely to turn over in an edited copy."""
        return self.margin is not None and self.margin < _SURE


@dataclass(frozen=True, slots=True)
class BitDrawing:
    """The bits of two signatures, in rows."""

    cells: Sequence[BitCell]
    rows: Sequence[tuple[int, int]]
    """First bit and y of each row."""
    width: int
    height: int
    differing: int
    differing_fingerprint: int
    differing_unsure: int
    has_margins: bool


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a chart."""

    x: int
    y: float
    height: float
    start_ms: int
    count: int


@dataclass(frozen=True, slots=True)
class BarChart:
    """Counts over time."""

    bars: Sequence[Bar]
    """Those that are not 0."""
    width: int
    height: int
    most: int
    start_ms: int
    end_ms: int


def bit_drawing(a: Mapping[str, Any], b: Mapping[str, Any]) -> BitDrawing:
    """Return the drawing of the signatures of two sides of an explanation, as JSON has them."""
    margins: Sequence[int] = b["margins"]
    cells = [
        BitCell(at, _x(at), at // BITS_IN_ROW * _ROW_HEIGHT, one, other, margins[at] if at < len(margins) else None)
        for at, (one, other) in enumerate(zip(_bits(a["signature"]), _bits(b["signature"]), strict=True))
    ]
    differing = [cell for cell in cells if cell.differs]
    rows = [(cells[at].number, cells[at].y) for at in range(0, len(cells), BITS_IN_ROW)]
    return BitDrawing(
        cells=cells,
        rows=rows,
        width=_x(BITS_IN_ROW - 1) + CELL,
        height=len(rows) * _ROW_HEIGHT - (_ROW_HEIGHT - 2 * CELL),
        differing=len(differing),
        differing_fingerprint=sum(cell.number < FINGERPRINT_BITS for cell in differing),
        differing_unsure=sum(cell.unsure for cell in differing),
        has_margins=bool(margins),
    )


def bar_chart(counts: Sequence[tuple[int, int]], height: int) -> BarChart:
    """Return a chart of counts by the beginning of their bucket."""
    most = max((count for _, count in counts), default=0)
    bars = [
        Bar(at * CHART_BAR, round(height - height * count / most, 1), round(height * count / most, 1), start, count)
        for at, (start, count) in enumerate(counts)
        if count
    ]
    start, end = (counts[0][0], counts[-1][0]) if counts else (0, 0)
    return BarChart(bars, max(1, len(counts)) * CHART_BAR, height, most, start, end)


def _bits(signature: str) -> list[int]:
    """Return the bits of a signature in hexadecimal, the first one first."""
    return [int(digit, 16) >> shift & 1 for digit in signature for shift in (3, 2, 1, 0)]


def _x(bit: int) -> int:
    column = bit % BITS_IN_ROW
    return column * CELL + column // BLOCK_BITS * _BLOCK_GAP
