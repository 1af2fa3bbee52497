"""Look-up and insert an article: the index of a log beside the simhash package's SimhashIndex.

    python -m benchmarks.index [--sizes 100000,1000000] [--tables 4] [--probes 64] [--distances 3,7,11]
                               [--images 4096,0] [--batch 500] [--no-peer]

One thread, nothing else running. Signatures and sketches are random but for one article in five, which is an earlier
one, edited (``benchmarks.stream``); the check is that of the profile ``article``. At each size, for each image and each
search: batches are applied and judged as a worker does it (one log record, then a verdict for each of its articles),
and the time is that of both together, plans, checks, the writing of records, rows and lists included. The folding of
lists comes in steps between batches, so means are given beside medians.

* **image**: MiB of rows and lists held in memory, 0 for none; "held" is what was used of it.
* **candidates expected**: look-ups x entries / 65,536, what random fingerprints give; seen: entries compared. An
  article's own entry and the re-posts' are among the latter.
* **longest pause**: the longest single batch while the index was filled to the size.
* **SimhashIndex**: an index of the same k, filled with the same fingerprints; each article is looked up, then
  added. It is left out where filling it takes more than PEER_FILL_SECONDS or PEER_MIB, and says so.
"""

from __future__ import annotations

import argparse
import logging
import platform
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

import numpy as np

from benchmarks.stream import Fingerprints, Search, Stream
from stream_dedup.core.model import BLOCKS_PER_WORD, log_position
from stream_dedup.core.probes import exact
from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.rules import CANDIDATES, DIRECTED
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
WARMING = 3
"""Batches before those that count: what was read from disk comes again from memory."""
PROFILE = PROFILES["article"]
"""Its sketches and its check; the look-ups are an option."""
CHECK = ("limit", "short_limit", "min_equal", "short_min_equal", "certain", "far", "far_min_equal")
BLOCKS = 1 << 16


@dataclass(frozen=True)
class Figures:
    """Microseconds an article, of each batch, and candidates an article."""

    times: list[float]
    candidates: float
    slowest_ms: float


@dataclass(frozen=True)
class Measured:
    """One row of the first table."""

    articles: int
    image: str
    search: Search
    figures: Figures


def main() -> None:
    options = _options()
    logging.getLogger("simhash").setLevel(logging.ERROR)
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, one thread; ", end="")
    print(f"batches of {options.batch}\n")
    for tables in options.tables:
        measured, sizes, held = list[Measured](), list[str](), list[Fingerprints]()
        stream = Stream(options.batch, tables, PROFILE.settings.widths.sketch_bytes)
        with tempfile.TemporaryDirectory(prefix="stream-dedup-bench-") as folder:
            # Our rows come first: the process's memory is then our own.
            for size in _each_size(Path(folder), options, tables, stream, held, measured):
                sizes.append(size)
                print(size, file=sys.stderr, flush=True)
        _print_all(options, tables, stream, held, measured, sizes)


def _print_all(
    options: argparse.Namespace,
    tables: int,
    stream: Stream,
    held: list[Fingerprints],
    measured: list[Measured],
    sizes: list[str],
) -> None:
    print(
        f"{tables} tables\n\n| articles | search | image, MiB: held | µs an article: median | mean | slowest batch, ms "
        "| candidates expected | seen | SimhashIndex, µs: median | ratio |\n| ---: " + "| ---: " * 9 + "|"
    )
    for row in measured:
        distance = row.search["distance"]
        peer = None
        if isinstance(distance, int) and not options.no_peer:
            peer = _peer(held[: row.articles // options.batch], stream, distance)
        _print_row(row, tables, peer)
    print(
        "\n| articles | filling, µs an article | longest pause, ms | bytes on disk an article "
        "| process, MiB | opening, s |\n| ---: " + "| ---: " * 5 + "|"
    )
    print("\n".join(sizes), end="\n\n", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=_numbers, default=[100_000, 1_000_000], help="articles held")
    parser.add_argument("--tables", type=_numbers, default=[4], help="tables of the scheme: 4, 8, 16")
    parser.add_argument("--probes", type=_numbers, default=[64], help="look-ups of directed search")
    parser.add_argument("--distances", type=_numbers, default=[3, 7, 11], help="values of k (four tables)")
    parser.add_argument("--images", type=_numbers, default=[4096, 0], help="MiB of the image")
    parser.add_argument("--batch", type=int, default=500, help="articles a batch (default 500)")
    parser.add_argument("--no-peer", action="store_true", help="leave SimhashIndex out")
    return parser.parse_args()


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


def _searches(options: argparse.Namespace, tables: int) -> list[Search]:
    check: Search = {name: getattr(PROFILE, name) for name in CHECK}
    directed: list[Search] = [
        {"search": DIRECTED, "distance": None, "probes": probes, "candidates": CANDIDATES, **check}
        for probes in options.probes
    ]
    exact: list[Search] = [{"distance": distance} for distance in options.distances]
    return directed + exact if tables == BLOCKS_PER_WORD else directed


def _each_size(
    folder: Path,
    options: argparse.Namespace,
    tables: int,
    stream: Stream,
    held: list[Fingerprints],
    measured: list[Measured],
) -> Iterator[str]:
    """Fill to each size and measure there; gives the row of the second table, adds those of the first."""
    index = _open(folder, stream, options.images[0])
    index.begin("benchmark")
    index.apply([stream.rules({"distance": 3} if tables == BLOCKS_PER_WORD else _searches(options, tables)[0])])
    for size in options.sizes:
        before, times = len(held), [0.0]
        while len(held) * options.batch < size:
            record, fingerprints = stream.record()
            held.append(fingerprints)
            start = time.perf_counter()
            index.apply([record])
            times.append(time.perf_counter() - start)
        filling = sum(times) / max(len(held) - before, 1) / options.batch * 1e6
        for image in options.images:
            index.close()
            start = time.perf_counter()
            index = _open(folder, stream, image)
            opening = time.perf_counter() - start
            resident = _resident_mib()
            for search in _searches(options, tables):
                index.apply([stream.rules(search)])
                print(f"{len(held) * options.batch:,} articles, {search}", file=sys.stderr, flush=True)
                before = len(held)
                figures = _measure(index, stream, held)
                # What it holds halfway through stands for the row.
                articles = (before + len(held)) // 2 * options.batch
                bytes_held = index.stats().image_bytes >> 20
                measured.append(Measured(articles, f"{image:,}: {bytes_held:,}", search, figures))
            disk = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
            articles = len(held) * options.batch
            yield (
                f"| {articles:,} | {filling:.1f} | {max(times) * 1e3:.0f} | {disk / articles:.0f} | {resident:,.0f} "
                f"| {opening:.1f} |"
            )
        index.close()
        index = _open(folder, stream, options.images[0])
    index.close()


def _open(folder: Path, stream: Stream, image: int) -> LogIndex:
    return LogIndex.open(folder / "index", scheme=stream.scheme, settings=IndexSettings(image_mib=image))


def _measure(index: LogIndex, stream: Stream, held: list[Fingerprints]) -> Figures:
    times: list[float] = []
    compared: list[int] = []
    while len(times) < MIN_BATCHES + WARMING or (sum(times) < SECONDS and len(times) < MAX_BATCHES):
        record, fingerprints = stream.record()
        held.append(fingerprints)
        positions = log_position(record.offset, 0) + np.arange(len(fingerprints))
        before = index.counters.candidates
        start = time.perf_counter()
        index.apply([record])
        index.judge(positions)
        times.append(time.perf_counter() - start)
        compared.append(index.counters.candidates - before)
    n, times = len(held[-1]), times[WARMING:]
    each = [took / n * 1e6 for took in times]
    return Figures(each, sum(compared[WARMING:]) / len(times) / n, max(times) * 1e3)


def _peer(held: Sequence[Fingerprints], stream: Stream, distance: int) -> list[float] | str:
    """Microseconds an article of the simhash package's index, or why there are none."""
    peer = SimhashIndex([], f=64, k=distance)
    start = time.perf_counter()
    memory = _resident_mib()
    number = 0
    for values in held:
        for value in values.tolist():
            peer.add(str(number), Simhash(value))
            number += 1
        if time.perf_counter() - start > PEER_FILL_SECONDS:
            return f"not filled in {PEER_FILL_SECONDS} s"
        if _resident_mib() - memory > PEER_MIB:
            return f"more than {PEER_MIB:,} MiB"
    return _peer_times(peer, stream.record()[1].tolist(), number)


def _peer_times(peer: SimhashIndex, values: Sequence[int], number: int) -> list[float]:
    times: list[float] = []
    begin = time.perf_counter()
    for value in values[:PEER_ARTICLES]:
        start = time.perf_counter()
        asked = Simhash(value)
        peer.get_near_dups(asked)
        peer.add(str(number + len(times)), asked)
        times.append((time.perf_counter() - start) * 1e6)
        if time.perf_counter() - begin > PEER_SECONDS:
            break
    return times


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / (1 << 20)


def _print_row(row: Measured, tables: int, peer: list[float] | str | None) -> None:
    distance, probes = row.search["distance"], row.search.get("probes")
    lookups = probes if isinstance(probes, int) else tables * len(exact(int(distance or 0)))
    own = median(row.figures.times)
    beside = "| not asked | "
    if isinstance(peer, str):
        beside = f"| {peer} | "
    elif peer:
        beside = f"| {median(peer):,.0f} | {median(peer) / own:,.0f} x "
    print(
        f"| {row.articles:,} | {f'k = {distance}' if probes is None else f'{probes} probes'} | {row.image} "
        f"| {own:.1f} | {mean(row.figures.times):.1f} | {row.figures.slowest_ms:.0f} "
        f"| {lookups * row.articles / BLOCKS:,.0f} | {row.figures.candidates:,.0f} {beside}|",
        flush=True,
    )


if __name__ == "__main__":
    main()
