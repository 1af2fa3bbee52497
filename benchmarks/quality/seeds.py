"""The same work for each seed, as many at once as there are cores.

Each seed's work is one process of its own making (``spawn``), with one thread: what it finds depends on nothing else.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

T = TypeVar("T")

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables that keep libraries to one thread, set before they are loaded."""


def one_thread() -> None:
    """From here on: processes begun by this one compute with one thread each."""
    os.environ.update(dict.fromkeys(THREADS, "1"))


def for_each(seeds: Sequence[int], work: Callable[[int], T], name: str) -> list[T]:
    """What the work gives for each seed."""
    begun = time.monotonic()
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        done = []
        for at, result in enumerate(pool.map(work, seeds), 1):
            done.append(result)
            told = f"{name}: {at} of {len(seeds)} seeds, {time.monotonic() - begun:.0f} s"
            print(told, file=sys.stderr, flush=True)
    return done


def alone(work: Callable[[], T], name: str) -> T:
    """What the work gives in a process of its own, nothing beside it."""
    begun = time.monotonic()
    print(f"{name} …", file=sys.stderr, flush=True)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        result = pool.submit(work).result()
    print(f"{name}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    return result
