"""A calibration report as plain text, no wider than the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from stream_dedup.calibrate.figures import Figures, settings_tables
from stream_dedup.calibrate.report import CalibrationReport, ShownPair
from stream_dedup.terminal import pad, shorten, table

BAR = 40
"""Columns of the longest bar."""
BINS = 32
"""Lines of a histogram at most."""
_PARTS = " ▏▎▍▌▋▊▉█"


def lines(report: CalibrationReport, width: int) -> Iterator[str]:
    """Yield the lines of the report; lines outside tables have at most ``width`` columns."""
    yield from head(report)
    for figures in report.figures:
        yield ""
        yield from _kind(figures)
        for title, shown in report.edge_lists(figures.kind):
            yield ""
            yield title
            yield from _pairs(shown, width)
    yield ""
    yield from _suggestions(report, width)


def head(report: CalibrationReport) -> Iterator[str]:
    """Yield what was read and compared, and by which rules, and the notes of the report."""
    left_out = f"{report.rejected:,} unreadable, {report.featureless:,} without words"
    yield f"{', '.join(report.files)}: {report.lines:,} lines, {report.articles:,} articles ({left_out})"
    yield f"scheme {report.scheme}, {report.search} search: {_rules(report)}"
    yield f"{report.asked:,} compared with all before them ({report.comparisons:,} pairs) in {report.seconds} s"
    if report.exact:
        yield f"{report.exact:,} so short that only an equal text is near: {report.exact_duplicates:,} duplicates"
    yield from report.notes


def _rules(report: CalibrationReport) -> str:
    name = "limit" if report.probes else "distance"
    limits = [f"{name} {limit} ({kind} text)" for kind, limit in report.limits.items()]
    return ", ".join([*([f"{report.probes} probes"] if report.probes else []), *limits])


def _kind(figures: Figures) -> Iterator[str]:
    yield f"{figures.kind.upper()} TEXT: {figures.asked:,} articles, {figures.first:,} with none of their kind before"
    yield ""
    yield f"Distance of the nearest earlier article, in bits of {figures.width}"
    yield from histogram(figures)
    yield ""
    if figures.equal_values:
        yield from equal_values(figures)
        yield ""
    for number, settings in enumerate(settings_tables(figures)):
        yield from ("",) if number else ()
        yield from (settings.title, *table(settings.rows), settings.note)


def histogram(figures: Figures) -> list[str]:
    """Return one line for each bin, and the limit as a line between two bins."""
    step = -(-(figures.width // 2 + 1) // BINS)
    # A bin ends at the limit, so that the line stands between two of them; the first may be a smaller one.
    ends = range((figures.limit + 1) % step or step, _last(figures) + step + 1, step)
    starts = [0, *ends[:-1]]
    counts = [sum(figures.histogram[start:end]) for start, end in zip(starts, ends, strict=True)]
    most = max(counts, default=0)
    bars = []
    for start, end, count in zip(starts, ends, counts, strict=True):
        name = f"{start}" if end - start == 1 else f"{start}-{end - 1}"
        bars.append(f"{name:>7} {pad(_bar(count, most), BAR)} {count:,}".rstrip())
        if end == figures.limit + 1:
            bars.append(f"{'':>7} {'-' * BAR} {figures.limit}: the present {'distance' if figures.exact else 'limit'}")
    return bars


def equal_values(figures: Figures) -> Iterator[str]:
    """Yield one line for each number of equal values that occurs, and each least that is enough as a line before it."""
    counts = figures.equal_values
    most = max(counts)
    least = {figures.far_least_equal: "search.far", figures.least_equal: "search.certain"}
    yield f"Equal values, of {len(counts) - 1}, in the sketches of articles within the limit of {figures.limit}"
    for equal, count in enumerate(counts):
        if equal and equal in least:
            yield f"{'':>7} {'-' * BAR} {equal}: the least that is enough beyond {least[equal]} bits"
        if count:
            yield f"{equal:>7} {pad(_bar(count, most), BAR)} {count:,}"


def _last(figures: Figures) -> int:
    known = [at for at, count in enumerate(figures.histogram) if count]
    return max([figures.limit, *known])


def _bar(count: int, most: int) -> str:
    eighths = round(8 * BAR * count / most) if most else 0
    # A count above zero is always visible.
    eighths = max(eighths, 1 if count else 0)
    return "█" * (eighths // 8) + _PARTS[eighths % 8].strip()


def _pairs(shown: Sequence[ShownPair], width: int) -> Iterator[str]:
    if not shown:
        yield "  none"
    for one in shown:
        sizes = " and ".join(f"{size:,}" for size in one.lengths)
        head = f"{one.distance} bits, similarity {one.similarity:.2f}: "
        yield "  " + shorten(f"{head}{one.earlier} | {one.later} ({sizes} characters)", width - 2)
        yield "    " + shorten(one.earlier_passage, width - 4)
        yield "    " + shorten(one.later_passage, width - 4)


def _suggestions(report: CalibrationReport, width: int) -> Iterator[str]:
    yield "SUGGESTION, as a profile (--write-profile FILE)"
    yield from (f"  {line}".rstrip() for line in report.profile.splitlines())
    for figures in report.figures:
        yield f"{figures.kind} text"
        for reason in figures.suggestion.reasons:
            yield from wrap(reason, width, initial_indent="  - ", subsequent_indent="    ")
