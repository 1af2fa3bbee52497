"""Kills of workers and of brokers at random, on a cluster of three nodes with real text, for as long as is asked for.

    make soak ARGS="--minutes 30 --write"

STREAM_DEDUP_DATA names a folder with real text (``tests/worker/mixture.py`` reads it); without it the texts are made.
Three workers judge a stream while one of them is killed every few seconds and one of the nodes every minute and a half:
200 workers and 20 nodes in 30 minutes. Every moment and every victim is drawn from the seed. A node that was killed
comes back after the stream has got on without it, and must be in sync before the next is killed.

At the end every article must have exactly one output, and ``stream-dedup audit`` no fault. The report says what was
done, what was audited, the longest pause and the memory; with ``--write`` it replaces benchmarks/reliability.md.
"""

from __future__ import annotations

import argparse
import datetime
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from stream_dedup.audit.report import FAULT_KINDS, AuditReport
from stream_dedup.audit.run import AuditOptions, run_audit
from stream_dedup.broker.adapter import kafka_audit_ports
from stream_dedup.dev.broker import BrokerSettings, DevCluster, find_broker
from stream_dedup.dev.broker.settings import KAFKA_VERSION
from tests.worker.drill import WORKERS, Drill, drill
from tests.worker.mixture import records

REPORT = Path(__file__).with_name("reliability.md")
WORKER_KILLS_PER_MINUTE = 200 / 30
NODE_KILLS_PER_MINUTE = 20 / 30
NODES = 3
ARTICLES = 20_000
"""Different articles of the stream; after them it begins again, and what follows are duplicates."""
RECOMPUTED = 20_000
"""Verdicts that the audit recomputes at most: each is compared with every article before it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run was, and what came of it."""

    minutes: float
    seed: int
    per_second: float
    done: Drill
    audit: AuditReport
    outputs: int
    unsent: int
    log_kib: int

    @property
    def clean(self) -> bool:
        """Whether every article left once and the audit found nothing."""
        return not self.audit.faults and self.outputs == self.done.feeder.acknowledged


def run(minutes: float, seed: int, per_second: float) -> Outcome:
    stream = records(ARTICLES, seed)
    settings = BrokerSettings(nodes=NODES)
    with find_broker(settings, own=True) as cluster, tempfile.TemporaryDirectory() as folder:
        assert isinstance(cluster, DevCluster)
        with drill(cluster, Path(folder), f"soak-{seed}", stream, per_second) as under_load:
            _kill_at_random(under_load, random.Random(seed), minutes)
            under_load.finish()
            return _outcome(under_load, minutes, seed, per_second)


def _kill_at_random(under_load: Drill, rng: random.Random, minutes: float) -> None:
    """Draw the times between two kills of each kind; what is due first comes first."""
    began = time.monotonic()
    end = began + 60 * minutes
    worker_at = began + rng.expovariate(WORKER_KILLS_PER_MINUTE / 60)
    node_at = began + rng.expovariate(NODE_KILLS_PER_MINUTE / 60)
    wanted = round(minutes * WORKER_KILLS_PER_MINUTE), round(minutes * NODE_KILLS_PER_MINUTE)
    while time.monotonic() < end or (under_load.worker_kills, under_load.node_kills) < wanted:
        time.sleep(max(0.0, min(worker_at, node_at) - time.monotonic()))
        if node_at < worker_at and under_load.node_kills < wanted[1]:
            under_load.kill_node(rng.randint(1, NODES))
            node_at = time.monotonic() + rng.expovariate(NODE_KILLS_PER_MINUTE / 60)
        else:
            under_load.kill_worker(rng.choice(WORKERS))
            worker_at = time.monotonic() + rng.expovariate(WORKER_KILLS_PER_MINUTE / 60)
        _say(under_load)


def _say(under_load: Drill) -> None:
    watch = under_load.watch
    print(
        f"{under_load.worker_kills} workers and {under_load.node_kills} nodes killed; {watch.committed} of "
        f"{under_load.feeder.acknowledged} articles judged; longest pause {watch.longest_s:.1f} s "
        f"({watch.longest_during}); {under_load.peak_mib} MiB",
        file=sys.stderr,
        flush=True,
    )
