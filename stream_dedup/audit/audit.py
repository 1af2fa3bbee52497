"""The audit: compares the records of the output topics with the log.

Owns the comparison and the names of its results. Pure: the caller hands in the log and the output records.
The verdicts come from ``reference``, which shares no code with the index.

    missing       logged and committed, but in no output topic; or committed and never logged
    twice         more than one output of one article (with ``allow_repeats``: unequal ones)
    wrong         an output that contradicts the log, or whose article is not in the log
    self-matched  an output whose match is the article itself

Counted, but no faults:

    updates       unique, and near an earlier version of the same article id, which its headers name
    pending       logged, but its offset is not committed: the output is still to come
    repeats       equal outputs of one article, with ``allow_repeats``
    trimmed       the log was cut: the verdict cannot be recomputed, or the log has lost the output's entry
    not kept      no output, but the settings of the output topics have deleted records as old as the article
    source gone   no output, and the source topic was deleted before the output was written

Where the rules at an article's log position say ``observe``, its output belongs in the topic of unique articles,
whatever the verdict in its headers.

With a sample, the audit recomputes the verdicts of the sample only; it checks everything else for every article.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from stream_dedup.audit.reference import PlainLog, SourcePartition
from stream_dedup.core.arrays import I64
from stream_dedup.core.headers import PREFIX, Stamp, StampedMatch, parse_headers, source_text
from stream_dedup.core.model import Coordinates, Judgement, Match, Verdict
from stream_dedup.errors import CorruptError

FAULTS = ("missing", "twice", "wrong", "self-matched")
COUNTS = ("updates", "pending", "repeats", "trimmed", "not kept", "source gone")
EXAMPLES = 10
"""Faults of each kind that the report describes; it counts all of them."""


class OutputRecord(NamedTuple):
    """A record of an output topic, as read."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Scope:
    """Which articles are audited, and what Kafka said about their topics.

    ``topics`` names the output topic of each verdict. ``committed`` has the committed offset of each source partition
    for which it is known; ``current`` holds the ids of the topics that exist now. ``since_ms`` excludes articles of an
    earlier log time, ``since_offset`` those of earlier log records. ``kept_since_ms`` is the time before which the
    output topics have deleted records.
    """

    topics: Mapping[Verdict, str]
    committed: Mapping[SourcePartition, int]
    current: frozenset[bytes]
    since_ms: int | None = None
    since_offset: int | None = None
    kept_since_ms: int | None = None
    allow_repeats: bool = False


@dataclass(slots=True)
class AuditReport:
    """The result of an audit; ``examples`` describes the first few faults of each kind."""

    articles: int = 0
    recomputed: int = 0
    outputs: int = 0
    found: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    @property
    def faults(self) -> int:
        """Number of faults of all kinds."""
        return sum(self.found[kind] for kind in FAULTS)

    def add(self, kind: str, text: str = "", count: int = 1) -> None:
        """Count a finding, and keep its description while there is room."""
        self.found[kind] += count
        examples = self.examples.setdefault(kind, [])
        if text and len(examples) < EXAMPLES:
            examples.append(text)


def audited(log: PlainLog, scope: Scope) -> NDArray[np.bool_]:
    """Return which articles of the log are audited."""
    chosen = np.ones(len(log.entries), bool)
    if scope.since_ms is not None:
        chosen &= log.entries.times >= scope.since_ms
    if scope.since_offset is not None:
        chosen &= log.entries.log_offsets >= scope.since_offset
    return chosen


def to_recompute(log: PlainLog, chosen: NDArray[np.bool_], sample: int | None, seed: int) -> I64:
    """Return the articles whose verdict is recomputed: all for which that is possible, or a sample of them."""
    indices = np.flatnonzero(chosen & log.recomputable)
    if sample is None or sample >= len(indices):
        return indices
    drawn = random.Random(seed).sample(range(len(indices)), sample)  # noqa: S311 - a sample, no secret
    return np.sort(indices[drawn])


class Audit:
    """Reads the recomputed verdicts, then every output record, then makes the report."""

    def __init__(self, log: PlainLog, scope: Scope) -> None:
        """Audit this log."""
        self._log = log
        self._scope = scope
        self._chosen = audited(log, scope)
        self._expected: dict[int, Judgement] = {}
        self._answers = np.zeros(len(log.entries), bool)
        self._digests = np.zeros(len(log.entries), np.uint64)
        self._last_output: dict[SourcePartition, int] = {}
        self._report = AuditReport(articles=int(self._chosen.sum()))
        self._report.found["trimmed"] = int((self._chosen & ~log.recomputable).sum())

    def expect(self, index: int, judgement: Judgement) -> None:
        """Record the recomputed verdict of an article."""
        self._expected[index] = judgement
        self._report.recomputed += 1

    def add(self, output: OutputRecord) -> None:
        """Compare one output record with the log."""
        self._report.outputs += 1
        try:
            stamp = parse_headers(output.headers)
        except CorruptError as error:
            self._report.add("wrong", f"{_where(output)}: {error}")
            return
        if stamp.match is not None and stamp.match.coordinates == stamp.coordinates:
            self._report.add("self-matched", f"{_where(output)}: {_article(stamp)} is its own match")
        source = (stamp.coordinates.topic_id, stamp.coordinates.partition)
        self._last_output[source] = max(self._last_output.get(source, -1), stamp.coordinates.offset)
        indices = self._log.find(stamp.coordinates)
        if not indices:
            self._unknown(output, stamp)
            return
        index = self._answered(indices, output, stamp)
        if self._chosen[index]:
            self._compare(index, output, stamp)

    def never_logged(self, lost: Iterable[tuple[str, Coordinates]]) -> None:
        """Report records of source topics (name, coordinates) below the committed offset that were never logged."""
        for topic, coordinates in lost:
            self._report.add("missing", f"{source_text(topic, coordinates)}: committed, but never logged")

    def report(self) -> AuditReport:
        """Return the report, after the last output."""
        for index in np.flatnonzero(self._chosen & ~self._answers).tolist():
            self._unanswered(index)
        return self._report

    def _unknown(self, output: OutputRecord, stamp: Stamp) -> None:
        if self._log.first_offset:
            self._report.add("trimmed")
        else:
            self._report.add("wrong", f"{_where(output)}: {_article(stamp)} is not in the log")

    def _answered(self, indices: list[int], output: OutputRecord, stamp: Stamp) -> int:
        """Return the article at these coordinates that the output belongs to: one that fits, unanswered ones first."""
        if len(indices) == 1:
            return indices[0]
        order = sorted(indices, key=lambda index: bool(self._answers[index]))
        return next((index for index in order if not self._differences(index, output, stamp)), order[0])

    def _compare(self, index: int, output: OutputRecord, stamp: Stamp) -> None:
        differences = self._differences(index, output, stamp)
        if differences:
            self._report.add("wrong", f"{_where(output)}: {_article(stamp)}: {'; '.join(differences)}")
        digest = _digest(output)
        if not self._answers[index]:
            self._answers[index] = True
            if stamp.update and not differences:
                self._report.add("updates")
            self._digests[index] = digest
        elif self._scope.allow_repeats and digest == self._digests[index]:
            self._report.add("repeats")
        else:
            self._report.add("twice", f"{_where(output)}: {_article(stamp)} has another output")

    def _unanswered(self, index: int) -> None:
        coordinates = self._log.coordinates(index)
        source = (coordinates.topic_id, coordinates.partition)
        committed = self._scope.committed.get(source)
        time = int(self._log.entries.times[index])
        if committed is None:
            committed = self._last_output.get(source, -1) + 1
        if coordinates.offset >= committed:
            self._report.add("pending" if coordinates.topic_id in self._scope.current else "source gone")
        elif self._scope.kept_since_ms is not None and time < self._scope.kept_since_ms:
            self._report.add("not kept")
        else:
            name, at = source_text(self._log.topic(index), coordinates), self._log.entries.log_offsets[index]
            self._report.add("missing", f"{name}: in the log at offset {at}, but in no output topic")

    def _differences(self, index: int, output: OutputRecord, stamp: Stamp) -> list[str]:
        """Return the differences of an output from the log, each as text."""
        log, logged = self._log, int(self._log.entries.checksums[index])
        rows: list[tuple[str, object, object]] = [
            ("topic", output.topic, self._topic(index, stamp.verdict)),
            ("scheme", stamp.scheme, log.scheme_id()),
            ("source topic", stamp.topic, log.topic(index)),
            ("checksum of the value", _checksum(output, stamp, logged), logged),
        ]
        expected = self._expected.get(index)
        if expected is not None:
            rows += _judged_rows(stamp, expected, int(log.entries.fingerprints[index]))
        return [f"{name} {said!s}, should be {should!s}" for name, said, should in rows if said != should]

    def _topic(self, index: int, verdict: Verdict) -> str:
        """Return the topic that the output of an article with this verdict belongs in."""
        return self._scope.topics[Verdict.UNIQUE if self._log.observed(index) else verdict]


def _judged_rows(stamp: Stamp, expected: Judgement, fingerprint: int) -> list[tuple[str, object, object]]:
    rejected = expected.verdict is Verdict.REJECTED
    return [
        ("verdict", stamp.verdict, expected.verdict),
        ("fingerprint", _hex(stamp.fingerprint), None if rejected else _hex(fingerprint)),
        ("match", stamp.match, None if expected.match is None else _stamped(expected.match)),
        ("reason", stamp.reason, expected.reason),
    ]


def _stamped(match: Match) -> StampedMatch:
    return StampedMatch(
        id=match.id,
        distance=match.distance,
        similarity=f"{match.similarity:.4f}",
        topic=match.topic,
        coordinates=match.coordinates,
        time=match.time,
    )


def _hex(fingerprint: int | None) -> str | None:
    return None if fingerprint is None else f"{fingerprint:016x}"


def _checksum(output: OutputRecord, stamp: Stamp, logged: int) -> int:
    """Return the checksum of the source record's value: of its bytes, or from the header where they were omitted.

    A tombstone without a key is written with an empty value, because the client sends no record without both.
    """
    if stamp.omitted is not None and not output.value:
        return stamp.omitted.xxh3
    tombstone = output.value is None or (not output.value and output.key is None and logged == 0)
    return 0 if tombstone else xxhash.xxh3_64_intdigest(output.value or b"")


def _digest(output: OutputRecord) -> int:
    """Return a hash of an output's topic, key, value and ``dedup.*`` headers, without its time."""
    ours = sorted((name, value or b"") for name, value in output.headers if name.startswith(PREFIX))
    return xxhash.xxh3_64_intdigest(repr((output.topic, output.key, output.value, ours)).encode())


def _where(output: OutputRecord) -> str:
    return f"{output.topic}-{output.partition}-{output.offset}"


def _article(stamp: Stamp) -> str:
    return source_text(stamp.topic, stamp.coordinates)
