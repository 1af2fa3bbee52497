"""Fill an index, open it, look up and insert: the index of a log beside the simhash package's SimhashIndex.

    python -m benchmarks.index [--sizes 100000,1000000] [--block-bits 16] [--tables 4] [--probes 64]
                               [--distances 3,7,11] [--memory 4096,0] [--batch 500] [--no-peer] [--folder DIR]

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
import shutil
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

import numpy as np

from benchmarks.index_report import Figure, Filled, Opened, Peer, Searched, print_tables, tell
from benchmarks.processes import in_new_process, memory_of
from benchmarks.stream import Search, Stream
from stream_dedup.core.entry import Batch, LogRecord
from stream_dedup.core.model import BLOCK_BITS, BLOCKS_PER_WORD, log_position
from stream_dedup.core.probes import exact_plan
from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.rules import CANDIDATES, DIRECTED
from stream_dedup.errors import StreamDedupError
from stream_dedup.index import IndexSettings, LogIndex

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from simhash import Simhash, SimhashIndex

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
MACHINE_SECONDS = 20
"""Seconds for which the pauses of the machine are looked for."""
PROFILE = PROFILES["article"]
"""Its sketches and its check; the look-ups are an option."""
CHECK = ("limit", "short_limit", "min_equal", "short_min_equal", "certain", "far", "far_min_equal", "dominated")
PROBES = {16: [64], 20: [128, 256], 24: [256, 512, 1024]}
"""Look-ups of directed search by the bits of a block."""
DISK_BYTES = 330
"""Bytes an article that must be free before a size is begun: those of the index, and half as many for merges."""


@dataclass(frozen=True)
class Run:
    """What one run of the benchmark measures."""

    batch: int
    sketch_bytes: int
    tables: int
    block_bits: int
    searches: list[Search]
    folder: Path

    def stream(self) -> Stream:
        """The articles from the first on."""
        return Stream(self.batch, self.tables, self.sketch_bytes, self.block_bits)


def main() -> None:
    options = _options()
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, one thread; ", end="")
    print(f"batches of {options.batch}", flush=True)
    figures = []
    try:
        for tables in options.tables:
            for block_bits in options.block_bits:
                with tempfile.TemporaryDirectory(prefix="stream-dedup-bench-", dir=options.folder) as folder:
                    run = _run_of(options, tables, block_bits, Path(folder))
                    figures += _until_something_runs_out(run, options)
    finally:
        print_tables(figures)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=_numbers, default=[100_000, 1_000_000], help="articles held")
    parser.add_argument("--block-bits", type=_numbers, default=[BLOCK_BITS], help="bits of a block: 16, 20, 24")
    parser.add_argument("--tables", type=_numbers, default=[4], help="tables of the scheme: 4, 8, 16")
    by_width = "; ".join(f"{bits} bits: {', '.join(map(str, probes))}" for bits, probes in PROBES.items())
    parser.add_argument("--probes", type=_numbers, help=f"look-ups of directed search ({by_width})")
    parser.add_argument("--distances", type=_numbers, default=[3, 7, 11], help="values of k (four tables of 16 bits)")
    parser.add_argument("--memory", type=_numbers, default=[4096, 0], help="MiB of the index; the first fills")
    parser.add_argument("--batch", type=int, default=500, help="articles a batch (default 500)")
    parser.add_argument("--no-peer", action="store_true", help="leave SimhashIndex out")
    parser.add_argument("--folder", type=Path, help="where the index is made, on a disk with room for it")
    return parser.parse_args()


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


def _run_of(options: argparse.Namespace, tables: int, block_bits: int, folder: Path) -> Run:
    check: Search = {name: getattr(PROFILE, name) for name in CHECK}
    searches: list[Search] = [
        {"search": DIRECTED, "distance": None, "probes": probes, "candidates": CANDIDATES, **check}
        for probes in options.probes or PROBES[block_bits]
    ]
    if (tables, block_bits) == (BLOCKS_PER_WORD, BLOCK_BITS):
        searches += [{"distance": distance} for distance in options.distances]
    sketch_bytes = PROFILE.settings.widths.sketch_bytes
    return Run(options.batch, sketch_bytes, tables, block_bits, searches, folder / "index")


def _until_something_runs_out(run: Run, options: argparse.Namespace) -> Iterator[Figure]:
    try:
        yield from _each_size(run, options)
    except (StreamDedupError, BrokenProcessPool) as error:
        print(f"{run.block_bits} bits: stopped: {error}", flush=True)


def _each_size(run: Run, options: argparse.Namespace) -> Iterator[Figure]:
    """Fill to each size and measure there."""
    stream, batches = run.stream(), 0
    for size in options.sizes:
        needed = max(size - batches * run.batch, 0) * DISK_BYTES
        free = shutil.disk_usage(run.folder.parent).free
        if free < needed:
            print(
                f"{run.block_bits} bits: stopped before {size:,} articles: {needed >> 30} GiB of disk are needed, ",
                end="",
            )
            print(f"{free >> 30} are free", flush=True)
            return
        more = max(-(-size // run.batch) - batches, 0)
        if more:
            filled, stream = in_new_process(_filled, run, stream, batches, more, options.memory[0])
            yield tell(filled)
            batches += more
        for memory_mib in options.memory:
            figures, stream, batches = in_new_process(_measured, run, stream, batches, memory_mib)
            yield from figures
            if not options.no_peer:
                yield from _peers(run, figures)


def _open(run: Run, stream: Stream, memory_mib: int) -> LogIndex:
    return LogIndex.open(run.folder, scheme=stream.scheme, settings=IndexSettings(memory_mib=memory_mib))


def _filled(run: Run, stream: Stream, batches: int, more: int, memory_mib: int) -> tuple[Filled, Stream]:
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
    articles = (batches + more) * run.batch
    filled = Filled(
        block_bits=run.block_bits,
        tables=run.tables,
        articles=articles,
        us=float(times.sum()) / more / run.batch * 1e6,
        processor_us=processor / more / run.batch * 1e6,
        longest_ms=float(times.max()) * 1e3,
        longest_processor_ms=float(used.max()) * 1e3,
        p999_ms=float(np.percentile(times, 99.9)) * 1e3,
        machine_ms=_longest_stop(MACHINE_SECONDS) * 1e3,
        disk_bytes=disk_bytes / articles,
        list_bytes=list_bytes / articles,
    )
    return filled, stream


def _longest_stop(seconds: float) -> float:
    """Return for how many seconds a loop that does nothing stood still at most."""
    longest, last = 0.0, time.perf_counter()
    end = last + seconds
    while last < end:
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return longest


def _measured(run: Run, stream: Stream, batches: int, memory_mib: int) -> tuple[list[Figure], Stream, int]:
    """Open the index, and search in it in each way; in a process of its own."""
    before = memory_of(os.getpid())
    start, used = time.perf_counter(), time.process_time()
    with _open(run, stream, memory_mib) as index:
        took = (time.perf_counter() - start, time.process_time() - used)
        record = stream.record()
        index.apply([record])
        index.judge(log_position(record.offset, 0) + np.arange(1))
        first_s = time.perf_counter() - start
        batches += 1
        warm_s = max(_when_warm(index) - start, 0.0)
        memory = memory_of(os.getpid()).beyond(before)
        width = (run.block_bits, run.tables)
        figures = [tell(Opened(*width, batches * run.batch, memory_mib, *took, first_s, warm_s, memory))]
        for search in run.searches:
            index.apply([stream.rules(search)])
            first = batches
            times, compared = [], []
            most = min(MAX_BATCHES, int(first * MOST_SHARE))
            for seconds, candidates in _searched(index, stream, run.batch, most):
                times.append(seconds)
                compared.append(candidates)
                batches += 1
            distance, probes = search["distance"], search.get("probes")
            lookups = int(probes) if probes else exact_plan(int(distance or 0)).shape[1]
            each = [seconds / run.batch * 1e6 for seconds in times[WARMING:]]
            searched = Searched(
                *width,
                # What it holds halfway through stands for the figure.
                articles=(first + batches) // 2 * run.batch,
                memory_mib=memory_mib,
                distance=None if distance is None else int(distance),
                lookups=lookups,
                held_mib=index.stats().memory_bytes / (1 << 20),
                median_us=median(each),
                mean_us=mean(each),
                slowest_ms=max(times[WARMING:]) * 1e3,
                candidates=mean(compared[WARMING:]) / run.batch,
                memory=memory_of(os.getpid()).beyond(before),
            )
            figures.append(tell(searched))
    return figures, stream, batches


def _when_warm(index: LogIndex) -> float:
    """Wait until the memory of the index has stayed the same for a while; return since when."""
    size, since = index.stats().memory_bytes, time.perf_counter()
    while time.perf_counter() - since < STILL_SECONDS:
        time.sleep(STILL_SECONDS / 20)
        if (now := index.stats().memory_bytes) != size:
            size, since = now, time.perf_counter()
    return since


def _searched(index: LogIndex, stream: Stream, batch: int, most: int) -> Iterator[tuple[float, int]]:
    """Apply and judge; yield the seconds of each batch, and the entries compared."""
    took, least = 0.0, MIN_BATCHES + WARMING
    for number in range(max(most, least)):
        if number >= least and took > SECONDS:
            return
        record = stream.record()
        positions = log_position(record.offset, 0) + np.arange(batch)
        before = index.counters.candidates
        start = time.perf_counter()
        index.apply([record])
        index.judge(positions)
        last = time.perf_counter() - start
        took += last
        yield last, index.counters.candidates - before


def _peers(run: Run, figures: Sequence[Figure]) -> Iterator[Figure]:
    """The same searches in the peer's index; there are none in directed search."""
    for figure in figures:
        if isinstance(figure, Searched) and figure.distance is not None:
            us, why_not = in_new_process(_peer, run, figure.articles // run.batch, figure.distance)
            width = (run.block_bits, run.tables)
            yield tell(Peer(*width, figure.articles, figure.memory_mib, figure.distance, us, why_not))


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
    values = [value for _ in range(-(-PEER_ARTICLES // run.batch)) for value in _fingerprints(stream.record())]
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
