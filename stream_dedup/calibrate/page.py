"""A calibration report as one HTML page: charts, table, pairs. The page loads nothing from elsewhere.

Charts are SVG: bars, lines, axes, a legend, vertical lines at limits. The style sheet gives the colours by class, so
that they are readable in light and dark. Coordinates are rounded to a tenth of a unit of the drawing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from typing import NamedTuple

from stream_dedup.calibrate.figures import Cell, Figures, short_share
from stream_dedup.calibrate.report import CalibrationReport, ShownPair
from stream_dedup.core.model import BLOCKS_PER_WORD
from stream_dedup.terminal import visible

CURVES = 5
"""Curves drawn, beside that of the present setting: more could not be distinguished."""
WIDTH, HEIGHT = 860, 330
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 34, 48
"""Space around the plot: for the numbers and names of the axes, and the legend above."""
NOTE_WIDTH = 120
"""Space for the name of a vertical line."""
TICKS = 6


class Series(NamedTuple):
    """Values over x = 0, 1, 2, ..., with a name and a class of style."""

    name: str
    style: str
    values: Sequence[float]


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
    yield (
        f'<p class="soft">{report.lines:,} lines: {report.articles:,} articles, {report.rejected:,} unreadable, '
        f"{report.featureless:,} without words. Scheme <code>{escape(report.scheme)}</code>, {report.search} search. "
        f"{report.asked:,} articles were compared with all before them "
        f"({report.comparisons:,} comparisons, {report.seconds} s).</p>"
    )
    if report.exact:
        yield (
            f'<p class="soft">{report.exact:,} are so short that only an equal text is near: '
            f"{report.exact_duplicates:,} duplicates.</p>"
        )
    yield from (f"<p><strong>{escape(note)}</strong></p>" for note in report.notes)
    for figures in report.figures:
        yield from _kind(report, figures)


def _kind(report: CalibrationReport, figures: Figures) -> Iterator[str]:
    yield f"<h2>{figures.kind.capitalize()} text</h2>"
    yield f'<p class="soft">{figures.asked:,} articles; {figures.first:,} have none of their kind before them.</p>'
    yield _suggestion(report, figures)
    yield _histogram(figures)
    if figures.equal_values:
        yield _equal_values(figures)
    yield _curves(figures, "Duplicates by limit and look-ups", "duplicates", figures.curves)
    if figures.scores is not None:
        shares = [[one.f1 or 0.0 for one in line] for line in figures.scores]
        yield _curves(figures, "F1 by the labels", "F1", shares, 1.0)
    yield "<h3>What each setting would have decided</h3>"
    yield _table(report, figures)
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


def _lines(figures: Figures, *, between: bool) -> list[Line]:
    """Return lines at the present limit and at a different suggested one; ``between`` two bars or on a point."""
    shift = 0.5 if between else 0.0
    name = "distance" if figures.exact else "limit"
    drawn = [Line(figures.limit + shift, f"present {name} {figures.limit}", "limit")]
    if figures.suggestion.limit != figures.limit:
        drawn.append(Line(figures.suggestion.limit + shift, f"suggested {figures.suggestion.limit}", "hint"))
    return drawn


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
    chart = Chart(title, f"bits of {figures.width} in which the two differ", "articles", min(last, figures.width))
    return chart.bars(series, _lines(figures, between=True))


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
    return Chart(title, f"values of {most} that are equal", "articles", most).bars(series, drawn)


def _chosen(figures: Figures) -> list[int]:
    """Return some steps at even distances, without the present one, which is always drawn."""
    others = [step for step, lookups in enumerate(figures.steps) if lookups != figures.lookups]
    count = min(CURVES, len(others))
    return [others[round(at * (len(others) - 1) / max(count - 1, 1))] for at in range(count)]


def _series(figures: Figures, values: Sequence[Sequence[float]]) -> list[Series]:
    if figures.exact:
        return [
            Series(
                "with the look-ups that k takes",
                "own",
                [values[k // BLOCKS_PER_WORD][k] for k in range(len(values[0]))],
            )
        ]
    drawn = [
        Series(f"{figures.steps[step]}", f"c{number}", values[step]) for number, step in enumerate(_chosen(figures))
    ]
    own = figures.steps.index(figures.lookups)
    return [*drawn, Series(f"{figures.lookups} look-ups (present)", "own", values[own])]


def _curves(figures: Figures, title: str, up: str, values: Sequence[Sequence[float]], most: float | None = None) -> str:
    chart = Chart(title, "distance k, bits" if figures.exact else "limit, bits", up, len(values[0]) - 1)
    return chart.curves(_series(figures, values), _lines(figures, between=False), most)


def _table(report: CalibrationReport, figures: Figures) -> str:
    rows = _exact_rows(report, figures) if report.probes is None else _directed_rows(report, figures)
    said = "Marked: the present setting. Compared: entries that an article's look-ups meet."
    if report.labelled and report.probes is not None:
        said += " Below each count: F1; precision and recall where the pointer rests."
    return f'<div class="wide"><table>{"".join(rows)}</table></div><p class="soft">{said}</p>'


def _directed_rows(report: CalibrationReport, figures: Figures) -> Iterator[str]:
    yield f'<tr><th></th><th class="over" colspan="{len(figures.steps)}">look-ups</th><th></th></tr>'
    yield _row("th", ["limit", *(f"{lookups:,}" for lookups in figures.steps), "all within"])
    rows = figures.rows()
    for limit, line in rows.items():
        cells = "".join(_cell(cell, figures) for cell in line)
        yield f"<tr><td{_own(limit == figures.limit)}>{limit}</td>{cells}<td>{line[0].within:,}</td></tr>"
    line = rows[figures.limit]
    yield _row("td", ["cost", *(f"{cell.lookups / (report.probes or 1):.2g}×" for cell in line), ""], "foot")
    yield _row("td", ["compared", *(f"{cell.compared:,.1f}" for cell in line), ""], "foot")


def _exact_rows(report: CalibrationReport, figures: Figures) -> Iterator[str]:
    labels = ["precision / recall / F1"] if report.labelled else []
    yield _row("th", ["k", "look-ups", "duplicates", "compared", *labels])
    for cell in figures.cells:
        scored = f"<td>{_score(cell)}</td>" if report.labelled else ""
        yield (
            f"<tr><td{_own(cell.limit == figures.limit)}>{cell.limit}</td><td>{cell.lookups:,}</td>"
            f"<td>{cell.duplicates:,}</td><td>{cell.compared:,.1f}</td>{scored}</tr>"
        )


def _cell(cell: Cell, figures: Figures) -> str:
    own = cell.limit == figures.limit and cell.lookups == figures.lookups
    if cell.score is None:
        return f"<td{_own(own)}>{cell.duplicates:,}</td>"
    return (
        f'<td{_own(own)} title="precision / recall / F1: {_score(cell)}">{cell.duplicates:,}'
        f'<br/><span class="soft">{short_share(cell.score.f1, "–")}</span></td>'
    )


def _score(cell: Cell) -> str:
    if cell.score is None:
        return ""
    shares = (cell.score.precision, cell.score.recall, cell.score.f1)
    return " / ".join(short_share(share, "–") for share in shares)


def _own(own: bool) -> str:  # noqa: FBT001 - a condition to be shown
    return ' class="own"' if own else ""


def _row(kind: str, cells: Sequence[str], style: str = "") -> str:
    return f'<tr class="{style}">' + "".join(f"<{kind}>{escape(cell)}</{kind}>" for cell in cells) + "</tr>"


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
    """A chart under its title; it has its axes from what is drawn."""

    def __init__(self, title: str, across: str, up: str, last: int) -> None:
        """``across`` and ``up`` are the names of the axes; ``last`` is the greatest x shown."""
        self._title, self._across, self._up = title, across, up
        self._last, self._half = last, 0.0
        self._ticks: list[float] = []
        self._plot = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM)

    def bars(self, series: Sequence[Series], lines: Sequence[Line]) -> str:
        """Draw stacked bars: later series are on top of earlier ones."""
        heights = [sum(column) for column in zip(*(one.values for one in series), strict=True)]
        self._half, self._ticks = 0.5, _ticks(max(heights[: self._last + 1], default=0) or 1)
        drawn = []
        base = [0.0] * len(heights)
        for one in series:
            for x, value in enumerate(one.values[: self._last + 1]):
                if value:
                    left, right = self._x(x - 0.45), self._x(x + 0.45)
                    top, bottom = self._y(base[x] + value), self._y(base[x])
                    tip = f"{x}: {value:,.0f} {one.name}"
                    drawn.append(
                        f'<rect class="{one.style}" x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" '
                        f'height="{bottom - top:.1f}"><title>{escape(tip)}</title></rect>'
                    )
                    base[x] += value
        return self._svg(drawn, series, lines)

    def curves(self, series: Sequence[Series], lines: Sequence[Line], most: float | None = None) -> str:
        """Draw a line for each series."""
        highest = max((max(one.values[: self._last + 1], default=0) for one in series), default=0)
        self._ticks = _ticks(most or highest or 1)
        drawn = []
        for one in series:
            points = " ".join(f"{self._x(x):.1f},{self._y(y):.1f}" for x, y in enumerate(one.values[: self._last + 1]))
            tip = f"<title>{escape(one.name)}</title>"
            drawn.append(f'<polyline class="curve {one.style}" points="{points}">{tip}</polyline>')
        return self._svg(drawn, series, lines)

    def _x(self, value: float) -> float:
        """Return the distance from the left edge."""
        whole = self._last + 2 * self._half
        return LEFT + (value + self._half) / max(whole, 1) * self._plot[0]

    def _y(self, value: float) -> float:
        """Return the distance from the upper edge."""
        return TOP + (1 - value / self._ticks[-1]) * self._plot[1]

    def _svg(self, drawn: Sequence[str], series: Sequence[Series], lines: Sequence[Line]) -> str:
        """Return the title and the whole chart."""
        title = escape(self._title)
        parts = [*self._grid(), *drawn, *self._verticals(lines), *self._names(), *_key(series)]
        return (
            f'<h3>{title}</h3><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">'
            f"<title>{title}</title>{''.join(parts)}</svg>"
        )

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

    def _verticals(self, lines: Sequence[Line]) -> list[str]:
        drawn = []
        ordered = sorted(lines, key=lambda line: line.at)
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

    def _names(self) -> list[str]:
        middle, name = LEFT + self._plot[0] / 2, escape(self._across)
        across = f'<text class="name" x="{middle:.1f}" y="{HEIGHT - 8}" text-anchor="middle">{name}</text>'
        up = (
            f'<text class="name" transform="translate(14 {TOP + self._plot[1] / 2:.1f}) rotate(-90)" '
            f'text-anchor="middle">{escape(self._up)}</text>'
        )
        return [across, up]


def _key(series: Sequence[Series]) -> list[str]:
    drawn, at = [], float(LEFT)
    for name, style, _ in series:
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
