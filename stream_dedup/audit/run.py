"""What an audit reads from Kafka, in an order that makes a running worker no fault.

    1  the committed offsets
    2  how far each output topic goes now: it holds, or will hold when open transactions end, the
       output of every article below those offsets
    3  how far the log goes now: it holds every article that has an output
    4  the log; then the verdicts are recomputed
    5  the outputs, read committed up to 2
    6  what stands in the source topics below the committed offsets and was never logged

Nothing is written and no group is joined: an audit may run beside workers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka import TopicPartition
from kafka.errors import OffsetOutOfRangeError

from stream_dedup.audit.audit import Audit, AuditReport, OutputRecord, Scope, audited, to_recompute
from stream_dedup.audit.reference import PlainLog, SourcePartition
from stream_dedup.broker.client import make_admin, make_consumer
from stream_dedup.broker.group_offsets import Bounds, committed_offsets, offset_bounds, partitions_of
from stream_dedup.broker.log import read_whole_log
from stream_dedup.broker.retry import patiently
from stream_dedup.broker.topics import topic_ids
from stream_dedup.core.model import Coordinates, Verdict
from stream_dedup.core.progress import ReportStage
from stream_dedup.errors import UnavailableError, UserError

if TYPE_CHECKING:
    from kafka import KafkaAdminClient, KafkaConsumer

    from stream_dedup.config.model import Config

OUTPUT_POLL_MS = 50
"""One wait for records; after it the positions are looked at, for transaction markers come as no record."""
POSITION_MS = 5_000
"""One wait for a position, which the client knows without asking."""
GAP_FETCH_BYTES = 64 << 10
"""Bytes asked for where only a few offsets are of interest; a larger record comes all the same."""
NEVER_KEPT = 1 << 62
"""Later than any log time: an output topic that holds nothing any more."""


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """What the caller of an audit chose."""

    since_ms: int | None = None
    since_offset: int | None = None
    sample: int | None = None
    seed: int = 0
    allow_repeats: bool = False


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """How far everything went at one time."""

    committed: dict[TopicPartition, tuple[int, bytes]]
    """Offset, and the id of the topic that it belongs to."""
    ids: dict[str, bytes]
    outputs: Bounds
    sources: Bounds


def run_audit(config: Config, options: AuditOptions, progress: ReportStage) -> AuditReport:
    """Read everything, recompute, compare.

    Raises:
        UserError: there is no log.
        RefusedError: the log lost its beginning.
        UnavailableError: the broker did not answer, or an output stayed in an open transaction.
    """
    with closing(make_admin(config.kafka)) as admin:
        snapshot = patiently(config.kafka, "offsets", lambda: _snapshot(admin, config))
    log = read_log(config, progress)
    with closing(make_consumer(config.kafka)) as consumer:
        scope = _scope(config, options, snapshot, _kept_since(config, consumer, snapshot.outputs))
        audit = Audit(log, scope)
        wanted = to_recompute(log, audited(log, scope), options.sample, options.seed)
        for done, (index, judgement) in enumerate(log.judgements(wanted), 1):
            audit.expect(index, judgement)
            progress("verdicts recomputed", done, len(wanted))
        for output in _outputs(config, consumer, snapshot.outputs, progress):
            audit.add(output)
    audit.never_logged(_never_logged(config, options, snapshot, log))
    return audit.report()


def read_log(config: Config, progress: ReportStage) -> PlainLog:
    """The whole log as it stands now.

    Raises:
        UserError: there is no log.
    """
    with closing(make_admin(config.kafka)) as admin:
        if config.log_topic not in patiently(config.kafka, "topics", lambda: topic_ids(admin, [config.log_topic])):
            msg = f"there is no log {config.log_topic}; name the group whose work is meant with --group"
            raise UserError(msg)
    log = PlainLog()
    for record in read_whole_log(config, progress):
        log.append_record(record)
    return log


def _snapshot(admin: KafkaAdminClient, config: Config) -> _Snapshot:
    # 1
    raw = committed_offsets(admin, config.kafka.group)
    names = sorted({*config.topics.input, *(partition.topic for partition in raw)})
    ids = topic_ids(admin, names)
    known = {at: (offset, named or ids.get(at.topic)) for at, (offset, named) in raw.items()}
    committed = {at: (offset, topic_id) for at, (offset, topic_id) in known.items() if topic_id is not None}
    # 2
    outputs = offset_bounds(admin, partitions_of(admin, list(dict.fromkeys(_output_topics(config).values()))))
    there = set(partitions_of(admin, names))
    sources = offset_bounds(admin, [partition for partition in committed if partition in there])
    return _Snapshot(committed, ids, outputs, sources)


def _output_topics(config: Config) -> dict[Verdict, str]:
    topics = config.topics
    return {Verdict.UNIQUE: topics.unique, Verdict.DUPLICATE: topics.duplicate, Verdict.REJECTED: topics.rejected}


def _scope(config: Config, options: AuditOptions, snapshot: _Snapshot, kept_since_ms: int | None) -> Scope:
    committed: dict[SourcePartition, int] = {
        (topic_id, partition.partition): offset for partition, (offset, topic_id) in snapshot.committed.items()
    }
    return Scope(
        topics=_output_topics(config),
        committed=committed,
        current=frozenset(snapshot.ids.values()),
        since_ms=options.since_ms,
        since_offset=options.since_offset,
        kept_since_ms=kept_since_ms,
        allow_repeats=options.allow_repeats,
    )


def _kept_since(config: Config, consumer: KafkaConsumer, outputs: Bounds) -> int | None:
    """Time before which the output topics have deleted records; None where nothing was deleted."""
    times = []
    for partition, (begin, end) in outputs.items():
        if begin == 0:
            continue
        first = next(_read(config, consumer, {partition: (begin, end)}), None)
        times.append(NEVER_KEPT if first is None else int(first.timestamp))
    return max(times, default=None)


def _outputs(config: Config, consumer: KafkaConsumer, outputs: Bounds, progress: ReportStage) -> Iterator[OutputRecord]:
    total = sum(end - begin for begin, end in outputs.values())
    for done, record in enumerate(_read(config, consumer, outputs), 1):
        progress("outputs compared", done, total)
        yield OutputRecord(
            record.topic,
            record.partition,
            record.offset,
            record.timestamp,
            record.key,
            record.value,
            record.headers,
        )


def _read(config: Config, consumer: KafkaConsumer, ranges: Bounds) -> Iterator[Any]:
    """Committed records of each range; waits for transactions that are open in one.

    Raises:
        UnavailableError: nothing moved for as long as a transaction may stay open.
    """
    limit_s = config.kafka.transaction_timeout_s + config.kafka.broker_wait_s
    left = {partition: end for partition, (begin, end) in ranges.items() if begin < end}
    consumer.assign(list(left))
    for partition in left:
        consumer.seek(partition, ranges[partition][0])
    moved_at, before = time.monotonic(), dict[TopicPartition, int]()
    while left:
        for partition, records in consumer.poll(timeout_ms=OUTPUT_POLL_MS).items():
            yield from (record for record in records if record.offset < ranges[partition][1])
        positions = {partition: consumer.position(partition, timeout_ms=POSITION_MS) for partition in left}
        if positions != before:
            moved_at, before = time.monotonic(), positions
        elif time.monotonic() - moved_at > limit_s:
            raise _stuck(config, positions, left, limit_s)
        for partition in [partition for partition, end in left.items() if positions[partition] >= end]:
            del left[partition]
            consumer.pause(partition)
    consumer.assign([])


def _stuck(
    config: Config, positions: Mapping[TopicPartition, int], left: Mapping[TopicPartition, int], limit_s: float
) -> UnavailableError:
    partition, end = next(iter(left.items()))
    return UnavailableError(
        f"{partition.topic}-{partition.partition}: nothing came from offset {positions[partition]} of {end} on for "
        f"{limit_s:g} s: is the broker at {config.kafka.brokers} up, or does a transaction hang "
        "(kafka-transactions.sh find-hanging)?"
    )


def _never_logged(
    config: Config, options: AuditOptions, snapshot: _Snapshot, log: PlainLog
) -> Iterator[tuple[str, Coordinates]]:
    """Records of source topics that are committed and do not stand in the log."""
    settings = {"max_partition_fetch_bytes": GAP_FETCH_BYTES, "fetch_max_wait_ms": OUTPUT_POLL_MS}
    with closing(make_consumer(config.kafka, **settings)) as consumer:
        for partition, (offset, topic_id) in snapshot.committed.items():
            if snapshot.ids.get(partition.topic) != topic_id or partition not in snapshot.sources:
                continue
            source = (topic_id, partition.partition)
            begin, end = snapshot.sources[partition]
            start = _first_asked(log, source, options, begin)
            for first, last in log.ever_logged.gaps(source, start, min(offset, end)):
                for found in _in_gap(config, consumer, partition, first, last):
                    yield partition.topic, Coordinates(*source, found)


def _first_asked(log: PlainLog, source: SourcePartition, options: AuditOptions, begin: int) -> int:
    """Source offset from which on everything must have been logged.

    Of a log that was cut, and of an audit of the newer part, it is where that part begins.
    """
    if not log.first_offset and options.since_ms is None and options.since_offset is None:
        return begin
    first = log.ever_logged.first_since(source, options.since_ms or 0, options.since_offset or 0)
    return max(begin, first) if first is not None else NEVER_KEPT


def _in_gap(config: Config, consumer: KafkaConsumer, partition: TopicPartition, first: int, last: int) -> Iterator[int]:
    try:
        for record in _read(config, consumer, {partition: (first, last + 1)}):
            yield record.offset
    except OffsetOutOfRangeError:
        return  # deleted while the audit ran: nothing is there to be lost
