"""Plan and look-up in memory.

    python -m benchmarks.scan [--sizes 1000000,10000000] [--probes 64] [--tables 4] [--batches 500,10] [--sketch 16]

One thread, nothing else running. Signatures are random but for one query in five, which is an entry of the
index with 20 of 256 bits flipped; margins are those of normal sums. The lists lie as a worker holds them: of each
table a run of the oldest entries, one of the newest 131,072, one of the newest 4,096; rows in one array.

Figures are microseconds an article: medians over batches, each of new queries, so that their lists are in no
cache but by chance. **rows fetched**: the same through a function that copies the rows asked for out of the array.
``--sketch``: rows have sketches of so many bytes; those of an entry and of the query made of it have half of their
values in common, and that is enough. The sieve is then that of sure bits, and its masks are part of the look-up.
"""

from __future__ import annotations

import argparse
import platform
import time
from dataclasses import replace
from itertools import pairwise
from statistics import median

import numpy as np

from stream_dedup.core.arrays import I64, U32
from stream_dedup.core.fingerprint.simhash import MARGIN_SCALE, MAX_MARGIN, pack_margins
from stream_dedup.core.model import BLOCK_BITS, SKETCH_WORD_VALUES
from stream_dedup.core.probes import directed, keys, sure_masks
from stream_dedup.index.layout import SKETCH_WORD, row_type
from stream_dedup.index.posting_lists import Blocks, PostingLists, Run
from stream_dedup.index.query import Query
from stream_dedup.index.row_chunks import Fetch, RowChunks
from stream_dedup.index.runs import sorted_run
from stream_dedup.index.scan import scan

SEED = 7
OLDER, YOUNG = 131_072, 4_096
"""Newest entries that are in two runs of their own, and of those the ones in the second."""
FLIPS = 20
REACH = 60
BUCKET_LIMIT = 16_384
SECONDS = 2.0
"""Seconds that each figure is measured for, at least three batches."""
MOST_BATCHES = 200
HALF_ONES = 0x1111_1111_0000_0000
"""Each word of an entry's sketch; those of a query are 0."""


WAYS = ("rows held", "rows fetched")


class World:
    """Entries, and queries about them."""

    def __init__(self, size: int, tables: int, sketch_bytes: int) -> None:
        self._rng = np.random.default_rng(SEED)
        self._tables = tables
        self.sketch_words = sketch_bytes // SKETCH_WORD.itemsize
        self.rows = np.zeros(size, row_type(sketch_bytes))
        self.rows["signature"] = self._rng.integers(0, 1 << 64, (size, 4), dtype=np.uint64)
        if sketch_bytes:
            self.rows["sketch"] = HALF_ONES
        self.lists = PostingLists([self._runs(Blocks(table)) for table in range(tables)])

    def _runs(self, blocks: Blocks) -> list[Run]:
        words = np.ascontiguousarray(self.rows["signature"][:, blocks.word])
        size = len(words)
        numbers = np.arange(size, dtype=np.uint32)
        borders = (0, max(0, size - OLDER), max(0, size - YOUNG), size)
        return [sorted_run(blocks, words[first:after], numbers[first:after]) for first, after in pairwise(borders)]

    def queries(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Signatures and margins."""
        rng = self._rng
        signatures = rng.integers(0, 256, (n, 32), dtype=np.uint8)
        near = np.flatnonzero(rng.random(n) < 0.2)
        entries = self.rows["signature"][rng.integers(0, len(self.rows), len(near))]
        bits = np.unpackbits(entries.astype(">u8").view(np.uint8).reshape(len(near), 32), axis=1)
        for row in bits:
            row[rng.choice(256, FLIPS, replace=False)] ^= 1
        signatures[near] = np.packbits(bits, axis=1)
        sums = np.abs(rng.standard_normal((n, self._tables * BLOCK_BITS)))
        return signatures, pack_margins(np.minimum(sums * MARGIN_SCALE, MAX_MARGIN).astype(np.uint8))


def main() -> None:
    options = _options()
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, one thread; ", end="")
    print(f"{options.probes} probes, {options.tables} tables\n")
    print("| articles | batch | | plan, µs | look-up, µs | candidates an article | found |")
    print("| ---: | ---: | --- | ---: | ---: | ---: | ---: |")
    for size in options.sizes:
        world = World(size, options.tables, options.sketch)
        for batch in options.batches:
            for way in WAYS:
                _print_row(world, batch, way, options.probes)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=_numbers, default=[1_000_000, 10_000_000], help="entries held")
    parser.add_argument("--batches", type=_numbers, default=[500, 10], help="articles a batch")
    parser.add_argument("--probes", type=int, default=64)
    parser.add_argument("--tables", type=int, default=4)
    parser.add_argument("--sketch", type=int, default=0, help="bytes of a sketch")
    return parser.parse_args()


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _print_row(world: World, batch: int, way: str, probes: int) -> None:
    plans: list[float] = []
    scans: list[float] = []
    candidates = found = 0
    begin = time.perf_counter()
    while len(scans) < 3 or (time.perf_counter() - begin < SECONDS and len(scans) < MOST_BATCHES):
        signatures, margins = world.queries(batch)
        start = time.perf_counter()
        plan = directed(margins, probes)
        middle = time.perf_counter()
        near = scan(_query(world, signatures, margins, plan), world.lists, _rows(world, way))
        end = time.perf_counter()
        plans.append((middle - start) / batch * 1e6)
        scans.append((end - middle) / batch * 1e6)
        candidates += near.candidates
        found += len(np.unique(near.queries))
    articles = len(scans) * batch
    print(
        f"| {len(world.rows):,} | {batch} | {way} | {median(plans):.1f} | {median(scans):.1f} "
        f"| {candidates / articles:,.0f} | {found / articles:.3f} |",
        flush=True,
    )


def _query(world: World, signatures: np.ndarray, margins: np.ndarray, plan: U32) -> Query:
    n = len(signatures)
    groups = np.zeros(n, np.uint64)
    before: I64 = np.full(n, len(world.rows))
    reach: I64 = np.full(n, REACH)
    query = Query(keys(signatures, groups), groups, before, plan, directed=True, reach=reach, bucket_limit=BUCKET_LIMIT)
    if not world.sketch_words:
        return query
    least = np.full(n, world.sketch_words * SKETCH_WORD_VALUES // 2)
    sketches = np.zeros((n, world.sketch_words), np.uint64)
    return replace(query, sketches=sketches, least_equal=least, sure=sure_masks(margins))


def _rows(world: World, way: str) -> RowChunks | Fetch:
    return world.rows.take if way == "rows fetched" else RowChunks.of(world.rows)


if __name__ == "__main__":
    main()
