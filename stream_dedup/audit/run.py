"""Reads from Kafka what an audit needs, in an order in which the progress of running workers is no fault.

    1  Read the committed offsets.
    2  Read the end of each output topic. The output of every article below the committed offsets lies before that
       end, or will when the open transactions end.
    3  Read the end of the log. Every article that has an output lies before it.
    4  Read the log, and recompute the verdicts.
    5  Read the outputs (committed ones) up to the ends of step 2.
    6  Read the records of the source topics below the committed offsets that were never logged.

An audit writes nothing and joins no group, so it may run beside workers.
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
"""One wait for records. After it the positions are checked, because transaction markers arrive as no record."""
POSITION_MS = 5_000
"""One wait for a position, which the client knows without a request."""
GAP_FETCH_BYTES = 64 << 10
"""Bytes fetched at once where only a few offsets are wanted; the broker sends a larger record all the same."""
NEVER_KEPT = 1 << 62
"""Later than any log time: the output topic has lost all its records."""


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """The options of an audit."""

    since_ms: int | None = None
    since_offset: int | None = None
    sample: int | None = None
    seed: int = 0
    allow_repeats: bool = False


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """Offsets of all topics at one time."""

    committed: dict[TopicPartition, tuple[int, bytes]]
    """Committed offset, and the id of the topic that it belongs to."""
    ids: dict[str, bytes]
    outputs: Bounds
    sources: Bounds


def run_audit(config: Config, options: AuditOptions, progress: ReportStage) -> AuditReport:
    """Run an audit.

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
    """Read the whole log up to its present end.

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
    """Return the time before which the output topics have deleted records, or None if they have deleted none."""
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
    """Yield the committed records of each range. Waits for transactions that are open in a range.

    Raises:
        UnavailableError: the positions did not move for longer than a transaction may stay open.
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
    """Yield the committed records of source topics that were never logged."""
    settings = {"max_partition_fetch_bytes": GAP_FETCH_BYTES, "fetch_max_wait_ms": OUTPUT_POLL_MS}
    with closing(make_consumer(config.kafka, **settings)) as consumer:
        for partition, (offset, topic_id) in snapshot.committed.items():
            if snapshot.ids.get(partition.topic) != topic_id or partition not in snapshot.sources:
                continue
            source = (topic_id, partition.partition)
            begin, end = snapshot.sources[partition]
            start = _first_audited(log, source, options, begin)
            for first, last in log.ever_logged.gaps(source, start, min(offset, end)):
                for found in _in_gap(config, consumer, partition, first, last):
                    yield partition.topic, Coordinates(*source, found)


def _first_audited(log: PlainLog, source: SourcePartition, options: AuditOptions, begin: int) -> int:
    """Return the source offset from which on every record must have been logged.

    If the log was cut, or only a newer part of it is audited, this is where that part begins.
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
        return  # the record was deleted while the audit ran
