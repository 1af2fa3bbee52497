"""What the log has of some source partitions already: offsets and checksums."""

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
    """For each of some offsets: whether the log has it, and whether with another checksum."""

    logged: NDArray[np.bool_]
    changed: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LoggedPartition:
    """What is logged of one source partition, by rising offset; of several copies the first."""

    offsets: I64
    checksums: U64
    forgotten_before: SourceOffset
    """Everything at a lower offset was logged and is forgotten: its checksum is not known."""

    def find(self, offsets: I64, checksums: U64) -> FoundOffsets:
        """Look up articles by their offsets."""
        if not len(self.offsets):
            return FoundOffsets(offsets < self.forgotten_before, np.zeros(len(offsets), np.bool_))
        at = np.minimum(np.searchsorted(self.offsets, offsets), len(self.offsets) - 1)
        known = self.offsets[at] == offsets
        return FoundOffsets(known | (offsets < self.forgotten_before), known & (self.checksums[at] != checksums))


class LoggedArticles:
    """Follows a log from its first record on, and then what is appended to it; 16 bytes for each article."""

    def __init__(self, wanted: Collection[_SourceId]) -> None:
        """Keep what is logged of these source partitions."""
        self._wanted = frozenset(wanted)
        self._parts: dict[_SourceId, list[tuple[I64, U64]]] = defaultdict(list)
        self._forgotten = ForgottenOffsets()

    def follow(self, payload: Payload) -> None:
        """Take note of the next record of the log."""
        self._forgotten.follow(payload)
        if isinstance(payload, Batch) and (payload.topic_id, payload.partition) in self._wanted:
            self.add((payload.topic_id, payload.partition), payload.offsets, payload.checksums)

    def add(self, source: _SourceId, offsets: I64, checksums: U64) -> None:
        """Take note of articles that are being appended."""
        self._parts[source].append((offsets, checksums))

    def of(self, source: _SourceId) -> LoggedPartition:
        """Return what is known of a source partition now."""
        parts = self._parts[source] or [(np.zeros(0, np.int64), np.zeros(0, np.uint64))]
        offsets, first = np.unique(np.concatenate([part[0] for part in parts]), return_index=True)
        checksums = np.concatenate([part[1] for part in parts])[first]
        self._parts[source] = [(offsets, checksums)]
        return LoggedPartition(offsets, checksums, self._forgotten.below(*source))
