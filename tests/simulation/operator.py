"""What an operator does: ``rules apply``, ``seed``, ``withdraw`` and ``reject``, as their effects on the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import xxhash

from stream_dedup.core.decode import InputFormat, RawRecord
from stream_dedup.core.entry import Batch, LogRecord, Withdrawal, encode, make_batch
from stream_dedup.core.fingerprinter import rejected_columns
from stream_dedup.core.model import Coordinates, LogOffset, LogPosition, SourceOffset, Widths, log_position
from stream_dedup.core.reasons import UNKNOWN_SCHEMA
from stream_dedup.core.rules import Rules
from stream_dedup.registry.values import schema_id_of
from stream_dedup.seed.seeding import LoggedArticles
from tests.memory.log import payload_of
from tests.memory.partition import Message, PartitionLog
from tests.simulation.fake_threads import columns_of, value_of

if TYPE_CHECKING:
    from tests.simulation.world import SimulatedWorld

ARCHIVE_LINES = 12
"""Articles of each archive."""
REJECT_S = 1.0
"""Virtual seconds between two looks whether something is held at the end of a schedule."""


def whole_log(log: PartitionLog) -> list[LogRecord]:
    """Return every record that was ever in the log, those that were cut away included."""
    records = [*log.deleted, *log.records]
    return [
        LogRecord(LogOffset(record.offset), record.timestamp, payload_of(record.value or b""), record.value or b"")
        for record in records
    ]


def rules_in_force(world: SimulatedWorld) -> Rules | None:
    """Return the rules at the end of the log."""
    in_force: Rules | None = None
    for record in whole_log(world.log):
        if isinstance(record.payload, Rules) and record.payload.takes_force_after(in_force):
            in_force = record.payload
    return in_force


def apply_rules(world: SimulatedWorld, wanted: Rules) -> bool:
    """Append a change of rules, if these are not in force; return whether they are now."""
    in_force = rules_in_force(world)
    if in_force is None or wanted.scheme != in_force.scheme:
        return False
    if wanted.differences(in_force):
        world.cluster.append(world.log, Message(None, encode(wanted.next_revision(in_force))))
    return True


def withdraw(world: SimulatedWorld, rng: Random) -> None:
    """Withdraw some articles of the log."""
    positions = [
        log_position(record.offset, row)
        for record in whole_log(world.log)
        if isinstance(record.payload, Batch)
        for row in range(len(record.payload))
    ]
    if positions:
        chosen: list[LogPosition] = rng.sample(positions, min(len(positions), rng.randint(1, 5)))
        world.cluster.append(world.log, Message(None, encode(Withdrawal(tuple(sorted(chosen))))))


def reject(world: SimulatedWorld, log: PartitionLog, delay_s: float) -> None:
    """Reject the record that comes next in an input partition, if the registry says that it does not know its schema.

    The log is read, the registry is asked, and the entry is appended after ``delay_s``.
    """
    registry, in_force, committed = world.registry, rules_in_force(world), world.committed(log)
    if registry is None or in_force is None or committed is None or not registry.answers():
        return
    for record in log.read(max(log.start, committed.offset), 1)[0]:
        schema_id = schema_id_of(record.value)
        topic_id = world.cluster.topics[log.name.topic].id
        at = Coordinates(topic_id, log.name.number, SourceOffset(record.offset))
        if schema_id is None or registry.knows(schema_id) or _is_logged(world, at):
            continue
        raw = RawRecord(record.key, record.value, f"{log.name}-{record.offset}")
        reason = UNKNOWN_SCHEMA.format(id=schema_id)
        columns = rejected_columns(raw, InputFormat(), reason, in_force.scheme.widths)
        read_to = LogOffset(world.log.end)
        batch = make_batch(columns, topic_id, log.name.topic, at.partition, [at.offset], read_to=read_to)
        world.rejected.add(at)
        world.note(f"{log.name}-{record.offset} is rejected")
        world.later(delay_s, partial(_append, world, batch))


def reject_until_quiet(world: SimulatedWorld) -> None:
    """Reject what is held, again and again, as long as articles are owed."""
    if world.registry is None:
        return
    for name in world.inputs:
        for log in world.cluster.topics[name].partitions:
            reject(world, log, 0.0)
    world.later(REJECT_S, partial(reject_until_quiet, world))


def _is_logged(world: SimulatedWorld, at: Coordinates) -> bool:
    return any(
        isinstance(record.payload, Batch)
        and record.payload.source == (at.topic_id, at.partition)
        and at.offset in record.payload.offsets
        for record in whole_log(world.log)
    )


def seed(world: SimulatedWorld, archive: int, rng: Random, length_s: float) -> None:
    """Enter an archive, in batches with some time between them; now and then the call is killed in the middle.

    It reads the log once, when it begins, and enters what the log does not have then.
    """
    in_force = rules_in_force(world)
    if in_force is None:
        return
    batches = list(_seeded_batches(world, archive, rng, in_force.scheme.widths))
    done = rng.randint(0, len(batches)) if rng.random() < 0.5 else len(batches)
    for number, batch in enumerate(batches[:done]):
        world.later(length_s * number / len(batches), partial(_append, world, batch))


def _append(world: SimulatedWorld, batch: Batch) -> None:
    world.cluster.append(world.log, Message(None, encode(batch)))


def _seeded_batches(world: SimulatedWorld, archive: int, rng: Random, widths: Widths) -> Iterator[Batch]:
    source = (xxhash.xxh3_128_digest(f"archive {archive}".encode()), 0)
    logged = LoggedArticles([source])
    for record in whole_log(world.log):
        logged.follow(record.payload)
    lines, read_to = _lines(world, archive), LogOffset(world.log.end)
    columns = columns_of([RawRecord(None, value, str(at)) for at, value in enumerate(lines)], widths)
    missing = np.flatnonzero(~logged.of(source).find(np.arange(len(lines)), columns.checksums).logged)
    while len(missing):
        rows, missing = np.split(missing, [rng.randint(1, 4)])
        batch = make_batch(columns.rows(rows), source[0], "archive", source[1], rows, read_to=read_to)
        yield replace(batch, seeded=True)


def _lines(world: SimulatedWorld, archive: int) -> list[bytes]:
    rng = Random(f"archive {archive} of {world.plan.seed}")
    drawn = [(rng.randrange(10), rng.randrange(3), rng.random() > 0.08) for _ in range(ARCHIVE_LINES)]
    return [value_of(story, variant, line, readable=good) for line, (story, variant, good) in enumerate(drawn)]
