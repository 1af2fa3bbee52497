"""Which source offsets the trims of a log have forgotten, for commands that read the log without an index.

A trim counts here if it was computed under the rules in force. Whether copies make it void is left to the index: what
it lists was logged all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stream_dedup.core.entry import Payload, Trim
from stream_dedup.core.model import SourceOffset
from stream_dedup.core.rules import Rules


@dataclass(slots=True)
class ForgottenOffsets:
    """Follows a log from its first record on."""

    before: dict[tuple[bytes, int], SourceOffset] = field(default_factory=dict)
    """By topic id and partition: the offset below which everything is forgotten."""
    _rules: Rules | None = None

    def follow(self, payload: Payload) -> None:
        """Take note of the next record of the log."""
        if isinstance(payload, Rules):
            self._rules = payload if payload.takes_force_after(self._rules) else self._rules
        elif isinstance(payload, Trim):
            self._add(payload)

    def below(self, topic_id: bytes, partition: int) -> SourceOffset:
        """Return the offset below which everything of a source partition is forgotten; 0 of none."""
        return self.before.get((topic_id, partition), SourceOffset(0))

    def _add(self, trim: Trim) -> None:
        if self._rules is None or trim.basis.revision != self._rules.revision:
            return
        for source, before in trim.basis.forgotten_before.items():
            self.before[source] = max(before, self.below(*source))
