"""Threads that make the columns of records, by native code that runs without the interpreter.

Rules:

* A request is divided into tasks (``chunks``), so that all threads share it; its columns come in the order of its
  records.
* The steps of the core are linear, and the input bounds a record: how long a task takes is known by its bytes. A record
  of more than ``CHUNK_BYTES`` is a task of its own. Such tasks have threads of their own, as many as the others: a text
  of the largest size may take some 300 ms, and neither other partitions nor other clients wait for it. The operating
  system shares the cores out between both.
* Tasks of each kind begin in the order of ``submit``. What belongs to a cancelled future does not begin.
* A thread is started when there is work for it, none before: until then a process may fork, and a process with one
  record needs one thread. Threads wait in Python, so signals reach the main thread at any time.

The queues have no limit of their own: callers limit what they have under way.

As many threads fingerprint as this process may use cores, where the configuration does not say. That is not what the
machine has, but the cores of its affinity (``taskset``, cpusets), and no more than the quota of its control groups
(``docker run --cpus``, a limit of Kubernetes) pays for. A fraction is rounded down: with 1.5 cores one thread
fingerprints, and the half is for the others. One more would use up the quota in the middle of each period, and the
kernel would then stop them all, heartbeats included.
"""

from __future__ import annotations

import gc
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import accumulate, count
from typing import Generic, Protocol, Self, TypeVar

from stream_dedup import _native
from stream_dedup.core.columns import Columns
from stream_dedup.errors import UnavailableError

CHUNK_RECORDS = 256
"""Most records of a task: short texts of some 5 ms, so that no thread waits long for the last task of a request."""
CHUNK_BYTES = 256 << 10
"""Most bytes of the values of a task of several records."""
LEAST_SHARE_RECORDS = 24
"""Fewer records are not worth a thread of their own: to pass on a task and its columns costs as much as some."""


class Record(Protocol):
    """What has bytes to fingerprint."""

    @property
    def value(self) -> bytes | None:
        """The value; None of a tombstone."""


_R = TypeVar("_R", bound=Record)


class FingerprintThreads(Generic[_R]):
    """Makes the columns of records in up to ``threads`` threads. Any thread may call any method."""

    def __init__(self, threads: int, make: Callable[[Sequence[_R]], Columns]) -> None:
        """Start nothing yet.

        Args:
            threads: at least 1.
            make: makes the columns of records; several threads call it at the same time.
        """
        self._threads = threads
        self._make = make
        self._usual = ThreadPoolExecutor(threads, "fingerprinting")
        self._large = ThreadPoolExecutor(threads, "fingerprinting-large")

    def submit(self, records: Sequence[_R]) -> Future[Columns]:
        """Return a future of the columns of these records, in order. Does not block.

        It raises what the maker raised; cancelling it drops what has not begun.

        Raises:
            UnavailableError: the threads are closed, or none could be started.
        """
        sizes = [len(record.value or b"") for record in records]
        shares = min(max(len(records) // LEAST_SHARE_RECORDS, 1), self._threads)
        rows = list(chunks(sizes, min(max(-(-len(records) // shares), 1), CHUNK_RECORDS))) or [slice(0)]
        parts: list[Future[Columns]] = []
        try:
            for chunk in rows:
                executor = self._large if sum(sizes[chunk]) > CHUNK_BYTES else self._usual
                parts.append(executor.submit(self._make, records[chunk]))
        except RuntimeError as error:  # the executor's
            for part in parts:
                part.cancel()
            raise UnavailableError(f"no thread fingerprints ({error}): start again") from error
        return parts[0] if len(parts) == 1 else _joined(parts)

    def close(self) -> None:
        """Cancel what has not begun, and wait for what has; a second call does nothing else."""
        for executor in (self._usual, self._large):
            executor.shutdown(wait=False, cancel_futures=True)
        for executor in (self._usual, self._large):
            executor.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _joined(parts: list[Future[Columns]]) -> Future[Columns]:
    """Return a future of the columns of all parts, in order; it is cancelled if one of them is, and cancels them."""
    joined: Future[Columns] = Future()
    left = count(len(parts) - 1, -1)  # one step is atomic: the thread that ends the last part gets 0

    def end(_part: Future[Columns]) -> None:
        if next(left):
            return
        if any(part.cancelled() for part in parts):
            joined.cancel()
        if joined.set_running_or_notify_cancel():
            try:
                joined.set_result(Columns.concat([part.result() for part in parts]))
            except BaseException as error:  # noqa: BLE001 - raised again where the columns are asked for
                joined.set_exception(error)
            parts.clear()  # each of them knows this function, which knows them

    def cancel(_joined: Future[Columns]) -> None:
        if joined.cancelled():
            for part in parts:
                part.cancel()

    joined.add_done_callback(cancel)
    for part in [*parts]:
        part.add_done_callback(end)
    return joined


def chunks(sizes: Sequence[int], most: int = CHUNK_RECORDS) -> Iterator[slice]:
    """Yield the slices of records that make one task each; ``sizes``: bytes of each value, ``most``: records."""
    ends = [*accumulate(sizes)]
    start = taken = 0
    while start < len(ends):
        stop = min(bisect_right(ends, taken + CHUNK_BYTES, start + 1), start + most)
        yield slice(start, stop)
        start, taken = stop, ends[stop - 1]


SWITCH_S = 0.0005
"""After so many seconds a thread lets another one go on. A worker's batch passes some twenty times from one thread to
the next, and each may wait so long for the thread that judges: with 5 ms, the default of Python, a batch took a fifth
longer at a sixth of full load."""
YOUNG_OBJECTS = 10_000
"""New objects after which they are searched for garbage. Python's 700 are those of a few records: a worker at half load
made thirty searches a second, of half a millisecond each."""


@contextmanager
def short_pauses(*, collects: bool = True) -> Iterator[None]:
    """Keep the interpreter's own pauses short while a worker or a filter runs.

    No thread waits longer than ``SWITCH_S`` for one that is not in native code.

    What is loaded by now (modules, a user's words, clients) stays as long as it runs, and is left out of garbage
    collections: with it, a full one stops every thread for some 50 to 200 ms.

    ``collects``: first free what is loaded in vain; a process that ends soon is done before that pays.
    """
    if collects:
        gc.collect()
    was_frozen = gc.get_freeze_count() > 0
    gc.freeze()
    thresholds = gc.get_threshold()
    if 0 < thresholds[0] < YOUNG_OBJECTS:  # a caller may want fewer searches, or none
        gc.set_threshold(YOUNG_OBJECTS, *thresholds[1:])
    interval = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*thresholds)
        if not was_frozen:  # else what a caller has left out stays out, and this with it
            gc.unfreeze()


def thread_count(configured: int | None) -> int:
    """Return the configured number of fingerprinting threads, or one for each core that may be used."""
    return _native.usable_cores() if configured is None else configured
