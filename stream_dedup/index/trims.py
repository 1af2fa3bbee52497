"""What of the sources a log covers, its rules over log positions, and trims: which are valid, which an index offers.

A batch covers every offset from its first to its last (a source range). Entries at offsets that an earlier batch covers
are copies and are ignored, and so are entries at offsets that a trim has forgotten; the others are originals.

A trim names a rules record X and a horizon H, and what its author computed it from: the revision of the
rules, the log offset R before which it had read the log, and for each source partition the offset F below which
everything was logged once and is forgotten.

Effect of a valid trim at log offset T. Entries of log records before X are dropped. So are the coordinates of log
records before X, those of a log time up to H (their verdicts could depend on dropped entries), and all below F. What is
below F stays logged: a later batch that has such an offset makes no article of it.

Why no article that is owed (logged, its output not committed) lies below F. The author takes the committed offset c of
each partition, and of all covered offsets from c on, and of all articles to come, the least log time. It offers only an
H before that time. No log record before X has a log time after H. So every covered offset that the trim drops is below
c; F is the offset after the greatest of them, or the F before, and is at most c. Offsets below F that the log never had
are below c too: the source had no record there, or the offset was moved past it by hand. What is logged between R and T
can have made this untrue, so the log itself decides: a trim that would drop a range logged at or after R is void.

A trim is without effect if the rules in force at T have another revision than its own. It is void if

1. it would drop coordinates that were logged at or after R: with a log time up to H, or below F;
2. X is no rules record that took force or restates the rules; or a copy between X and T repeats what was logged before
   X (an index built from the log that was cut at X would take the copy for the article); or X is before a void trim;
3. the log cut at X would not say all that is forgotten: this trim does not, and no trim since X did. (A trim that lists
   all that is forgotten at its log position is complete. Of two concurrent trims the second may not be.)

A rules record that 2 forbids because of a copy is marked void where the copy is applied.

A void trim is a barrier for X: an index of a log that was cut after the X of the void trim cannot know that it is void.
A trim may name an X that is trimmed already: 2 and 3 then say nothing, because a cut log has lost what they refer to.

All of this depends on the log alone, so every index of the log agrees, from whatever valid X on it was built.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.entry import Basis, Batch, Forgotten, Trim
from stream_dedup.core.model import DocNumber, LogOffset, SourceOffset, SourceRange
from stream_dedup.core.rules import Rules
from stream_dedup.index import layout
from stream_dedup.index.layout import (
    Segment,
    SourceKey,
    State,
    forgotten_key,
    forgotten_value,
    read_forgotten,
    read_segment,
    segment_key,
)
from stream_dedup.index.records import StoredRecord, StoredRecords
from stream_dedup.index.store import Store, WriteBatch

_NO_OFFSET = SourceOffset(-1)
_LAST_OFFSET = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Uncovered:
    """The part of a batch that is logged for the first time.

    ``ranges`` are its source ranges, ``mask`` names its originals (None: all). ``repeats`` is the least log offset of a
    record that covers an entry of it, None of none; ``late`` is whether it has offsets that are forgotten.
    """

    ranges: list[SourceRange]
    mask: NDArray[np.bool_] | None
    repeats: LogOffset | None
    late: bool


class Coverage:
    """The source ranges of every partition; none of them begins below what is forgotten of it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.last: dict[SourceKey, SourceOffset] = {}
        self.forgotten: dict[SourceKey, SourceOffset] = {}
        """Offsets of a partition below this were logged once and are forgotten."""
        self.load()

    def load(self) -> None:
        """Read what is forgotten, and the last covered offset of each partition, one look-up each."""
        # Other threads read this dictionary: it is replaced whole.
        pairs = list(self._store.scan(b"L", b"M"))
        with self._store.decoding("what is forgotten of its source partitions"):
            self.forgotten = dict(read_forgotten(*pair) for pair in pairs)
        self.last = {}
        cursor = b"S"
        while (first := next(self._store.scan(cursor, b"T"), None)) is not None:
            where, _ = self._segment(*first)
            end = segment_key(*where, _LAST_OFFSET)
            last = self._store.last(first[0], end) or first
            self.last[where] = self._segment(*last)[1].last
            cursor = end + b"\0"

    @property
    def partitions(self) -> dict[SourceKey, SourceOffset]:
        """Every partition with the last of its offsets that is covered or forgotten."""
        return {where: SourceOffset(before - 1) for where, before in self.forgotten.items()} | self.last

    def end_of(self, where: SourceKey) -> SourceOffset:
        """Return the source offset of a partition from which on none is covered or forgotten."""
        return SourceOffset(max(self.last.get(where, _NO_OFFSET) + 1, self.forgotten.get(where, 0)))

    def overlapping(self, where: SourceKey, first: SourceOffset, last: SourceOffset) -> list[Segment]:
        """Return the ranges that have an offset from ``first`` to ``last``, in order."""
        if first > self.last.get(where, _NO_OFFSET):
            return []
        found = []
        before = self._store.last(segment_key(*where, 0), segment_key(*where, first))
        if before is not None and (segment := self._segment(*before)[1]).last >= first:
            found.append(segment)
        later = self._store.scan(segment_key(*where, first + 1), segment_key(*where, last + 1))
        return found + [self._segment(*pair)[1] for pair in later]

    def uncovered(self, batch: Batch) -> Uncovered:
        """Return the part of a new batch that no earlier batch covers."""
        where, last = batch.source, batch.offset(-1)
        forgotten = self.forgotten.get(where, SourceOffset(0))
        first = max(batch.offset(0), forgotten)
        late = first > batch.offset(0)
        covered = self.overlapping(where, first, last)
        if not covered and not late:
            return Uncovered([(first, last)], None, None, late)
        ranges = []
        repeated: list[LogOffset] = []
        mask: NDArray[np.bool_] = batch.offsets >= forgotten
        at = first
        for segment in covered:
            if segment.first > at:
                ranges.append((at, SourceOffset(segment.first - 1)))
            outside = (batch.offsets < segment.first) | (batch.offsets > segment.last)
            if not outside.all():
                repeated.append(segment.log_offset)
            mask &= outside
            at = SourceOffset(segment.last + 1)
        if at <= last:
            ranges.append((at, last))
        return Uncovered(ranges, mask, min(repeated, default=None), late)

    def write_ranges(self, writes: WriteBatch, row: StoredRecord, ranges: list[SourceRange]) -> None:
        """Add the ranges of a log record to a batch of writes; call ``add_ranges`` once it is written."""
        for first, last in ranges:
            segment = Segment(first, last, row.offset, row.head.time)
            writes.put(segment_key(*row.batch.source, first), segment.encode())

    def add_ranges(self, batch: Batch, ranges: list[SourceRange]) -> None:
        """Count ranges of a batch, one or more, that were written."""
        where = batch.source
        self.last[where] = max(self.last.get(where, _NO_OFFSET), ranges[-1][1])

    def write_trim(self, writes: WriteBatch, trim: Trim) -> None:
        """Add the deletion of what a trim drops, and what it forgets, to a batch of writes.

        Call ``load`` once it is written.
        """
        listed = trim.basis.forgotten_before.items()
        raised = {where: before for where, before in listed if before > self.forgotten.get(where, 0)}
        for where, before in raised.items():
            writes.put(forgotten_key(*where), forgotten_value(before))
        forgotten = self.forgotten | raised
        for where, segment in self.all():
            first = max(segment.first, forgotten.get(where, SourceOffset(0)))
            is_dropped = segment.log_offset < trim.before or segment.time <= trim.horizon or first > segment.last
            if is_dropped or first > segment.first:
                writes.delete(segment_key(*where, segment.first))
            if not is_dropped and first > segment.first:
                writes.put(segment_key(*where, first), segment.encode())

    def forgotten_after(self, before: LogOffset, horizon: int) -> tuple[Forgotten, ...]:
        """Return what would be forgotten if a trim forgot every offset up to the greatest that it drops."""
        forgotten = dict(self.forgotten)
        for where, segment in self.all():
            if segment.log_offset < before or segment.time <= horizon:
                forgotten[where] = max(forgotten.get(where, SourceOffset(0)), SourceOffset(segment.last + 1))
        return tuple(Forgotten(*where, offset) for where, offset in sorted(forgotten.items()))

    def covers(self, row: StoredRecord) -> bool:
        """Whether a log record covers coordinates: a trim may have dropped them."""
        segments = self.overlapping(row.batch.source, row.batch.offset(0), row.batch.offset(-1))
        return any(segment.log_offset == row.offset for segment in segments)

    def all(self) -> Iterator[tuple[SourceKey, Segment]]:
        """Yield every range, by partition and offset."""
        for key, value in self._store.scan(b"S", b"T"):
            yield self._segment(key, value)

    def _segment(self, key: bytes, value: bytes) -> tuple[SourceKey, Segment]:
        with self._store.decoding("a source range"):
            return read_segment(key, value)


@dataclass(slots=True)
class Mark:
    """A rules record that took force or restates.

    ``before`` is the greatest log time before it, None of none. ``articles`` counts the originals before it, those that
    are trimmed included, and ``doc_number`` is that of the first entry after it.
    """

    offset: LogOffset
    rules: Rules
    before: int | None
    articles: int
    doc_number: DocNumber
    void: bool = False

    def write(self, batch: WriteBatch, *, void: bool = False) -> None:
        """Add the mark to a batch of writes, as a void one or not."""
        value = {
            "rules": self.rules.to_json().decode(),
            "before": self.before,
            "articles": self.articles,
            "doc_number": self.doc_number,
            "void": void,
        }
        batch.put(layout.offset_key(b"U", self.offset), json.dumps(value).encode())


class History:
    """The marks of a log, in order."""

    def __init__(self, store: Store) -> None:
        self.marks: list[Mark] = []
        for key, raw in store.scan(b"U", b"V"):
            offset = layout.offset_of(key)
            with store.decoding(f"rules record {offset}"):
                value = json.loads(raw)
                value["rules"] = Rules.from_json(value["rules"].encode())
                self.marks.append(Mark(offset, **value))

    @property
    def current(self) -> Rules | None:
        """The rules in force at the end of what is applied."""
        return self.marks[-1].rules if self.marks else None

    def at(self, log_offset: LogOffset) -> Rules | None:
        """Return the rules in force at a log offset."""
        after = bisect.bisect_right(self.marks, log_offset, key=lambda mark: mark.offset)
        return self.marks[after - 1].rules if after else None

    def best_trim(self, owed_time: int, state: State) -> tuple[LogOffset, int] | None:
        """Return X and horizon of the trim that removes most, or None where none removes anything."""
        # Those of the rules that may judge an article whose log time is at least ``owed_time``.
        windows = [
            mark.rules.window_ms
            for mark, after in zip(self.marks, [*self.marks[1:], None], strict=True)
            if after is None or (after.before is not None and after.before >= owed_time)
        ]
        known = [window for window in windows if window is not None]
        if not known or len(known) < len(windows):
            return None
        for mark in reversed(self.marks):
            if mark.articles <= state.trimmed or mark.offset < state.last_void_trim or mark.before is None or mark.void:
                continue
            if mark.before + max(known) < owed_time:
                return mark.offset, mark.before + max(known)
        return None


class TrimEffect(Enum):
    """What a trim does at its log position."""

    VALID = auto()
    VOID = auto()
    NONE = auto()


@dataclass(frozen=True, slots=True)
class Trims:
    """Judges and offers trims; changes nothing."""

    state: State
    history: History
    coverage: Coverage
    rows: StoredRecords

    def effect_of(self, trim: Trim) -> TrimEffect:
        """Return the effect of a trim at the end of what is applied."""
        rules = self.history.current
        if rules is None or rules.revision != trim.basis.revision:
            return TrimEffect.NONE
        if self._drops_unread(trim):
            return TrimEffect.VOID
        if trim.before < max(self.state.low_watermark, self.state.start or 0):
            return TrimEffect.VALID
        return TrimEffect.VALID if self._may_name(trim) else TrimEffect.VOID

    def completes(self, trim: Trim) -> bool:
        """Whether a trim lists everything that is forgotten already."""
        listed = trim.basis.forgotten_before
        return all(listed.get(where, 0) >= before for where, before in self.coverage.forgotten.items())

    def offered(self, owed_time: int) -> Trim | None:
        """Return the trim that removes most, if no article owed or to come has a log time below ``owed_time`` (ms)."""
        state, rules = self.state, self.history.current
        best = self.history.best_trim(owed_time, state)
        if best is None or rules is None:
            return None
        forgotten = self.coverage.forgotten_after(*best)
        return Trim(*best, Basis(rules.revision, state.next_offset, forgotten))

    def owed_since(self, where: SourceKey, offset: SourceOffset) -> int | None:
        """Return the least log time, ms, of a source partition's covered offsets from ``offset`` on, None of none."""
        segments = self.coverage.overlapping(where, offset, self.coverage.last.get(where, SourceOffset(-1)))
        return min((segment.time for segment in segments), default=None)

    def _may_name(self, trim: Trim) -> bool:
        valid = any(mark.offset == trim.before and not mark.void for mark in self.history.marks)
        if not valid or trim.before < self.state.last_void_trim:
            return False
        return self.state.complete_trim >= trim.before or self.completes(trim)

    def _drops_unread(self, trim: Trim) -> bool:
        read_to = trim.basis.read_to
        below = (
            self.coverage.overlapping(one[:2], SourceOffset(0), SourceOffset(one.before - 1))
            for one in trim.basis.forgotten
        )
        if any(segment.log_offset >= read_to for segments in below for segment in segments):
            return True
        return any(row.head.time <= trim.horizon and self.coverage.covers(row) for row in self.rows.scan(read_to))
