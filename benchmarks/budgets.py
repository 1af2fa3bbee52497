"""An index larger than its memory: look-ups by budget, and by articles in a batch.

    python -m benchmarks.budgets [--articles 10000000] [--block-bits 16] [--probes 64] [--shares 1,0.25,0.1,0]
                                 [--folder DIR] [--drop]

An index is filled; for each share of the memory that its chunks and rows take (145 bytes an article) it is opened with
that budget and warmed. Then batches of 1, 10 and 500 articles, which are new and of which one in five is near an
earlier one, are applied and judged.

* **p50, p99**: microseconds an article, of the batches.
* **fetched**: chunks that an article waited for; with a budget of 0 it waits for all that it uses. The **hit rate** is
  the share that it did not wait for.
* **other threads**: the longest time, ms, that another thread of the process did not run.
* **cold**: the first batch after opening, where nothing is warmed, ms.

Entries are random, so every part of the index is asked for equally often: no stream is worse. RocksDB's files are most
likely in the system's cache; ``--drop`` (root) empties it before each opening.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.index import BATCH, CHECK, PROFILE, Run
from benchmarks.processes import in_new_process
from benchmarks.stream import Search, Stream
from stream_dedup.core.model import log_position
from stream_dedup.core.rules import CANDIDATES, DIRECTED
from stream_dedup.index import IndexSettings, LogIndex

ARTICLE_BYTES = 145
"""Bytes of chunks and rows that an article takes in memory."""
BATCHES = {1: 1_000, 10: 300, 500: 20}
"""Batches measured, by the articles in each."""
TICK_S = 0.001
DROP = Path("/proc/sys/vm/drop_caches")


class Measured(NamedTuple):
    """Microseconds an article, and chunks fetched for one."""

    p50: float
    p99: float
    fetched: float


@dataclass
class Ticking:
    """A thread that wants to run every millisecond."""

    longest_s: float = 0.0

    def __post_init__(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        last = time.perf_counter()
        while not self._over.is_set():
            time.sleep(TICK_S)
            now = time.perf_counter()
            self.longest_s, last = max(self.longest_s, now - last - TICK_S), now

    def stop(self) -> float:
        """Return the longest time that it did not run, in seconds."""
        self._over.set()
        self._thread.join()
        return self.longest_s


def main() -> None:
    options = _options()
    search: Search = {"search": DIRECTED, "distance": None, "probes": options.probes, "candidates": CANDIDATES}
    search |= {name: getattr(PROFILE, name) for name in CHECK}
    print(f"{options.articles:,} articles, {options.block_bits} bits, {options.probes} look-ups", flush=True)
    columns = "share of memory | batch | p50 | p99 | fetched | hit rate | other threads | cold"
    print(f"| {columns} |\n|{' ---: |' * 8}", flush=True)
    with tempfile.TemporaryDirectory(prefix="stream-dedup-bench-", dir=options.folder) as folder:
        run = Run(options.block_bits, [search], Path(folder) / "index")
        stream = in_new_process(_fill, run, options.articles)
        used: dict[int, float] = {}
        for share in sorted(options.shares):
            memory = int(options.articles * ARTICLE_BYTES * share) >> 20
            found, stream = in_new_process(_measure, run, stream, memory, is_dropped=options.drop)
            for batch, one in found.by_batch.items():
                used.setdefault(batch, one.fetched)
                rate = 1 - one.fetched / used[batch] if share else 0
                cells = f"{share:g} | {batch} | {one.p50:,.0f} | {one.p99:,.0f} | {one.fetched:,.1f}"
                rest = f"{rate:.0%} | {found.waited_ms:,.1f} | {found.cold_ms:,.0f}"
                print(f"| {cells} | {rest} |", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--articles", type=int, default=10_000_000)
    parser.add_argument("--block-bits", type=int, default=16)
    parser.add_argument("--probes", type=int, default=64, help="look-ups of an article")
    parser.add_argument("--shares", type=_shares, default=[1, 0.25, 0.1, 0], help="of the memory that all of it takes")
    parser.add_argument("--folder", type=Path, help="where the index is made, on a disk with room for it")
    parser.add_argument("--drop", action="store_true", help="empty the system's cache before each opening")
    return parser.parse_args()


def _shares(text: str) -> list[float]:
    return list(map(float, text.split(",")))


def _fill(run: Run, articles: int) -> Stream:
    """Make an index; in a process of its own."""
    stream = run.stream()
    settings = IndexSettings(memory_mib=(articles * ARTICLE_BYTES >> 20) + 512)
    began, seconds = time.perf_counter(), 0.0
    with LogIndex.open(run.folder, scheme=stream.scheme, settings=settings) as index:
        index.begin("benchmark")
        index.apply([stream.rules(run.searches[0])])
        for _ in range(articles // BATCH):
            record = stream.record()
            start = time.perf_counter()
            index.apply([record])
            seconds += time.perf_counter() - start
    print(f"filled at {seconds / articles * 1e6:.2f} us an article, in {time.perf_counter() - began:.0f} s", flush=True)
    return stream


@dataclass
class Found:
    """What was measured with one budget."""

    by_batch: dict[int, Measured]
    waited_ms: float
    cold_ms: float


def _measure(run: Run, stream: Stream, memory_mib: int, *, is_dropped: bool) -> tuple[Found, Stream]:
    """Open, warm and search; in a process of its own."""
    if is_dropped:
        DROP.write_text("3")
    # What RocksDB takes for itself is beside the share that is measured.
    settings = IndexSettings(memory_mib=memory_mib)
    beside = (memory_mib << 20) - settings.cache_bytes
    settings = IndexSettings(memory_mib=memory_mib + (beside >> 20)) if memory_mib else settings
    found = Found({}, 0.0, 0.0)
    with LogIndex.open(run.folder, scheme=stream.scheme, settings=settings) as index:
        found.cold_ms = _judged(index, stream, 1) * 1e3
        size = -1
        while memory_mib and (now := index.stats().memory_bytes) != size:
            size = now
            time.sleep(1)
        ticking = Ticking()
        for batch, count in BATCHES.items():
            before = index.counters.fetched
            seconds = np.array([_judged(index, stream, batch) for _ in range(count)]) / batch * 1e6
            fetched = (index.counters.fetched - before) / count / batch
            found.by_batch[batch] = Measured(*np.percentile(seconds, [50, 99]).tolist(), fetched)
        found.waited_ms = ticking.stop() * 1e3
    return found, stream


def _judged(index: LogIndex, stream: Stream, batch: int) -> float:
    """Apply and judge so many new articles; the seconds that it took."""
    stream.articles = batch
    record = stream.record()
    positions = log_position(record.offset, 0) + np.arange(batch)
    start = time.perf_counter()
    index.apply([record])
    index.judge(positions)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
