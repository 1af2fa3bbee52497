"""Run as a process that is killed: applies a log from where its index stands, some records at a time, and says so."""

import sys
from pathlib import Path

from stream_dedup.core.rules import DIRECTED
from stream_dedup.index import IndexSettings, LogIndex
from tests.index.small import small_runs
from tests.logs import scheme_of
from tests.random_logs import RandomLog, stepwise_log

SETTINGS = IndexSettings(fold_entries=60, most_buffer_bytes=64 << 10)
BATCHES = 240
TOGETHER = 3
"""Records that are applied together: batches of new articles share a write."""
SCHEME = scheme_of(8)
RULES = {
    "search": DIRECTED,
    "distance": None,
    "probes": 64,
    "limit": 60,
    "short_limit": 60,
    "recrawl": "update",
    "window_ms": 200_000,
}


def the_log() -> RandomLog:
    """The same log in every process."""
    writer = stepwise_log(11, centres=300, most_rows=40, tables=8)
    writer.append_rules(**RULES)
    for _ in range(BATCHES // 20):
        for _ in range(20):
            writer.append_batch()
        before = writer.append_rules(**RULES)
        if writer.rng.random() < 0.3:
            writer.append_trim(before, writer.time - 100_000)
    return writer


def main(path: str) -> int:
    """Called in a forked process; returns its exit code. Runs of a few entries are stored."""
    small_runs()
    index = LogIndex.open(Path(path), scheme=SCHEME, settings=SETTINGS)
    if index.log_id is None:
        index.begin("a log")
    left = [record for record in the_log().records if record.offset >= index.next_offset]
    while left:
        some, left = left[:TOGETHER], left[TOGETHER:]
        index.apply(some)
        sys.stdout.write(f"{some[-1].offset}\n")
        sys.stdout.flush()
    index.close()
    sys.stdout.write("done\n")
    sys.stdout.flush()
    return 0
