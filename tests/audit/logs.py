"""Logs written by hand: records of a few entries each, and the verdicts of a plain log."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from stream_dedup.audit.reference import PlainLog, plain_log
from stream_dedup.core.columns import Columns
from stream_dedup.core.entry import Batch, LogRecord, Payload, Trim, encode, make_batch
from stream_dedup.core.model import FINGERPRINT_BITS, SIGNATURE_BITS, SIGNATURE_BYTES, Coordinates, Judgement, Status
from stream_dedup.core.rules import DIRECTED, Rules, Scheme

SCHEME = Scheme("test", 1, "{}")
TOPIC = uuid.UUID("11111111-1111-1111-1111-111111111111").bytes
OTHER_TOPIC = uuid.UUID("22222222-2222-2222-2222-222222222222").bytes
REJECTED = None
"""A fingerprint of None stands for a rejected record, 0 for a text without features."""


def scheme_of(tables: int) -> Scheme:
    """A scheme of so many tables."""
    return Scheme("test", 1, f'{{"tables":{tables}}}')


def rules(revision: int = 1, **settings: Any) -> Rules:  # noqa: ANN401 - fields of Rules
    given: dict[str, Any] = {"scheme": SCHEME, "revision": revision} | settings
    return Rules(**given)


def directed_rules(revision: int = 1, tables: int = 4, **settings: Any) -> Rules:  # noqa: ANN401 - fields of Rules
    """Rules of directed search: 8 look-ups, 40 bits, 20 for short text, where nothing else is said."""
    search: dict[str, Any] = {"search": DIRECTED, "distance": None, "probes": 8, "limit": 40, "short_limit": 20}
    return rules(revision, **{"scheme": scheme_of(tables)} | search | settings)


class Entry(NamedTuple):
    """One entry written out; bit 0 of the signature is the highest of its 256."""

    signature: int
    margins: str = ""
    """A hexadecimal digit for each bit from the first on; f for all that follow."""
    group: int = 0
    status: Status = Status.LONG
    id: str | None = None


def entry_of(fingerprint: int | None) -> Entry:
    """An entry of this fingerprint; the other 192 bits repeat it, so they differ as it does."""
    if not fingerprint:
        return Entry(0, status=Status.REJECTED if fingerprint is None else Status.FEATURELESS)
    return Entry(sum(fingerprint << shift for shift in range(0, SIGNATURE_BITS, FINGERPRINT_BITS)), "0" * 64)


def written(
    offsets: Sequence[int],
    entries: Sequence[Entry],
    tables: int = 4,
    *,
    topic_id: bytes = TOPIC,
    partition: int = 0,
    topic: str = "articles",
) -> Batch:
    """A batch of entries written out; ids and checksums are those of ``batch`` where nothing else is said."""
    n = len(offsets)
    margins = b"".join(bytes.fromhex(entry.margins.ljust(16 * tables, "f")) for entry in entries)
    words = b"".join(entry.signature.to_bytes(SIGNATURE_BYTES, "big") for entry in entries)
    usual = [f"{topic}-{partition}-{offset}" for offset in offsets]
    return make_batch(
        Columns.of(
            checksums=offsets,
            statuses=[entry.status for entry in entries],
            groups=np.array([entry.group for entry in entries], np.uint64),
            signatures=np.frombuffer(words, np.uint8).reshape(n, -1),
            margins=np.frombuffer(margins, np.uint8).reshape(n, -1),
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
) -> Batch:
    """A batch whose ids are ``topic-partition-offset`` and whose checksums are the offsets."""
    entries = [entry_of(fingerprint) for fingerprint in fingerprints]
    return written(offsets, entries, topic_id=topic_id, partition=partition, topic=topic)


@dataclass
class LogOfTest:
    """Log records one after the other, each a second after the one before."""

    records: list[LogRecord] = field(default_factory=list)
    time: int = 0
    next_offset: int = 0

    def add(self, payload: Payload, seconds: float = 1) -> int:
        """Append a record; its offset."""
        self.time += int(seconds * 1000)
        self.records.append(LogRecord(self.next_offset, self.time, payload, encode(payload)))
        self.next_offset += 1
        return self.next_offset - 1

    def articles(self, *fingerprints: int | None, first: int, seconds: float = 1, partition: int = 0) -> int:
        """Append a batch of adjacent offsets."""
        offsets = range(first, first + len(fingerprints))
        return self.add(batch(offsets, fingerprints, partition=partition), seconds)

    def entry(self, *entries: Entry, first: int, seconds: float = 1, tables: int = 4) -> int:
        """Append a batch of entries written out, at adjacent offsets."""
        offsets = range(first, first + len(entries))
        return self.add(written(offsets, entries, tables), seconds)

    def trim(self, before: int, horizon: int) -> int:
        return self.add(Trim(before, horizon))

    def plain(self) -> PlainLog:
        return plain_log(self.records)


def judged(log: PlainLog) -> list[Judgement]:
    return [judgement for _, judgement in log.judgements()]


def said(log: PlainLog) -> list[str]:
    """Each verdict as its first letter, with the offset and the distance of its match where there is one."""
    texts = []
    for judgement in judged(log):
        match = judgement.match
        found = "" if match is None else f"{match.coordinates.offset}@{match.distance}"
        texts.append(f"{judgement.verdict[0]}{found}")
    return texts


def at(offset: int, partition: int = 0, topic_id: bytes = TOPIC) -> Coordinates:
    return Coordinates(topic_id, partition, offset)
