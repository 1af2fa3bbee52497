"""``stream-dedup offsets show|set``: the committed offsets of a group."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, cast

import click

from stream_dedup.cli.options import OFFSET_DIGITS, WholeNumber, config_options
from stream_dedup.cli.output import write_json, write_lines
from stream_dedup.cli.progress import ProgressLine
from stream_dedup.config.model import Config

if TYPE_CHECKING:
    from stream_dedup.broker.offsets import Move, PartitionOffsets, Target

_OFFSET_FLAGS = ("brokers", "input", "group")
_TARGET_WORDS = ("beginning", "end", "logged")


def _target(_ctx: click.Context, _param: click.Parameter, text: str) -> str | int:
    """Return the word, or the offset as a number."""
    if text in _TARGET_WORDS:
        return text
    if text.isdecimal() and len(text) <= OFFSET_DIGITS:
        return int(text)
    msg = f"{text!r} is neither an offset nor one of {', '.join(_TARGET_WORDS)}"
    raise click.BadParameter(msg)


@click.group()
def command() -> None:
    """Show or set the offsets that a group has committed for its input topics."""


@command.command()
@config_options(*_OFFSET_FLAGS)
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def show(config: Config, as_json: bool) -> None:
    """Write the committed offset of each partition, and its offsets in the log.

    `of another topic`: the committed offset belongs to a deleted topic of the same name; a worker
    reads the present topic from its beginning.
    """
    from stream_dedup.broker.offsets import read_offsets  # noqa: PLC0415 - loads the Kafka client

    with ProgressLine() as line:
        rows = read_offsets(config, lambda _stage, done, total: line.count(done, total))
    if as_json:
        write_json([_values(row) for row in rows])
        return
    table = [("partition", "first", "end", "committed", "logged"), *(_cells(row) for row in rows)]
    widths = [max(len(cells[column]) for cells in table) for column in range(len(table[0]))]
    for cells in table:
        write_lines("  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip())


@command.command("set")
@config_options(*_OFFSET_FLAGS)
@click.option(
    "--to", callback=_target, required=True, metavar="beginning|end|logged|OFFSET", help="New committed offset."
)
@click.option("--topic", metavar="TOPIC", help="Only this input topic.")
@click.option("--partition", type=WholeNumber(min=0), metavar="N", help="Only this partition.")
@click.option("--dry-run", is_flag=True, help="Write old and new offsets; set nothing.")
def set_(config: Config, to: str | int, topic: str | None, partition: int | None, *, dry_run: bool) -> None:
    """Set the committed offsets. Every worker of the group must be stopped.

    beginning: judge all articles again, with the same verdicts (`audit --allow-repeats`). logged: continue
    after the last logged article. With a window, articles that were judged and trimmed cannot be judged again:
    an offset among them is refused. end, or a number: skipped articles are never judged; `audit` lists them as missing.

    --dry-run makes the same checks, except whether workers are running.
    """
    from stream_dedup.broker.offsets import plan_offsets, set_offsets  # noqa: PLC0415 - loads the Kafka client

    if isinstance(to, int) and (topic is None or partition is None):
        msg = "an offset belongs to one partition: give --topic and --partition"
        raise click.UsageError(msg)
    with ProgressLine() as line:
        moves = plan_offsets(
            config, cast("Target", to), topic, partition, lambda _stage, done, total: line.count(done, total)
        )
    if not dry_run:
        set_offsets(config, moves)
    write_lines(*(_moved(move) for move in moves), *["dry run: nothing was set"] * dry_run)


def _moved(move: Move) -> str:
    """Return old and new offset, and how many offsets are read again or skipped."""
    row = move.row
    if row.committed is None or row.stale:
        return f"{_name(row)}: {_committed(row)} -> {move.to}"
    step = move.to - row.committed
    effect = f" ({abs(step):,} offsets {'skipped' if step > 0 else 'read again'})" if step else ""
    return f"{_name(row)}: {row.committed} -> {move.to}{effect}"


def _name(row: PartitionOffsets) -> str:
    return f"{row.partition.topic}-{row.partition.partition}"


def _committed(row: PartitionOffsets) -> str:
    committed = "none" if row.committed is None else str(row.committed)
    return committed + (" (of another topic)" if row.stale else "")


def _cells(row: PartitionOffsets) -> tuple[str, ...]:
    logged = "nothing" if row.logged is None else f"{row.logged[0]} to {row.logged[1]}"
    if row.forgotten_before:
        logged += f" (below {row.forgotten_before}: trimmed)"
    return (
        _name(row),
        str(row.begin),
        str(row.end),
        _committed(row),
        logged,
    )


def _values(row: PartitionOffsets) -> dict[str, object]:
    return {
        "topic": row.partition.topic,
        "partition": row.partition.partition,
        "topic_id": str(uuid.UUID(bytes=row.topic_id)),
        "first": row.begin,
        "end": row.end,
        "committed": row.committed,
        "committed_topic_id": None if row.committed_id is None else str(uuid.UUID(bytes=row.committed_id)),
        "logged_first": None if row.logged is None else row.logged[0],
        "logged_last": None if row.logged is None else row.logged[1],
        "forgotten_before": row.forgotten_before,
    }
