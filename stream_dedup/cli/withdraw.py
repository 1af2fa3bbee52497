"""``stream-dedup withdraw``: articles that match nobody from now on."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, BinaryIO

import click

from stream_dedup.cli.options import config_options
from stream_dedup.cli.output import write_json, write_lines
from stream_dedup.cli.progress import ProgressLine
from stream_dedup.config.model import Config
from stream_dedup.errors import UserError
from stream_dedup.exit_codes import EXIT_FOUND, EXIT_OK
from stream_dedup.files.output_file import STDOUT, refuse_inputs_as_outputs

if TYPE_CHECKING:
    from stream_dedup.broker.withdrawals import WithdrawnEntry, WithdrawnId


@click.command()
@config_options("brokers", "group")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--file", "file", type=click.File("rb"), metavar="FILE", help="Read ids from this file, one a line.")
@click.option("--topic", metavar="TOPIC", help="Only articles of this source topic, or of the archive of this name.")
@click.option("--dry-run", is_flag=True, help="Write what would be withdrawn, and change nothing.")
@click.option("--list", "listing", is_flag=True, help="Write every article that is withdrawn.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def command(  # noqa: PLR0917 - one argument for each flag
    config: Config,
    ids: tuple[str, ...],
    file: BinaryIO | None,
    topic: str | None,
    dry_run: bool,
    listing: bool,
    as_json: bool,
) -> int:
    """Withdraw every article with one of these IDs: from now on it matches nobody.

    A withdrawal is a log record: it holds for every worker, for the articles that are logged after it.
    Verdicts about earlier articles stay as they are. Workers may be running. An article with the same id that is logged
    later matches again: send it again to undo a withdrawal.

    Writes for each id how many articles were withdrawn, and how many had been before. Exit code 0: the log has
    an article with each of the ids; 3: with one of them it has none.

    \b
    Examples:
      stream-dedup withdraw --group news 4711 4712
      stream-dedup withdraw --group news --file taken-down.txt --topic articles
      stream-dedup withdraw --group news --list --json
    """  # noqa: D301 - \b keeps click from folding the examples
    from stream_dedup.broker import withdrawals  # noqa: PLC0415 - loads the Kafka client

    if listing == bool(ids or file) or (listing and (topic or dry_run)):
        msg = "name IDs, or a file of them with --file; or --list, without ids, --topic and --dry-run"
        raise click.UsageError(msg)
    with ProgressLine() as line:

        def show(stage: str, done: int, total: int) -> None:
            line.show(lambda _elapsed: f"{done:,} of {total:,} {stage}")

        if listing:
            _write_list(withdrawals.connected_list(config, show), as_json=as_json)
            return EXIT_OK
        wanted = withdrawals.Wanted([*dict.fromkeys((*ids, *_ids_in(file)))], topic)
        done = withdrawals.connected_withdraw(config, wanted, show, dry_run=dry_run)
    if as_json:
        write_json([{"id": one.id, "withdrawn": one.withdrawn, "withdrawn_before": one.before} for one in done])
    else:
        write_lines(*(_line(one, dry_run=dry_run) for one in done))
    return EXIT_OK if all(one.is_known for one in done) else EXIT_FOUND


def _ids_in(file: BinaryIO | None) -> list[str]:
    """Return the lines of a file that are not blank, without the white space around them."""
    if file is None:
        return []
    refuse_inputs_as_outputs([STDOUT], [str(file.name)] if file.name != sys.stdin.buffer.name else ["-"])
    try:
        return [line for text in file.read().decode("utf-8-sig").split("\n") if (line := text.strip())]
    except UnicodeDecodeError as error:
        msg = f"--file {file.name}: not UTF-8 (byte {error.start}); write one id a line, in UTF-8"
        raise UserError(msg) from error


def _line(done: WithdrawnId, *, dry_run: bool) -> str:
    if not done.is_known:
        return f"{done.id}: the log has no article with this id"
    verb = "to withdraw" if dry_run else "withdrawn"
    before = f", {done.before} withdrawn before" if done.before else ""
    return f"{done.id}: {done.withdrawn} {verb}{before}"


def _write_list(entries: list[WithdrawnEntry], *, as_json: bool) -> None:
    if as_json:
        write_json([_values(entry) for entry in entries])
        return
    if not entries:
        write_lines("no article of the log is withdrawn")
    for entry in entries:
        moment = datetime.fromtimestamp(entry.withdrawn_ms / 1000, UTC).isoformat(timespec="seconds")
        source = f"{entry.topic}-{entry.coordinates.partition}-{entry.coordinates.offset}"
        write_lines(f"{entry.id}  {source}  withdrawn at log offset {entry.withdrawn_at}, {moment}")


def _values(entry: WithdrawnEntry) -> dict[str, object]:
    return {
        "id": entry.id,
        "topic": entry.topic,
        "partition": entry.coordinates.partition,
        "offset": entry.coordinates.offset,
        "log_position": entry.position,
        "withdrawn_at": entry.withdrawn_at,
        "withdrawn_ms": entry.withdrawn_ms,
    }
