"""Reports the log records that a worker has applied: counts them by kind, and logs each change of rules."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stream_dedup.core.entry import Batch, LogRecord, Trim, Withdrawal
from stream_dedup.core.rules import Rules, rule_changes

if TYPE_CHECKING:
    from stream_dedup.metrics.metrics import Metrics

log = logging.getLogger(__name__)

_KINDS = {Batch: "batch", Rules: "rules", Trim: "trim", Withdrawal: "withdrawal"}


def note_applied(records: Sequence[LogRecord], in_force: Rules | None, metrics: Metrics) -> None:
    """Count consecutive log records, and log each change of rules; ``in_force`` are the rules before them."""
    counts = Counter(_KINDS[type(record.payload)] for record in records)
    for kind, count in counts.items():
        metrics.log_records.labels(kind).inc(count)
    for record in records:
        if isinstance(record.payload, Rules) and record.payload.takes_force_after(in_force):
            _log_change(record, in_force, record.payload)
            in_force = record.payload


def _log_change(record: LogRecord, before: Rules | None, now: Rules) -> None:
    changes = [] if before is None else rule_changes(before, now)
    text = "; ".join(changes) or "no rule differs"
    log.info("rules: revision %d in force from log offset %d on: %s", now.revision, record.offset, text)
