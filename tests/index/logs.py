"""Logs for tests, drawn from a seed: clustered fingerprints, copies, changed rules."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from stream_dedup.core.columns import Columns
from stream_dedup.core.entry import LogRecord, Payload, Trim, encode, make_batch
from stream_dedup.core.model import Status, group_of
from stream_dedup.core.rules import Rules, Scheme

SCHEME = Scheme("simhash", 1, '{"words":true}')
OTHER_SCHEME = Scheme("simhash", 2, '{"words":true}')


def scheme(tables: int) -> Scheme:
    """A scheme of so many tables."""
    return Scheme("article", 1, f'{{"tables":{tables}}}')


TOPICS = [bytes([7]) * 16, bytes([9]) * 16]
START_TIME = 1_700_000_000_000
STEP = 1_000


def record(offset: int, time: int | np.ndarray, payload: Payload) -> LogRecord:
    return LogRecord(offset, time, payload, encode(payload))


def rules_record(offset: int, time: int = START_TIME, **changes: Any) -> LogRecord:  # noqa: ANN401 - as Rules takes them
    return record(offset, time, Rules(SCHEME, **changes))


def trim_record(offset: int, time: int, before: int, horizon: int) -> LogRecord:
    return record(offset, time, Trim(before, horizon))


@dataclass(frozen=True)
class Drawn:
    """What an entry says of its article."""

    signature: bytes
    margins: bytes
    status: int = Status.LONG
    group: int = 0
    id: str | None = None

    @classmethod
    def of(cls, fingerprint: int, status: int = Status.LONG) -> Self:
        """A signature that repeats its fingerprint."""
        signed = status not in {Status.REJECTED, Status.FEATURELESS}
        return cls(fingerprint.to_bytes(8, "big") * 4 if signed else bytes(32), bytes(32), status)


def batch_record(
    offset: int,
    time: int | np.ndarray,
    fingerprints: Sequence[int],
    offsets: Sequence[int],
    *,
    topic: int = 0,
    partition: int = 0,
    statuses: Sequence[int] | None = None,
) -> LogRecord:
    """One batch; the rest of each signature and its id follow from fingerprint and coordinates."""
    statuses = statuses or [Status.LONG] * len(offsets)
    drawn = list(map(Drawn.of, fingerprints, statuses))
    return drawn_record(offset, time, drawn, offsets, topic=topic, partition=partition)


def drawn_record(
    offset: int,
    time: int | np.ndarray,
    drawn: Sequence[Drawn],
    offsets: Sequence[int],
    *,
    topic: int = 0,
    partition: int = 0,
) -> LogRecord:
    """One batch of any entries."""
    return record(
        offset,
        time,
        make_batch(
            Columns.of(
                checksums=[at * 31 + topic for at in offsets],
                groups=[one.group for one in drawn],
                statuses=[int(one.status) for one in drawn],
                signatures=np.frombuffer(b"".join(one.signature for one in drawn), np.uint8).reshape(-1, 32),
                margins=np.frombuffer(b"".join(one.margins for one in drawn), np.uint8).reshape(len(drawn), -1),
                ids=[one.id or f"{topic}-{partition}-{at}" for one, at in zip(drawn, offsets, strict=True)],
                reasons=["empty text" if one.status == Status.REJECTED else "" for one in drawn],
            ),
            TOPICS[topic],
            f"topic-{topic}",
            partition,
            list(offsets),
        ),
    )


class Fingerprints:
    """Fingerprints near each other: a few centres, each drawn value some bits away from one of them."""

    def __init__(self, rng: random.Random, centres: int, most_bits: int) -> None:
        self._rng = rng
        self._centres = [rng.getrandbits(64) for _ in range(centres)]
        # Some centres share blocks with others without being near them: long lists of unrelated entries.
        self._centres += [centre & ~0xFFFF_FFFF_FFFF | rng.getrandbits(48) for centre in self._centres[: centres // 2]]
        self._most_bits = most_bits

    def draw(self) -> int:
        value = self._rng.choice(self._centres)
        for bit in self._rng.sample(range(64), self._rng.randint(0, self._most_bits)):
            value ^= 1 << bit
        return value


class Texts:
    """Entries as of texts: copies of a few that differ in bits of small margin; of every kind, scope and some ids."""

    KINDS = (Status.LONG, Status.LONG, Status.LONG, Status.SHORT, Status.EXACT, Status.FEATURELESS, Status.REJECTED)

    def __init__(self, rng: random.Random, centres: int, most_bits: int, tables: int) -> None:
        self._rng = rng
        self._most_bits = most_bits
        self._tables = tables
        self._centres = [self._centre() for _ in range(centres)]

    def draw(self) -> Drawn:
        """A copy of one of the texts."""
        rng = self._rng
        signature, kind, scope, weak = rng.choice(self._centres)
        if kind in {Status.FEATURELESS, Status.REJECTED}:
            return Drawn(bytes(32), bytes(8 * self._tables), kind)
        if rng.random() < 0.2:
            scope = rng.choice([None, "a", "b"])
        margins = [rng.randint(4, 15) for _ in range(256)]
        for bit in rng.sample(weak, rng.randint(0, self._most_bits)):
            signature ^= 1 << 255 - bit
        for bit in weak:
            margins[bit] = rng.randint(0, 3)
        nibbles = [15] * 256 if kind == Status.EXACT else margins
        packed = bytes(nibbles[at] << 4 | nibbles[at + 1] for at in range(0, 16 * self._tables, 2))
        name = rng.choice([None, None, "one", "two"])
        return Drawn(signature.to_bytes(32, "big"), packed, kind, group_of(kind, scope), name)

    def _centre(self) -> tuple[int, Status, str | None, list[int]]:
        rng = self._rng
        kind, scope = rng.choice(self.KINDS), rng.choice([None, None, "a"])
        return rng.getrandbits(256), kind, scope, rng.sample(range(256), self._most_bits + 12)


@dataclass
class Source:
    """What one partition of a source topic holds, and up to which offset it was logged."""

    topic: int
    partition: int
    offsets: list[int] = field(default_factory=list)
    drawn: list[Drawn] = field(default_factory=list)
    logged: int = 0


class LogWriter:
    """Writes a log as workers would: batches of sources, some logged twice with other boundaries."""

    def __init__(
        self, seed: int, *, centres: int = 6, most_bits: int = 8, most_rows: int = 12, tables: int | None = None
    ) -> None:
        """With a number of ``tables`` entries are drawn as of texts, else fingerprints alone."""
        self.rng = random.Random(seed)
        self.time = START_TIME
        self.records: list[LogRecord] = []
        self._next = 0
        self._most_rows = most_rows
        self._scheme = SCHEME if tables is None else scheme(tables)
        self._fingerprints = Fingerprints(self.rng, centres, most_bits)
        self._texts = None if tables is None else Texts(self.rng, centres, most_bits, tables)
        self._sources = [Source(topic, partition) for topic in (0, 1) for partition in (0, 1)]

    def rules(self, **changes: Any) -> int:  # noqa: ANN401 - as Rules takes them
        """Append a rules record; returns its offset."""
        offset = self._take()
        self.records.append(record(offset, self.time, Rules(self._scheme, **changes)))
        return offset

    def trim(self, before: int, horizon: int) -> int:
        offset = self._take()
        self.records.append(trim_record(offset, self.time, before, horizon))
        return offset

    def batch(self, *, copies: bool = True) -> int:
        """Append a batch of some source: mostly new offsets, sometimes some that were logged before."""
        source = self.rng.choice(self._sources)
        first = source.logged
        if copies and source.logged and self.rng.random() < 0.25:
            first = self.rng.randrange(max(0, source.logged - 2 * self._most_rows), source.logged)
        after = first + self.rng.randint(1, self._most_rows)
        self._fill(source, after)
        source.logged = max(source.logged, after)
        return self._append(source, slice(first, after))

    def again(self, topic: int, partition: int, first: int, after: int) -> int:
        """Log these entries of a source (counted from 0) once more."""
        source = next(s for s in self._sources if (s.topic, s.partition) == (topic, partition))
        return self._append(source, slice(first, after))

    def _append(self, source: Source, part: slice) -> int:
        offset = self._take()
        self.records.append(
            drawn_record(
                offset,
                self.time,
                source.drawn[part],
                source.offsets[part],
                topic=source.topic,
                partition=source.partition,
            )
        )
        return offset

    def _fill(self, source: Source, count: int) -> None:
        while len(source.offsets) < count:
            gap = self.rng.choice([1, 1, 1, 2])  # transaction markers
            source.offsets.append((source.offsets[-1] if source.offsets else -1) + gap)
            source.drawn.append(self._draw())

    def _draw(self) -> Drawn:
        if self._texts is not None:
            return self._texts.draw()
        return Drawn.of(self._fingerprints.draw(), self.rng.choices([0, 1, 2], [18, 1, 1])[0])

    def _take(self) -> int:
        self._next += self.rng.choice([1, 1, 2])  # the log has gaps of its own
        self.time += self.rng.randint(0, 2 * STEP)
        return self._next - 1
