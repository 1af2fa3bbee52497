"""Reads snapshots of a group from its brokers.

The rules in force stand nowhere but in the log, so the log is read once for them, from its beginning; each further
snapshot reads what was appended since. Without the rules, only the last record is read, for its time.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any, Self

from stream_dedup.config.model import Config
from stream_dedup.core.entry import Trim
from stream_dedup.core.model import LogOffset, ReportProgress
from stream_dedup.core.rules import Rules
from stream_dedup.errors import CorruptError
from stream_dedup.kafka.admin import (
    Member,
    committed_offsets,
    described_group,
    first_times,
    last_stable_offsets,
    offset_bounds,
    out_of_sync,
    partitions_of,
    size_of,
    topic_ids,
)
from stream_dedup.kafka.clients import connect_log
from stream_dedup.kafka.connection import make_admin
from stream_dedup.kafka.errors import patiently
from stream_dedup.kafka.hanging_transactions import hanging_of, open_transactions
from stream_dedup.kafka.log import WaitingLog
from stream_dedup.kafka.rules_log import FoundLog, RulesHistory, find_log, offsets_without_log
from stream_dedup.kafka.topics import check_topics, with_matching_topics
from stream_dedup.status.snapshot import LogState, PartitionState, Snapshot


class StatusReader:
    """Reads one snapshot after the other. As a context manager, it closes its connections."""

    def __init__(self, config: Config, *, with_rules: bool, progress: ReportProgress) -> None:
        """``progress`` is called with the log records read, and all, while the log is read for its rules.

        Raises:
            UnavailableError: no broker can be reached, or it refuses this client.
        """
        self._config = config
        self._with_rules = with_rules
        self._progress = progress
        self._stack = ExitStack()
        self._admin = self._stack.enter_context(closing(make_admin(config.kafka)))
        self._follower: _LogFollower | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def read(self) -> Snapshot:
        """Return the present state.

        Raises:
            UserError: a right is missing.
            UnavailableError: the broker did not answer.
        """
        admin = self._admin
        config = self._ask("topics", lambda: with_matching_topics(admin, self._config))
        found = find_log(admin, config)
        log = self._read_log(found)
        # Before the members: the transaction of a worker that joins meanwhile does not seem to hang.
        opened = self._ask("transactions", lambda: open_transactions(admin))
        state, members = self._ask("group", lambda: described_group(admin, config.kafka.group))
        return Snapshot(
            at_s=time.monotonic(),
            at_ms=time.time_ns() // 1_000_000,
            group=config.kafka.group,
            group_state=state,
            members=members,
            partitions=self._ask("partitions", lambda: self._partitions(config, members)),
            log=log,
            out_of_sync=self._ask("replicas", lambda: out_of_sync(admin, _topics(config))),
            topic_problems=tuple(check_topics(admin, config)),
            hanging=tuple(sorted(hanging_of(config.kafka.group, opened.ongoing, {one.client_id for one in members}))),
            lost=offsets_without_log(config, found),
            brokers=config.kafka.brokers,
            silent_brokers=tuple(sorted({*opened.down, *opened.silent})),
        )

    def _partitions(self, config: Config, members: tuple[Member, ...]) -> tuple[PartitionState, ...]:
        names = list(dict.fromkeys(config.topics.input))
        # The committed offsets are read before the ends, which only grow: no lag is below 0.
        committed = committed_offsets(self._admin, self._config.kafka.group)
        ids = topic_ids(self._admin, names)
        partitions = partitions_of(self._admin, [name for name in names if name in ids])
        stable = last_stable_offsets(self._admin, partitions)
        bounds = offset_bounds(self._admin, partitions)
        owners = {partition: member.client_id for member in members for partition in member.partitions}
        unread = [at for at, (first, end) in bounds.items() if members and end > first and at not in owners]
        times = first_times(self._admin, unread)
        states = []
        for at, (first, end) in sorted(bounds.items()):
            known = committed.get(at)
            is_stale = known is not None and known.topic_id not in (None, ids[at.topic])
            states.append(
                PartitionState(
                    at,
                    first,
                    end,
                    None if known is None else known.offset,
                    is_stale,
                    owner=owners.get(at),
                    first_ms=times.get(at),
                    open_from=stable[at] if stable[at] < end else None,
                )
            )
        return tuple(states)

    def _read_log(self, found: FoundLog) -> LogState:
        if found.log_id is None:
            return LogState(found.topic, exists=False)
        if self._follower is None or self._follower.log_id != found.log_id:
            log = self._stack.enter_context(closing(connect_log(self._config)))
            self._follower = _LogFollower(log, found.log_id, with_rules=self._with_rules)
        size = self._ask("log directories", lambda: size_of(self._admin, found.topic))
        return self._follower.read_on(found.topic, size, self._progress)

    def _ask(self, about: str, ask: Any) -> Any:  # noqa: ANN401 - whatever is asked for
        return patiently(self._config.kafka, about, ask, "Describe of the group and its topics")


class _LogFollower:
    """Reads a log on from where it was read to."""

    def __init__(self, log: WaitingLog, log_id: bytes, *, with_rules: bool) -> None:
        self.log_id = log_id
        self._log = log
        self._with_rules = with_rules
        self._history: RulesHistory | None = None
        self._trims = 0
        self._last_ms: int | None = None
        self._damage: str | None = None

    def read_on(self, topic: str, size: int | None, progress: ReportProgress) -> LogState:
        """Read to the end and return the state there."""
        first, end = self._log.bounds()
        if self._history is None:
            begin = first if self._with_rules else max(first, LogOffset(end - 1))
            self._history = RulesHistory(begin, begin)
        history = self._history
        if self._damage is None:
            self._follow(history, max(first, history.end), end, progress)
        state = LogState(
            topic, exists=True, first=first, end=end, size_bytes=size, last_record_ms=self._last_ms, damage=self._damage
        )
        if not self._with_rules:
            return state
        since = None if history.since is None else history.since.offset
        return replace(state, trims=self._trims, rules=history.in_force, rules_offset=since)

    def _follow(self, history: RulesHistory, start: LogOffset, end: LogOffset, progress: ReportProgress) -> None:
        """Read up to ``end``, or to the first record that cannot be read."""
        try:
            for record in self._log.follow(start, end, lambda _stage, done, of: progress(done, of)):
                self._last_ms = int(record.time)
                self._trims += isinstance(record.payload, Trim)
                if isinstance(record.payload, Rules):
                    history.append(record.offset, int(record.time), record.payload)
        except CorruptError as error:
            self._damage = str(error)
        history.end = max(history.end, end)


def _topics(config: Config) -> list[str]:
    topics = config.topics
    names = (config.log_topic, *topics.input, topics.unique, topics.duplicate, topics.rejected, topics.clusters)
    return list(dict.fromkeys(name for name in names if name is not None))
