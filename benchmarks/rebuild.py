"""Rebuild an index from its log, beside reading the log alone.

    python -m benchmarks.rebuild [--articles 1000000] [--turns 2] [--folder DIR]

A log of made articles (``benchmarks.stream``) is filled on a broker of its own. Then, in turns, each in a process of
its own and from the beginning of the log to its end:

* **reading the log**: Kafka's client as the program uses it; nothing is decoded.
* **decoding it too**: the log as the program follows it, without an index.
* **index rebuild**: ``stream-dedup index rebuild`` into an empty folder. Its start, which is that of a rebuild of the
  log while it had no article, is taken off.

Processor time is that of the process with all its threads, RocksDB's among them; the broker's is not in it. Both cores
are the broker's as well, so a rebuild never reaches what its processor time says. The aim is 50,000 articles a second.

How long it takes: for ten million, which need 4 GB of disk, some 12 minutes on a quiet machine:

    python -m benchmarks.rebuild --articles 10000000
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import median

from kafka import TopicPartition

from benchmarks.pipeline import MadeLog
from benchmarks.processes import Took, call, in_new_process
from stream_dedup.config.model import Config
from stream_dedup.dev.broker import BrokerSettings, find_broker
from stream_dedup.kafka.clients import connect_log
from stream_dedup.kafka.connection import make_consumer
from stream_dedup.kafka.fingerprint_log import LOG_FETCH_BYTES, READ_RECORDS
from tests.worker.pipeline import Pipeline, pipeline, toml_of


def main() -> None:
    options = _options()
    fold = {"fold_entries": Config().index.fold_entries}
    with (
        tempfile.TemporaryDirectory(prefix="stream-dedup-rebuild-", dir=options.folder) as folder,
        find_broker(BrokerSettings(data=Path(folder) / "broker"), own=True) as broker,
        pipeline(broker.bootstrap, Path(folder), "rebuild", index=fold) as made,
    ):
        made_log = MadeLog(made.config())
        made_log.begin()
        rebuilt(made)  # loads everything once, so that the next one compiles nothing
        start = rebuilt(made)
        print(f"a start takes {start.wall_s:.1f} s, {start.processor_s:.1f} of processor time", flush=True)
        began = time.monotonic()
        made_log.append(options.articles)
        print(f"log of {options.articles:,} articles filled in {time.monotonic() - began:.0f} s", flush=True)
        ways: dict[str, Callable[[], Took]] = {
            "reading the log": lambda: in_new_process(_read, made.config()),
            "decoding it too": lambda: in_new_process(_decoded, made.config()),
            "index rebuild": lambda: rebuilt(made).without(start),
        }
        _print_turns(ways, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--articles", type=int, default=1_000_000, help="articles in the log")
    parser.add_argument("--turns", type=int, default=2, help="turns of the three ways")
    parser.add_argument("--folder", type=Path, help="where log and index are made, on a disk with room for both")
    return parser.parse_args()


def _print_turns(ways: dict[str, Callable[[], Took]], options: argparse.Namespace) -> None:
    """Take turns; print each as it ends, and the medians."""
    print("\n| turn | way | articles/s | processor time an article, µs |\n| ---: | --- | ---: | ---: |")
    taken: dict[str, list[Took]] = {way: [] for way in ways}
    for turn in range(1, options.turns + 1):
        for way, work in ways.items():
            took = work()
            taken[way].append(took)
            print(f"| {turn} {_row(way, took, options.articles)}", flush=True)
    for way, each in taken.items():
        middle = Took(median(took.wall_s for took in each), median(took.processor_s for took in each))
        print(f"| median {_row(way, middle, options.articles)}", flush=True)


def _row(way: str, took: Took, articles: int) -> str:
    return f"| {way} | {articles / took.wall_s:,.0f} | {took.processor_s / articles * 1e6:.1f} |"


def rebuilt(made: Pipeline) -> Took:
    """Rebuild the index of a pipeline by the command."""
    path = made.folder / "rebuild.toml"
    path.write_text(toml_of(made.values("main")), "utf-8")
    command = [sys.executable, "-m", "stream_dedup", "index", "rebuild", "--config", str(path)]
    return call(command, stdout=subprocess.DEVNULL)


def _read(config: Config) -> Took:
    """Read the log without decoding it."""
    partition = TopicPartition(config.log_topic, 0)
    consumer = make_consumer(config.kafka, max_poll_records=READ_RECORDS, max_partition_fetch_bytes=LOG_FETCH_BYTES)
    with closing(consumer):
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        consumer.seek(partition, 0)
        before, began = time.process_time(), time.monotonic()
        while consumer.position(partition) < end:
            consumer.poll(timeout_ms=1_000)
        return Took(time.monotonic() - began, time.process_time() - before)


def _decoded(config: Config) -> Took:
    """Read the log as the program does."""
    with closing(connect_log(config)) as log:
        first, end = log.bounds()
        before, began = time.process_time(), time.monotonic()
        for _ in log.read(first, end):
            continue
        return Took(time.monotonic() - began, time.process_time() - before)


if __name__ == "__main__":
    main()
