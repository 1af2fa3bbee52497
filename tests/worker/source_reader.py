"""A source on a broker, polled as the worker does it, and everything that it gave."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from typing import Any

from stream_dedup.core.model import SourceOffset
from stream_dedup.kafka.admin import KafkaOffsets
from stream_dedup.kafka.clients import SystemClock
from stream_dedup.kafka.kafka_python.source import KafkaSource
from stream_dedup.ports import CommittedOffset, Partition
from stream_dedup.worker.assignments import Assignment, AssignmentOwner, PolledBatch
from stream_dedup.worker.source import BatchSource
from stream_dedup.worker.watches import TopicWatch
from tests.waiting import wait_until
from tests.worker.pipeline import Pipeline

POLL_S = 0.05


LIMIT_S = 60


class Paused(AssignmentOwner):
    """An owner whose limit the test decides."""

    paused = False

    def crowded(self, partitions: Iterable[Partition]) -> frozenset[Partition]:
        return frozenset(partitions) if self.paused else frozenset()


class Reader:
    """A source and everything that it gave; every batch is released at once, as if it were committed."""

    def __init__(self, made: Pipeline, stack: ExitStack, log_id: bytes) -> None:
        self.made = made
        self.batches: list[PolledBatch] = []
        config = made.config()
        member, clock = f"{made.name}-{uuid.uuid4()}", SystemClock()
        offsets = stack.enter_context(closing(KafkaOffsets(config.kafka)))
        self.watch = TopicWatch(clock, config, offsets, log_id, lambda: None)
        stack.callback(clock.spawn("watch", self.watch.run).join)
        stack.callback(self.watch.stop)
        self.client = KafkaSource(config, member, offsets)
        self.owner = Paused(self.client.membership, 100, 1 << 30)
        self.source = BatchSource(
            config.kafka,
            client=self.client,
            clock=clock,
            watch=self.watch,
            assignments=self.owner,
            logged_partitions=frozenset,
            forgotten_before=lambda _topic_id, _partition: SourceOffset(0),
        )
        self.left = stack.enter_context(ExitStack())
        self.left.callback(self.client.close)

    def poll(self) -> None:
        polled = self.source.poll(POLL_S)
        self.batches += polled
        for batch in polled:
            self.owner.release(batch)

    def pause(self, *, paused: bool) -> None:
        self.owner.paused = paused

    def end(self) -> None:
        """End the present assignment, as another thread of the worker does."""
        self.owner.end(self.assignment, "for this test")

    def begun(self) -> Assignment:
        """Poll until an assignment works."""
        self.poll_until(lambda: self.working, "an assignment works")
        return self.assignment

    @property
    def working(self) -> bool:
        return self.owner.current is not None and self.owner.is_working(self.owner.current)

    def poll_until(self, condition: Callable[[], bool], what: str) -> None:
        def look() -> bool:
            self.poll()
            return condition()

        wait_until(look, LIMIT_S, what)

    @property
    def assignment(self) -> Assignment:
        assignment = self.owner.current
        assert assignment is not None
        return assignment

    def offsets(self) -> dict[Partition, list[int]]:
        """Offsets that came under the present assignment, in the order in which they came."""
        found: dict[Partition, list[int]] = {}
        for batch in self.batches:
            if batch.assignment is self.owner.current and self.working:
                found.setdefault(batch.partition, []).extend(batch.offsets.tolist())
        return found

    def read(self) -> int:
        return sum(map(len, self.offsets().values()))

    def read_all(self, first: dict[Partition, int]) -> None:
        """Read to the end under one assignment: every offset from ``first`` on, once and in order."""
        ends = self.made.ends()
        wanted = {at: list(range(first.get(at, 0), end)) for at, end in ends.items()}
        self.poll_until(lambda: self.read() >= sum(map(len, wanted.values())), "every record comes")
        assert self.offsets() == wanted

    def commit(self, offsets: dict[Any, int]) -> None:
        for at, offset in offsets.items():
            self.client.commit_start(
                Partition(*at), CommittedOffset(SourceOffset(offset), self.assignment.topic_ids[at[0]])
            )
