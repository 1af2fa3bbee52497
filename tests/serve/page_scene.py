"""A group in memory whose articles have outputs, as a worker would have written them: what pages show."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from stream_dedup.core.entry import Batch
from stream_dedup.core.model import Coordinates, SourceOffset, log_position
from stream_dedup.index import LogIndex
from stream_dedup.ports import Partition, PassingError
from stream_dedup.serve.follower import Position
from stream_dedup.serve.run import RunningService
from tests.clusters.outputs import size_of
from tests.headers import output_headers
from tests.memory.partition import Message
from tests.memory.runtime import Phase
from tests.serve.served import TOPIC, MemoryService
from tests.waiting import wait_until

OUTPUTS_S = 30.0
"""For the clusters to have the outputs."""


class PageScene(MemoryService):
    """The service over a log whose articles are judged, and whose verdicts are in the output topics."""

    def __init__(self, folder: Path, **sections: dict[str, Any]) -> None:
        super().__init__(folder, **sections)
        self._index = LogIndex.open(folder / "judge", scheme=None)
        self._index.begin("scene")
        self._written = 0
        self.verdicts: Counter[str] = Counter()
        """Outputs that were written, by verdict."""
        self._readable: int | None = None
        self.polls = 0
        topics = self.config.topics
        for name in dict.fromkeys((topics.unique, topics.duplicate, topics.rejected)):
            self.cluster.make_topic(name)
        self.begin_log()
        self._applied = 0

    def judge(self, values: Sequence[bytes], written_ms: Sequence[int] | None = None, latency_ms: int = 40) -> None:
        """Log these records, and write their outputs at these times; now, where none are given."""
        offset = self.log_articles(values)
        records = self.records()[self._applied :]
        self._applied += len(records)
        self._index.apply(records)
        batch = records[-1].payload
        assert isinstance(batch, Batch)
        rows = range(len(values))
        judged = self._index.judge(np.array([log_position(offset, row) for row in rows], np.int64))
        rules = self._index.rules
        assert rules is not None
        topics = self.config.topics
        for row, (value, judgement) in enumerate(zip(values, judged, strict=True)):
            at = Coordinates(self.topic_id, 0, SourceOffset(int(batch.offsets[row])))
            written = int(time.time() * 1000) if written_ms is None else written_ms[row]
            fingerprint = int.from_bytes(batch.signatures[row, :8].tobytes())
            headers = output_headers(judgement, fingerprint, rules.scheme.id, TOPIC, at, written - latency_ms)
            topic = getattr(topics, str(judgement.verdict))
            given: list[tuple[str, bytes | None]] = [(name, text) for name, text in headers]
            partition = self.cluster.partition(Partition(topic, 0))
            self.cluster.append(partition, Message(None, value, given, written))
            self._written += 1
            self.verdicts[str(judgement.verdict)] += 1

    def judge_texts(self, *texts: str, name: str = "article") -> None:
        """Log and judge texts, each with an id."""
        start = self._written
        self.judge([record_value(f"{name}-{start + at}", text) for at, text in enumerate(texts)])

    @contextmanager
    def shown(self) -> Iterator[RunningService]:
        """Run the service until its clusters have every output."""
        with self.serve() as running:
            self.wait_clusters()
            yield running

    def wait_clusters(self) -> None:
        running = self.running
        assert running is not None

        def has_all() -> bool:
            running.raise_failure()
            store = running._clusters.store
            return store is not None and size_of(store)[0] >= self._written

        wait_until(has_all, OUTPUTS_S, "the clusters have every output")

    def limit_reading(self, records: int | None) -> None:
        """Let the service read so many records of the log in all, one after the other; None: all.

        It waits for more as it waits for a broker, so ``kafka.broker_wait_s`` has to be longer than that takes.
        """

        def counted(call: str, phase: Phase) -> None:
            if call != "log.poll" or phase is not Phase.BEGIN or self._readable is None:
                return
            if self.polls >= self._readable:
                raise PassingError(call)
            self.polls += 1

        self._readable = records
        self.connection.hook, self.connection.most_records = counted, lambda: 1

    def position(self) -> Position:
        """How far the service is."""
        assert self.running is not None
        return self.running.follower.position

    def close(self) -> None:
        self._index.close()


def record_value(article_id: str, text: str) -> bytes:
    return json.dumps({"id": article_id, "text": text}).encode()
