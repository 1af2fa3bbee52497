"""What must be true of a schedule at its end, whatever happened in it.

* Every committed article of a topic that was there to the end has left exactly once; an article of a topic that was
  deleted at most once; nothing else has left, and no delete.
* Every output says what a plain loop over the whole log says (``audit.reference``), as if nothing had ever been
  trimmed: a trim never changes a verdict. (After a change of rules that makes the window longer it does: what was
  trimmed before is gone.)
* No article is logged twice, not even after a trim has forgotten it.
* What was rejected for its schema an operator has rejected.
* The outputs of one source partition are in source order, in each partition of an output topic.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from stream_dedup.audit.reference import PlainLog, plain_log
from stream_dedup.core.entry import LogRecord, Trim
from stream_dedup.core.headers import Stamp, parse_headers
from stream_dedup.core.model import Coordinates, Judgement, SourceOffset, Verdict
from stream_dedup.core.reasons import UNKNOWN_SCHEMA, code_of
from stream_dedup.core.rules import Rules
from tests.memory.broker import Topic
from tests.memory.partition import PartitionLog, StoredRecord
from tests.simulation.fake_threads import is_delete
from tests.simulation.operator import whole_log
from tests.simulation.world import OUTPUTS, SimulatedWorld

UNKNOWN_SCHEMA_CODE = code_of(UNKNOWN_SCHEMA.format(id=1))
SHOWN = 5
"""Faults of one schedule that are described."""


def faults(world: SimulatedWorld) -> list[str]:
    """Return what is wrong, as text; nothing if all is well."""
    outputs = [(record, parse_headers(_known(record))) for record in _outputs(world)]
    found = [*_counted(world, outputs), *_judged(world, outputs), *_ordered(outputs)]
    return found[:SHOWN] + ([f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else [])


def _known(record: StoredRecord) -> list[tuple[str, bytes | None]]:
    return list(record.headers)


def _outputs(world: SimulatedWorld) -> Iterator[StoredRecord]:
    for name in OUTPUTS:
        for log in world.cluster.topics[name].partitions:
            yield from _committed(log)


def _committed(log: PartitionLog) -> Iterator[StoredRecord]:
    """Yield every committed record that there ever was."""
    yield from (record for record in [*log.deleted, *log.records] if record.visible)


def _articles(topic: Topic, *, deletes: bool) -> Iterator[Coordinates]:
    for log in topic.partitions:
        for record in _committed(log):
            if not (deletes and is_delete(record.key, record.value)):
                yield Coordinates(topic.id, log.name.number, SourceOffset(record.offset))


def _counted(world: SimulatedWorld, outputs: list[tuple[StoredRecord, Stamp]]) -> Iterator[str]:
    left = Counter(stamp.coordinates for _, stamp in outputs)
    present = {topic.id for topic in world.cluster.topics.values()}
    known: set[Coordinates] = set()
    for topic in world.topics:
        for coordinates in _articles(topic, deletes=world.plan.deletes):
            known.add(coordinates)
            if left[coordinates] > 1:
                yield f"{topic.name} {coordinates} left {left[coordinates]} times"
            if topic.id in present and not left[coordinates]:
                yield f"{topic.name} {coordinates} never left"
    yield from (f"{coordinates} left, and is no committed article" for coordinates in left if coordinates not in known)


def _judged(world: SimulatedWorld, outputs: list[tuple[StoredRecord, Stamp]]) -> Iterator[str]:
    records = whole_log(world.log)
    log = plain_log(records)
    for source in range(len(log.sources)):
        offsets = log.entries.offsets[log.entries.sources == source].tolist()
        twice = [offset for offset, count in Counter(offsets).items() if count > 1]
        yield from (f"partition {log.sources[source][1]}: offset {offset} is logged anew" for offset in twice)
    untrimmed = [one for one in records if not isinstance(one.payload, Trim)]
    truth = log if len(untrimmed) == len(records) or _window_grew(records) else plain_log(untrimmed)
    judgements = dict(truth.judgements())
    for record, stamp in outputs:
        indices = truth.find(stamp.coordinates)
        if not indices:
            yield f"{stamp.coordinates} left, and is not in the log"
            continue
        if code_of(stamp.reason or "") == UNKNOWN_SCHEMA_CODE and stamp.coordinates not in world.rejected:
            yield f"{stamp.coordinates} was rejected for its schema, and by nobody"
        difference = _difference(truth, indices[0], judgements[indices[0]], record, stamp)
        if difference:
            yield f"{stamp.coordinates}: {difference}"


def _window_grew(records: list[LogRecord]) -> bool:
    """Return whether a change of rules made the window longer: what was trimmed before is gone for those after."""
    in_force: Rules | None = None
    for record in records:
        if isinstance(record.payload, Rules) and record.payload.takes_force_after(in_force):
            before, in_force = in_force, record.payload
            if before is not None and (before.window_ms or math.inf) < (in_force.window_ms or math.inf):
                return True
    return False


def _difference(log: PlainLog, index: int, expected: Judgement, record: StoredRecord, stamp: Stamp) -> str | None:
    topic = OUTPUTS[0] if log.record(index).rules.observe else expected.verdict.value
    match = None if expected.match is None else expected.match.coordinates
    found = None if stamp.match is None else stamp.match.coordinates
    rows: list[tuple[str, object, object]] = [
        ("topic", record.topic, topic),
        ("verdict", stamp.verdict, expected.verdict),
        ("match", found, match),
        ("reason", stamp.reason, expected.reason),
        ("copies", stamp.copies, expected.copies or None),
    ]
    if expected.verdict is not Verdict.REJECTED:
        rows.append(("fingerprint", stamp.fingerprint, int(log.entries.fingerprints[index])))
    different = [f"{name} {said}, should be {should}" for name, said, should in rows if said != should]
    return "; ".join(different) or None


def _ordered(outputs: list[tuple[StoredRecord, Stamp]]) -> Iterator[str]:
    last: dict[tuple[object, ...], int] = {}
    for record, stamp in outputs:
        at = stamp.coordinates
        key = (record.topic, record.partition, at.topic_id, at.partition)
        if at.offset < last.get(key, -1):
            yield f"{at} left after a later one of its partition"
        last[key] = at.offset
