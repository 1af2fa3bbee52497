"""The rules of a log over its log positions, and the rules records that a trim may name.

A rules record is void when a trim that names it would be void: a later copy repeats an article from before the record
(an index built from the cut log would take the copy for the article), or a void trim follows the record. This depends
on the log alone, so every index of the log agrees.
"""

from __future__ import annotations

import bisect
import json
from dataclasses import dataclass, replace

from stream_dedup.core.entry import Trim
from stream_dedup.core.model import LogOffset
from stream_dedup.core.rules import Rules
from stream_dedup.errors import CorruptError
from stream_dedup.index import layout
from stream_dedup.index.store import Store, WriteBatch


@dataclass(frozen=True, slots=True)
class Mark:
    """A rules record that took force or restates. ``before`` is the greatest log time before it, None of none."""

    offset: LogOffset
    rules: Rules
    before: int | None
    void: bool = False

    def write(self, batch: WriteBatch) -> None:
        """Add the mark to a batch of writes."""
        value = {"rules": self.rules.to_json().decode(), "before": self.before, "barred": self.void}
        batch.put(layout.offset_key(b"U", self.offset), json.dumps(value).encode())


class History:
    """The marks of a log, in order."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.marks: list[Mark] = []
        for key, raw in store.scan(b"U", b"V"):
            try:
                value = json.loads(raw)
                rules = Rules.from_json(value["rules"].encode())
                before, void = value["before"], value["barred"]
                if not (before is None or type(before) is int) or type(void) is not bool:
                    msg = f"before {before!r}, barred {void!r}"
                    raise ValueError(msg)  # noqa: TRY301 - as what JSON itself refuses
                self.marks.append(Mark(layout.offset_of(key), rules, before, void))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError, CorruptError) as error:
                reason = f"rules record {layout.offset_of(key)} cannot be read: {error}"
                raise store.corrupt(reason) from error

    @property
    def current(self) -> Rules | None:
        """The rules in force at the end of what is applied."""
        return self.marks[-1].rules if self.marks else None

    def at(self, log_offset: LogOffset) -> Rules | None:
        """Return the rules in force at a log offset."""
        after = bisect.bisect_right(self.marks, log_offset, key=lambda mark: mark.offset)
        return self.marks[after - 1].rules if after else None

    def mark(self, offset: LogOffset) -> Mark | None:
        """Return the mark at exactly this log offset."""
        at = bisect.bisect_left(self.marks, offset, key=lambda mark: mark.offset)
        return self.marks[at] if at < len(self.marks) and self.marks[at].offset == offset else None

    def void_after(self, offset: LogOffset) -> list[Mark]:
        """Return the valid marks after a log offset as void ones; call ``replace_marks`` once they are written."""
        return [replace(mark, void=True) for mark in self.marks if mark.offset > offset and not mark.void]

    def replace_marks(self, marks: list[Mark]) -> None:
        """Replace marks of the same log offsets."""
        changed = {mark.offset: mark for mark in marks}
        self.marks = [changed.get(mark.offset, mark) for mark in self.marks]

    def drop_marks_before(self, low_watermark: LogOffset) -> None:
        """Drop the marks before the low watermark."""
        self.marks = [mark for mark in self.marks if mark.offset >= low_watermark]

    def windows_owed(self, owed_time: int) -> list[int | None]:
        """Return the windows of all rules that may judge an article whose log time is at least ``owed_time``."""
        windows = []
        for mark, after in zip(self.marks, [*self.marks[1:], None], strict=True):
            if after is None or (after.before is not None and after.before >= owed_time):
                windows.append(mark.rules.window_ms)
        return windows

    def best_trim(self, owed_time: int, low_watermark: LogOffset, last_void_trim: LogOffset) -> Trim | None:
        """Return the trim that removes most, or None where none removes anything."""
        windows = self.windows_owed(owed_time)
        known = [window for window in windows if window is not None]
        if not known or len(known) < len(windows):
            return None
        for mark in reversed(self.marks):
            if mark.offset <= low_watermark or mark.offset < last_void_trim or mark.before is None or mark.void:
                continue
            if mark.before + max(known) < owed_time:
                return Trim(mark.offset, mark.before + max(known))
        return None
