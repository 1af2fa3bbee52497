"""What it costs a worker to follow the log: the articles of the other workers, applied to its own index.

    python -m benchmarks.following [--articles 200000]
    python -m benchmarks.following --live 2000 [--articles 40000] [--batch 20]

A worker without an article of its own follows the log of a real broker, to which made articles (``benchmarks.stream``)
are appended: as fast as it goes, in two halves, or with ``--live`` so many a second in records of ``--batch`` articles,
as busy workers append them, with each Kafka client. The figures are processor time of the worker's process, its client
and RocksDB's threads included, less what it takes while nothing comes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from benchmarks.pipeline import CLIENTS, LOG_BATCH, MadeLog
from benchmarks.processes import processor_s_of
from stream_dedup.config.model import Config
from stream_dedup.dev.broker import BrokerSettings, find_broker
from tests.forks import ForkedProcess
from tests.worker.pipeline import Keys, Pipeline, pipeline

IDLE_S = 10.0
SETTLE_S = 3.0
CAUGHT_UP_S = 600.0


def main() -> None:
    options = _options()
    if options.live:
        _follow_live(options)
    else:
        _follow(options.articles)


def _follow(articles: int) -> None:
    """Print what a worker takes that follows the log of a broker, half by half."""
    with find_broker(BrokerSettings()) as broker, _following(broker.bootstrap, CLIENTS[0]) as made:
        log = MadeLog(made.config())
        log.begin()
        worker = made.start()
        made.wait_joined()
        idle = _idle(worker)
        print(f"{idle:.1%} of a core while nothing comes\n")
        print("| articles held | processor time an article, µs |")
        print("| ---: | ---: |")
        for half in range(2):
            begun, began = processor_s_of(worker.pid), time.monotonic()
            log.append(articles // 2)
            # Its verdict is given when the worker has applied everything that was logged before.
            made.produce([(None, b'{"text": "the last one"}')])
            made.wait_done(CAUGHT_UP_S)
            used = processor_s_of(worker.pid) - begun - idle * (time.monotonic() - began)
            print(f"| {half * articles // 2:,} | {used / (articles // 2) * 1e6:.1f} |", flush=True)
        made.stop(worker)


@contextmanager
def _following(bootstrap: str, client: str) -> Iterator[Pipeline]:
    """Make a pipeline with this client whose index folds as often as by default."""
    index: Keys = {"fold_entries": Config().index.fold_entries}
    with (
        tempfile.TemporaryDirectory(prefix="stream-dedup-bench-") as folder,
        pipeline(bootstrap, Path(folder), f"following-{uuid4().hex[:8]}", index=index) as made,
    ):
        made.set("kafka", client=client)
        yield made


def _idle(worker: ForkedProcess) -> float:
    """Return the share of a core that a worker takes while nothing comes."""
    begun = processor_s_of(worker.pid)
    time.sleep(IDLE_S)
    return (processor_s_of(worker.pid) - begun) / IDLE_S


def _follow_live(options: argparse.Namespace) -> None:
    """Print what a worker takes that follows the log as it grows."""
    print(f"{options.live:,.0f} articles a second in records of {options.batch}\n")
    print("| client | at rest, of a core | processor time an article, µs |\n| --- | ---: | ---: |", flush=True)
    for client in CLIENTS:
        with find_broker(BrokerSettings()) as broker, _following(broker.bootstrap, client) as made:
            log = MadeLog(made.config(), options.batch)
            log.begin()
            worker = made.start()
            made.wait_joined()
            time.sleep(SETTLE_S)
            log.append(options.articles // 4, options.live)
            idle = _idle(worker)
            begun, began = processor_s_of(worker.pid), time.monotonic()
            log.append(options.articles, options.live)
            time.sleep(1.0)
            used = processor_s_of(worker.pid) - begun - idle * (time.monotonic() - began)
            print(f"| {client} | {idle:.1%} | {used / options.articles * 1e6:.1f} |", flush=True)
            made.stop(worker)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--articles", type=int, default=200_000, help="articles of other workers")
    parser.add_argument("--batch", type=int, default=LOG_BATCH, help="with --live: articles a log record (default 500)")
    parser.add_argument("--live", type=float, default=0.0, help="articles a second that a worker follows as they come")
    return parser.parse_args()


if __name__ == "__main__":
    main()
