"""``stream-dedup rules``, ``withdraw`` and ``reject``: what an operator appends to the log of a group."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, BinaryIO

import click

from stream_dedup.cli.options import GROUP_FLAGS, JUDGING, OFFSET_DIGITS, config_options
from stream_dedup.cli.output import ProgressLine, write_json, write_lines
from stream_dedup.config.keys import all_keys
from stream_dedup.config.model import Config
from stream_dedup.config.profile_file import ProfileFile
from stream_dedup.core.logged_scheme import NONE, value_text
from stream_dedup.core.rules import Rules, rule_changes, rule_values
from stream_dedup.errors import EXIT_FOUND, EXIT_OK, UserError
from stream_dedup.terminal import table

if TYPE_CHECKING:
    from stream_dedup.kafka.rejections import Outcome
    from stream_dedup.kafka.rules_log import Change, RulesHistory, RulesRecord
    from stream_dedup.kafka.withdrawals import WithdrawnEntry, WithdrawnId


@click.group()
def rules_command() -> None:
    """Show or change the rules of a log.

    Rules hold from their position in the log on, for every worker of the group. A worker whose
    configuration differs from the rules in force does not start.
    """


@rules_command.command()
@config_options("brokers", "group")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def show(config: Config, as_json: bool) -> None:
    """Write the rules in force, the log offset from which they hold, and all earlier changes."""
    from stream_dedup.kafka.rules_log import read_rules  # noqa: PLC0415 - loads the Kafka client

    with ProgressLine() as line:
        history = read_rules(config, line.count)
    if as_json:
        write_json(_history_values(history))
    else:
        _write_history(config, history)


@rules_command.command()
@config_options(*GROUP_FLAGS, *JUDGING)
@click.option("--dry-run", is_flag=True, help="Write what would change; append nothing.")
def apply(config: Config, *, dry_run: bool) -> None:
    """Apply the rules of the configuration to the log, from its end on.

    Running workers follow the change at its log position; a worker that starts later must have the same
    configuration. If no rule differs, nothing is written. Search, probes, limits, window, re-crawls and
    observing can change. The scheme, which determines the log entries, cannot change within one log: a
    different scheme is refused.
    """
    from stream_dedup.kafka.rules_log import apply_rules, plan_rules  # noqa: PLC0415 - loads the Kafka client

    with ProgressLine() as line:
        change = plan_rules(config, line.count) if dry_run else apply_rules(config, line.count)
    if change.is_none:
        write_lines(f"nothing to change: {config.log_topic} has these rules (revision {change.now.revision})")
        return
    write_lines(*_change_lines(config, change))
    if change.record is None:
        write_lines(f"dry run: nothing was appended (it would be revision {change.now.revision})")
    else:
        write_lines(f"in force from log offset {change.record.offset} on (revision {change.now.revision})")


def _change_lines(config: Config, change: Change) -> list[str]:
    if change.before is not None:
        return rule_changes(change.before, change.now)
    if change.record is not None:
        return [f"{config.log_topic} begins with these rules"]
    return [f"{config.log_topic} has no rules yet and would begin with these:", *_lines(change.now)]


def _write_history(config: Config, history: RulesHistory) -> None:
    if history.in_force is None or history.since is None:
        write_lines(f"{config.log_topic} is empty: it has no rules yet")
        return
    write_lines(f"rules in force in {config.log_topic}, from log offset {history.since.offset} on:")
    write_lines(*_lines(history.in_force))
    write_lines("", "history:")
    for record in history.records:
        at = datetime.fromtimestamp(record.time / 1000, UTC).isoformat(timespec="milliseconds")
        write_lines(f"  offset {record.offset}  {at}  revision {record.rules.revision}  {record.effect}")


def _lines(rules: Rules) -> list[str]:
    """Return the rules with the meanings of their keys, and the scheme's parameters; no rule of the other search."""
    values = {"scheme": rules.scheme.id, "revision": str(rules.revision)} | rule_values(rules)
    keys = [*all_keys(Config), *all_keys(ProfileFile)]
    meanings = {name.partition(".")[2]: f"  ({field.description})" for name, field in keys}
    rows = [(f"  {name}", value + meanings.get(name, "")) for name, value in values.items() if value != NONE]
    lines = table(rows, left=2)
    parameters = [f"  {name}: {value_text(value)}" for name, value in rules.scheme.flat().items()]
    return [*lines, "", "scheme, fixed for the whole log:", *parameters] if parameters else lines


def _history_values(history: RulesHistory) -> dict[str, object]:
    return {
        "in_force": None if history.in_force is None else json.loads(history.in_force.to_json()),
        "since_offset": None if history.since is None else history.since.offset,
        "history": [_record_values(record) for record in history.records],
    }


def _record_values(record: RulesRecord) -> dict[str, object]:
    return {
        "offset": record.offset,
        "time_ms": record.time,
        "effect": str(record.effect),
        "rules": json.loads(record.rules.to_json()),
    }


@click.command()
@config_options("brokers", "group")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--file", "file", type=click.File("rb"), metavar="FILE", help="Read ids from this file, one a line.")
@click.option("--topic", metavar="TOPIC", help="Only articles of this source topic, or of the archive of this name.")
@click.option("--dry-run", is_flag=True, help="Write what would be withdrawn, and change nothing.")
@click.option("--list", "listing", is_flag=True, help="Write every article that is withdrawn.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def withdraw_command(  # noqa: PLR0917 - one argument for each flag
    config: Config,
    ids: tuple[str, ...],
    file: BinaryIO | None,
    topic: str | None,
    dry_run: bool,
    listing: bool,
    as_json: bool,
) -> int:
    """Exclude every article with one of these IDs from matching, from now on.

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
    from stream_dedup.kafka import withdrawals  # noqa: PLC0415 - loads the Kafka client

    if listing == bool(ids or file) or (listing and (topic or dry_run)):
        raise click.UsageError("name IDs, or a file of them with --file; or --list, without ids, --topic and --dry-run")
    with ProgressLine() as line:
        if listing:
            _write_list(withdrawals.connected_list(config, line.stage), as_json=as_json)
            return EXIT_OK
        wanted = withdrawals.Wanted([*dict.fromkeys((*ids, *_ids_in(file)))], topic)
        done = withdrawals.connected_withdraw(config, wanted, line.stage, dry_run=dry_run)
    if as_json:
        write_json([{"id": one.id, "withdrawn": one.withdrawn, "withdrawn_before": one.before} for one in done])
    else:
        write_lines(*(_line(one, dry_run=dry_run) for one in done))
    return EXIT_OK if all(one.is_known for one in done) else EXIT_FOUND


def _ids_in(file: BinaryIO | None) -> list[str]:
    """Return the lines of a file that are not blank, without the white space around them."""
    if file is None:
        return []
    try:
        return [line for text in file.read().decode("utf-8-sig").split("\n") if (line := text.strip())]
    except UnicodeDecodeError as error:
        raise UserError(f"--file {file.name}: not UTF-8 (byte {error.start}); write one id a line, in UTF-8") from error


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


_PLACE = re.compile(rf"(.+)-(\d{{1,9}})-(\d{{1,{OFFSET_DIGITS}}})")


@click.command()
@config_options("brokers", "group", "input")
@click.argument("places", nargs=-1, required=True, metavar="TOPIC-PARTITION-OFFSET...")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def reject_command(config: Config, places: tuple[str, ...], as_json: bool) -> int:
    """Reject records whose schema the schema registry does not know, so that their partitions go on.

    A worker holds a partition at such a record; its log names the record. The rejection is logged, and counts for every
    worker; the record goes to the topic of rejected records, once. A record that the log has already stays as it is.
    Needs the configuration of the workers. Workers may be running.

    Exit code 0: every record is rejected; 3: one was judged meanwhile.

    \b
    Example:
      stream-dedup reject --config worker.toml articles-0-1042
    """  # noqa: D301 - \b keeps click from folding the example
    from stream_dedup.core.model import SourceOffset  # noqa: PLC0415 - as above
    from stream_dedup.kafka.rejections import RecordPlace, connected_reject  # noqa: PLC0415 - loads the Kafka client
    from stream_dedup.ports import Partition  # noqa: PLC0415 - as above

    named = []
    for text in dict.fromkeys(places):
        match = _PLACE.fullmatch(text)
        if match is None:
            raise click.UsageError(
                f"{text!r} is no record: name it as topic-partition-offset, as the worker's log does"
            )
        named.append(RecordPlace(Partition(match[1], int(match[2])), SourceOffset(int(match[3]))))
    with ProgressLine() as line:
        done = connected_reject(config, named, line.stage)
    if as_json:
        write_json([{"source": str(one.place), "reason": one.reason, "logged_before": one.was_logged} for one in done])
    else:
        write_lines(*map(_reject_line, done))
    return EXIT_OK if all(one.reason is not None for one in done) else EXIT_FOUND


def _reject_line(done: Outcome) -> str:
    if done.reason is None:
        return f"{done.place}: not rejected: the log has the article, or had it"
    return f"{done.place}: rejected{' before' if done.was_logged else ''}: {done.reason}"
