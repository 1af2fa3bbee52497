"""``stream-dedup index stats|rebuild|verify``: the index on disk, a cache of the log."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from stream_dedup.cli.options import JUDGING, config_options
from stream_dedup.cli.output import ProgressLine, write_json, write_lines
from stream_dedup.config.model import Config
from stream_dedup.errors import EXIT_FOUND, EXIT_OK
from stream_dedup.terminal import table

if TYPE_CHECKING:
    from stream_dedup.index import LogIndex
    from stream_dedup.worker.opening import RebuildPlan

_SHOWN = 5
"""Most log records named that cannot be read."""


@click.group()
def command() -> None:
    """Inspect an index, verify it, or rebuild it from its log.

    What has the index open must be stopped. A worker's index is a cache: if its folder is deleted, the worker
    reads the log again. That of `filter --index` or of the Python API has the only copy of its log: do not delete it.
    `stats` and `verify` change nothing, and work on a read-only file system.
    """


@command.command()
@config_options("index")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def stats(config: Config, as_json: bool) -> None:
    """Write the contents and the size of the index, and the position in the log up to which it has read."""
    with _opened(config) as index:
        values = asdict(index.stats())
    if as_json:
        write_json(values)
        return
    rows = [(name, f"{value:,}" if isinstance(value, int) else str(value)) for name, value in values.items()]
    write_lines(*table(rows, left=2))


@command.command()
@config_options("index")
def verify(config: Config) -> int:
    """Read the whole index and compare its tables with its entries.

    Exit code 0: the index is intact; 3: it is damaged, and each problem is written on a line; rebuild it.
    """
    with _opened(config) as index, ProgressLine() as line:
        problems = index.verify(line.count)
    for problem in problems:
        write_lines(problem)
    if problems:
        write_lines(f"the index is damaged; {_remedy(config)}", err=True)
        return EXIT_FOUND
    write_lines(f"index {config.index.path} is intact")
    return EXIT_OK


@command.command()
@config_options("brokers", "group", "index", *JUDGING)
@click.option("--dry-run", is_flag=True, help="Write what would be deleted and read; change nothing.")
def rebuild(config: Config, *, dry_run: bool) -> None:
    """Delete the content of the index and read the log from its beginning.

    A worker does the same when the folder is empty; this command does it in advance. The index of
    `filter --index` or of the Python API has its log in itself: a new one is made of everything that can be read of it,
    and the old data are kept beside it. No broker is asked then. Other files in the folder are not touched.

    --dry-run reads the log for its rules, and ends with an error where a rebuild would.
    """
    from stream_dedup.index import only_copy_in  # noqa: PLC0415 - loads RocksDB

    if only_copy_in(config.index.path):
        _save(config, dry_run=dry_run)
        return
    from stream_dedup.worker.app import rebuild_index, rebuild_plan  # noqa: PLC0415 - loads the Kafka client

    if dry_run:
        with ProgressLine() as line:
            plan = rebuild_plan(config, line.count)
        write_lines(*_plan_lines(config, plan))
        return
    with ProgressLine() as line:
        rebuild_index(config, line.count)
    write_lines(f"index {config.index.path} has read the log {config.log_topic} to its end")


def _remedy(config: Config) -> str:
    from stream_dedup.index import only_copy_in  # noqa: PLC0415 - loads RocksDB

    command = f"stream-dedup index rebuild --index {shlex.quote(str(config.index.path))}"
    if only_copy_in(config.index.path):
        return f"save what can be read of it with: {command}"
    return f"rebuild it from its log, with the worker's --config: {command}"


def _save(config: Config, *, dry_run: bool) -> None:
    """Save what can be read of an index that is the only copy of its content."""
    from stream_dedup.index import save  # noqa: PLC0415 - loads RocksDB

    path = config.index.path
    with ProgressLine() as line:
        saved = save(path, line.count, dry_run=dry_run)
    articles = f"{saved.articles:,} articles of the {saved.counted:,} that it counted"
    lost = [f"log record {offset} cannot be read" for offset in saved.lost[:_SHOWN]]
    if len(saved.lost) > _SHOWN:
        lost.append(f"and {len(saved.lost) - _SHOWN:,} more")
    if dry_run:
        write_lines(f"index {path} would have {articles}", *lost, "dry run: nothing was changed")
        return
    write_lines(
        f"index {path} has {articles}",
        *lost,
        f"the data that were read are kept in {saved.kept}: delete them when nothing is missed",
    )


def _plan_lines(config: Config, plan: RebuildPlan) -> list[str]:
    stats = plan.stats
    held = "it is damaged" if stats is None else f"{stats.articles:,} articles, read to log offset {stats.next_offset}"
    return [
        f"index {config.index.path} would be emptied: {held}",
        f"log {config.log_topic} would be read from offset {plan.first} to {plan.end}",
        "dry run: nothing was changed",
    ]


def _opened(config: Config) -> LogIndex:
    """Open the existing index for reading only."""
    from stream_dedup.index import LogIndex  # noqa: PLC0415 - loads RocksDB

    return LogIndex.read(config.index.path, scheme=None)
