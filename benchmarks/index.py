"""Fill an index, open it, look up and insert: the index of a log beside the simhash package's SimhashIndex.

    python -m benchmarks.index [--sizes 100000,1000000] [--block-bits 16] [--probes 64] [--distances 3,7,11]
                               [--memory 4096,0] [--no-peer] [--folder DIR]

One thread, nothing else running. Articles are made (``benchmarks.stream``), one in five near an earlier one; the check
is that of the profile ``article``. For each number of bits of a block one index is filled from the first size to the
last. Filling, opening and searching are each done in a process of their own, which has nothing but the index and the
stream. A figure goes to standard error as soon as it is known; the tables follow at the end.

* **filling**: records applied, from the size before on. Processor time is that of the process without the making of
  the articles; RocksDB's threads are in it. The pauses are batches: the longest one; the longest one by processor time
  of its thread, which has no wait for the disk or for other processes in it; and the one that 0.1 % exceed.
* **disk**: files after closing; of these the entries of posting lists, and all else.
* **opening**: of a closed index, its files most likely in the system's cache; seconds, and seconds of processor time.
  *First answer*: a batch is applied and its first article judged; *warm*: the cache grows no more; both from the start
  of the opening on. Memory is what was added since the program was loaded, when it is warm.
* **searching**: batches are applied and judged as a worker does it (one log record, then a verdict for each of its
  articles), and the time is that of both together. Runs are merged between batches, so means stand beside medians.
  Memory is that after the search.
* **memory**: ``index.memory_mib``; "held" is what posting lists and rows take of it.
* **candidates expected**: look-ups x entries / 2^bits, what random fingerprints give; seen: entries compared. An
  article's own entry and the re-posts' are among the latter.
* **SimhashIndex**: an index of the same k, filled with the same fingerprints; each article is looked up, then
  added. It is left out where filling it takes more than PEER_FILL_SECONDS or PEER_MIB, and says so.

How long it takes: some 15 s for a million articles and width on a quiet machine, so 25 minutes a width up to a hundred
million, which need 25 GB of disk and 13 GB of memory. Where the disk or the memory does not do, a line says at which
size it stopped, and the next width begins:

    python -m benchmarks.index --sizes 1000000,10000000,40000000,100000000 --block-bits 16,20,24 --memory 16384
                               --distances= --no-peer
"""

from __future__ import annotations

import argparse
import logging
import os
import platform
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from benchmarks.processes import in_new_process, memory_of
from benchmarks.quality.report import table
from benchmarks.stream import Search, Stream
from stream_dedup.core.entry import Batch, LogRecord
from stream_dedup.core.model import BLOCK_BITS, log_position
from stream_dedup.core.probes import exact_plan
from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.rules import CANDIDATES, DIRECTED
from stream_dedup.errors import StreamDedupError
from stream_dedup.index import IndexSettings, LogIndex

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from simhash import Simhash, SimhashIndex

BATCH = 500
"""Articles of a batch."""
TABLES = 4
PEER_FILL_SECONDS = 120
"""Seconds that filling the peer's index may take."""
PEER_MIB = 6_000
"""MiB that the peer's index may take."""
PEER_SECONDS = 10
"""Seconds after which no further article is asked of the peer."""
PEER_ARTICLES = 2_000
SECONDS = 4
"""Seconds that each figure is measured for, at least MIN_BATCHES batches."""
MIN_BATCHES = 5
MAX_BATCHES = 300
MOST_SHARE = 0.05
"""Share of the articles held by which a search makes the index larger, at most."""
WARMING = 3
"""Batches before those that count: what was read from disk comes again from memory."""
STILL_SECONDS = 1.0
"""Seconds after which a cache that does not grow is warm."""
MIB = 1 << 20
PROFILE = PROFILES["article"]
"""Its sketches and its check; the look-ups are an option."""
CHECK = ("limit", "short_limit", "min_equal", "short_min_equal", "certain", "far", "far_min_equal", "dominated")
PROBES = {16: [64], 20: [128, 256], 24: [256, 512, 1024]}
"""Look-ups of directed search by the bits of a block."""


@dataclass(frozen=True)
class Run:
    """What one run of the benchmark measures."""

    block_bits: int
    searches: list[Search]
    folder: Path

    def stream(self) -> Stream:
        """The articles from the first on."""
        return Stream(BATCH, TABLES, PROFILE.settings.widths.sketch_bytes, self.block_bits)


class Figure(NamedTuple):
    """A row of one of the tables, and its cells by their columns."""

    table: str
    cells: dict[str, str]


FILLING, OPENING, SEARCHING = "filling", "opening", "searching"
PEER = "SimhashIndex, µs: median"


def main() -> None:
    options = _options()
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, one thread; ", end="")
    print(f"batches of {BATCH}", flush=True)
    figures: list[Figure] = []
    try:
        for block_bits in options.block_bits:
            with tempfile.TemporaryDirectory(prefix="stream-dedup-bench-", dir=options.folder) as folder:
                run = _run_of(options, block_bits, Path(folder))
                for figure in _until_something_runs_out(run, options):
                    told = ", ".join(f"{name} {cell}" for name, cell in figure.cells.items())
                    print(f"{figure.table}: {told}", file=sys.stderr, flush=True)
                    figures.append(figure)
    finally:
        for kind in (SEARCHING, FILLING, OPENING):
            _print_table([figure.cells for figure in figures if figure.table == kind])


def _print_table(rows: list[dict[str, str]]) -> None:
    if rows:
        columns = list(dict.fromkeys(name for row in rows for name in row))
        print(f"\n{table(columns, ([row.get(name, '') for name in columns] for row in rows))}", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=_numbers, default=[100_000, 1_000_000], help="articles held")
    parser.add_argument("--block-bits", type=_numbers, default=[BLOCK_BITS], help="bits of a block: 16, 20, 24")
    by_width = "; ".join(f"{bits} bits: {', '.join(map(str, probes))}" for bits, probes in PROBES.items())
    parser.add_argument("--probes", type=_numbers, help=f"look-ups of directed search ({by_width})")
    parser.add_argument("--distances", type=_numbers, default=[3, 7, 11], help="values of k (16 bits)")
    parser.add_argument("--memory", type=_numbers, default=[4096, 0], help="MiB of the index; the first fills")
    parser.add_argument("--no-peer", action="store_true", help="leave SimhashIndex out")
    parser.add_argument("--folder", type=Path, help="where the index is made, on a disk with room for it")
    return parser.parse_args()


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


def _run_of(options: argparse.Namespace, block_bits: int, folder: Path) -> Run:
    check: Search = {name: getattr(PROFILE, name) for name in CHECK}
    searches: list[Search] = [
        {"search": DIRECTED, "distance": None, "probes": probes, "candidates": CANDIDATES, **check}
        for probes in options.probes or PROBES[block_bits]
    ]
    if block_bits == BLOCK_BITS:
        searches += [{"distance": distance} for distance in options.distances]
    return Run(block_bits, searches, folder / "index")


def _until_something_runs_out(run: Run, options: argparse.Namespace) -> Iterator[Figure]:
    try:
        yield from _each_size(run, options)
    except (StreamDedupError, BrokenProcessPool) as error:
        print(f"{run.block_bits} bits: stopped: {error}", flush=True)


def _each_size(run: Run, options: argparse.Namespace) -> Iterator[Figure]:
    """Fill to each size and measure there."""
    stream, batches = run.stream(), 0
    for size in options.sizes:
        more = max(-(-size // BATCH) - batches, 0)
        if more:
            filled, stream = in_new_process(_filled, run, stream, batches, more, options.memory[0])
            yield filled
            batches += more
        for memory_mib in options.memory:
            opened, searched, stream, batches = in_new_process(_measured, run, stream, batches, memory_mib)
            yield opened
            for one in searched:
                yield one.figure if options.no_peer or one.distance is None else _beside_peer(run, one)


def _open(run: Run, stream: Stream, memory_mib: int) -> LogIndex:
    return LogIndex.open(run.folder, scheme=stream.scheme, settings=IndexSettings(memory_mib=memory_mib))


def _filled(run: Run, stream: Stream, batches: int, more: int, memory_mib: int) -> tuple[Figure, Stream]:
    """Add so many batches to the index; in a process of its own."""
    times, used = np.empty(more), np.empty(more)
    with _open(run, stream, memory_mib) as index:
        if index.log_id is None:
            index.begin("benchmark")
            index.apply([stream.rules(run.searches[0])])
        making, began = 0.0, time.process_time()
        for at in range(more):
            before = time.thread_time()
            record = stream.record()
            start, between = time.perf_counter(), time.thread_time()
            index.apply([record])
            times[at], used[at] = time.perf_counter() - start, time.thread_time() - between
            making += between - before
        processor = time.process_time() - began - making
        list_bytes = index.stats().list_bytes
    disk_bytes = sum(file.stat().st_size for file in run.folder.glob("**/*") if file.is_file())
    articles = (batches + more) * BATCH
    cells = {
        "bits": f"{run.block_bits}",
        "articles": f"{articles:,}",
        "µs an article": f"{times.sum() / more / BATCH * 1e6:.1f}",
        "processor time, µs": f"{processor / more / BATCH * 1e6:.1f}",
        "longest pause, ms": f"{times.max() * 1e3:.0f}",
        "by processor time": f"{used.max() * 1e3:.0f}",
        "99.9 %, ms": f"{np.percentile(times, 99.9) * 1e3:.1f}",
        "disk, bytes an article": f"{disk_bytes / articles:.0f}",
        "of these posting lists": f"{list_bytes / articles:.0f}",
    }
    return Figure(FILLING, cells), stream


class Searched(NamedTuple):
    """A search that was measured; ``distance`` is None in directed search."""

    figure: Figure
    articles: int
    distance: int | None
    median_us: float


def _measured(run: Run, stream: Stream, batches: int, memory_mib: int) -> tuple[Figure, list[Searched], Stream, int]:
    """Open the index, and search in it in each way; in a process of its own."""
    before = memory_of(os.getpid())
    start, used = time.perf_counter(), time.process_time()
    with _open(run, stream, memory_mib) as index:
        seconds, processor_s = time.perf_counter() - start, time.process_time() - used
        record = stream.record()
        index.apply([record])
        index.judge(log_position(record.offset, 0) + np.arange(1))
        first_s = time.perf_counter() - start
        batches += 1
        warm_s = max(_when_warm(index) - start, 0.0)
        memory_added = sum(memory_of(os.getpid()).beyond(before))
        cells = {
            "bits": f"{run.block_bits}",
            "articles": f"{batches * BATCH:,}",
            "index.memory_mib": f"{memory_mib:,}",
            "opening, s": f"{seconds:.2f}",
            "processor time, s": f"{processor_s:.2f}",
            "first answer, s": f"{first_s:.2f}",
            "warm, s": f"{warm_s:.1f}",
            "memory, MiB": f"{memory_added:,.0f}",
            "bytes an article": f"{memory_added * MIB / batches / BATCH:,.0f}",
        }
        searches = []
        for search in run.searches:
            index.apply([stream.rules(search)])
            measured = list(_searched(index, stream, min(MAX_BATCHES, int(batches * MOST_SHARE))))
            # What it holds halfway through stands for the figure.
            articles = (batches + len(measured) // 2) * BATCH
            batches += len(measured)
            times, compared = np.array(measured[WARMING:]).T
            distance, probes = search["distance"], search.get("probes")
            lookups = int(probes) if probes else exact_plan(int(distance or 0)).shape[1]
            median_us = float(np.median(times)) / BATCH * 1e6
            found = {
                "bits": f"{run.block_bits}",
                "articles": f"{articles:,}",
                "search": f"{probes} probes" if distance is None else f"k = {distance}",
                "index.memory_mib: held": f"{memory_mib:,}: {index.stats().memory_bytes / MIB:,.0f}",
                "µs an article: median": f"{median_us:.1f}",
                "mean": f"{times.mean() / BATCH * 1e6:.1f}",
                "slowest batch, ms": f"{times.max() * 1e3:.0f}",
                "candidates expected": f"{lookups * articles / (1 << run.block_bits):,.0f}",
                "seen": f"{compared.mean() / BATCH:,.0f}",
                "memory, MiB": f"{sum(memory_of(os.getpid()).beyond(before)):,.0f}",
            }
            k = None if distance is None else int(distance)
            searches.append(Searched(Figure(SEARCHING, found), articles, k, median_us))
    return Figure(OPENING, cells), searches, stream, batches


def _when_warm(index: LogIndex) -> float:
    """Wait until the memory of the index has stayed the same for a while; return since when."""
    size, since = index.stats().memory_bytes, time.perf_counter()
    while time.perf_counter() - since < STILL_SECONDS:
        time.sleep(STILL_SECONDS / 20)
        if (now := index.stats().memory_bytes) != size:
            size, since = now, time.perf_counter()
    return since


def _searched(index: LogIndex, stream: Stream, most: int) -> Iterator[tuple[float, int]]:
    """Apply and judge; yield the seconds of each batch, and the entries compared."""
    took, least = 0.0, MIN_BATCHES + WARMING
    for number in range(max(most, least)):
        if number >= least and took > SECONDS:
            return
        record = stream.record()
        positions = log_position(record.offset, 0) + np.arange(BATCH)
        before = index.counters.candidates
        start = time.perf_counter()
        index.apply([record])
        index.judge(positions)
        last = time.perf_counter() - start
        took += last
        yield last, index.counters.candidates - before


def _beside_peer(run: Run, searched: Searched) -> Figure:
    """Return a figure with that of the same search in the peer's index beside it."""
    us, why_not = in_new_process(_peer, run, searched.articles // BATCH, searched.distance)
    beside = {PEER: why_not} if us is None else {PEER: f"{us:,.0f}", "ratio": f"{us / searched.median_us:,.0f} x"}
    return searched.figure._replace(cells=searched.figure.cells | beside)


def _peer(run: Run, batches: int, distance: int) -> tuple[float | None, str]:
    """Fill the peer's index with the articles of the stream; the median in microseconds, or why there is none."""
    logging.getLogger("simhash").setLevel(logging.ERROR)
    peer, stream = SimhashIndex([], f=64, k=distance), run.stream()
    start, memory = time.perf_counter(), memory_of(os.getpid())
    number = 0
    for _ in range(batches):
        for value in _fingerprints(stream.record()):
            peer.add(str(number), Simhash(value))
            number += 1
        if time.perf_counter() - start > PEER_FILL_SECONDS:
            return None, f"not filled in {PEER_FILL_SECONDS} s"
        if memory_of(os.getpid()).beyond(memory).anonymous > PEER_MIB:
            return None, f"more than {PEER_MIB:,} MiB"
    values = [value for _ in range(-(-PEER_ARTICLES // BATCH)) for value in _fingerprints(stream.record())]
    return median(_peer_times(peer, values[:PEER_ARTICLES], number)), ""


def _fingerprints(record: LogRecord) -> list[int]:
    assert isinstance(record.payload, Batch)
    values: list[int] = record.payload.fingerprints.tolist()
    return values


def _peer_times(peer: SimhashIndex, values: Sequence[int], number: int) -> list[float]:
    times: list[float] = []
    begin = time.perf_counter()
    for value in values:
        start = time.perf_counter()
        asked = Simhash(value)
        peer.get_near_dups(asked)
        peer.add(str(number + len(times)), asked)
        times.append((time.perf_counter() - start) * 1e6)
        if time.perf_counter() - begin > PEER_SECONDS:
            break
    return times


if __name__ == "__main__":
    main()
