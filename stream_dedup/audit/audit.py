"""The audit: compares the records of the output topics with the log.

Owns the comparison. Pure: the caller hands in the log, then the recomputed verdicts, then the output records, those of
one partition in offset order. ``report`` declares the kinds of findings, ``retention`` decides which outputs may have
been deleted, ``log_faults`` which trims dropped too much. The verdicts come from ``reference``, which shares no code
with the index.

An article that was seeded is owed no output. Where its source topic is consumed later, it may have one, which is
compared as any other. A delete has no output.

Where the rules at an article's log position say ``observe``, its output belongs in the topic of unique articles,
whatever the verdict in its headers.

With a sample, the audit recomputes the verdicts of the sample only; it checks everything else for every article: the
fingerprint, whether the article is rejected, the reason, and that the match is an earlier entry of the log.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
import xxhash

from stream_dedup.audit.log_faults import Owed, early_trims
from stream_dedup.audit.reference import PlainLog, SourcePartition
from stream_dedup.audit.report import AuditReport
from stream_dedup.audit.retention import Choice, Retention, most_deleted
from stream_dedup.audit.sources import AuditedTopics, Compared, CopiedParts
from stream_dedup.core.arrays import I64, U64, Bools
from stream_dedup.core.headers import PREFIX, Headers, Stamp, StampedMatch, parse_headers, source_text, without_ours
from stream_dedup.core.model import (
    Coordinates,
    Judgement,
    LogOffset,
    Match,
    SourceOffset,
    Verdict,
)
from stream_dedup.core.reasons import code_of
from stream_dedup.errors import CorruptError
from stream_dedup.ports import Partition, SourceRecord

Rows = list[tuple[str, object, object]]
"""What is compared: its name, what the output says, and what it should say."""


def _digest_of(output: SourceRecord) -> int:
    """Return a hash of an output's topic, key, value and headers, without its time."""
    own = _headers(output)
    ours = sorted(pair for pair in own if pair[0].startswith(PREFIX))
    return xxhash.xxh3_64_intdigest(repr((output.topic, output.key, output.value, without_ours(own), ours)).encode())


def _judged_rows(stamp: Stamp, expected: Judgement, fingerprint: int) -> Rows:
    rejected = expected.verdict is Verdict.REJECTED
    return [
        ("verdict", stamp.verdict, expected.verdict),
        ("fingerprint", _hex(stamp.fingerprint), None if rejected else _hex(fingerprint)),
        ("match", stamp.match, None if expected.match is None else _stamped(expected.match)),
        ("reason", stamp.reason, expected.reason),
        ("code of the reason", stamp.reason_code, None if expected.reason is None else code_of(expected.reason)),
        ("copies", stamp.copies, expected.copies or None),
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


def _checksum(output: SourceRecord, stamp: Stamp, logged: int) -> int:
    """Return the checksum of the source record's value: of its bytes, or from the header where they were omitted.

    A tombstone without a key is written with an empty value, because the client sends no record without both.
    """
    if stamp.omitted is not None and not output.value:
        return stamp.omitted.xxh3
    tombstone = output.value is None or (not output.value and output.key is None and logged == 0)
    return 0 if tombstone else xxhash.xxh3_64_intdigest(output.value or b"")


def _headers(record: SourceRecord) -> Headers:
    return [(name, value or b"") for name, value in record.headers]


NO_OUTPUT = -1
"""Time of an output that does not exist."""


def audited(log: PlainLog, since_ms: int | None, since_offset: LogOffset | None) -> Bools:
    """Return which articles of the log are audited: those of at least this log time and this log offset."""
    chosen = np.ones(len(log.entries), bool)
    if since_ms is not None:
        chosen &= log.entries.times >= since_ms
    if since_offset is not None:
        chosen &= log.entries.log_offsets >= since_offset
    return chosen


def to_recompute(log: PlainLog, chosen: Bools, sample: int | None, seed: int) -> I64:
    """Return the articles whose verdict is recomputed: all for which that is possible, or a sample of them."""
    indices = np.flatnonzero(chosen & log.recomputable)
    if sample is None or sample >= len(indices):
        return indices
    drawn = random.Random(seed).sample(range(len(indices)), sample)  # noqa: S311 - a sample, no secret
    return np.sort(indices[drawn])


class Audit:
    """Reads the recomputed verdicts, then every output record, then makes the report."""

    def __init__(
        self, log: PlainLog, topics: AuditedTopics, chosen: Bools, *, allow_repeats: bool = False, texts: bool = False
    ) -> None:
        """Audit the articles ``chosen`` of this log. With ``texts``, they are compared with their source records."""
        self.copied = CopiedParts(len(log.entries) if texts else 0)
        """What the outputs copy from their source records."""
        self._log = log
        self._topics = topics
        self._chosen = chosen
        self._allow_repeats = allow_repeats
        self._texts = texts
        self._expected: dict[int, Judgement] = {}
        self._written: I64 = np.full(len(log.entries), NO_OUTPUT, np.int64)
        self._digests: U64 = np.zeros(len(log.entries), np.uint64)
        begins = {partition: begin for partition, (begin, _) in topics.output_bounds.items()}
        self._retention = Retention(begins, topics.allowance_ms, ordered=not allow_repeats)
        self.earlier: dict[SourcePartition, SourceOffset] = {}
        """Of each source partition the offset after the last article that belongs to an earlier log."""
        self._last_output: dict[SourcePartition, SourceOffset] = {}
        self._last_in: dict[tuple[SourcePartition, Partition], SourceOffset] = {}
        self._report = AuditReport(articles=int(self._chosen.sum()))
        self._report.found["trimmed"] = int((self._chosen & ~log.recomputable).sum())

    def log_faults(self, found: Iterable[tuple[str, str]]) -> None:
        """Report faults of log records: kind and description of each."""
        for kind, text in found:
            self._report.add(kind, text)

    def expect(self, index: int, judgement: Judgement) -> None:
        """Record the recomputed verdict of an article."""
        self._expected[index] = judgement
        self._report.recomputed += 1

    def add(self, output: SourceRecord) -> None:
        """Compare one output record with the log."""
        self._report.outputs += 1
        try:
            stamp = parse_headers(output.headers)
        except CorruptError as error:
            self._report.add("wrong", f"{_where(output)}: {error}")
            return
        if stamp.match is not None and stamp.match.coordinates == stamp.coordinates:
            self._report.add("self-matched", f"{_where(output)}: {_article(stamp)} is its own match")
        indices = self._log.find(stamp.coordinates)
        if not indices and not self._has_lost(output, stamp):
            self._report.add("wrong", f"{_where(output)}: {_article(stamp)} is not in the log")
            return
        self._place(output, stamp, indices)
        if not indices:
            return
        index = self._answered(indices, output, stamp)
        if self._chosen[index]:
            self._compare(index, output, stamp)

    def never_logged(self, lost: Iterable[tuple[str, Coordinates]]) -> None:
        """Report records of source topics (name, coordinates) that should have been logged and were not."""
        for topic, coordinates in lost:
            self._report.add("missing", f"{source_text(topic, coordinates)}: in the source, but not in the log")

    def compared(self, wanted: int, found: Iterable[Compared]) -> None:
        """Report how articles differ from their source records; ``wanted`` is the number of those asked for."""
        for one in found:
            self._report.texts += one.entry is not None
            if one.entry:
                self._report.add("wrong entry", f"{self._log.name(one.article)}: {'; '.join(one.entry)}")
            if one.output:
                parts = ", ".join(one.output)
                self._report.add("wrong", f"the output of {self._log.name(one.article)}: {parts} not as in the source")
        self._report.found["not compared"] = wanted - self._report.texts

    def report(self) -> AuditReport:
        """Return the report, after the last output."""
        behind = self._behind()
        for index in np.flatnonzero(self._chosen & behind).tolist():
            self._report.add("pending" if self._is_current(index) else "source gone")
        without = self._chosen & ~self._has_output
        self._without_output(np.flatnonzero(without & self._log.owed & ~behind))
        self._report.found["seeded"] = int((without & self._log.seeded).sum())
        self._report.found["deletes"] = int((without & self._log.deletes & ~self._log.seeded).sum())
        self._logged_again()
        self._trimmed_early(behind)
        return self._report

    @property
    def _has_output(self) -> Bools:
        has_output: Bools = self._written != NO_OUTPUT
        return has_output

    # outputs

    def _place(self, output: SourceRecord, stamp: Stamp, indices: Sequence[int]) -> None:
        """Take where an output is, and compare that with the outputs before it in its partition."""
        partition = Partition(output.topic, output.partition)
        source, offset = (stamp.coordinates.topic_id, stamp.coordinates.partition), stamp.coordinates.offset
        self._retention.add(partition, output.timestamp, source, offset)
        self._last_output[source] = max(self._last_output.get(source, offset), offset)
        last = self._last_in.get((source, partition), SourceOffset(-1))
        self._last_in[source, partition] = max(last, offset)
        # A second output of an article, or one of an article that was logged again, is another finding.
        first = len(indices) <= 1 and not any(self._has_output[index] for index in indices)
        if offset < last and first and not self._allow_repeats:
            self._report.add("out of order", f"{_where(output)}: {_article(stamp)} comes after offset {last}")

    def _has_lost(self, output: SourceRecord, stamp: Stamp) -> bool:
        """Return whether an article that is not in the log may have been, or was in an earlier log; count it then."""
        source = (stamp.coordinates.topic_id, stamp.coordinates.partition)
        # Where trims say what they forgot, the rest of a log that was cut is known to be whole.
        forgotten = self._log.forgotten_before(source)
        if self._log.first_offset and (forgotten is None or stamp.coordinates.offset < forgotten):
            self._report.add("trimmed")
        elif self._is_of_earlier_log(output, stamp.coordinates):
            after = SourceOffset(stamp.coordinates.offset + 1)
            self.earlier[source] = max(self.earlier.get(source, after), after)
            self._report.add("earlier log")
        else:
            return False
        return True

    def _is_of_earlier_log(self, output: SourceRecord, at: Coordinates) -> bool:
        """Return whether the output of an article that is not in the log was written before the log began.

        The group had another log then, which was lost; this one goes on behind what that one had judged. Where this log
        was cut, its own articles come first in a partition of which it has forgotten some.
        """
        source = (at.topic_id, at.partition)
        offsets, _ = self._log.articles_of(source)
        is_before = not len(offsets) or at.offset < offsets[0]
        is_cut = self._log.first_offset and self._log.logged.forgotten.get(source)
        return not is_cut and is_before and 0 <= output.timestamp < self._log.first_time

    def _answered(self, indices: list[int], output: SourceRecord, stamp: Stamp) -> int:
        """Return the article at these coordinates that the output belongs to: one that fits, unanswered ones first."""
        if len(indices) == 1:
            return indices[0]
        order = sorted(indices, key=lambda index: bool(self._written[index] != NO_OUTPUT))
        return next((index for index in order if not self._differences(index, output, stamp)), order[0])

    def _compare(self, index: int, output: SourceRecord, stamp: Stamp) -> None:
        found = self._differences(index, output, stamp)
        if found:
            self._report.add("wrong", f"{_where(output)}: {_article(stamp)}: {'; '.join(found)}")
        digest = _digest_of(output)
        if self._written[index] == NO_OUTPUT:
            self._written[index] = max(output.timestamp, 0)
            if stamp.update and not found:
                self._report.add("updates")
            self._digests[index] = digest
            if self._texts:
                self.copied.add(index, output, stamp)
        elif self._allow_repeats and digest == self._digests[index]:
            self._report.add("repeats")
        else:
            self._report.add("twice", f"{_where(output)}: {_article(stamp)} has another output")

    def _differences(self, index: int, output: SourceRecord, stamp: Stamp) -> list[str]:
        """Return the differences of an output from the log, each as text."""
        log, expected, record = self._log, self._expected_of(index), self._log.record(index)
        checksum = int(log.entries.checksums[index])
        rows: Rows = [
            ("topic", output.topic, self._topics.outputs[Verdict.UNIQUE if record.rules.observe else stamp.verdict]),
            ("scheme", stamp.scheme, log.scheme_id()),
            ("source topic", stamp.topic, record.batch.topic),
            ("checksum of the value", _checksum(output, stamp, checksum), checksum),
        ]
        if stamp.omitted is not None:
            rows += [("key", output.key, None), ("headers of its own", without_ours(_headers(output)), [])]
        if log.deletes[index]:
            rows.append(("status", "one with an output", "a delete, which has none"))
        elif expected is not None:
            rows += _judged_rows(stamp, expected, int(log.entries.fingerprints[index]))
        elif stamp.verdict is Verdict.REJECTED:
            rows.append(("verdict", stamp.verdict, "unique or duplicate"))
        else:
            rows.append(("fingerprint", _hex(stamp.fingerprint), _hex(int(log.entries.fingerprints[index]))))
            if stamp.match is not None and not log.may_match(index, stamp.match):
                rows.append(("match", stamp.match, "an earlier entry of the log"))
        return [f"{name} {said!s}, should be {should!s}" for name, said, should in rows if said != should]

    def _expected_of(self, index: int) -> Judgement | None:
        """Return the verdict of an article; None of one that is compared with others and was not recomputed."""
        return self._expected.get(index) or self._log.judged_alone(index)

    # articles without an output

    def _behind(self) -> Bools:
        """Return which articles are owed an output, have none, and are not committed."""
        without = np.flatnonzero(~self._has_output & self._log.owed)
        offsets = self._log.entries.offsets[without]
        behind = np.zeros(len(self._log.entries), bool)
        behind[without] = [offset >= self._end(index) for index, offset in zip(without.tolist(), offsets, strict=True)]
        return behind

    def _end(self, index: int) -> SourceOffset:
        """Return the source offset before which every article has left: the committed one, if it is known."""
        source = self._log.source(index)
        return self._topics.committed.get(source, SourceOffset(self._last_output.get(source, -1) + 1))

    def _is_pending(self, index: int) -> bool:
        """Return whether the output of an article that has none is still to come for certain.

        Where the group has lost the committed offset, the output may have been written, and deleted by retention.
        """
        return self._is_current(index) and (
            self._log.source(index) in self._topics.committed or not self._lost_from(index)
        )

    def _is_current(self, index: int) -> bool:
        return self._log.source(index)[0] in self._topics.current

    def _without_output(self, indices: I64) -> None:
        """Report articles that left and have no output: those that retention can have deleted, and the missing ones."""
        choices = {index: self._lost_from(index) for index in indices.tolist()}
        left = most_deleted(Counter(choice for choice in choices.values() if choice), self._retention.room)
        for index, choice in choices.items():
            if left.get(choice):
                left[choice] -= 1
                self._report.add("not kept")
                continue
            at = self._log.entries.log_offsets[index]
            self._report.add("missing", f"{self._log.name(index)}: in the log at offset {at}, but in no output topic")

    def _lost_from(self, index: int) -> Choice:
        """Return the partitions from which retention can have deleted the output of an article."""
        time, offset = int(self._logged_by[index]), self._log.entries.offset(index)
        return self._retention.may_have_deleted(self._topics_of(index), time, self._log.source(index), offset)

    @cached_property
    def _logged_by(self) -> I64:
        """The time by which each article was logged: its log time, or an earlier one of an article logged after it.

        The log's times go backwards where the broker's clock was ahead, and it was ahead if they are in the future. An
        output of the article, or of one logged after it, shows then when it had been logged.
        """
        times, latest = self._log.entries.times, np.iinfo(np.int64).max
        shown_by_outputs = np.where(
            times > self._topics.read_ms, _least_from(np.where(self._has_output, self._written, latest)), latest
        )
        return _least_from(np.minimum(times, shown_by_outputs))

    def _topics_of(self, index: int) -> frozenset[str]:
        """Return the topics that the output of an article may belong in; one, if its verdict is known."""
        names, expected = self._topics.outputs, self._expected_of(index)
        if self._log.record(index).rules.observe:
            return frozenset([names[Verdict.UNIQUE]])
        if expected is not None:
            return frozenset([names[expected.verdict]])
        return frozenset([names[Verdict.UNIQUE], names[Verdict.DUPLICATE]])

    # the log itself

    def _logged_again(self) -> None:
        at = self._log.entries.log_offsets
        for first, index in self._log.again:
            if self._chosen[index]:
                text = f"{self._log.name(index)}: in the log at offset {at[first]}, and again at {at[index]}"
                self._report.add("logged again", text)

    def _trimmed_early(self, behind: Bools) -> None:
        pending = behind.copy()
        pending[behind] = [self._is_pending(index) for index in np.flatnonzero(behind).tolist()]
        owed = Owed(self._written - self._topics.allowance_ms, pending, self._topics.settled)
        for valid, shown in early_trims(self._log, owed):
            self._report.add("trimmed early", f"the trim at log offset {valid.offset} {shown}")


def _least_from(times: I64) -> I64:
    """Return for each article the least time of itself and those logged after it."""
    least: I64 = np.minimum.accumulate(times[::-1])[::-1]
    return least


def _where(output: SourceRecord) -> str:
    return f"{output.topic}-{output.partition}-{output.offset}"


def _article(stamp: Stamp) -> str:
    return source_text(stamp.topic, stamp.coordinates)
