"""What the log has of some source partitions already: offsets and checksums.

A batch covers every offset from its first to its last. An offset between them without an entry, a blank line for
example, had no article when the batch was logged, and an article that came there later would never be one: it counts as
changed, as does an article with another checksum.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.broker.forgotten import ForgottenOffsets
from stream_dedup.core.arrays import I64, U64
from stream_dedup.core.entry import Batch, Payload
from stream_dedup.core.model import SourceOffset

_SourceId = tuple[bytes, int]
"""Topic id and partition."""


class FoundOffsets(NamedTuple):
    """For each of some offsets: whether the log has it or has forgotten it, whether with another checksum."""

    logged: NDArray[np.bool_]
    changed: NDArray[np.bool_]
    unchecked: NDArray[np.bool_]
    """Forgotten: it was logged, but its checksum is not known."""


@dataclass(frozen=True, slots=True)
class LoggedPartition:
    """What is logged of one source partition, by rising offset; of several copies the first."""

    offsets: I64
    checksums: U64
    gaps: I64
    """Offsets without an entry inside a batch, as rows of the first one and the one after the last."""
    forgotten_before: SourceOffset
    """Everything at a lower offset was logged and is forgotten: its checksum is not known."""

    def find(self, offsets: I64, checksums: U64) -> FoundOffsets:
        """Look up articles by their offsets."""
        forgotten = offsets < self.forgotten_before
        if not len(self.offsets):
            return FoundOffsets(forgotten, np.zeros(len(offsets), np.bool_), forgotten)
        at = np.minimum(np.searchsorted(self.offsets, offsets), len(self.offsets) - 1)
        known = self.offsets[at] == offsets
        came_later = ~known & ~forgotten & self._in_gap(offsets)
        changed = came_later | (known & (self.checksums[at] != checksums))
        return FoundOffsets(known | forgotten, changed, forgotten & ~known)

    def _in_gap(self, offsets: I64) -> NDArray[np.bool_]:
        if not len(self.gaps):
            return np.zeros(len(offsets), np.bool_)
        # Gaps may overlap: an offset is in one if one of those that begin at or before it ends behind it.
        ends = np.maximum.accumulate(self.gaps[:, 1])
        before = np.searchsorted(self.gaps[:, 0], offsets, "right") - 1
        return np.asarray((before >= 0) & (ends[before] > offsets), np.bool_)


class LoggedArticles:
    """Follows a log from its first record on, and then what is appended to it; 16 bytes for each article."""

    def __init__(self, wanted: Collection[_SourceId]) -> None:
        """Keep what is logged of these source partitions."""
        self._wanted = frozenset(wanted)
        self._parts: dict[_SourceId, list[tuple[I64, U64]]] = defaultdict(list)
        self._gaps: dict[_SourceId, list[I64]] = defaultdict(list)
        self._forgotten = ForgottenOffsets()

    def follow(self, payload: Payload) -> None:
        """Take note of the next record of the log."""
        self._forgotten.follow(payload)
        if isinstance(payload, Batch) and (payload.topic_id, payload.partition) in self._wanted:
            source = (payload.topic_id, payload.partition)
            self.add(source, payload.offsets, payload.checksums)
            if payload.offsets[-1] - payload.offsets[0] >= len(payload):
                self._gaps[source].append(_gaps_of(payload.offsets))

    def add(self, source: _SourceId, offsets: I64, checksums: U64) -> None:
        """Take note of articles that are being appended."""
        self._parts[source].append((offsets, checksums))

    def of(self, source: _SourceId) -> LoggedPartition:
        """Return what is known of a source partition now."""
        parts = self._parts[source] or [(np.zeros(0, np.int64), np.zeros(0, np.uint64))]
        offsets, first = np.unique(np.concatenate([part[0] for part in parts]), return_index=True)
        checksums = np.concatenate([part[1] for part in parts])[first]
        self._parts[source] = [(offsets, checksums)]
        gaps = np.concatenate([np.zeros((0, 2), np.int64), *self._gaps[source]])
        gaps = gaps[np.argsort(gaps[:, 0])]
        return LoggedPartition(offsets, checksums, gaps, self._forgotten.below(*source))


def _gaps_of(offsets: I64) -> I64:
    """Return the gaps between these offsets."""
    at = np.flatnonzero(np.diff(offsets) > 1)
    return np.stack((offsets[at] + 1, offsets[at + 1]), axis=1)
