"""``stream-dedup index stats|rebuild|verify``: the index on disk, a cache of the log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from stream_dedup.cli.options import JUDGING, config_options
from stream_dedup.cli.output import write_json, write_lines
from stream_dedup.cli.progress import ProgressLine
from stream_dedup.config.model import Config
from stream_dedup.exit_codes import EXIT_FOUND, EXIT_OK

if TYPE_CHECKING:
    from stream_dedup.index import LogIndex
    from stream_dedup.worker.opening import RebuildPlan


@click.group()
def command() -> None:
    """Inspect an index, verify it, or rebuild it from its log.

    The worker of the index must be stopped. An index is a cache: if its folder is deleted, the worker
    reads the log again. The index of `filter --index` has no log: do not delete it.
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
    width = max(len(name) for name in values)
    for name, value in values.items():
        write_lines(f"{name:<{width}}  {f'{value:,}' if isinstance(value, int) else value}")


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
        write_lines("the index is damaged; rebuild it with: stream-dedup index rebuild", err=True)
        return EXIT_FOUND
    write_lines(f"index {config.index.path} is intact")
    return EXIT_OK


@command.command()
@config_options("brokers", "group", "index", *JUDGING)
@click.option("--dry-run", is_flag=True, help="Write what would be deleted and read; change nothing.")
def rebuild(config: Config, *, dry_run: bool) -> None:
    """Delete the content of the index and read the log from its beginning.

    A worker does the same when the folder is empty; this command does it in advance. The index of
    `filter` is refused, because no log contains its articles. Other files in the folder are not touched.

    --dry-run reads the log for its rules, and ends with an error where a rebuild would.
    """
    from stream_dedup.worker.app import rebuild_index, rebuild_plan  # noqa: PLC0415 - loads the Kafka client

    if dry_run:
        with ProgressLine() as line:
            plan = rebuild_plan(config, line.count)
        write_lines(*_plan_lines(config, plan))
        return
    with ProgressLine() as line:
        rebuild_index(config, line.count)
    write_lines(f"index {config.index.path} has read the log {config.log_topic} to its end")


def _plan_lines(config: Config, plan: RebuildPlan) -> list[str]:
    stats = plan.stats
    held = "it is damaged" if stats is None else f"{stats.articles:,} articles, read to log offset {stats.next_offset}"
    return [
        f"index {config.index.path} would be emptied: {held}",
        f"log {config.log_topic} would be read from offset {plan.first} to {plan.end}",
        "dry run: nothing was changed",
    ]


@contextmanager
def _opened(config: Config) -> Iterator[LogIndex]:
    """Open the existing index for reading only."""
    from stream_dedup.index import LogIndex  # noqa: PLC0415 - loads RocksDB

    with LogIndex.read(config.index.path, scheme=None) as index:
        yield index
