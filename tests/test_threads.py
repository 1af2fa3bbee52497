"""Threads that make columns: in which order, how many at once, and who waits for whom; cores that are usable."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stream_dedup.core.columns import Columns
from stream_dedup.core.decode import InputFormat, RawRecord
from stream_dedup.core.fingerprinter import EntryMaker
from stream_dedup.core.model import Widths
from stream_dedup.core.scheme import FingerprintSettings
from stream_dedup.errors import UnavailableError
from stream_dedup.threads import (
    CHUNK_BYTES,
    CHUNK_RECORDS,
    LEAST_SHARE_RECORDS,
    FingerprintThreads,
    chunks,
    thread_count,
)
from tests.waiting import wait_until

LIMIT_S = 60
SIZES = st.lists(st.integers(0, CHUNK_BYTES // 3) | st.integers(CHUNK_BYTES - 2, CHUNK_BYTES + 2), max_size=60)
Make = Callable[[Sequence[RawRecord]], Columns]


class Watched:
    """A record that can be watched: a named tuple has no weak references."""

    value = b"{}"


class Gate:
    """Makes blank columns; a record named ``name`` waits until ``open`` is called with it."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self._opened: dict[str, threading.Event] = {}
        self._lock = threading.Lock()

    def __call__(self, records: Sequence[RawRecord]) -> Columns:
        name = records[0].fallback_id
        with self._lock:
            self.begun.append(name)
            opened = self._opened.get(name)
        if opened is not None:
            assert opened.wait(LIMIT_S), f"{name} was not opened"
        return Columns.blank(len(records), Widths())

    def shut(self, *names: str) -> None:
        self._opened |= {name: threading.Event() for name in names}

    def open(self, *names: str) -> None:
        for name in names:
            self._opened[name].set()

    def has_begun(self, *names: str) -> None:
        wait_until(lambda: set(names) <= set(self.begun), LIMIT_S, f"{names} have begun")


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.open(*made._opened)


def small(name: str) -> list[RawRecord]:
    return [RawRecord(None, b"{}", name)]


def large(name: str) -> list[RawRecord]:
    return [RawRecord(None, bytes(CHUNK_BYTES + 1), name)]


def records(count: int) -> list[RawRecord]:
    return [RawRecord(f"{n}".encode(), b'{"text": "text of record %d"}' % n, "t-0-0") for n in range(count)]


def same(a: Columns, b: Columns) -> bool:
    return [*a.ids, *a.reasons] == [*b.ids, *b.reasons] and a.signatures.tolist() == b.signatures.tolist()


def ours() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("fingerprinting")]


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, LEAST_SHARE_RECORDS, 3 * CHUNK_RECORDS + 2])
def test_columns_are_those_of_one_call(count: int, threads: int) -> None:
    """In the order of the records, request after request; those of no record, too, are as wide as the settings say."""
    maker = EntryMaker(FingerprintSettings(tables=8))
    expected = maker(records(count))
    with FingerprintThreads(threads, maker) as made:
        for future in [made.submit(records(count)) for _ in range(3)]:
            columns = future.result(LIMIT_S)
            assert columns.widths == expected.widths
            assert same(columns, expected)


@given(SIZES, st.integers(1, 20))
@example([0] * (2 * CHUNK_RECORDS + 1), CHUNK_RECORDS)
@example([], 8)
def test_each_task_has_as_many_records_as_fit(sizes: list[int], most: int) -> None:
    """Every record is in one task, in order; only a record of its own may be larger than a task, and none is added."""
    parts = list(chunks(sizes, most))
    assert [at for part in parts for at in range(len(sizes))[part]] == list(range(len(sizes)))
    for part in parts:
        assert 1 <= part.stop - part.start <= most
        assert sum(sizes[part]) <= CHUNK_BYTES or part.stop - part.start == 1
    for part, after in pairwise(parts):
        full = part.stop - part.start == most
        assert full or sum(sizes[part]) + sizes[after.start] > CHUNK_BYTES


@pytest.mark.parametrize(
    ("count", "threads", "tasks"),
    [
        (1, 2, [1]),
        (2 * LEAST_SHARE_RECORDS - 1, 2, [2 * LEAST_SHARE_RECORDS - 1]),
        (2 * LEAST_SHARE_RECORDS, 2, [LEAST_SHARE_RECORDS] * 2),
        (2 * LEAST_SHARE_RECORDS + 1, 2, [LEAST_SHARE_RECORDS, LEAST_SHARE_RECORDS + 1]),
        (2 * LEAST_SHARE_RECORDS, 1, [2 * LEAST_SHARE_RECORDS]),
        (4 * LEAST_SHARE_RECORDS, 8, [LEAST_SHARE_RECORDS] * 4),
        (3 * CHUNK_RECORDS, 2, [CHUNK_RECORDS] * 3),
    ],
)
def test_a_request_is_shared_out_in_equal_tasks(count: int, threads: int, tasks: list[int]) -> None:
    """No more than there are threads, and none so small that passing it on costs more than it saves."""
    sizes: list[int] = []

    def make(given: Sequence[RawRecord]) -> Columns:
        sizes.append(len(given))
        return Columns.blank(len(given), Widths())

    with FingerprintThreads(threads, make) as made:
        made.submit(records(count)).result(LIMIT_S)
    assert sorted(sizes) == tasks


def test_threads_work_at_the_same_time() -> None:
    """On the records of one request, and on those of several."""
    both = threading.Barrier(2)

    def make(given: Sequence[RawRecord]) -> Columns:
        both.wait(LIMIT_S)
        return Columns.blank(len(given), Widths())

    with FingerprintThreads(2, make) as made:
        made.submit(records(2 * LEAST_SHARE_RECORDS)).result(LIMIT_S)
        for future in [made.submit(small(name)) for name in "ab"]:
            future.result(LIMIT_S)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_large_records_hold_up_no_others(gate: Gate, threads: int) -> None:
    """However many there are: they occupy threads of their own, as many as there may be, and the rest of them waits."""
    slow = [f"slow {number}" for number in range(threads + 1)]
    gate.shut(*slow)
    with FingerprintThreads(threads, gate) as made:
        waiting = [made.submit(large(name)) for name in slow]
        gate.has_begun(*slow[:threads])
        for name in ("one", "two", "three"):
            made.submit(small(name)).result(LIMIT_S)
        assert [name for name in gate.begun if name in slow] == slow[:threads]
        gate.open(*slow)
        for future in waiting:
            future.result(LIMIT_S)


def test_a_large_record_holds_up_what_came_before_it_in_its_batch_not_at_all(gate: Gate) -> None:
    """It is a task of its own: the records around it are done without it."""
    gate.shut("slow")
    with FingerprintThreads(2, gate) as made:
        future = made.submit([*small("before"), *large("slow"), *small("behind")])
        gate.has_begun("before", "slow")
        assert not future.done()
        gate.open("slow")
        assert len(future.result(LIMIT_S)) == 3


@given(st.lists(st.integers(1, 3), max_size=8), st.integers(1, 3), st.data())
def test_every_request_is_done_or_cancelled(sizes: list[int], threads: int, data: st.DataObject) -> None:
    """Of one large record or of several, some cancelled meanwhile: none is lost, done twice, or left waiting."""
    requests = [[f"{at} {part}" for part in range(size)] for at, size in enumerate(sizes)]
    order = data.draw(st.permutations(range(len(requests))))
    is_cancelled = [data.draw(st.booleans()) for _ in requests]
    gate = Gate()
    gate.shut(*(name for names in requests for name in names))
    done = []
    with FingerprintThreads(threads, gate) as made:
        futures = [made.submit([record for name in names for record in large(name)]) for names in requests]
        for at in order:
            if not (is_cancelled[at] and futures[at].cancel()):
                done.append(at)
            gate.open(*requests[at])
        for at in done:
            assert len(futures[at].result(LIMIT_S)) == sizes[at]
    assert len(gate.begun) == len(set(gate.begun))
    assert {name for at in done for name in requests[at]} <= set(gate.begun)


def test_a_single_thread_does_one_task_after_the_other(gate: Gate) -> None:
    """In the order in which they were submitted."""
    with FingerprintThreads(1, gate) as made:
        futures = [made.submit(small(name)) for name in "abc"]
        for future in futures:
            future.result(LIMIT_S)
    assert gate.begun == ["a", "b", "c"]


def test_what_is_cancelled_does_not_begin(gate: Gate) -> None:
    """A request under way can be cancelled, too: its other tasks do not begin, and what follows is done."""
    gate.shut("0")
    two = [RawRecord(None, b"{}", f"{n}") for n in range(2 * CHUNK_RECORDS)]
    with FingerprintThreads(1, gate) as made:
        under_way, cancelled, other = made.submit(two), made.submit(small("cancelled")), made.submit(small("other"))
        gate.has_begun("0")
        assert cancelled.cancel()
        assert under_way.cancel()
        gate.open("0")
        other.result(LIMIT_S)
    assert gate.begun == ["0", "other"]


def test_a_close_cancels_what_has_not_begun_and_waits_for_the_rest(gate: Gate) -> None:
    """And takes no more."""
    gate.shut("begun")
    made = FingerprintThreads(1, gate)
    begun, waiting, parts = (
        made.submit(small("begun")),
        made.submit(small("waiting")),
        made.submit(records(2 * CHUNK_RECORDS)),
    )
    gate.has_begun("begun")
    closing = threading.Thread(target=made.close)
    closing.start()
    for cancelled in (waiting, parts):
        with pytest.raises(CancelledError):
            cancelled.result(LIMIT_S)
    assert closing.is_alive()
    gate.open("begun")
    closing.join(LIMIT_S)
    assert begun.done()
    assert gate.begun == ["begun"]
    assert not ours()
    made.close()
    with pytest.raises(UnavailableError, match="after shutdown"):
        made.submit(small("late"))


@pytest.mark.parametrize("count", [1, 2 * CHUNK_RECORDS])
def test_what_the_maker_raises_is_raised(count: int) -> None:
    """Where the columns are asked for; what follows is done."""

    def make(given: Sequence[RawRecord]) -> Columns:
        if any(record.fallback_id == "fails" for record in given):
            raise MemoryError
        return Columns.blank(len(given), Widths())

    with FingerprintThreads(1, make) as made:
        with pytest.raises(MemoryError):
            made.submit([*records(count - 1), RawRecord(None, b"{}", "fails")]).result(LIMIT_S)
        assert len(made.submit(small("b")).result(LIMIT_S)) == 1


def test_columns_that_cannot_be_joined(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Are an error of their request, as the maker's are: nobody waits for ever, and what follows is done."""

    def refuse(_parts: Sequence[Columns]) -> Columns:
        raise MemoryError

    with FingerprintThreads(2, gate) as made:
        with monkeypatch.context() as changed:
            changed.setattr(Columns, "concat", refuse)
            future = made.submit(records(2 * CHUNK_RECORDS))
            with pytest.raises(MemoryError):
                future.result(LIMIT_S)
        assert len(made.submit(small("b")).result(LIMIT_S)) == 1


def test_no_thread_is_started_before_there_is_work_for_it(gate: Gate) -> None:
    """None for a process that will be forked, and one for one record."""
    with FingerprintThreads(4, gate) as made:
        assert not ours()
        for name in ("a", "b", "c"):
            made.submit(small(name)).result(LIMIT_S)
            wait_until(lambda: made._usual._idle_semaphore._value == 1, LIMIT_S, "the thread waits")
        assert len(ours()) == 1


def test_a_thread_that_cannot_be_started(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is told, and can be remedied: nobody waits for columns that nobody makes."""

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with (
        FingerprintThreads(2, gate) as made,
        pytest.raises(UnavailableError, match=r"no thread fingerprints \(can't start new thread\): start again"),
    ):
        made.submit(small("a"))


def test_no_thread_keeps_the_records_of_a_task_that_is_done() -> None:
    """It may wait for the next one for hours."""
    given = [Watched()]
    watched = weakref.ref(given[0])
    made: FingerprintThreads[Watched] = FingerprintThreads(1, lambda given: Columns.blank(len(given), Widths()))
    with made:
        future = made.submit(given)
        del given
        future.result(LIMIT_S)
        wait_until(lambda: gc.collect() >= 0 and watched() is None, LIMIT_S, "the records are gone")


def test_an_error_keeps_no_records() -> None:
    """Once it is dropped: its frames know them, and they do not know it, so no search for garbage is needed."""
    given = [Watched()]
    watched = weakref.ref(given[0])

    def make(_given: Sequence[Watched]) -> Columns:
        raise MemoryError

    with FingerprintThreads(1, make) as made:
        gc.disable()
        try:
            future = made.submit(given)
            del given
            assert isinstance(future.exception(LIMIT_S), MemoryError)
            del future
            wait_until(lambda: watched() is None, LIMIT_S, "the records are gone")
        finally:
            gc.enable()


@pytest.mark.slow
def test_a_signal_interrupts_the_wait_for_a_long_text() -> None:
    """The main thread waits where Python handles signals, while the native core reads megabytes beside it."""
    text = b'{"text": "' + b"the river froze early that year " * 500_000 + b'"}'
    came: list[float] = []

    def interrupt(*_: object) -> None:
        came.append(time.monotonic())
        raise InterruptedError

    before = signal.signal(signal.SIGALRM, interrupt)
    maker = EntryMaker(fmt=InputFormat(max_bytes=len(text)))
    try:
        with FingerprintThreads(1, maker) as made:
            future = made.submit([RawRecord(None, text, "t-0-0")])
            wait_until(lambda: bool(ours()), LIMIT_S, "the thread has begun")
            sent = time.monotonic() + 0.05
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(InterruptedError):
                future.result(LIMIT_S)
            assert not future.done()
            assert came[0] - sent < 0.2
            assert future.result(LIMIT_S).reasons[0] == ""
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_thread_for_each_usable_core() -> None:
    """Where no number is configured: the cores of the affinity, which a quota of control groups may make fewer."""
    code = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); from stream_dedup.threads import *; "
    command = [sys.executable, "-c", code + "print(thread_count(None), thread_count(7))"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "1 7\n"
    assert 1 <= thread_count(None) <= len(os.sched_getaffinity(0))
