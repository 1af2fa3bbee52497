"""``stream-dedup calibrate``: limits and look-ups tried on the user's own articles."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stream_dedup.cli.options import OneField, WholeNumber, config_options, input_options, settings_files
from stream_dedup.cli.output import ProgressLine, report_columns, write_json, write_lines
from stream_dedup.cli.process import terminable
from stream_dedup.config.keys import check_utf8
from stream_dedup.config.model import Config
from stream_dedup.config.profile_file import SUFFIX
from stream_dedup.core.paths import FieldPath
from stream_dedup.errors import UserError
from stream_dedup.files.output_file import STDOUT, is_standard_output, refuse_inputs_as_outputs, whole_output

if TYPE_CHECKING:
    from stream_dedup.files.inputs import Progress
    from stream_dedup.files.recognition import InputForm


@click.command()
@config_options("profile", "id_field", "text_field", "scope", "threads")
@input_options()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--original", metavar="FIELD", type=OneField(), help="Field with the id of the article of which a line is a copy."
)
@click.option(
    "--pairs",
    metavar="N",
    type=WholeNumber(0, 1000),
    default=10,
    help="Pairs shown for each edge of a limit (default: 10).",
)
@click.option(
    "--html",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the report with charts to this file; - is standard output, without the text report.",
)
@click.option(
    "--write-profile",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the suggestion to this file, as a profile.",
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def command(  # noqa: PLR0917 - one argument for each flag
    config: Config,
    files: tuple[str, ...],
    original: FieldPath | None,
    pairs: int,
    html: Path | None,
    write_profile: Path | None,
    as_json: bool,
    *,
    form: InputForm,
) -> None:
    """Show what each setting would decide about the articles in FILEs, and suggest a profile.

    Reads FILEs as `filter` does; copies a pipe, or standard input (-), to disk for the duration of the call.
    Finds the nearest earlier article of each article by comparing it with all of them, and the number of look-ups
    that finds it. The report has, for long and for short texts, histograms of the distances, and of the equal values of
    the sketches; the duplicates for each limit and number of look-ups, with their cost; the pairs at the edge of the
    limit, for a person to judge; and a profile with the suggested settings, or the reason why there is none.

    --write-profile FILE writes that profile, for --profile FILE or match.profile of the configuration.

    With --original, a line names the article of which it is a copy; the report then has precision, recall and F1 of
    each setting.

    At most 2,000 million pairs are compared (about half a minute): of more than about 63,000 articles, a sample is
    compared with all articles before it.

    \b
    Examples:
      stream-dedup calibrate --write-profile mine.toml articles.jsonl
      stream-dedup calibrate --profile comment --html report.html comments.jsonl
      stream-dedup calibrate --original copy_of labelled.jsonl
    """  # noqa: D301 - \b keeps click from folding the examples
    from stream_dedup.calibrate.report import Options, calibrate  # noqa: PLC0415 - loads numpy

    _check_outputs(config, files, html, write_profile, as_json=as_json)
    with terminable(), ExitStack() as stack, ProgressLine() as line:
        # A file that cannot be written is refused before the articles are compared.
        write_page, write_toml = (
            None if path is None else stack.enter_context(whole_output(path)) for path in (html, write_profile)
        )

        def reading(lines: int, progress: Progress) -> None:
            line.read(progress, lines, "lines")

        report = calibrate(config, Options(files, original, pairs, form=form), reading, line.count)
        if write_page is not None:
            from stream_dedup.calibrate.page import page  # noqa: PLC0415 - only where it is asked for

            write_page(page(report).encode("utf-8", "backslashreplace"))
        if write_toml is not None:
            write_toml(f"# Suggested by stream-dedup calibrate.\n{report.profile}".encode())
    if as_json:
        write_json(report, indented=True)
    elif str(html) != STDOUT:
        from stream_dedup.calibrate.text import lines  # noqa: PLC0415 - only where text is asked for

        write_lines(*lines(report, report_columns(120)))
    if html is not None and str(html) != STDOUT:
        write_lines(f"charts: {html}", err=True)
    if write_profile is not None:
        write_lines(f"profile: {write_profile}", err=True)


def _check_outputs(
    config: Config, files: tuple[str, ...], html: Path | None, write_profile: Path | None, *, as_json: bool
) -> None:
    """Raise UserError where the report would overwrite an input, or two reports would share one output."""
    outputs = [one for one in (html, write_profile) if one is not None]
    refuse_inputs_as_outputs([STDOUT, *outputs], (*files, *settings_files(config)))
    if write_profile is not None and (str(write_profile) == STDOUT or not str(write_profile).endswith(SUFFIX)):
        raise UserError(f"--write-profile {write_profile}: name a file that ends in {SUFFIX}")
    if write_profile is not None:
        settings = config.match.profile.settings
        for path in filter(None, (settings.user_dictionary, settings.stop_words)):
            check_utf8(path)
    if write_profile is not None and write_profile == html:
        raise UserError(f"--html and --write-profile {html}: name a file for each")
    if html is None:
        return
    if str(html) == STDOUT:
        if as_json:
            raise UserError("--html - and --json: both write to standard output; name a file for --html")
    elif is_standard_output(html) and not html.is_char_device():
        raise UserError(
            f"--html {html}: standard output, to which the text report goes; give --html - for the page alone"
        )
