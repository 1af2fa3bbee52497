"""Logs written by hand: records of a few entries each, and the verdicts that the reference gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from stream_dedup.audit.reference import PlainLog, plain_log
from stream_dedup.core.columns import Columns
from stream_dedup.core.entry import Basis, Batch, LogRecord, Payload, Trim, encode, make_batch
from stream_dedup.core.logged_scheme import Scheme
from stream_dedup.core.model import (
    FINGERPRINT_BITS,
    SIGNATURE_BITS,
    SIGNATURE_BYTES,
    Coordinates,
    Judgement,
    LogOffset,
    SourceOffset,
    Status,
)
from stream_dedup.core.rules import DIRECTED, Rules

_PARAMETERS = '{"block_bits":16,"tables":4,"words":true}'
SCHEME = Scheme("simhash", 1, _PARAMETERS)
DELETING_SCHEME = Scheme("simhash", 1, '{"block_bits":16,"deletes":"by-id/1","tables":4,"words":true}')
"""Of entries that may be deletes."""
OTHER_SCHEME = Scheme("simhash", 2, _PARAMETERS)
TOPICS = [bytes([7]) * 16, bytes([9]) * 16]
"""Topic ids."""
TOPIC, OTHER_TOPIC = TOPICS
START_TIME = 1_700_000_000_000
REJECTED = None
"""A fingerprint of None means a rejected record, 0 a text without features."""


def scheme_of(
    tables: int, sketch_bytes: int = 0, *, form: bool = False, block_bits: int = 16, deletes: bool = False
) -> Scheme:
    """A scheme of so many tables with keys of so many bits, and of sketches of so many bytes, with a form or not."""
    sketch = f'"sketch":["sketch/1",{sketch_bytes}],' if sketch_bytes else ""
    form_key = '"form":"form/1",' if form else ""
    deletes_key = '"deletes":"by-id/1",' if deletes else ""
    return Scheme("article", 1, f'{{"block_bits":{block_bits},{deletes_key}{form_key}{sketch}"tables":{tables}}}')


def rules(revision: int = 1, **settings: Any) -> Rules:  # noqa: ANN401 - fields of Rules
    given: dict[str, Any] = {"scheme": SCHEME, "revision": revision} | settings
    return Rules(**given)


def directed_rules(revision: int = 1, tables: int = 4, **settings: Any) -> Rules:  # noqa: ANN401 - fields of Rules
    """Rules of directed search; by default 8 look-ups, a limit of 40 bits, and 20 for short text."""
    search: dict[str, Any] = {"search": DIRECTED, "distance": None, "probes": 8, "limit": 40, "short_limit": 20}
    return rules(revision, **{"scheme": scheme_of(tables)} | search | settings)


class Entry(NamedTuple):
    """An entry of a log record; bit 0 of the signature is the highest of its 256 bits."""

    signature: int
    margins: str = ""
    """A hexadecimal digit for each bit from bit 0 on; f for the bits after the last digit."""
    scope_hash: int = 0
    status: Status = Status.LONG
    id: str | None = None
    sketch: bytes = b""
    """The first bytes of the sketch; those after them are 0."""


def entry_of(fingerprint: int | None) -> Entry:
    """An entry of this fingerprint, or one without a signature."""
    if not fingerprint:
        return Entry(0, status=Status.REJECTED if fingerprint is None else Status.FEATURELESS)
    return Entry(repeated(fingerprint), "0" * 64)


def delete_of(article_id: str) -> Entry:
    """The entry of a delete."""
    return Entry(0, status=Status.DELETE, id=article_id)


def repeated(fingerprint: int) -> int:
    """The signature that repeats a fingerprint four times, so that its words differ from others as it does."""
    return sum(fingerprint << shift for shift in range(0, SIGNATURE_BITS, FINGERPRINT_BITS))


def entries_batch(
    offsets: Sequence[int],
    entries: Sequence[Entry],
    tables: int = 4,
    sketch_bytes: int = 0,
    *,
    topic_id: bytes = TOPIC,
    partition: int = 0,
    topic: str = "articles",
) -> Batch:
    """A batch of these entries; its checksums are the offsets, its ids by default ``topic-partition-offset``."""
    n = len(offsets)
    margins = b"".join(bytes.fromhex(entry.margins.ljust(16 * tables, "f")) for entry in entries)
    sketches = b"".join(entry.sketch.ljust(sketch_bytes, b"\0") for entry in entries)
    words = b"".join(entry.signature.to_bytes(SIGNATURE_BYTES, "big") for entry in entries)
    usual = [f"{topic}-{partition}-{offset}" for offset in offsets]
    return make_batch(
        Columns.of(
            checksums=offsets,
            statuses=[entry.status for entry in entries],
            scope_hashes=np.array([entry.scope_hash for entry in entries], np.uint64),
            signatures=np.frombuffer(words, np.uint8).reshape(n, -1),
            margins=np.frombuffer(margins, np.uint8).reshape(n, -1),
            sketches=np.frombuffer(sketches, np.uint8).reshape(n, sketch_bytes),
            ids=[known if entry.id is None else entry.id for known, entry in zip(usual, entries, strict=True)],
            reasons=["broken" if entry.status is Status.REJECTED else "" for entry in entries],
        ),
        topic_id,
        topic,
        partition,
        offsets,
    )


def batch(
    offsets: Sequence[int],
    fingerprints: Sequence[int | None],
    *,
    topic_id: bytes = TOPIC,
    partition: int = 0,
    topic: str = "articles",
    sketch_bytes: int = 0,
) -> Batch:
    """A batch of entries with these fingerprints (``REJECTED`` and 0: entries without a signature); equal sketches."""
    entries = [entry_of(fingerprint) for fingerprint in fingerprints]
    return entries_batch(
        offsets, entries, sketch_bytes=sketch_bytes, topic_id=topic_id, partition=partition, topic=topic
    )


@dataclass
class LogOfTest:
    """A log written record by record; by default each record is a second later than the one before."""

    records: list[LogRecord] = field(default_factory=list)
    time: int = 0
    next_offset: LogOffset = LogOffset(0)

    def add(self, payload: Payload, seconds: float = 1) -> LogOffset:
        """Append a record and return its offset."""
        self.time += int(seconds * 1000)
        offset = self.next_offset
        self.records.append(record(offset, self.time, payload))
        self.next_offset = LogOffset(offset + 1)
        return offset

    def articles(self, *fingerprints: int | None, first: int, seconds: float = 1, partition: int = 0) -> LogOffset:
        """Append a batch of adjacent offsets."""
        offsets = range(first, first + len(fingerprints))
        return self.add(batch(offsets, fingerprints, partition=partition), seconds)

    def entry(self, *entries: Entry, first: int, seconds: float = 1, tables: int = 4) -> LogOffset:
        """Append a batch of these entries, at adjacent offsets."""
        offsets = range(first, first + len(entries))
        return self.add(entries_batch(offsets, entries, tables), seconds)

    def trim(self, before: int, horizon: int, revision: int = 1) -> LogOffset:
        return self.add(trim_of(before, horizon, self.next_offset, revision))

    def plain(self) -> PlainLog:
        return plain_log(self.records)


def judged(log: PlainLog) -> list[Judgement]:
    return [judgement for _, judgement in log.judgements()]


def said(log: PlainLog) -> list[str]:
    """Each verdict as its first letter, followed by the offset and the distance of its match, if it has one."""
    texts = []
    for judgement in judged(log):
        match = judgement.match
        found = "" if match is None else f"{match.coordinates.offset}@{match.distance}"
        texts.append(f"{judgement.verdict[0]}{found}")
    return texts


def at(offset: int, partition: int = 0, topic_id: bytes = TOPIC) -> Coordinates:
    return Coordinates(topic_id, partition, SourceOffset(offset))


def record(offset: int, time: int | np.ndarray, payload: Payload) -> LogRecord:
    return LogRecord(LogOffset(offset), time, payload, encode(payload))


def rules_record(offset: int, time: int = START_TIME, **changes: Any) -> LogRecord:  # noqa: ANN401 - fields of Rules
    return record(offset, time, Rules(SCHEME, **changes))


def trim_of(before: int, horizon: int, read_to: int, revision: int = 1) -> Trim:
    """A trim that forgets nothing, of an author that had read the log to here."""
    return Trim(LogOffset(before), horizon, Basis(revision, LogOffset(read_to), ()))


def trim_record(offset: int, time: int, before: int, horizon: int) -> LogRecord:
    return record(offset, time, trim_of(before, horizon, offset))


def batch_record(
    offset: int,
    time: int | np.ndarray,
    fingerprints: Sequence[int],
    offsets: Sequence[int],
    *,
    partition: int = 0,
    statuses: Sequence[int] | None = None,
) -> LogRecord:
    """A record of entries with these fingerprints, and these statuses (by default all long)."""
    kinds = map(Status, statuses or [Status.LONG] * len(offsets))
    without = {Status.REJECTED, Status.FEATURELESS}
    entries = [
        Entry(0 if kind in without else repeated(fingerprint), "0" * 64, status=kind)
        for fingerprint, kind in zip(fingerprints, kinds, strict=True)
    ]
    return record(offset, time, entries_batch(offsets, entries, partition=partition))
