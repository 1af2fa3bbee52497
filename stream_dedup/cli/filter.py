"""``stream-dedup filter``: the same verdicts without Kafka."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stream_dedup.cli.options import OneField, config_options, input_options, settings_files
from stream_dedup.cli.output import ProgressLine, say
from stream_dedup.cli.process import terminable
from stream_dedup.config.model import Config
from stream_dedup.core.model import OUTPUT_VERDICTS, Verdict
from stream_dedup.errors import EXIT_FOUND, EXIT_OK

if TYPE_CHECKING:
    from stream_dedup.core.paths import FieldPath
    from stream_dedup.files.filter import Tally
    from stream_dedup.files.recognition import InputForm


@click.command()
@config_options("profile", "window", "id_field", "text_field", "html", "scope", "recrawl", "threads")
@input_options()
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option(
    "--index",
    "index",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Keep the index in this folder for later calls.",
)
@click.option("--time-field", metavar="FIELD", type=OneField(), help="Field with the time of a record, for --window.")
@click.option("--unique", metavar="FILE", type=click.Path(path_type=Path), help="Write unique records to this file.")
@click.option("--duplicate", metavar="FILE", type=click.Path(path_type=Path), help="Write duplicates to this file.")
@click.option("--rejected", metavar="FILE", type=click.Path(path_type=Path), help="Write rejected lines to this file.")
@click.option("--plain", is_flag=True, help="Write records as they came, unique ones only where no file is named.")
def command(  # noqa: PLR0917 - one argument for each flag
    config: Config,
    files: tuple[str, ...],
    index: Path | None,
    time_field: FieldPath | None,
    unique: Path | None,
    duplicate: Path | None,
    rejected: Path | None,
    *,
    plain: bool,
    form: InputForm,
) -> int:
    """Add a verdict to each record: whether a near-duplicate came before it.

    Reads FILEs in order (- or none: standard input): JSON Lines, a JSON array, CSV or TSV with a header, or Parquet
    (docs/inputs.md), compressed or not. Each record is an object with a text in
    the field `text` (--text-field) and an id in `id` (--id-field; default: FILE:LINE).
    Writes JSON Lines: each record unchanged, in order, with an object `dedup` added: `verdict` (unique, duplicate,
    rejected); `fingerprint`; for duplicates `match` with `id`, `distance` (of 256 bits; with profile simhash of 64) and
    `similarity`; `copies`, how many earlier records are near; for rejected records `reason`.
    A unique record with a `match` is an update (--recrawl): the match is its earlier version. A line that is not
    an object with a text becomes {"dedup": {"verdict": "rejected", "reason": …, "line": …}}. Blank lines are
    skipped.

    --unique, --duplicate and --rejected write the records of a verdict to a FILE (- is standard output); the
    others go to standard output. A FILE appears complete, when the call succeeds, in place of what had this name;
    it must not be an input. A call that is killed may leave a temporary file .stream-dedup-*.tmp beside it.

    --plain writes each record as it came, without `dedup`: unique ones to standard output, duplicates and rejected
    lines only where --duplicate and --rejected name a FILE. (Of a line that is too long or cannot be decoded, and of a
    row that is broken, --rejected gets the object described above.)

    --index DIR keeps the index for later calls; a call that fails leaves it unchanged. The rules (--window, the search
    of the profile) are those of this call; text and features of the profile cannot change.

    A FIELD is a name, or a path (docs/reference/records.md): _source.title, authors[0].name, conversations[].value.

    --window TIME limits how old a match may be, compared with the record. The time of a record is in its
    field --time-field: ISO 8601, RFC 2822, or seconds or milliseconds since 1970. Without a zone it is UTC.

    Exit code 0: no record was rejected; 3: a record was rejected.

    \b
    Examples:
      stream-dedup filter articles.jsonl > marked.jsonl
      stream-dedup filter --plain --duplicate again.jsonl archive.jsonl.gz > once.jsonl
      stream-dedup filter --unique new.jsonl --duplicate /dev/null --index seen/ today.jsonl
      tail -f feed.jsonl | stream-dedup filter --window 24h --time-field created_at
    """  # noqa: D301 - \b keeps click from folding the examples
    from stream_dedup.files.filter import FilterOptions, filter_files  # noqa: PLC0415 - loads numpy and RocksDB

    options = FilterOptions(
        inputs=files or ("-",),
        form=form,
        index=index,
        time_field=time_field,
        outputs={Verdict.UNIQUE: unique, Verdict.DUPLICATE: duplicate, Verdict.REJECTED: rejected},
        settings=settings_files(config),
        plain=plain,
    )
    with terminable() as hold, ProgressLine(hidden=sys.stdout.isatty()) as line:
        tally = filter_files(
            config,
            options,
            lambda: time.time_ns() // 1_000_000,
            lambda so_far: line.read(so_far.progress, so_far.verdicts.total(), f"lines: {_counts(so_far)}"),
            hold,
        )
    if tally.not_utf8 and form.encoding is None:
        say(f"{tally.not_utf8:,} lines are not UTF-8; if they have another encoding, name it: --encoding gb18030")
    lost = tally.verdicts[Verdict.REJECTED]
    if plain and lost and rejected is None and not config.match.observe:
        say(f"{lost:,} rejected lines were written nowhere; name a file for them with --rejected")
    return EXIT_FOUND if lost else EXIT_OK


def _counts(tally: Tally) -> str:
    return ", ".join(f"{tally.verdicts[verdict]:,} {verdict}" for verdict in OUTPUT_VERDICTS)
