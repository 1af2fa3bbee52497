"""Trims: which ones are valid, and which one an index offers.

A trim names a rules record X and a horizon H, and, in version 3, what its author computed it from: the revision of the
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

A void trim is a barrier for X: an index of a log that was cut after the X of the void trim cannot know that it is void.
A trim may name an X that is trimmed already: 2 and 3 then say nothing, because a cut log has lost what they refer to.

All of this depends on the log alone, so every index of the log agrees, from whatever valid X on it was built.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto

from stream_dedup.core.entry import Basis, Trim
from stream_dedup.core.model import SourceOffset
from stream_dedup.index.history import History
from stream_dedup.index.records import StoredRecords
from stream_dedup.index.segments import Coverage, SourceKey, forgotten_list
from stream_dedup.index.state import State


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
        if trim.basis is not None and (rules is None or rules.revision != trim.basis.revision):
            return TrimEffect.NONE
        if self._drops_unread(trim):
            return TrimEffect.VOID
        if trim.before < max(self.state.low_watermark, self.state.start or 0):
            return TrimEffect.VALID
        return TrimEffect.VALID if self._may_name(trim) else TrimEffect.VOID

    def completes(self, trim: Trim) -> bool:
        """Whether a trim lists everything that is forgotten already."""
        listed = self.coverage.listed_by(trim)
        return all(listed.get(where, 0) >= before for where, before in self.coverage.forgotten.items())

    def offered(self, owed_time: int) -> Trim | None:
        """Return the trim that removes most, if no article owed or to come has a log time below ``owed_time`` (ms)."""
        state, rules = self.state, self.history.current
        trim = self.history.best_trim(owed_time, state.low_watermark, state.last_void_trim)
        if trim is None or rules is None or next(self.rows.scan_heads(state.low_watermark, trim.before), None) is None:
            return None
        forgotten = self.coverage.forgotten_after(trim, self.rows.times_at)
        return replace(trim, basis=Basis(rules.revision, state.next_offset, forgotten_list(forgotten)))

    def owed_time(self, committed: Mapping[SourceKey, SourceOffset], latest: int) -> int:
        """Return the least log time, ms, of articles that are owed or to come.

        Those to come have a log time of ``latest`` or more. ``committed`` has the
        committed offset of each source partition that can still be read, 0 of none.
        """
        owed = (self.owed_since(where, offset) for where, offset in committed.items())
        return min([latest, *(time for time in owed if time is not None)])

    def owed_since(self, where: SourceKey, offset: SourceOffset) -> int | None:
        """Return the least log time, ms, of a source partition's covered offsets from ``offset`` on, None of none."""
        segments = self.coverage.overlapping(where, offset, self.coverage.last.get(where, SourceOffset(-1)))
        return min((segment.time_min for segment in segments), default=None)

    def _may_name(self, trim: Trim) -> bool:
        mark = self.history.mark(trim.before)
        if mark is None or mark.void or trim.before < self.state.last_void_trim:
            return False
        return self.state.complete_trim >= trim.before or self.completes(trim)

    def _drops_unread(self, trim: Trim) -> bool:
        if trim.basis is None:
            return False
        read_to = trim.basis.read_to
        below = (
            self.coverage.overlapping(one[:2], SourceOffset(0), SourceOffset(one.before - 1))
            for one in trim.basis.forgotten
        )
        if any(segment.log_offset >= read_to for segments in below for segment in segments):
            return True
        heads = self.rows.scan_heads(read_to)
        late = [offset for offset, head in heads if head.time_range[0] <= trim.horizon]
        times_at = self.rows.times_at
        return any(
            self.coverage.covers_until(self.rows.get(offset).batch, offset, trim.horizon, times_at) for offset in late
        )
