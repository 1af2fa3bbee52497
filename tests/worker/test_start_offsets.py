"""Where a partition begins, beside members that begin it meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from stream_dedup.config.load import load_config
from stream_dedup.core.model import SourceOffset
from stream_dedup.errors import RefusedError
from stream_dedup.ports import CommittedOffset, Partition, PassingError
from stream_dedup.worker.source import LoggedSources, StartOffsets

AT = Partition("articles", 0)
TOPIC_ID = bytes(16)


class SourceInPlace:
    """A source whose committed offset is another one at each look, up to the last."""

    def __init__(self, *offsets: CommittedOffset | None) -> None:
        self._offsets = list(offsets)

    def committed(self, _partition: Partition) -> CommittedOffset | None:
        return self._offsets.pop(0) if len(self._offsets) > 1 else self._offsets[0]


def start_offsets(*offsets: CommittedOffset | None) -> StartOffsets:
    """Those of a worker in whose log the partition is."""
    source: Any = SourceInPlace(*offsets)
    known = LoggedSources(lambda: frozenset({(TOPIC_ID, AT.number)}), lambda _topic, _number: SourceOffset(0))
    return StartOffsets(load_config(overrides={}, environment={}).kafka, source, known)


def test_a_partition_that_another_member_has_begun_meanwhile_is_not_lost() -> None:
    """A worker that stood still between its look at the offset and that at the log finds both at its next try."""
    begun = CommittedOffset(SourceOffset(0), TOPIC_ID)
    starting = start_offsets(None, begun)
    with pytest.raises(PassingError, match="another member"):
        starting.start_of(AT, TOPIC_ID)
    assert starting.start_of(AT, TOPIC_ID) == begun


def test_a_partition_in_the_log_without_an_offset_is_lost() -> None:
    with pytest.raises(RefusedError, match="the group lost its offsets"):
        start_offsets(None).start_of(AT, TOPIC_ID)
