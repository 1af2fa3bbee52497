"""A rebalance storm: another member joins and leaves while a worker has a backlog.

    python -m benchmarks.rebalances [--rounds 10] [--articles 16000]

One worker with one process, two partitions, articles of 1,200 Chinese characters, so that there is a backlog all the
time. Another member of the group (it reads nothing and commits nothing) joins and leaves, ``rounds`` times. Every join
and every leave ends the worker's assignment: what it had polled is dropped, and polled again.

The report: memory of the worker (resident) before and after, the time from the last rebalance to the next commit, and
the commits during the storm.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path

from kafka import TopicPartition
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from benchmarks.pipeline import Bench, end_worker, start_worker
from stream_dedup.config.model import Config
from stream_dedup.dev.broker import BrokerSettings, find_broker
from stream_dedup.kafka.admin import committed_offsets
from stream_dedup.kafka.connection import make_admin, make_consumer
from stream_dedup.kafka.errors import patiently

CHARACTERS = 1_200
SESSION_MS = 10_000
JOIN_LIMIT_S = 20.0
PAUSE_S = 0.7
"""Between a leave and the next join."""
COMMIT_LIMIT_S = 120.0


class Storm:
    """A worker with a backlog, and a member that comes and goes."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self._config: Config = bench.config
        self._source = bench.source
        self._admin = make_admin(bench.config.kafka)
        self.worker = start_worker(bench, folder, 1)

    def committed(self) -> int:
        kafka = self._config.kafka
        found = patiently(kafka, "committed offsets", lambda: committed_offsets(self._admin, kafka.group))
        return sum(offset for offset, _ in found.values())

    def wait_for_commit(self, beyond: int) -> float:
        """Return how long the next commit beyond an offset takes, in seconds."""
        began = time.monotonic()
        while self.committed() <= beyond:
            if time.monotonic() - began > COMMIT_LIMIT_S or self.worker.poll() is not None:
                sys.exit(f"no commit for {time.monotonic() - began:.0f} s")
            time.sleep(0.05)
        return time.monotonic() - began

    def memory_mib(self) -> int:
        status = Path(f"/proc/{self.worker.pid}/status").read_text("ascii")
        return int(status.split("VmRSS:")[1].split()[0]) // 1024

    def join_and_leave(self) -> None:
        member = make_consumer(
            self._config.kafka,
            group_id=self._config.kafka.group,
            partition_assignment_strategy=[RoundRobinPartitionAssignor],
            session_timeout_ms=SESSION_MS,
        )
        member.subscribe([self._source])
        began = time.monotonic()
        while not member.assignment() and time.monotonic() - began < JOIN_LIMIT_S:
            for partition in member.assignment():
                member.pause(TopicPartition(*partition))
            member.poll(100, max_records=1)
        member.close()

    def close(self) -> None:
        end_worker(self.worker)
        self._admin.close()


def articles(count: int) -> list[bytes]:
    """Random Chinese text: every article is unique, and costs what a long one costs."""
    rng = random.Random(0)
    return [
        json.dumps({"id": f"a{number}", "text": "".join(chr(rng.randrange(0x4E00, 0x6C00)) for _ in range(CHARACTERS))})
        .encode()
        for number in range(count)
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="joins and leaves of the other member")
    parser.add_argument("--articles", type=int, default=16_000, help="the backlog")
    given = parser.parse_args()
    with find_broker(BrokerSettings()) as broker, tempfile.TemporaryDirectory() as temporary:
        bench = Bench(broker.bootstrap, "rebalances", "article")
        bench.feed(articles(given.articles))
        storm = Storm(bench, Path(temporary))
        storm.wait_for_commit(499)
        time.sleep(3)
        before, first = storm.memory_mib(), storm.committed()
        began = time.monotonic()
        for _ in range(given.rounds):
            storm.join_and_leave()
            time.sleep(PAUSE_S)
        took, then = time.monotonic() - began, storm.committed()
        next_s = storm.wait_for_commit(then)
        after = storm.memory_mib()
        storm.close()
    print(f"{given.rounds} joins and leaves in {took:.0f} s, {then - first} articles committed meanwhile")
    print(f"memory {before} MiB before, {after} MiB after; next commit {next_s:.1f} s after the last leave")


if __name__ == "__main__":
    main()
