"""Trims the log: with a window, deletes entries that no later article can match.

In order; each step may be repeated, and the worker may end after any:

    1  restate the rules in the log now and then: the log can be cut only before a rules record
    2  compare the log's newest time with this machine's clock: if it is ahead by more than worker.clock_allowance_s,
       a broker's clock, or this one, is wrong, and nothing is trimmed
    3  find the earliest log time among logged articles whose output is not committed. If the group has a committed
       offset, this includes topics that are not an input of this worker, but perhaps of another one, and topics that
       the broker does not name now
    4  append a trim record that names a log position X before the window of these articles and of all later ones, and
       what it was computed from
    5  once the trim is applied to this worker's index: delete the log before X

Every worker does this. A trim that would delete nothing is not appended. Without a window nothing is trimmed.

The log time of later articles is assumed to be at least the log's newest time, or this machine's time if that is
earlier, less the allowance: a broker's clock that was ahead for a single record trims nothing that is young.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stream_dedup.config.effective import with_input_topics
from stream_dedup.core.model import LogOffset, SourceOffset
from stream_dedup.errors import UserError
from stream_dedup.ports import CommittedOffset, Partition, PassingError, RefusedByBrokerError
from stream_dedup.worker import Step

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from stream_dedup.config.model import Config
    from stream_dedup.index import LogIndex
    from stream_dedup.metrics.metrics import Metrics
    from stream_dedup.ports import Append, Clock, FingerprintLog, GroupOffsets

log = logging.getLogger(__name__)

ROUNDS_A_WINDOW = 16
"""The log holds up to 1/16 more than the window needs."""
SHORTEST_ROUND_S = 1.0
LONGEST_ROUND_S = 600.0
_NOTHING = CommittedOffset(SourceOffset(0), None)


@dataclass(eq=False)
class Trimmer:
    """``step`` does a round when one is due. Only the thread that owns the index calls it."""

    config: Config
    index: LogIndex
    log: FingerprintLog
    offsets: GroupOffsets
    clock: Clock
    metrics: Metrics
    on_step: Callable[[Step], None]
    cut_to: LogOffset
    """The log's first offset."""

    def __post_init__(self) -> None:
        """Begin with a round."""
        self.appends: list[Append] = []
        """Those that are not known to be in the log. The engine empties this list when all are, or one has failed."""
        self._allowance_ms = int(self.config.worker.clock_allowance_s * 1000)
        self._log_is_ahead = False
        self._next_round = 0.0

    def step(self, now: float) -> None:
        """Do a round if one is due; ``now`` in monotonic seconds."""
        rules = self.index.rules
        if rules is None or rules.window_ms is None or now < self._next_round:
            return
        round_s = rules.window_ms / 1000 / ROUNDS_A_WINDOW
        self._next_round = now + min(max(round_s, SHORTEST_ROUND_S), LONGEST_ROUND_S)
        try:
            self._round()
        except PassingError as error:
            log.warning("the log could not be trimmed now (%r); the next round retries", error)
        except RefusedByBrokerError as error:
            raise UserError(
                f"topic {self.config.log_topic}: the broker does not let this worker trim the log: {error}"
            ) from error

    def _round(self) -> None:
        # 1
        if self.index.batches_since_rules:
            self.appends.append(self.log.append(self.index.rules))  # type: ignore[arg-type] # there are rules where there are batches
            self.on_step(Step.RESTATED)
        # 2
        if not self._clock_of_the_log_is_ahead():
            self._append_trim()
        # 5
        if self.index.low_watermark > self.cut_to:
            self.log.cut(self.index.low_watermark)
            self.on_step(Step.CUT)
            self.cut_to = self.index.low_watermark

    def _clock_of_the_log_is_ahead(self) -> bool:
        """Return whether the log's newest time is later than this machine's by more than the allowance."""
        ahead_ms = (self.index.state.newest or 0) - self.clock.time_ms()
        self.metrics.log_clock_ahead_seconds.set(max(0, ahead_ms) / 1000)
        is_ahead = ahead_ms > self._allowance_ms
        if is_ahead and not self._log_is_ahead:
            log.warning(
                "the newest record of %s is %d s ahead of this machine's clock, which is more than "
                "worker.clock_allowance_s: nothing is trimmed until it is not. Set the clocks of the brokers and of "
                "this machine",
                self.config.log_topic,
                ahead_ms // 1000,
            )
        elif self._log_is_ahead and not is_ahead:
            log.info("the newest record of %s is not ahead of this machine's clock any more", self.config.log_topic)
        self._log_is_ahead = is_ahead
        return is_ahead

    def _append_trim(self) -> None:
        # 3, 4
        trim = self.index.trims.offered(self._earliest_time())
        if trim is not None:
            log.info("trim: entries before log offset %d are deleted", trim.before)
            self.appends.append(self.log.append(trim))
            self.on_step(Step.TRIM_APPENDED)

    def _earliest_time(self) -> int:
        """Return the earliest log time of articles whose output is not committed, or that are logged later."""
        committed = self.offsets.committed()
        earliest = min(self.index.state.newest or 0, self.clock.time_ms()) - self._allowance_ms
        config = with_input_topics(self.config, lambda: self.offsets.topic_ids(None))
        ids = self.offsets.topic_ids(config.topics.input)
        unnamed = {at: known for at, known in committed.items() if at.topic not in ids}
        left_to = list(self._perhaps_of(unnamed, frozenset(ids.values())))
        topics = {topic_id: topic for topic, topic_id in ids.items()}
        for topic_id, number in self.index.partitions():
            if topic_id in topics:
                known = committed.get(Partition(topics[topic_id], number), _NOTHING)
                # An offset of another topic id says nothing about this topic: no output of it is committed.
                after = known.offset if known.topic_id in (None, topic_id) else SourceOffset(0)
                left_to.append((topic_id, number, after))
        owed = (self.index.trims.owed_since((topic_id, number), offset) for topic_id, number, offset in left_to)
        return min([earliest, *(time for time in owed if time is not None)])

    def _perhaps_of(
        self, unnamed: Mapping[Partition, CommittedOffset], named: Collection[bytes]
    ) -> Iterator[tuple[bytes, int, SourceOffset]]:
        """Yield topic id, number and offset of each logged partition that an unnamed committed offset may belong to.

        Another worker of the group may have other input topics. A broker that has just started may omit a topic that
        exists. An offset that was set by hand names no id: it may belong to any partition of its number that no other
        offset names.
        """
        known_ids = {(known.topic_id, at.number) for at, known in unnamed.items()}
        strangers = [at for at in self.index.partitions() if at[0] not in named and at not in known_ids]
        for at, known in unnamed.items():
            if known.topic_id is not None:
                yield known.topic_id, at.number, known.offset
                continue
            for topic_id, number in strangers:
                if number == at.number:
                    yield topic_id, number, known.offset
