"""A calibration report as one HTML page: charts, table, pairs. The page loads nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files

from stream_dedup.calibrate.edge import ONLY_IF_ANY, TITLES, ShownPair
from stream_dedup.calibrate.figures import Cell, Figures
from stream_dedup.calibrate.picture import Chart, Line, Series, bars, curves
from stream_dedup.calibrate.report import CalibrationReport
from stream_dedup.core.model import BLOCKS_PER_WORD
from stream_dedup.terminal import visible

CURVES = 5
"""Curves drawn, beside that of the present setting: more could not be distinguished."""


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
    yield _found(report, figures)
    if figures.scores is not None:
        yield _quality(report, figures)
    yield "<h3>What each setting would have decided</h3>"
    yield _table(report, figures)
    for side, title in TITLES.items():
        shown = [one for one in report.pairs if (one.kind, one.side) == (figures.kind, side)]
        if side in ONLY_IF_ANY and not shown:
            continue
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
    chart = Chart(
        f"Distance of the nearest earlier article ({figures.kind} text)",
        f"bits of {figures.width} in which the two differ",
        "articles",
        min(last, figures.width),
        _lines(figures, between=True),
    )
    series = [Series("within the limit, found", "near", within), Series("beyond the limit", "far", beyond)]
    if any(missed):
        series.insert(1, Series(f"within the limit, not reached by {figures.lookups} look-ups", "missed", missed))
    return f"<h3>{escape(chart.title)}</h3>{bars(chart, series)}"


def _equal_values(figures: Figures) -> str:
    counts, least, far = figures.equal_values, figures.least_equal, figures.far_least_equal
    drawn = [Line(least - 0.5, f"at least {least}", "limit")] if least else []
    if far > least:
        drawn.append(Line(far - 0.5, f"beyond search.far bits at least {far}", "limit"))
    chart = Chart(
        f"Equal values in the sketches of articles within the limit ({figures.kind} text)",
        f"values of {len(counts) - 1} that are equal",
        "articles",
        len(counts) - 1,
        drawn,
    )
    enough = [count if equal >= far else 0 for equal, count in enumerate(counts)]
    between = [count if least <= equal < far else 0 for equal, count in enumerate(counts)]
    few = [count if equal < least else 0 for equal, count in enumerate(counts)]
    series = [Series("enough", "near", enough), Series("too few beyond search.certain bits", "far", few)]
    if far > least:
        series.insert(1, Series("too few beyond search.far bits", "missed", between))
    return f"<h3>{escape(chart.title)}</h3>{bars(chart, series)}"


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


def _found(report: CalibrationReport, figures: Figures) -> str:
    across = "limit, bits" if report.probes else "distance k, bits"
    last = len(figures.curves[0]) - 1
    chart = Chart("Duplicates by limit and look-ups", across, "duplicates", last, _lines(figures, between=False))
    return f"<h3>{chart.title}</h3>{curves(chart, _series(figures, figures.curves))}"


def _quality(report: CalibrationReport, figures: Figures) -> str:
    across = "limit, bits" if report.probes else "distance k, bits"
    values = [[one.f1 or 0.0 for one in line] for line in figures.scores or ()]
    chart = Chart("F1 by the labels", across, "F1", len(values[0]) - 1, _lines(figures, between=False))
    return f"<h3>{chart.title}</h3>{curves(chart, _series(figures, values), 1.0)}"


def _table(report: CalibrationReport, figures: Figures) -> str:
    rows = _exact_rows(report, figures) if report.probes is None else _directed_rows(report, figures)
    return f'<div class="wide"><table>{"".join(rows)}</table></div>{_legend(report)}'


def _legend(report: CalibrationReport) -> str:
    said = "Marked: the present setting. Compared: entries that an article's look-ups meet."
    if report.labelled and report.probes is not None:
        said += " Below each count: F1; precision and recall where the pointer rests."
    return f'<p class="soft">{said}</p>'


def _directed_rows(report: CalibrationReport, figures: Figures) -> Iterator[str]:
    yield f'<tr><th></th><th class="over" colspan="{len(figures.steps)}">look-ups</th><th></th></tr>'
    yield _row("th", ["limit", *(f"{lookups:,}" for lookups in figures.steps), "all within"])
    for limit in sorted({cell.limit for cell in figures.cells}):
        line = [cell for cell in figures.cells if cell.limit == limit]
        cells = "".join(_cell(cell, figures) for cell in line)
        yield f"<tr><td{_own(limit == figures.limit)}>{limit}</td>{cells}<td>{line[0].within:,}</td></tr>"
    line = [cell for cell in figures.cells if cell.limit == figures.limit]
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
        f'<br/><span class="soft">{_share(cell.score.f1)}</span></td>'
    )


def _score(cell: Cell) -> str:
    if cell.score is None:
        return ""
    return " / ".join(map(_share, (cell.score.precision, cell.score.recall, cell.score.f1)))


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}".removeprefix("0")


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
