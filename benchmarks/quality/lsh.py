"""datasketch's MinHashLSH at the sizes that it reaches: look-up and insert of made MinHashes.

One article in five is an earlier one with a tenth of its values changed. Filling ends where it takes more than
``FILL_SECONDS`` or ``FILL_MIB``.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from statistics import mean, median
from typing import NamedTuple

import numpy as np
from datasketch import MinHash, MinHashLSH

from benchmarks.quality import report
from benchmarks.quality.peers import VALUES

SIZES = (100_000, 300_000, 1_000_000)
FILL_SECONDS, FILL_MIB = 150, 8_000
MEASURED = 2_000
THRESHOLD = 0.5
SEED = 20
BLOCK = 1_000
NEAR_SHARE, CHANGED_SHARE = 0.2, 0.1


class Row(NamedTuple):
    """One size."""

    articles: int
    times: list[float]
    filling: float
    mib: float


def section() -> str:
    rows, ended = _measure()
    told = [
        [
            f"{row.articles:,}",
            f"{median(row.times):,.0f}",
            f"{mean(row.times):,.0f}",
            f"{row.filling:,.0f}",
            f"{row.mib:,.0f}",
        ]
        for row in rows
    ]
    head = ("articles", "µs an article: median", "mean", "filling, µs an article", "MiB")
    text = f"datasketch MinHashLSH, {VALUES} values, threshold {THRESHOLD}, in memory, made MinHashes:\n\n"
    return text + report.table(head, told) + (f"\n\n{ended}" if ended else "")


def _measure() -> tuple[list[Row], str]:
    index = MinHashLSH(threshold=THRESHOLD, num_perm=VALUES)
    made, rows, number, before = _made(), list[Row](), 0, _resident_mib()
    begun = time.perf_counter()
    for size in SIZES:
        filled, start = number, time.perf_counter()
        while number < size:
            for one in islice(made, BLOCK):
                index.insert(number, one, check_duplication=False)
                number += 1
            held = _resident_mib() - before
            if held > FILL_MIB or time.perf_counter() - begun > FILL_SECONDS:
                return (
                    rows,
                    f"Filling ended at {number:,} articles: {held:,.0f} MiB, {time.perf_counter() - begun:.0f} s.",
                )
        filling = (time.perf_counter() - start) / (number - filled) * 1e6
        times = []
        for one in list(islice(made, MEASURED)):
            asked = time.perf_counter()
            index.query(one)
            index.insert(number, one, check_duplication=False)
            times.append((time.perf_counter() - asked) * 1e6)
            number += 1
        rows.append(Row(size, times, filling, _resident_mib() - before))
    return rows, ""


def _made() -> Iterator[MinHash]:
    """Random MinHashes, one in five near an earlier one."""
    rng = np.random.default_rng(SEED)
    empty = MinHash(VALUES)
    seen = empty.hashvalues[np.newaxis]
    while True:
        values = rng.integers(0, 1 << 32, (BLOCK, VALUES), dtype=np.uint64).astype(seen.dtype)
        near = np.flatnonzero(rng.random(BLOCK) < NEAR_SHARE)
        changed = rng.random((len(near), VALUES)) < CHANGED_SHARE
        values[near] = np.where(changed, values[near], rng.choice(seen, len(near)))
        seen = np.concatenate((seen, values[:8]))[-20_000:]
        for row in values:
            one = empty.copy()
            one.hashvalues = row
            yield one


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / (1 << 20)
