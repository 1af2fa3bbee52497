"""``stream-dedup calibrate``: settle limit and look-ups on one's own articles."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stream_dedup.cli.options import config_options, settings_files
from stream_dedup.cli.output import report_columns, write_json, write_lines
from stream_dedup.cli.progress import ProgressLine
from stream_dedup.cli.signals import terminable
from stream_dedup.config.model import Config
from stream_dedup.errors import UserError
from stream_dedup.files.output_file import STDOUT, is_standard_output, write_whole
from stream_dedup.files.same_file import refuse_inputs_as_outputs

if TYPE_CHECKING:
    from stream_dedup.calibrate.report import CalibrationReport
    from stream_dedup.files.inputs import Progress


@click.command()
@config_options("profile", "probes", "limit", "short_limit", "distance", "scope", "processes", "article_limit")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--original", metavar="FIELD", help="Field with the id of the article that a line is a copy of.")
@click.option("--pairs", metavar="N", type=click.IntRange(0, 1000), default=10, help="Pairs in each list (10).")
@click.option(
    "--html",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the report with charts there; - is standard output, without the text.",
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def command(
    config: Config, files: tuple[str, ...], original: str | None, pairs: int, html: Path | None, as_json: bool
) -> None:
    """Show what each setting would have decided about the articles in FILEs, and suggest one.

    Reads JSON Lines as `filter` does; of a pipe, or standard input (-), a copy is kept on disk meanwhile. For each
    article its nearest earlier one is found, over all that stand before it, and how many look-ups it takes to find
    it. The report has a histogram of the distances; the duplicates under each limit and number of look-ups, with the
    cost; the pairs at the edge of the limit, for a person to judge; and a suggestion with its reason, which may be
    that the articles suggest nothing. Long and short text have their own.

    With --original, lines name the article that they are a copy of: then precision, recall and F1 of each setting
    are told.

    Every article is compared with all before it, up to two thousand million pairs (about half a minute): of more
    than some 63,000 articles a sample is compared.

    \b
    Examples:
      stream-dedup calibrate articles.jsonl
      stream-dedup calibrate --profile comment --html report.html comments.jsonl
      stream-dedup calibrate --original copy_of labelled.jsonl
    """  # noqa: D301 - \b keeps click from folding the examples
    from stream_dedup.calibrate.report import Options, calibrate  # noqa: PLC0415 - loads numpy

    _check_outputs(config, files, html, as_json=as_json)
    with terminable(), ProgressLine() as line:
        report = calibrate(config, Options(files, original, pairs), _CalibrationProgress(line))
        if html is not None:
            _write_page(report, html)
    if as_json:
        write_json(report, indented=True)
    elif str(html) != STDOUT:
        _write_text(report)
    if html is not None and str(html) != STDOUT:
        write_lines(f"charts: {html}", err=True)


def _check_outputs(config: Config, files: tuple[str, ...], html: Path | None, *, as_json: bool) -> None:
    """See that the report overwrites nothing that is read, and that two reports do not share one file."""
    refuse_inputs_as_outputs([STDOUT] if html is None else [STDOUT, html], (*files, *settings_files(config)))
    if html is None:
        return
    if str(html) == STDOUT:
        if as_json:
            msg = "--html - and --json: both would be on standard output; name a file for one of them"
            raise UserError(msg)
    elif is_standard_output(html) and not html.is_char_device():
        msg = f"--html {html}: it is standard output, where the report as text goes; give --html - for the page alone"
        raise UserError(msg)


class _CalibrationProgress:
    """Tells both parts of the work on the line of progress."""

    def __init__(self, line: ProgressLine) -> None:
        self._line = line

    def reading(self, lines: int, progress: Progress) -> None:
        """Lines read."""
        share = f"{progress.read / progress.total:.0%}, " if progress.total else ""
        self._line.show(lambda elapsed: f"reading: {share}{lines:,} lines ({lines / elapsed:,.0f}/s)")

    def comparing(self, done: int, whole: int) -> None:
        """Comparisons made."""
        self._line.show(lambda _: f"comparing: {done / max(whole, 1):.0%} of {whole:,} comparisons")


def _write_page(report: CalibrationReport, path: Path) -> None:
    from stream_dedup.calibrate.page import page  # noqa: PLC0415 - only where it is asked for

    write_whole(path, page(report).encode("utf-8", "backslashreplace"))


def _write_text(report: CalibrationReport) -> None:
    from stream_dedup.calibrate.text import lines  # noqa: PLC0415 - only where text is asked for

    for line in lines(report, report_columns(120)):
        write_lines(line)
