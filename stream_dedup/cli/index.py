"""``stream-dedup index stats|rebuild|verify``: the index on disk, a cache of the log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from stream_dedup.cli.options import JUDGING, config_options
from stream_dedup.cli.output import write_json, write_lines
from stream_dedup.cli.progress import ProgressLine
from stream_dedup.config.model import Config
from stream_dedup.exit_codes import EXIT_FOUND, EXIT_OK

if TYPE_CHECKING:
    from stream_dedup.index import LogIndex


@click.group()
def command() -> None:
    """Look into an index, verify it, or rebuild it from its log.

    The worker that owns the index must be stopped. An index is a cache: deleting its folder loses
    nothing but the time to read the log again (that of `filter --index` has no other log: keep it).
    `stats` and `verify` change nothing, and read an index where nothing can be written.
    """


@command.command()
@config_options("index")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def stats(config: Config, as_json: bool) -> None:
    """Write what the index holds, how large it is, and how far it has read its log."""
    with _opened(config) as index:
        values = index.stats()
    if as_json:
        write_json(values)
        return
    width = max(len(name) for name in values)
    for name, value in values.items():
        write_lines(f"{name:<{width}}  {f'{value:,}' if isinstance(value, int) else value}")


@command.command()
@config_options("index")
def verify(config: Config) -> int:
    """Read the whole index and hold its tables against its entries.

    Exit code 0: it is whole; 3: it is not, each problem on a line. Then rebuild it.
    """
    with _opened(config) as index, ProgressLine() as line:
        problems = index.verify(line.count)
    for problem in problems:
        write_lines(problem)
    if problems:
        write_lines("rebuild it: stream-dedup index rebuild", err=True)
        return EXIT_FOUND
    write_lines(f"index {config.index.path} is whole")
    return EXIT_OK


@command.command()
@config_options("brokers", "group", "index", *JUDGING)
def rebuild(config: Config) -> None:
    """Delete the index's content and read the log from its beginning.

    A worker does the same by itself when the folder is empty; this does it beforehand. An index that
    `filter` keeps is refused: no log holds what it holds. Other files in the folder stay.
    """
    from stream_dedup.worker.app import rebuild_index  # noqa: PLC0415 - loads the Kafka client

    with ProgressLine() as line:
        rebuild_index(config, line.count)
    write_lines(f"index {config.index.path} holds the log {config.log_topic} to its end")


@contextmanager
def _opened(config: Config) -> Iterator[LogIndex]:
    """The index that is there: looking changes nothing."""
    from stream_dedup.index import LogIndex  # noqa: PLC0415 - loads RocksDB

    with LogIndex.read(config.index.path, scheme=None) as index:
        yield index
