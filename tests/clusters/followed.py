"""Run as a process that is killed: follows the output topics of a configuration into a store."""

import sys
import time
from contextlib import closing
from pathlib import Path

from prometheus_client import CollectorRegistry

from stream_dedup.cli.logs import set_up_logging
from stream_dedup.clusters import follow
from stream_dedup.clusters.follow import ClusterFollower, ClusterMetrics
from stream_dedup.clusters.store import ClusterStore
from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config
from stream_dedup.kafka.clients import kafka_follow_ports

STOP_S = 30.0
FOR_EVER_S = 600.0
LOOK_S = 0.2


def follow_until_done(config: Config, folder: Path, log_id: bytes) -> None:
    """Follow on a thread of its own until everything is read and published."""
    follow.TOPICS_LOOK_S = follow.PUBLISH_S = LOOK_S
    with (
        kafka_follow_ports(config) as ports,
        closing(ClusterStore.open(folder, log_id, publishes=config.topics.clusters is not None)) as store,
    ):
        follower = ClusterFollower(config, store, ports, log_id, ClusterMetrics(CollectorRegistry()))
        follower.start()
        deadline = time.monotonic() + FOR_EVER_S
        while time.monotonic() < deadline and follower.error is None:
            state = follower.state()
            if state.has_caught_up and not state.lag and not state.unpublished:
                break
            time.sleep(LOOK_S)
        follower.stop(STOP_S)
        if follower.error is not None:
            raise follower.error


def main(path: str, folder: str, log_id: str) -> int:
    """Called in a forked process; returns its exit code."""
    config = load_config(Path(path))
    set_up_logging(config.log_level)
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    follow_until_done(config, Path(folder), bytes.fromhex(log_id))
    sys.stdout.write("done\n")
    sys.stdout.flush()
    return 0
