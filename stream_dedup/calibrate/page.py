"""A calibration report as one HTML page: charts, table, pairs. The page loads nothing from elsewhere.

Charts are SVG: bars, axes, vertical lines at limits. The style sheet gives the colours by class, so that they are
readable in light and dark. Coordinates are rounded to a tenth of a unit of the drawing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from typing import NamedTuple

from stream_dedup.calibrate.figures import Figures, SettingsTable, settings_tables
from stream_dedup.calibrate.report import CalibrationReport, ShownPair
from stream_dedup.calibrate.text import head
from stream_dedup.terminal import visible

WIDTH, HEIGHT = 860, 290
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 14, 28
"""Space around the plot, for the numbers of the axes."""
NOTE_WIDTH = 120
"""Space for the name of a vertical line."""
TICKS = 6


class Series(NamedTuple):
    """Values over x = 0, 1, 2, ..., with a name and a class of style."""

    name: str
    style: str
    values: Sequence[int]


class Line(NamedTuple):
    """A vertical line: its x, its name, and its class of style."""

    at: float
    name: str
    style: str


def page(report: CalibrationReport) -> str:
    """Return the page."""
    style = files("stream_dedup.calibrate").joinpath("page.css").read_text("utf-8")
    body = "\n".join(_body(report))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n<title>stream-dedup calibrate</title>\n'
        f"<style>\n{style}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _body(report: CalibrationReport) -> Iterator[str]:
    yield f"<h1>Calibration of {', '.join(map(_foreign, report.files))}</h1>"
    yield from (f'<p class="soft">{_foreign(line)}</p>' for line in head(report))
    for figures in report.figures:
        yield from _kind(report, figures)


def _kind(report: CalibrationReport, figures: Figures) -> Iterator[str]:
    yield f"<h2>{figures.kind.capitalize()} text</h2>"
    yield f'<p class="soft">{figures.asked:,} articles; {figures.first:,} have none of their kind before them.</p>'
    yield _suggestion(report, figures)
    yield _histogram(figures)
    if figures.equal_values:
        yield _equal_values(figures)
    yield from map(_table, settings_tables(figures))
    for title, shown in report.edge_lists(figures.kind):
        yield f"<h3>{title}</h3>"
        yield "".join(map(_pair, shown)) or '<p class="soft">None.</p>'


def _suggestion(report: CalibrationReport, figures: Figures) -> str:
    name = "distance" if report.probes is None else ("short_limit" if figures.kind == "short" else "limit")
    probes = "" if report.probes is None else f", probes = {figures.suggestion.lookups}"
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in figures.suggestion.reasons)
    return (
        f'<div class="suggest"><code>{name} = {figures.suggestion.limit}{probes}</code>'
        f'<span class="soft"> suggested; now {figures.limit}{f", {report.probes}" if report.probes else ""}</span>'
        f"<ul>{reasons}</ul></div>"
    )


def _histogram(figures: Figures) -> str:
    counts, reached, limit = figures.histogram, figures.reached, figures.limit
    within = [count if bits <= limit else 0 for bits, count in enumerate(reached)]
    missed = [counts[bits] - reached[bits] if bits <= limit else 0 for bits in range(len(counts))]
    beyond = [count if bits > limit else 0 for bits, count in enumerate(counts)]
    last = max([limit + 4, *(bits for bits, count in enumerate(counts) if count)])
    series = [Series("within the limit, found", "near", within), Series("beyond the limit", "far", beyond)]
    if any(missed):
        series.insert(1, Series(f"within the limit, not reached by {figures.lookups} look-ups", "missed", missed))
    title = f"Distance of the nearest earlier article ({figures.kind} text)"
    lines = [Line(limit + 0.5, f"present {'distance' if figures.exact else 'limit'} {limit}", "limit")]
    if figures.suggestion.limit != limit:
        lines.append(Line(figures.suggestion.limit + 0.5, f"suggested {figures.suggestion.limit}", "hint"))
    across = f"the bits of {figures.width} in which the two differ"
    return Chart(title, across, min(last, figures.width), series, lines).svg()


def _equal_values(figures: Figures) -> str:
    counts, least, far = figures.equal_values, figures.least_equal, figures.far_least_equal
    drawn = [Line(least - 0.5, f"at least {least}", "limit")] if least else []
    if far > least:
        drawn.append(Line(far - 0.5, f"beyond search.far bits at least {far}", "limit"))
    enough = [count if equal >= far else 0 for equal, count in enumerate(counts)]
    between = [count if least <= equal < far else 0 for equal, count in enumerate(counts)]
    few = [count if equal < least else 0 for equal, count in enumerate(counts)]
    series = [Series("enough", "near", enough), Series("too few beyond search.certain bits", "far", few)]
    if far > least:
        series.insert(1, Series("too few beyond search.far bits", "missed", between))
    title = f"Equal values in the sketches of articles within the limit ({figures.kind} text)"
    most = len(counts) - 1
    return Chart(title, f"the values of {most} that are equal", most, series, drawn).svg()


def _table(settings: SettingsTable) -> str:
    lines = "".join(_row("td" if number else "th", row) for number, row in enumerate(settings.rows))
    return (
        f'<h3>{escape(settings.title)}</h3><div class="wide"><table>{lines}</table></div>'
        f'<p class="soft">{escape(settings.note)}</p>'
    )


def _row(kind: str, cells: Sequence[str]) -> str:
    marked = ((cell, ' class="own"' if cell.endswith("*") else "") for cell in cells)
    return "<tr>" + "".join(f"<{kind}{style}>{escape(cell)}</{kind}>" for cell, style in marked) + "</tr>"


def _pair(one: ShownPair) -> str:
    sizes = " and ".join(f"{size:,}" for size in one.lengths)
    return (
        f'<div class="pair"><p>{one.distance} bits · similarity {one.similarity:.2f} · '
        f"<code>{_foreign(one.earlier)}</code> and <code>{_foreign(one.later)}</code> "
        f'<span class="soft">({sizes} characters)</span></p>'
        f'<p class="text">{_foreign(one.earlier_passage)}</p><p class="text">{_foreign(one.later_passage)}</p></div>'
    )


def _foreign(text: str) -> str:
    """Return foreign text with hidden characters visible, isolated so that its direction ends with it."""
    return f"<bdi>{escape(visible(text))}</bdi>"


class Chart:
    """Stacked bars under a title, with vertical lines; later series are on top of earlier ones."""

    def __init__(self, title: str, across: str, last: int, series: Sequence[Series], lines: Sequence[Line]) -> None:
        """``across`` is the name of the x axis, ``last`` the greatest x shown."""
        self._title, self._across, self._last = title, across, last
        self._series, self._lines = series, lines
        heights = [sum(column) for column in zip(*(one.values[: last + 1] for one in series), strict=True)]
        self._ticks = _ticks(max(heights, default=0) or 1)
        self._plot = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM)

    def svg(self) -> str:
        """Return the title, the legend and the chart."""
        title = escape(self._title)
        keys = (f'<span><i class="{one.style} key"></i> {escape(one.name)}</span>' for one in self._series)
        parts = [*self._grid(), *self._bars(), *self._verticals()]
        return (
            f'<h3>{title}</h3><p class="legend">{" ".join(keys)}</p>'
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}"><title>{title}</title>'
            f'{"".join(parts)}</svg><p class="legend across">articles, by {escape(self._across)}</p>'
        )

    def _bars(self) -> list[str]:
        drawn = []
        base = [0] * (self._last + 1)
        for one in self._series:
            for x, value in enumerate(one.values[: self._last + 1]):
                if value:
                    left, right = self._x(x - 0.45), self._x(x + 0.45)
                    top, bottom = self._y(base[x] + value), self._y(base[x])
                    tip = f"{x}: {value:,} {one.name}"
                    drawn.append(
                        f'<rect class="{one.style}" x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" '
                        f'height="{bottom - top:.1f}"><title>{escape(tip)}</title></rect>'
                    )
                    base[x] += value
        return drawn

    def _x(self, value: float) -> float:
        """Return the distance from the left edge."""
        return LEFT + (value + 0.5) / (self._last + 1) * self._plot[0]

    def _y(self, value: float) -> float:
        """Return the distance from the upper edge."""
        return TOP + (1 - value / self._ticks[-1]) * self._plot[1]

    def _grid(self) -> list[str]:
        bottom = self._y(0)
        drawn = [f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom:.1f}" y2="{bottom:.1f}"/>']
        for value in self._ticks:
            at = self._y(value)
            if value:
                drawn.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
            drawn.append(f'<text class="tick" x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{value:,g}</text>')
        for value in _ticks(self._last, 12):
            if value <= self._last:
                x, low = f"{self._x(value):.1f}", f"{bottom + 5:.1f}"
                drawn.append(f'<line class="axis" x1="{x}" x2="{x}" y1="{bottom:.1f}" y2="{low}"/>')
                drawn.append(f'<text class="tick" x="{x}" y="{bottom + 19:.1f}" text-anchor="middle">{value:g}</text>')
        return drawn

    def _verticals(self) -> list[str]:
        drawn = []
        ordered = sorted(self._lines, key=lambda line: line.at)
        for number, one in enumerate(ordered):
            at = self._x(one.at)
            # Of two lines the left one has its name to the left, where there is room.
            flips = at > LEFT + 0.75 * self._plot[0] or (one is not ordered[-1] and at > LEFT + NOTE_WIDTH)
            drawn.append(
                f'<line class="{one.style}" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
                f'<text class="note {one.style}" x="{at - 6 if flips else at + 6:.1f}" y="{TOP + 12 + 16 * number}" '
                f'text-anchor="{"end" if flips else "start"}">{escape(one.name)}</text>'
            )
        return drawn


def _ticks(most: float, count: int = TICKS) -> list[float]:
    """Return round numbers from 0 to the first that is at least ``most``."""
    rough = most / count
    unit = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough * (1 - 1e-9))
    return [round(step * number, 10) for number in range(math.ceil(most / step - 1e-9) + 1)]
