"""What it costs a worker to follow the log: the articles of the other workers, applied to its own index.

    python -m benchmarks.following [--articles 200000] [--batch 500] [--image 4096]

A log of foreign entries is decoded from its bytes and applied to an index on disk, batch by batch, as a worker does
with each record of the log; no verdict is computed. Signatures are those of ``benchmarks.stream``: random, one article
in five near an earlier one. The figures are processor time of the whole process, merges by RocksDB's threads included,
so that they do not depend on what else the machine does. The fetch by Kafka's client is not part of them.

The second table says what the log's partition carries: bytes of an article, and their number in a MB.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from pathlib import Path
from typing import NamedTuple

from benchmarks.stream import Stream
from stream_dedup.core.entry import Batch, LogRecord, decode
from stream_dedup.core.rules import DIRECTED
from stream_dedup.index import IndexSettings, LogIndex

STEPS = 4
"""Rows of the table: the cost as the index grows."""
RECORDS_AT_ONCE = 16
"""Records applied together, as many as a poll of the log gives a worker that is behind."""


class Measured(NamedTuple):
    """A part of the log: articles before it, and microseconds of processor time an article."""

    held: int
    decoding: float
    applying: float


def main() -> None:
    options = _options()
    stream = Stream(options.batch, options.tables)
    rules = stream.rules({"search": DIRECTED, "distance": None, "probes": 64, "limit": 60, "short_limit": 60})
    settings = IndexSettings(image_mib=options.image)
    part = options.articles // STEPS // options.batch
    print(f"{options.tables} tables, batches of {options.batch}, image of at most {options.image} MiB\n")
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
            raws = [stream.record()[0] for _ in range(part)]
            size += sum(len(record.raw) for record in raws)
            row = _followed(index, raws, step * part * options.batch)
            print(f"| {row.held:,} | {row.decoding:.1f} | {row.applying:.1f} | {row.decoding + row.applying:.1f} |")
    each = size / (STEPS * part * options.batch)
    print(f"\n{each:.0f} bytes of log an article (ids of some 25 bytes): {1e6 / each:,.0f} articles in a MB")


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
    parser.add_argument("--image", type=int, default=4096, help="MiB of the image, 0 for none")
    return parser.parse_args()


if __name__ == "__main__":
    main()
