"""``stream-dedup topics``, ``offsets`` and ``produce``: topics, what a group has committed, and records."""

from __future__ import annotations

import uuid
from contextlib import closing
from typing import TYPE_CHECKING, cast

import click

from stream_dedup.cli.options import GROUP_FLAGS, OFFSET_DIGITS, OneField, WholeNumber, config_options, input_options
from stream_dedup.cli.output import ProgressLine, write_json, write_lines
from stream_dedup.config.model import Config
from stream_dedup.core.paths import FieldPath
from stream_dedup.errors import EXIT_FOUND, EXIT_OK, UserError
from stream_dedup.files.recognition import InputForm
from stream_dedup.terminal import table

if TYPE_CHECKING:
    from stream_dedup.kafka.offsets import Move, PartitionOffsets, Target


@click.group()
def topics_command() -> None:
    """Create or check the topics: input, output and the log.

    The log has one partition, unlimited retention and timestamps set by the broker; output topics accept the
    largest record with its headers. An existing topic is never changed.
    """


@topics_command.command()
@config_options(*GROUP_FLAGS)
def create(config: Config) -> None:
    """Create missing topics with the correct settings, and check the others.

    Exit code 2: an existing topic has a wrong setting; the error contains the command to correct it. Exit
    code 4: the group has committed offsets, but its log is gone or empty; no topic is created.
    """
    from stream_dedup.kafka import topics  # noqa: PLC0415 - loads the Kafka client
    from stream_dedup.kafka.connection import make_admin  # noqa: PLC0415 - loads the Kafka client
    from stream_dedup.kafka.rules_log import refuse_lost_log  # noqa: PLC0415 - loads the Kafka client

    with closing(make_admin(config.kafka)) as admin:
        refuse_lost_log(admin, config)
        for name in topics.create_topics(admin, config):
            write_lines(f"created {name}")
    write_lines("all topics have the correct settings")


@topics_command.command()
@config_options(*GROUP_FLAGS)
def check(config: Config) -> int:
    """Report topics with wrong settings, and the command to correct each.

    Exit code 0: all settings are correct; 3: one is wrong. A warning, such as a log with one replica on a
    cluster, does not change the exit code. No topic is changed.
    """
    from stream_dedup.kafka.connection import make_admin  # noqa: PLC0415 - loads the Kafka client
    from stream_dedup.kafka.topics import check_topics  # noqa: PLC0415 - loads the Kafka client

    with closing(make_admin(config.kafka)) as admin:
        problems = check_topics(admin, config)
    for problem in problems:
        write_lines(f"warning: {problem}" if problem.is_warning else str(problem))
    if not all(problem.is_warning for problem in problems):
        return EXIT_FOUND
    write_lines("all topics have the correct settings")
    return EXIT_OK


_OFFSET_FLAGS = ("brokers", "input", "group")
_TARGET_WORDS = ("beginning", "end", "logged")


def _target(_ctx: click.Context, _param: click.Parameter, text: str) -> str | int:
    """Return the word, or the offset as a number."""
    if text in _TARGET_WORDS:
        return text
    if text.isdecimal() and len(text) <= OFFSET_DIGITS:
        return int(text)
    raise click.BadParameter(f"{text!r} is neither an offset nor one of {', '.join(_TARGET_WORDS)}")


@click.group()
def offsets_command() -> None:
    """Show or set the offsets that a group has committed for its input topics."""


@offsets_command.command()
@config_options(*_OFFSET_FLAGS)
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def show(config: Config, as_json: bool) -> None:
    """Write the committed offset of each partition, and its offsets in the log.

    `of another topic`: the committed offset belongs to a deleted topic of the same name; a worker
    reads the present topic from its beginning.
    """
    from stream_dedup.kafka.offsets import read_offsets  # noqa: PLC0415 - loads the Kafka client

    with ProgressLine() as line:
        rows = read_offsets(config, line.stage)
    if as_json:
        write_json([_values(row) for row in rows])
        return
    head = ("partition", "first", "end", "committed", "logged")
    write_lines(*table([head, *map(_cells, rows)], left=len(head)))


@offsets_command.command("set")
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
    from stream_dedup.kafka.offsets import plan_offsets, set_offsets  # noqa: PLC0415 - loads the Kafka client

    if isinstance(to, int) and (topic is None or partition is None):
        raise click.UsageError("an offset belongs to one partition: give --topic and --partition")
    with ProgressLine() as line:
        moves = plan_offsets(config, cast("Target", to), topic, partition, line.stage)
    if not dry_run:
        set_offsets(config, moves)
    write_lines(*(_moved(move) for move in moves), *["dry run: nothing was set"] * dry_run)


def _moved(move: Move) -> str:
    """Return old and new offset, and how many offsets are read again or skipped."""
    row = move.row
    if row.committed is None or row.stale:
        return f"{row.partition}: {_committed(row)} -> {move.to}"
    step = move.to - row.committed
    effect = f" ({abs(step):,} offsets {'skipped' if step > 0 else 'read again'})" if step else ""
    return f"{row.partition}: {row.committed} -> {move.to}{effect}"


def _committed(row: PartitionOffsets) -> str:
    committed = "none" if row.committed is None else str(row.committed)
    return committed + (" (of another topic)" if row.stale else "")


def _cells(row: PartitionOffsets) -> tuple[str, ...]:
    logged = "nothing" if row.logged is None else f"{row.logged[0]} to {row.logged[1]}"
    if row.forgotten_before:
        logged += f" (below {row.forgotten_before}: trimmed)"
    return str(row.partition), str(row.begin), str(row.end), _committed(row), logged


def _values(row: PartitionOffsets) -> dict[str, object]:
    return {
        "topic": row.partition.topic,
        "partition": row.partition.number,
        "topic_id": str(uuid.UUID(bytes=row.topic_id)),
        "first": row.begin,
        "end": row.end,
        "committed": row.committed,
        "committed_topic_id": None if row.committed_id is None else str(uuid.UUID(bytes=row.committed_id)),
        "logged_first": None if row.logged is None else row.logged[0],
        "logged_last": None if row.logged is None else row.logged[1],
        "forgotten_before": row.forgotten_before,
    }


@click.command()
@config_options("brokers")
@click.option("--topic", metavar="TOPIC", help="Topic of the records (default: the first input topic).")
@click.option(
    "--key-field",
    metavar="FIELD",
    type=OneField(),
    help="Field whose text or number becomes the record key; records without it have no key.",
)
@input_options()
@click.argument("files", nargs=-1, metavar="[FILE]...")
def produce_command(
    config: Config, topic: str | None, key_field: FieldPath | None, files: tuple[str, ...], *, form: InputForm
) -> None:
    """Send each line of FILEs, or of standard input (- or none), as one record.

    FILEs may be compressed (docs/inputs.md). The value is the line without its line end and without a
    byte order mark, otherwise byte for byte; it need not be JSON. Blank lines are skipped. A JSON array, CSV or TSV
    with a header, or Parquet is read as `filter` reads it, and each record is sent as a JSON object. When the command
    exits with code 0, the broker has acknowledged all records.

    \b
    Example:
      stream-dedup produce --brokers kafka:9092 --topic articles articles.jsonl
    """  # noqa: D301 - \b keeps click from folding the example
    from stream_dedup.files.inputs import STDIN, check_inputs, whole_lines  # noqa: PLC0415 - loads the core
    from stream_dedup.kafka.produce import produce_lines  # noqa: PLC0415 - loads the Kafka client

    inputs = files or (STDIN,)
    check_inputs(inputs, form, of_records=False)
    name = topic or config.topics.input[0]
    if name in config.topics.patterns:
        raise UserError(f"topics.input begins with the pattern {name}; name the topic with --topic")
    with ProgressLine() as progress:

        def show(count: int) -> None:
            progress.show(lambda elapsed: f"{count:,} records sent ({count / elapsed:,.0f}/s)")

        sent = produce_lines(config, name, whole_lines(inputs, form), key_field, show)
    write_lines(f"{sent} records sent to {name}")
