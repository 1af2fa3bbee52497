"""Trims the log: with a window, deletes entries that no later article can match.

In order; each step may be repeated, and the worker may end after any:

    1  restate the rules in the log now and then: the log can be cut only before a rules record
    2  find the earliest log time among logged articles whose output is not committed
    3  append a trim record that names a log position X before the window of these articles and of all later ones
    4  once the trim is applied to this worker's index: delete the log before X

Every worker does this. A trim that would delete nothing is not made. Without a window nothing is trimmed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kafka import TopicPartition
from kafka.errors import KafkaError

from stream_dedup.broker.client import make_admin
from stream_dedup.broker.group_offsets import committed_offsets
from stream_dedup.broker.topics import topic_ids
from stream_dedup.worker.steps import TrimStep

if TYPE_CHECKING:
    from collections.abc import Callable

    from stream_dedup.config.model import Config
    from stream_dedup.core.entry import Payload
    from stream_dedup.index import LogIndex

log = logging.getLogger(__name__)

ROUNDS_A_WINDOW = 16
"""The log holds up to 1/16 more than the window needs."""
SHORTEST_ROUND_S = 1.0
LONGEST_ROUND_S = 600.0


class Trimmer:
    """``step`` does a round when one is due. Only the thread that owns the index calls it."""

    def __init__(
        self,
        config: Config,
        index: LogIndex,
        append: Callable[[Payload], object],
        first_offset: int,
        on_step: Callable[[TrimStep], None],
    ) -> None:
        """``first_offset`` is the log's first offset."""
        self._config = config
        self._index = index
        self._append = append
        self._admin = make_admin(config.kafka)
        self._cut = first_offset
        self._on_step = on_step
        self._next_round = 0.0

    def step(self, now: float) -> None:
        """Do a round if one is due; ``now`` in monotonic seconds."""
        rules = self._index.rules
        if rules is None or rules.window_ms is None or now < self._next_round:
            return
        round_s = rules.window_ms / 1000 / ROUNDS_A_WINDOW
        self._next_round = now + min(max(round_s, SHORTEST_ROUND_S), LONGEST_ROUND_S)
        try:
            self._round()
        except KafkaError as error:
            log.warning("the log could not be trimmed now (%r); tried again in the next round", error)

    def close(self) -> None:
        """Close the connection to the broker."""
        self._admin.close()

    def _round(self) -> None:
        # 1
        if self._index.batches_since_rules:
            self._append(self._index.rules)  # type: ignore[arg-type] # there are rules where there are batches
            self._on_step(TrimStep.RESTATED)
        # 2, 3
        trim = self._index.restated_trim(self._earliest_time())
        if trim is not None:
            log.info("trim: entries before log offset %d are deleted", trim.before)
            self._append(trim)
            self._on_step(TrimStep.TRIM_APPENDED)
        # 4
        if self._index.low_watermark > self._cut:
            self._admin.delete_records({TopicPartition(self._config.log_topic, 0): self._index.low_watermark})
            self._on_step(TrimStep.CUT)
            self._cut = self._index.low_watermark

    def _earliest_time(self) -> int:
        """Return the earliest log time of articles whose output is not committed, or that are logged later."""
        group = self._config.kafka.group
        committed = committed_offsets(self._admin, group)
        earliest = (self._index.newest_time or 0) - int(self._config.worker.clock_allowance_s * 1000)
        for topic, topic_id in topic_ids(self._admin, self._config.topics.input).items():
            for known_id, partition in self._index.partitions():
                if known_id != topic_id:
                    continue
                offset, belongs_to = committed.get(TopicPartition(topic, partition), (0, None))
                # An offset of another topic id says nothing about this topic: no output of it is committed.
                after = offset if belongs_to in (None, topic_id) else 0
                owed = self._index.owed_since(topic_id, partition, after)
                earliest = min(earliest, earliest if owed is None else owed)
        return earliest
