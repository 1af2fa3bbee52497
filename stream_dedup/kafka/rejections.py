"""Rejects records on purpose whose schema the registry does not know, so that their partitions go on.

    1  Find the record, in an input topic. The group has begun its partition, and has committed what is before it: so of
       each partition the log has what a worker would have logged, and everything before that.
    2  Read the log. Where it has the record already, nothing is appended.
    3  Ask the registry: a record whose schema it has is not rejected.
    4  Append a batch with the one entry: rejected, with the checksum of the value and the reason.
    5  Read the log up to it. Of two entries of one record the first one counts: a worker may have logged the article
       meanwhile, if somebody has registered the schema.

The entry is like one that a worker appends. The worker that holds the partition finds the record in the log, sends it
to the topic of rejected records, and commits its offset, in a transaction as always. A call that ends between two steps
has appended the entry or has not; the same call goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stream_dedup.config.effective import input_format_of, with_input_topics
from stream_dedup.core.entry import Batch, LogRecord, make_batch
from stream_dedup.core.fingerprinter import rejected_columns
from stream_dedup.core.model import Coordinates, LogOffset, SourceOffset, Status
from stream_dedup.core.reasons import UNKNOWN_SCHEMA
from stream_dedup.errors import UnavailableError, UserError
from stream_dedup.kafka.admin import KafkaOffsets
from stream_dedup.kafka.clients import connect_log
from stream_dedup.kafka.log import ForgottenOffsets
from stream_dedup.kafka.readers import KafkaTopicReader
from stream_dedup.ports import OffsetGoneError, Partition, PassingError, PortError, SourceRecord, raw_of
from stream_dedup.registry.values import Schemas, asks_registry, schema_ids_of

if TYPE_CHECKING:
    from stream_dedup.config.model import Config
    from stream_dedup.core.decode import InputFormat
    from stream_dedup.core.model import ReportStage
    from stream_dedup.kafka.log import WaitingLog
    from stream_dedup.ports import CommittedOffset, GroupOffsets, TopicReader


class RecordPlace(NamedTuple):
    """Where a record is, as an operator names it."""

    partition: Partition
    offset: SourceOffset

    def __str__(self) -> str:
        return f"{self.partition}-{self.offset}"


class FoundRecord(NamedTuple):
    """A record of an input topic."""

    place: RecordPlace
    record: SourceRecord
    too_early: str | None = None
    """Why it must not be logged yet."""


class Outcome(NamedTuple):
    """What the log has of a record now."""

    place: RecordPlace
    reason: str | None
    """Why it is rejected; None of an article."""
    was_logged: bool
    """Whether the log had it before this call."""


@dataclass(slots=True)
class _LoggedRecords:
    """What the log has of some coordinates, as far as it was read; of several entries the first."""

    wanted: Collection[Coordinates]
    found: dict[Coordinates, str | None] = field(default_factory=dict)
    """The reason, None of an article."""
    forgotten: ForgottenOffsets = field(default_factory=ForgottenOffsets)

    def follow(self, records: Iterable[LogRecord]) -> None:
        """Take note of the next records of the log."""
        for payload in (record.payload for record in records):
            self.forgotten.follow(payload)
            if isinstance(payload, Batch):
                for at in self.wanted:
                    if (at.topic_id, at.partition) == payload.source:
                        self._look_up(at, payload)

    def _look_up(self, at: Coordinates, batch: Batch) -> None:
        row = int(np.searchsorted(batch.offsets, at.offset))
        if row < len(batch) and batch.offsets[row] == at.offset:
            is_rejected = batch.statuses[row] == Status.REJECTED
            self.found.setdefault(at, batch.reason(row) if is_rejected else None)

    def is_logged(self, at: Coordinates) -> bool:
        """Return whether the log has these coordinates, or had them before a trim."""
        return at in self.found or at.offset < self.forgotten.below(at.topic_id, at.partition)


def connected_reject(config: Config, places: Sequence[RecordPlace], progress: ReportStage) -> list[Outcome]:
    """Reject these records; return what the log has of each.

    Raises:
        UserError: a record is not there, is of no input topic, or has a schema; or a right is missing.
        UnavailableError: the broker or the registry did not answer in time; the same call goes on.
    """
    if not asks_registry(config):
        raise UserError(
            f"input.format is {config.input.format}: only a record with an unknown schema is rejected by a command"
        )
    schemas = Schemas(config)
    with closing(KafkaOffsets(config.kafka)) as offsets, closing(KafkaTopicReader(config.kafka)) as reader:
        # 1
        found = found_records(config, places, offsets, reader)
        with closing(connect_log(config)) as log:
            return reject(log, found, schemas, input_format_of(config, deletes=True), progress)


def reject(
    log: WaitingLog,
    found: Mapping[Coordinates, FoundRecord],
    schemas: Schemas,
    fmt: InputFormat,
    progress: ReportStage,
) -> list[Outcome]:
    """Do steps 2 to 5; raises as ``connected_reject``."""
    logged = _LoggedRecords(found.keys())
    # 2
    start, end = log.bounds()
    logged.follow(log.follow(start, end, progress))
    rules = logged.forgotten.rules
    if rules is None:
        raise UserError("the log has no rules: start a worker first, with the group that is meant (--group)")
    before = {at for at in found if logged.is_logged(at)}
    # 3
    reasons = {at: _reason(schemas, found[at], fmt) for at in sorted(found.keys() - before)}
    # 4
    for at, reason in reasons.items():
        place, record, _ = found[at]
        columns = rejected_columns(raw_of(record), fmt, reason, rules.scheme.widths)
        batch = make_batch(columns, at.topic_id, place.partition.topic, at.partition, [at.offset], read_to=end)
        # 5
        appended = log.append_now(batch)
        logged.follow(log.follow(end, LogOffset(appended + 1), progress))
        end = LogOffset(appended + 1)
    return [Outcome(one.place, logged.found.get(at), at in before) for at, one in found.items()]


def found_records(
    config: Config, places: Sequence[RecordPlace], offsets: GroupOffsets, reader: TopicReader
) -> dict[Coordinates, FoundRecord]:
    """Return the records at these places; raises as ``connected_reject``."""
    try:
        topics = with_input_topics(config, lambda: offsets.topic_ids(None)).topics.input
        ids = offsets.topic_ids(topics)
        committed = offsets.committed()
        found = {}
        for place in places:
            at, offset = place
            topic_id = ids.get(at.topic)
            if topic_id is None:
                raise UserError(
                    f"{place}: {at.topic} is no input topic of this group, or does not exist (topics.input)"
                )
            begun = committed.get(at)
            if begun is not None and begun.topic_id not in (None, topic_id):
                begun = None
            record = _record_at(reader, place)
            early = _too_early(reader, place, begun, places)
            found[Coordinates(topic_id, at.number, offset)] = FoundRecord(place, record, early)
    except PassingError as error:
        raise UnavailableError(
            f"the broker at {config.kafka.brokers} did not answer in time: {error}; start the command again"
        ) from error
    except PortError as error:
        raise UserError(f"the record cannot be read: {error}; docs/acls.md lists the rights") from error
    return found


def _record_at(reader: TopicReader, place: RecordPlace) -> SourceRecord:
    at, offset = place
    if at in reader.partitions([at.topic]):
        first, end = reader.bounds([at])[at]
        if first <= offset < end:
            with suppress(OffsetGoneError):
                if (record := next(reader.read({at: (offset, SourceOffset(offset + 1))}), None)) is not None:
                    return record
    raise UserError(f"{place}: the topic has no such record; the worker's log names the one that holds its partition")


def _too_early(
    reader: TopicReader, place: RecordPlace, begun: CommittedOffset | None, places: Collection[RecordPlace]
) -> str | None:
    """Return why a record must not be logged yet.

    Without a committed offset the next worker would conclude from the entry that the group lost its offsets; and
    ``offsets set --to logged`` would pass over what is before it. Records of the same call are logged in their order.
    """
    at, offset = place
    if begun is None:
        return f"the group has not begun {at}"
    begin = max(begun.offset, reader.bounds([at])[at][0])
    before = reader.read({at: (SourceOffset(begin), offset)}) if begin < offset else ()
    first = next((one.offset for one in before if RecordPlace(at, SourceOffset(one.offset)) not in places), None)
    return None if first is None else f"{at}-{first} comes before it and is not committed"


def _reason(schemas: Schemas, found: FoundRecord, fmt: InputFormat) -> str:
    """Return why a record is rejected."""
    place, record, too_early = found
    named = schema_ids_of(record.value, None if fmt.key_field is None else record.key)
    unknown = next((schema_id for schema_id in named if schemas.wait_for(schema_id) is None), None)
    if unknown is None:
        what = f"has schema {named[0]}, which the registry knows" if named else "names no schema"
        raise UserError(f"{place}: the record {what}: a worker judges it, so it is not rejected")
    if too_early is not None:
        raise UserError(
            f"{place}: {too_early}, so it is not rejected: start a worker, whose log names the record to reject"
        )
    return UNKNOWN_SCHEMA.format(id=unknown)
