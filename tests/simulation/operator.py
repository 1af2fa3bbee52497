"""What an operator does: ``stream-dedup rules apply``, as its effects on the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stream_dedup.core.entry import LogRecord, encode
from stream_dedup.core.model import LogOffset
from stream_dedup.core.rules import Rules
from tests.memory.log import payload_of
from tests.memory.partition import Message, PartitionLog

if TYPE_CHECKING:
    from tests.simulation.world import SimulatedWorld


def whole_log(log: PartitionLog) -> list[LogRecord]:
    """Return every record that was ever in the log, those that were cut away included."""
    records = [*log.deleted, *log.records]
    return [
        LogRecord(LogOffset(record.offset), record.timestamp, payload_of(record.value or b""), record.value or b"")
        for record in records
    ]


def apply_rules(world: SimulatedWorld, wanted: Rules) -> bool:
    """Append a change of rules, if these are not in force; return whether they are now."""
    in_force: Rules | None = None
    for record in whole_log(world.log):
        if isinstance(record.payload, Rules) and record.payload.takes_force_after(in_force):
            in_force = record.payload
    if in_force is None or wanted.scheme != in_force.scheme:
        return False
    if wanted.differences(in_force):
        world.cluster.append(world.log, Message(None, encode(wanted.next_revision(in_force))))
    return True
