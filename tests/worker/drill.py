"""Three workers on a cluster under load, and what may happen to them: for the tests and the soak run.

A feeder produces articles all the time, with one producer whose records are acknowledged by two nodes. A watch asks for
the committed offsets several times a second: a pause is the time in which they do not grow although there are
acknowledged articles without a verdict.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from kafka.errors import KafkaError

from stream_dedup.dev.broker import DevCluster
from stream_dedup.errors import StreamDedupError
from stream_dedup.kafka.admin import committed_offsets
from stream_dedup.kafka.connection import make_admin, make_producer
from tests.forks import ForkedProcess
from tests.nodes import move_leaders, start_node, wait_in_sync
from tests.waiting import wait_until
from tests.worker.pipeline import Keys, Pipeline, pipeline, stop_all

WORKERS = ("worker-0", "worker-1", "worker-2")
PARTITIONS = 6
SAMPLE_S = 0.2
"""Between two looks at the committed offsets, seconds."""
PORTION_S = 0.25
"""Between two portions of the feeder, seconds."""
PROGRESS_S = 120.0
"""For the committed offsets to grow after anything that happens, seconds: a busy machine needs most of it."""
DELIVERY_S = 120.0
"""For a produced article to be acknowledged, seconds."""


class Feeder:
    """Produces records in portions until it is stopped; each must be acknowledged."""

    def __init__(self, made: Pipeline, stream: Sequence[tuple[bytes, bytes | None]], per_second: float) -> None:
        self._made = made
        self._stream = itertools.cycle(stream)
        self._portion = max(1, round(per_second * PORTION_S))
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self.acknowledged = 0
        self.failed = 0
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait until every article is acknowledged."""
        self._ended.set()
        self._thread.join(DELIVERY_S)
        assert not self._thread.is_alive(), "the feeder's articles are acknowledged"
        assert self.failed == 0

    def _run(self) -> None:
        kafka = self._made.config().kafka
        with closing(make_producer(kafka, acks="all", delivery_timeout_ms=int(DELIVERY_S * 1_000))) as producer:
            sent = 0
            while not self._ended.wait(PORTION_S):
                for key, value in itertools.islice(self._stream, self._portion):
                    future = producer.send(self._made.topic, key=key, value=value, partition=sent % PARTITIONS)
                    future.add_callback(self._count).add_errback(self._fail)
                    sent += 1
            producer.flush(DELIVERY_S)

    def _count(self, _metadata: object) -> None:
        with self._lock:
            self.acknowledged += 1

    def _fail(self, _error: BaseException) -> None:
        with self._lock:
            self.failed += 1


class Watch:
    """Follows the committed offsets, and keeps the longest pause."""

    def __init__(self, made: Pipeline, feeder: Feeder) -> None:
        self._made = made
        self._feeder = feeder
        self._ended = threading.Event()
        self.committed = 0
        self.longest_s = 0.0
        self.longest_during = "start"
        self.event = "start"
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(PROGRESS_S)

    def wait_progress(self, articles: int = 1) -> None:
        """Wait until so many more articles are committed."""
        wanted = self.committed + articles
        wait_until(lambda: self.committed >= wanted, PROGRESS_S, f"the stream gets on after: {self.event}")

    def _run(self) -> None:
        kafka, moved_at = self._made.config().kafka, time.monotonic()
        while not self._ended.is_set():
            # A broker that is away answers nothing: that is a pause, too.
            with (
                suppress(KafkaError, StreamDedupError, OSError),
                closing(make_admin(kafka)) as admin,
            ):
                while not self._ended.wait(SAMPLE_S):
                    found = committed_offsets(admin, self._made.name)
                    moved_at = self._note(sum(known.offset for known in found.values()), moved_at)

    def _note(self, committed: int, moved_at: float) -> float:
        now = time.monotonic()
        if committed > self.committed and now - moved_at > self.longest_s and self.committed > 0:
            self.longest_s, self.longest_during = now - moved_at, self.event
        if committed > self.committed or committed >= self._feeder.acknowledged:
            self.committed = committed
            return now
        return moved_at


class Drill:
    """A pipeline on a cluster, its workers, its feeder and its watch."""

    def __init__(self, cluster: DevCluster, made: Pipeline, feeder: Feeder) -> None:
        self.cluster = cluster
        self.made = made
        self.feeder = feeder
        self.watch = Watch(made, feeder)
        self.running = {name: made.start(name) for name in WORKERS}
        self.peak_mib = 0
        self.worker_kills = self.node_kills = 0

    def kill_worker(self, name: str) -> None:
        """Kill a worker with SIGKILL, and start it again at once."""
        self.watch.event = f"{name} killed"
        self.note_memory()
        worker = self.running[name]
        worker.kill()
        worker.wait()
        self.running[name] = self.made.start(name)
        self.worker_kills += 1

    def kill_node(self, number: int) -> None:
        """Kill a node with SIGKILL; the stream gets on without it; bring it back."""
        self.watch.event = f"node {number} killed"
        self.cluster.node(number).kill()
        self.node_kills += 1
        self.watch.wait_progress()
        self._bring_back(number)

    def restart_node(self, number: int) -> None:
        """Stop a node in order, and start it again."""
        self.watch.event = f"node {number} restarted"
        self.cluster.node(number).stop()
        self._bring_back(number)

    def move_leaders(self) -> None:
        """Give every partition another leader."""
        self.watch.event = "leaders moved"
        wait_in_sync(self.cluster)
        move_leaders(self.cluster)
        self.watch.wait_progress()

    def note_memory(self) -> None:
        """Keep the largest resident size that a worker has had."""
        self.peak_mib = max([self.peak_mib, *(_peak_mib(worker) for worker in self.running.values())])

    def finish(self) -> None:
        """Stop the feeder, wait for every verdict, and stop the workers in order."""
        self.feeder.stop()
        self.watch.event = "end"
        self.made.wait_done(10 * PROGRESS_S)
        self.watch.stop()
        self.note_memory()
        stop_all(self.made, list(self.running.values()))

    def _bring_back(self, number: int) -> None:
        start_node(self.cluster, number)
        wait_in_sync(self.cluster)
        self.watch.wait_progress()


@contextmanager
def drill(
    cluster: DevCluster,
    folder: Path,
    name: str,
    stream: Sequence[tuple[bytes, bytes | None]],
    per_second: float,
    client: str = "kafka-python",
) -> Iterator[Drill]:
    """Start everything, and wait for the first verdicts."""
    kafka: Keys = {"broker_wait_s": 60, "client": client}
    with pipeline(cluster.bootstrap, folder, name, partitions=PARTITIONS, kafka=kafka) as made:
        feeder = Feeder(made, stream, per_second)
        started = Drill(cluster, made, feeder)
        feeder.start()
        started.watch.start()
        try:
            started.watch.wait_progress()
            yield started
        finally:
            feeder._ended.set()
            started.watch._ended.set()


def _peak_mib(worker: ForkedProcess) -> int:
    with suppress(OSError, IndexError):
        status = Path(f"/proc/{worker.pid}/status").read_text("ascii")
        return int(status.split("VmHWM:")[1].split()[0]) // 1024
    return 0
