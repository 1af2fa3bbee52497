"""Which trims of a log are valid, and what they do to its source ranges: the part of the reference that forgets.

A trim names X, the log offset of a rules record, and a horizon. It says under which revision of the rules it was
computed and up to which log offset R its author had read the log, and lists what is forgotten of each source partition.

* It has no effect if the rules in force at its log position have another revision.
* It is void if it would drop source ranges that were logged at or after R, because its author could not know whether
  their articles are owed: ranges with a log time up to the horizon, and ranges in what it lists as forgotten.
* It is void if X is no rules record that took force or restates the rules, if a copy between X and the trim repeats
  what only an earlier record says to be logged, or if X lies before a void trim.
* It is void if the log cut at X would not say all that is forgotten: neither it nor a trim since X lists all.
* The last two do not apply where X is trimmed already: a log that was cut there has lost the records that they are
  about.
"""

from __future__ import annotations

from collections.abc import Iterable

from stream_dedup.audit.coverage import LoggedRanges
from stream_dedup.core.entry import Trim
from stream_dedup.core.model import LogOffset
from stream_dedup.core.rules import Rules


class PlainTrims:
    """What is trimmed of a log."""

    def __init__(self, logged: LoggedRanges) -> None:
        """Follow ``logged``, the source ranges that are covered now; trims drop and forget some."""
        self.first_offset = LogOffset(0)
        """First offset of the log."""
        self.low_watermark = LogOffset(0)
        """Entries at log offsets below this are trimmed."""
        self.void_trims_before = LogOffset(0)
        """A trim that names an X below this is void, unless X is trimmed already."""
        self.complete_trim = LogOffset(-1)
        """Log offset of the newest valid trim that listed all that was forgotten there."""
        self._logged = logged
        self._rules_records: set[LogOffset] = set()
        self._copies: list[tuple[LogOffset, LogOffset]] = []

    def add_rules(self, offset: LogOffset) -> None:
        """Add a rules record that took force or restates the rules."""
        self._rules_records.add(offset)

    def add_copies(self, offset: LogOffset, known_since: Iterable[LogOffset]) -> None:
        """Add a batch with copies, and the log offsets of the records that say so."""
        self._copies += [(offset, first) for first in known_since]

    def apply(self, offset: LogOffset, trim: Trim, rules: Rules | None) -> bool:
        """Drop and forget what a trim at a log offset drops and forgets; return whether it is valid."""
        if rules is None or trim.basis.revision != rules.revision:
            return False
        complete = self._lists_all(trim)
        if self._drops_unread(trim) or not self._may_name(trim.before, complete=complete):
            self.void_trims_before = offset
            return False
        if complete:
            self.complete_trim = offset
        self.low_watermark = max(self.low_watermark, trim.before)
        self._logged.drop_ranges(self.low_watermark, trim.horizon)
        for source, before in trim.basis.forgotten_before.items():
            self._logged.forget(source, before)
        return True

    def _may_name(self, before: LogOffset, *, complete: bool) -> bool:
        if before < max(self.low_watermark, self.first_offset):
            return True
        if before not in self._rules_records or before < self.void_trims_before:
            return False
        if not complete and self.complete_trim < before:
            return False
        return not any(first < before <= copy for copy, first in self._copies)

    def _lists_all(self, trim: Trim) -> bool:
        listed = trim.basis.forgotten_before
        return all(before <= listed.get(source, 0) for source, before in self._logged.forgotten.items())

    def _drops_unread(self, trim: Trim) -> bool:
        listed = trim.basis.forgotten_before
        unread = self._logged.logged_since(trim.basis.read_to)
        return any(kept.time <= trim.horizon or kept.first < listed.get(source, 0) for source, kept in unread)
