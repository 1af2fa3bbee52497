"""What it costs a worker to follow the log: the articles of the other workers, applied to its own index.

    python -m benchmarks.following [--articles 200000] [--batch 500] [--memory 4096] [--broker]
    python -m benchmarks.following --live 2000 [--articles 40000] [--batch 20]

A log of foreign entries is decoded from its bytes and applied to an index on disk, batch by batch, as a worker does
with each record of the log; no verdict is computed. Signatures are those of ``benchmarks.stream``: random, one article
in five near an earlier one. The figures are processor time of the whole process, merges by RocksDB's threads included,
so that they do not depend on what else the machine does. The fetch by Kafka's client is not part of them. A line below
the table says what the log's partition carries: bytes of an article, and their number in a MB.

With ``--broker``, a worker without an article of its own follows the log of a real broker while as many made articles
are appended to it, in two halves. The figures are processor time of the worker's process, less what it takes while
nothing comes: the client is part of them.

With ``--live``, made articles are appended to the log at so many a second while such a worker follows it, in records of
``--batch`` articles, as busy workers append them; with each Kafka client, less what the worker takes at rest.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from benchmarks.pipeline import CLIENTS, MadeLog
from benchmarks.processes import processor_s_of
from benchmarks.stream import Stream
from stream_dedup.config.model import Config
from stream_dedup.core.entry import Batch, LogRecord, decode
from stream_dedup.core.rules import DIRECTED
from stream_dedup.dev.broker import BrokerSettings, find_broker
from stream_dedup.index import IndexSettings, LogIndex
from tests.forks import ForkedProcess
from tests.worker.pipeline import Keys, Pipeline, pipeline

STEPS = 4
"""Rows of the table: the cost as the index grows."""
RECORDS_AT_ONCE = 16
"""Records applied together, as many as a poll of the log gives a worker that is behind."""

IDLE_S = 10.0
SETTLE_S = 3.0
CAUGHT_UP_S = 600.0


class Measured(NamedTuple):
    """A part of the log: articles before it, and microseconds of processor time an article."""

    held: int
    decoding: float
    applying: float


def main() -> None:
    options = _options()
    if options.live:
        _follow_live(options)
        return
    stream = Stream(options.batch, options.tables)
    rules = stream.rules({"search": DIRECTED, "distance": None, "probes": 64, "limit": 60, "short_limit": 60})
    settings = IndexSettings(memory_mib=options.memory)
    part = options.articles // STEPS // options.batch
    print(f"{options.tables} tables, batches of {options.batch}, index.memory_mib {options.memory}\n")
    print("| articles held | decoding, µs of processor time an article | applying | together |")
    print("| ---: | ---: | ---: | ---: |")
    with (
        tempfile.TemporaryDirectory(prefix="stream-dedup-bench-") as folder,
        LogIndex.open(Path(folder), scheme=stream.scheme, settings=settings) as index,
    ):
        index.begin("log")
        index.apply([rules])
        size = 0
        for step in range(STEPS):
            raws = [stream.record() for _ in range(part)]
            size += sum(len(record.raw) for record in raws)
            row = _followed(index, raws, step * part * options.batch)
            print(f"| {row.held:,} | {row.decoding:.1f} | {row.applying:.1f} | {row.decoding + row.applying:.1f} |")
    each = size / (STEPS * part * options.batch)
    print(f"\n{each:.0f} bytes of log an article (ids of some 25 bytes): {1e6 / each:,.0f} articles in a MB")
    if options.broker:
        _follow_broker(options.articles)


def _follow_broker(articles: int) -> None:
    """Print what a worker takes that follows the log of a broker."""
    with find_broker(BrokerSettings()) as broker, _following(broker.bootstrap, CLIENTS[0]) as made:
        log = MadeLog(made.config())
        log.begin()
        worker = made.start()
        made.wait_joined()
        idle = _idle(worker)
        print(f"\na worker on a broker: {idle:.1%} of a core while nothing comes\n")
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


def _followed(index: LogIndex, records: list[LogRecord], held: int) -> Measured:
    """Decode and apply records; the time of making them does not count."""
    decoding = applying = articles = 0.0
    for at in range(0, len(records), RECORDS_AT_ONCE):
        begun = _processor_s()
        decoded = [record._replace(payload=decode(record.raw)) for record in records[at : at + RECORDS_AT_ONCE]]
        between = _processor_s()
        index.apply(decoded)
        decoding += between - begun
        applying += _processor_s() - between
        articles += sum(len(record.payload) for record in decoded if isinstance(record.payload, Batch))
    return Measured(held, decoding / articles * 1e6, applying / articles * 1e6)


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--articles", type=int, default=200_000, help="articles of other workers")
    parser.add_argument("--batch", type=int, default=500, help="articles a log record (default 500)")
    parser.add_argument("--tables", type=int, default=4, help="tables of the scheme: 4, 8 or 16")
    parser.add_argument("--memory", type=int, default=4096, help="MiB of the index")
    parser.add_argument("--broker", action="store_true", help="also a worker on a broker")
    parser.add_argument("--live", type=float, default=0.0, help="articles a second that a worker follows as they come")
    return parser.parse_args()


if __name__ == "__main__":
    main()
