"""A snapshot as lines for a person, and as values for JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from stream_dedup.core.logged_scheme import NONE
from stream_dedup.core.rules import rule_values
from stream_dedup.status.findings import GroupFinding
from stream_dedup.status.snapshot import Rates, Snapshot
from stream_dedup.terminal import table

_UNITS = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def lines_of(now: Snapshot, rates: Rates | None, findings: list[GroupFinding]) -> list[str]:
    """Return the lines of a snapshot."""
    at = datetime.fromtimestamp(now.at_ms / 1000, UTC).isoformat(" ", "seconds")
    speed = []
    if rates is not None:
        speed = [f"{rates.articles:,.1f} articles a second committed, {rates.log_records:,.1f} log records a second"]
    workers = "1 worker" if len(now.members) == 1 else f"{len(now.members)} workers"
    return [
        f"group {now.group}: {now.group_state.lower()}, {workers}, lag {now.lag:,}   {at}",
        *speed,
        "",
        *_worker_lines(now),
        *_partition_lines(now),
        *_log_lines(now),
        "",
        *_finding_lines(findings),
    ]


def values_of(now: Snapshot, rates: Rates | None, findings: list[GroupFinding]) -> dict[str, Any]:
    """Return the values of a snapshot for JSON."""
    return {
        "time_ms": now.at_ms,
        "group": now.group,
        "state": now.group_state,
        "lag": now.lag,
        "articles_per_second": None if rates is None else round(rates.articles, 3),
        "log_records_per_second": None if rates is None else round(rates.log_records, 3),
        "workers": [
            {
                "client_id": member.client_id,
                "host": member.host,
                "instance_id": member.instance_id,
                "partitions": [str(partition) for partition in member.partitions],
            }
            for member in now.members
        ],
        "partitions": [
            {
                "topic": each.partition.topic,
                "partition": each.partition.number,
                "first": each.first,
                "stable": each.stable,
                "end": each.end,
                "committed": each.committed,
                "of_another_topic": each.is_stale,
                "lag": each.lag,
                "worker": each.owner,
            }
            for each in now.partitions
        ],
        "log": asdict(now.log) | {"rules": None if now.log.rules is None else json.loads(now.log.rules.to_json())},
        "hanging_transactions": list(now.hanging),
        "silent_brokers": list(now.silent_brokers),
        "findings": [
            {
                "code": str(finding.code),
                "values": dict(finding.values),
                "text": finding.text,
                "remedy": finding.remedy,
                "is_note": finding.is_note,
            }
            for finding in findings
        ],
    }


def _worker_lines(now: Snapshot) -> list[str]:
    if not now.members:
        return []
    rows = [("worker", "host", "partitions")]
    rows += [(member.client_id, member.host, ", ".join(map(str, member.partitions)) or NONE) for member in now.members]
    return [*table(rows, left=3), ""]


def _partition_lines(now: Snapshot) -> list[str]:
    if not now.partitions:
        return []
    rows = [("partition", "first", "stable", "end", "committed", "lag")]
    for each in now.partitions:
        committed = NONE if each.committed is None else f"{each.committed:,}"
        stale = " (of another topic)" * each.is_stale
        numbers = (f"{each.first:,}", f"{each.stable:,}", f"{each.end:,}", committed + stale, f"{each.lag:,}")
        rows.append((str(each.partition), *numbers))
    return [*table(rows), ""]


def _log_lines(now: Snapshot) -> list[str]:
    log = now.log
    if not log.exists:
        return [f"log {log.topic}: none"]
    facts = [f"offsets {log.first:,} to {log.end:,}"]
    facts += [] if log.size_bytes is None else [bytes_text(log.size_bytes)]
    facts += [] if log.last_record_ms is None else [f"last record {_age((now.at_ms - log.last_record_ms) / 1000)} ago"]
    facts += [] if log.trims is None else [f"{log.trims:,} trims"]
    lines = [f"log {log.topic}: {', '.join(facts)}"]
    if log.rules is not None:
        values = ", ".join(f"{name} {value}" for name, value in rule_values(log.rules).items() if value != NONE)
        lines.append(f"rules: revision {log.rules.revision} since log offset {log.rules_offset}: {values}")
        lines.append(f"scheme: {log.rules.scheme.id}")
    return lines


def _finding_lines(findings: list[GroupFinding]) -> list[str]:
    wrong = [f"wrong: {finding}" for finding in findings if not finding.is_note]
    notes = [f"note: {finding}" for finding in findings if finding.is_note]
    return [*(wrong or ["nothing is wrong"]), *notes]


def bytes_text(count: int) -> str:
    """Return a number of bytes in the largest unit that it reaches."""
    return next((f"{count / unit:.1f} {name}" for name, unit in _UNITS if count >= unit), f"{count} bytes")


def _age(seconds: float) -> str:
    units = (("days", 2 * 86_400, 86_400), ("hours", 2 * 3_600, 3_600), ("minutes", 120, 60))
    return next((f"{seconds / size:.0f} {name}" for name, least, size in units if seconds >= least), f"{seconds:.0f} s")
