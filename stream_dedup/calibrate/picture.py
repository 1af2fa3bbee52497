"""Draws charts as SVG: bars, lines, axes, a legend, vertical lines at limits.

A chart is text for an HTML page, whose style sheet gives the colours by class (``page``), so that it is
readable in light and dark. Coordinates are rounded to a tenth of a unit of the drawing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 860, 330
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 34, 48
"""Space around the plot: for the numbers and names of the axes, and the legend above."""
NOTE_WIDTH = 120
"""Space for the name of a vertical line."""
TICKS = 6


@dataclass(frozen=True, slots=True)
class Series:
    """Values over x = 0, 1, 2, ..., with a name and a class of style."""

    name: str
    style: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Line:
    """A vertical line: its x, its name, and its class of style."""

    at: float
    name: str
    style: str


@dataclass(frozen=True, slots=True)
class Chart:
    """The title, the axes and the vertical lines of a chart."""

    title: str
    across: str
    up: str
    last: int
    """Greatest x shown."""
    lines: Sequence[Line] = ()


def bars(chart: Chart, series: Sequence[Series]) -> str:
    """Draw stacked bars: later series are on top of earlier ones."""
    heights = [sum(column) for column in zip(*(one.values for one in series), strict=True)]
    axes = _Axes(chart, max(heights[: chart.last + 1], default=0), half=0.5)
    drawn = []
    base = [0.0] * len(heights)
    for one in series:
        for x, value in enumerate(one.values[: chart.last + 1]):
            if value:
                left, right = axes.x(x - 0.45), axes.x(x + 0.45)
                top, bottom = axes.y(base[x] + value), axes.y(base[x])
                tip = f"{x}: {value:,.0f} {one.name}"
                drawn.append(
                    f'<rect class="{one.style}" x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" '
                    f'height="{bottom - top:.1f}"><title>{escape(tip)}</title></rect>'
                )
                base[x] += value
    return axes.svg(drawn, [(one.name, one.style) for one in series])


def curves(chart: Chart, series: Sequence[Series], most: float | None = None) -> str:
    """Draw a line for each series."""
    axes = _Axes(chart, most or max((max(one.values[: chart.last + 1], default=0) for one in series), default=0))
    drawn = []
    for one in series:
        points = " ".join(f"{axes.x(x):.1f},{axes.y(y):.1f}" for x, y in enumerate(one.values[: chart.last + 1]))
        tip = f"<title>{escape(one.name)}</title>"
        drawn.append(f'<polyline class="curve {one.style}" points="{points}">{tip}</polyline>')
    return axes.svg(drawn, [(one.name, one.style) for one in series])


class _Axes:
    """Maps values to the drawing, and draws the axes and everything else around them."""

    def __init__(self, chart: Chart, most: float, half: float = 0.0) -> None:
        self._chart = chart
        self._half = half
        self._ticks = _ticks(most or 1)
        self._top = self._ticks[-1]
        self._plot = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM)

    def x(self, value: float) -> float:
        """Return the distance from the left edge."""
        whole = self._chart.last + 2 * self._half
        return LEFT + (value + self._half) / max(whole, 1) * self._plot[0]

    def y(self, value: float) -> float:
        """Return the distance from the upper edge."""
        return TOP + (1 - value / self._top) * self._plot[1]

    def svg(self, drawn: Sequence[str], legend: Sequence[tuple[str, str]]) -> str:
        """Return the whole chart."""
        title = escape(self._chart.title)
        parts = [*self._grid(), *drawn, *self._verticals(), *self._names(), *_legend(legend)]
        return (
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}"><title>{title}</title>'
            f"{''.join(parts)}</svg>"
        )

    def _grid(self) -> list[str]:
        bottom = self.y(0)
        drawn = [f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom:.1f}" y2="{bottom:.1f}"/>']
        for value in self._ticks:
            at = self.y(value)
            if value:
                drawn.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
            drawn.append(f'<text class="tick" x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{value:,g}</text>')
        for value in _ticks(self._chart.last, 12):
            if value <= self._chart.last:
                x, low = f"{self.x(value):.1f}", f"{bottom + 5:.1f}"
                drawn.append(f'<line class="axis" x1="{x}" x2="{x}" y1="{bottom:.1f}" y2="{low}"/>')
                drawn.append(f'<text class="tick" x="{x}" y="{bottom + 19:.1f}" text-anchor="middle">{value:g}</text>')
        return drawn

    def _verticals(self) -> list[str]:
        drawn = []
        ordered = sorted(self._chart.lines, key=lambda line: line.at)
        for number, one in enumerate(ordered):
            at = self.x(one.at)
            # Of two lines the left one has its name to the left, where there is room.
            flips = at > LEFT + 0.75 * self._plot[0] or (one is not ordered[-1] and at > LEFT + NOTE_WIDTH)
            drawn.append(
                f'<line class="{one.style}" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
                f'<text class="note {one.style}" x="{at - 6 if flips else at + 6:.1f}" y="{TOP + 12 + 16 * number}" '
                f'text-anchor="{"end" if flips else "start"}">{escape(one.name)}</text>'
            )
        return drawn

    def _names(self) -> list[str]:
        middle, name = LEFT + self._plot[0] / 2, escape(self._chart.across)
        across = f'<text class="name" x="{middle:.1f}" y="{HEIGHT - 8}" text-anchor="middle">{name}</text>'
        up = (
            f'<text class="name" transform="translate(14 {TOP + self._plot[1] / 2:.1f}) rotate(-90)" '
            f'text-anchor="middle">{escape(self._chart.up)}</text>'
        )
        return [across, up]


def _legend(entries: Sequence[tuple[str, str]]) -> list[str]:
    drawn, at = [], float(LEFT)
    for name, style in entries:
        drawn.append(f'<rect class="{style} key" x="{at:.1f}" y="8" width="12" height="12" rx="2"/>')
        drawn.append(f'<text class="legend" x="{at + 17:.1f}" y="18">{escape(name)}</text>')
        at += 17 + 7.2 * len(name) + 20
    return drawn


def _ticks(most: float, count: int = TICKS) -> list[float]:
    """Return round numbers from 0 to the first that is at least ``most``."""
    rough = most / count
    unit = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough * (1 - 1e-9))
    return [round(step * number, 10) for number in range(math.ceil(most / step - 1e-9) + 1)]
