"""``stream-dedup filter``: the same verdicts without Kafka."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stream_dedup.cli.options import config_options, settings_files
from stream_dedup.cli.progress import ProgressLine
from stream_dedup.cli.signals import terminable
from stream_dedup.config.model import Config
from stream_dedup.core.model import Verdict
from stream_dedup.exit_codes import EXIT_FOUND, EXIT_OK

if TYPE_CHECKING:
    from stream_dedup.files.filter import Tally


@click.command()
@config_options(
    "profile", "probes", "limit", "short_limit", "distance", "window", "scope", "recrawl", "processes", "article_limit"
)
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option(
    "--index", "index", metavar="DIR", type=click.Path(path_type=Path), help="Keep the index there for later calls."
)
@click.option("--time-field", metavar="FIELD", help="Field with each record's time, for --window (see above).")
@click.option("--unique", metavar="FILE", type=click.Path(path_type=Path), help="Write unique ones there.")
@click.option("--duplicate", metavar="FILE", type=click.Path(path_type=Path), help="Write duplicates there.")
@click.option("--rejected", metavar="FILE", type=click.Path(path_type=Path), help="Write rejected lines there.")
def command(  # noqa: PLR0917 - one argument for each flag
    config: Config,
    files: tuple[str, ...],
    index: Path | None,
    time_field: str | None,
    unique: Path | None,
    duplicate: Path | None,
    rejected: Path | None,
) -> int:
    """Say of each record in JSON Lines whether nearly the same came before.

    Reads FILEs in order (- or none: standard input), each line an object with a text in the field
    `text` and an id in `id` (else the id is FILE:LINE). Writes each record as it came, in order, with
    an object `dedup` added: `verdict` (unique, duplicate, rejected), `fingerprint`, on duplicates
    `match` with `id`, `distance` (of 256 bits; with profile simhash of 64), `similarity`, on rejected ones
    `reason`. A unique record with a `match` is an update (--recrawl): the match is its earlier version. A
    line that is no object with a text becomes {"dedup": {"verdict": "rejected", "reason": …, "line": …}}, in
    its place.

    With --unique, --duplicate or --rejected those verdicts go to a FILE (- is standard output), which appears whole
    when the call has succeeded; the others still go to standard output. A call that is killed may leave a file
    .stream-dedup-*.tmp beside it. No FILE may be an input too. Blank lines are skipped.

    --index DIR keeps what was seen for later calls; a call that fails leaves it as it was. The rules
    (--limit, --window and so on) are those of this call, for its own lines; the profile stays what it was.

    --window TIME forgets: what is older than TIME before a record cannot be its match. The time
    stands in the field --time-field: ISO 8601 (UTC where it names no zone), or a number of seconds since
    1970, or of milliseconds (from 100000000000 on).

    Exit code 0: nothing was rejected; 3: something was.

    \b
    Examples:
      stream-dedup filter articles.jsonl > marked.jsonl
      stream-dedup filter --unique new.jsonl --duplicate /dev/null --index seen/ today.jsonl
      tail -f feed.jsonl | stream-dedup filter --window 24h --time-field created_at
    """  # noqa: D301 - \b keeps click from folding the examples
    from stream_dedup.files.filter import FilterOptions, filter_files  # noqa: PLC0415 - loads numpy and RocksDB

    options = FilterOptions(
        inputs=files or ("-",),
        index=index,
        time_field=time_field,
        outputs={Verdict.UNIQUE: unique, Verdict.DUPLICATE: duplicate, Verdict.REJECTED: rejected},
        settings=settings_files(config),
    )
    with terminable() as hold, ProgressLine(hidden=sys.stdout.isatty()) as line:
        tally = filter_files(
            config, options, _now_ms, lambda so_far: line.show(lambda elapsed: _progress(so_far, elapsed)), hold
        )
    return EXIT_FOUND if tally.verdicts[Verdict.REJECTED] else EXIT_OK


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _progress(tally: Tally, elapsed: float) -> str:
    count = tally.verdicts.total()
    share = ""
    if tally.progress.total:
        share = f"{tally.progress.read / tally.progress.total:.0%}, "
    parts = ", ".join(f"{tally.verdicts[verdict]:,} {verdict}" for verdict in Verdict)
    return f"{share}{count:,} lines ({count / elapsed:,.0f}/s): {parts}"
