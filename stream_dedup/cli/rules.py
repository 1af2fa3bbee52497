"""``stream-dedup rules show|apply``: how the articles of a log are judged."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from stream_dedup.cli.options import JUDGING, config_options
from stream_dedup.cli.output import write_json, write_lines
from stream_dedup.cli.progress import ProgressLine
from stream_dedup.config.model import Config
from stream_dedup.core.model import SIGNATURE_BITS
from stream_dedup.core.rules_text import NONE, rule_changes, rule_values, value_text

if TYPE_CHECKING:
    from stream_dedup.broker.rules_log import Change, RulesHistory, RulesRecord
    from stream_dedup.core.rules import Rules


@click.group()
def command() -> None:
    """Show or change the rules of a log.

    Rules hold from their position in the log on, for every worker of the group. A worker whose
    configuration differs from the rules in force does not start.
    """


@command.command()
@config_options("brokers", "group")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def show(config: Config, as_json: bool) -> None:
    """Write the rules in force, the log offset from which they hold, and all earlier changes."""
    from stream_dedup.broker.rules_log import read_rules  # noqa: PLC0415 - loads the Kafka client

    with ProgressLine() as line:
        history = read_rules(config, line.count)
    if as_json:
        write_json(_history_values(history))
    else:
        _write_history(config, history)


@command.command()
@config_options("brokers", "input", "unique", "duplicate", "rejected", "group", *JUDGING)
@click.option("--dry-run", is_flag=True, help="Write what would change; append nothing.")
def apply(config: Config, *, dry_run: bool) -> None:
    """Apply the rules of the configuration to the log, from its end on.

    Running workers follow the change at its log position; a worker that starts later must have the same
    configuration. If no rule differs, nothing is written. Search, probes, limits, window, re-crawls and
    observing can change. The scheme, which determines the log entries, cannot change within one log: a
    different scheme is refused.
    """
    from stream_dedup.broker.rules_log import apply_rules, plan_rules  # noqa: PLC0415 - loads the Kafka client

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
        write_lines(
            f"  offset {record.offset}  {_time(record.time)}  revision {record.rules.revision}  {record.effect}"
        )


def _lines(rules: Rules) -> list[str]:
    """Return the rules with their meanings, without those of the other kind of search, and the scheme's parameters."""
    values = {"scheme": rules.scheme.id, "revision": str(rules.revision)} | rule_values(rules)
    rows = [(name, value, _meaning(name, rules)) for name, value in values.items() if value != NONE]
    width = max(len(name) for name, _, _ in rows)
    lines = [f"  {name:<{width}}  {value}{f' {meaning}' if meaning else ''}" for name, value, meaning in rows]
    parameters = [f"  {name}: {value_text(value)}" for name, value in rules.scheme.flat().items()]
    return [*lines, "", "scheme, fixed for the whole log:", *parameters] if parameters else lines


def _meaning(name: str, rules: Rules) -> str:
    meanings = {
        "distance": "bits of the fingerprint's 64",
        "probes": f"look-ups for an article, in {rules.scheme.tables} tables",
        "limit": _limit(rules.limit),
        "short_limit": f"{_limit(rules.short_limit)}, for short text",
        "min_equal": "values of the sketches must be equal",
        "short_min_equal": "values of the sketches must be equal, for short text",
        "certain": "bits of the signature, within which sketches are not compared",
        "form_limit": "bits of the signature, for texts of one form that differ in their numbers",
        "far": "bits of the signature, beyond which far_min_equal holds",
        "far_min_equal": "values of the sketches must be equal",
        "dominated": "bits with a small margin at most, where sketches are compared at every distance",
        "bucket_limit": "newest entries compared in each posting list",
        "candidates": "entries that pass the sieve are checked for an article",
        "copies": "near earlier articles make a duplicate",
        "featureless": "(verdict of text without words)",
        "recrawl": "(an article near an earlier one with its id)",
        "observe": "(every record goes to the unique topic)" if rules.observe else "",
    }
    return meanings.get(name, "")


def _limit(bits: int | None) -> str:
    from stream_dedup.core.fingerprint.simhash import similarity  # noqa: PLC0415 - loads numpy

    return f"bits of the signature's {SIGNATURE_BITS}: similarity {similarity(bits or 0):.3f}"


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")


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
