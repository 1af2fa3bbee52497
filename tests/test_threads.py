"""Threads that make columns: in which order, how many at once, and who waits for whom."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

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
    usable_cores,
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


class Lane:
    """A lane that counts how often it is compared with an equal one."""

    compared = 0

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        Lane.compared += 1
        return isinstance(other, Lane) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


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
        for future in made.submit_all([(records(count), lane) for lane in ("a", None, "a")]):
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
        for future in made.submit_all([(small("a"), "a"), (small("b"), "b")]):
            future.result(LIMIT_S)


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_slow_articles_leave_a_thread_free_for_other_lanes(gate: Gate, threads: int) -> None:
    """However many lanes have one: all threads but one are at work on them, and what comes later is done."""
    slow = [f"slow {lane}" for lane in range(threads + 1)]
    gate.shut(*slow)
    with FingerprintThreads(threads, gate) as made:
        waiting = made.submit_all([(large(name), name) for name in slow])
        gate.has_begun(*slow[: threads - 1])
        for name in ("one", "two", "three"):
            made.submit(small(name), name).result(LIMIT_S)
        assert [name for name in gate.begun if name in slow] == slow[: threads - 1]
        gate.open(*slow)
        for future in waiting:
            future.result(LIMIT_S)


def test_a_slow_article_holds_up_its_own_lane_alone(gate: Gate) -> None:
    """While it is under way no other task of its lane begins, large or small: it would only occupy a thread."""
    gate.shut("slow")
    with FingerprintThreads(4, gate) as made:
        slow = made.submit(large("slow"), "a")
        gate.has_begun("slow")
        behind = made.submit_all([(small("small behind"), "a"), (large("large behind"), "a")])
        for other in made.submit_all([(small("other"), "b"), (large("large other"), "c")]):
            other.result(LIMIT_S)
        assert not any(name.endswith("behind") for name in gate.begun)
        gate.open("slow")
        for future in (slow, *behind):
            future.result(LIMIT_S)


def test_a_large_record_holds_up_what_came_before_it_in_its_batch_not_at_all(gate: Gate) -> None:
    """It is a task of its own: the records around it are done without it."""
    gate.shut("slow")
    with FingerprintThreads(2, gate) as made:
        future = made.submit([*small("before"), *large("slow"), *small("behind")], "a")
        gate.has_begun("before", "slow")
        assert not future.done()
        gate.open("slow")
        assert len(future.result(LIMIT_S)) == 3


def test_all_threads_go_on_after_a_slow_article() -> None:
    """Those that had gone to rest, because the article held up its lane, take their part of what waited."""
    opened, both = threading.Event(), threading.Barrier(3)

    def make(given: Sequence[RawRecord]) -> Columns:
        if len(given[0].value or b"") > CHUNK_BYTES:
            assert opened.wait(LIMIT_S)
        else:
            both.wait(LIMIT_S)
        return Columns.blank(len(given), Widths())

    with FingerprintThreads(3, make) as made:
        futures = made.submit_all([(large("slow"), "a"), *((small(f"{n}"), "a") for n in range(3))])
        opened.set()
        for future in futures:
            future.result(LIMIT_S)


def test_what_waits_behind_a_slow_article_costs_others_nothing(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much it is: it is looked at once, not for each task that another lane begins meanwhile."""
    held, others = 300, 100
    gate.shut("slow")
    monkeypatch.setattr(Lane, "compared", 0)
    with FingerprintThreads(2, gate) as made:
        slow = made.submit(large("slow"), Lane("a"))
        gate.has_begun("slow")
        behind = made.submit_all([(small(f"{n}"), Lane("a")) for n in range(held)])
        for n in range(others):
            made.submit(small(f"other {n}"), Lane("b")).result(LIMIT_S)
        assert held <= Lane.compared < 3 * held + 2 * others
        gate.open("slow")
        for future in (slow, *behind):
            future.result(LIMIT_S)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), max_size=12), st.integers(1, 3), st.data())
def test_every_request_is_done_once_or_cancelled(
    given: list[tuple[str, bool]], threads: int, data: st.DataObject
) -> None:
    """Large and small ones of two lanes, some cancelled meanwhile: none is lost, done twice, or left waiting."""
    names = [f"{lane} {at} {'large' if is_large else 'small'}" for at, (lane, is_large) in enumerate(given)]
    gate = Gate()
    gate.shut(*names)
    cancelled: set[str] = set()
    with FingerprintThreads(threads, gate) as made:
        wanted = [(large(name) if name.endswith("large") else small(name), name[0]) for name in names]
        futures = dict(zip(names, made.submit_all(wanted), strict=True))
        for name in data.draw(st.permutations(names)):
            if data.draw(st.booleans()) and futures[name].cancel():
                cancelled.add(name)
            gate.open(name)
        for name in set(names) - cancelled:
            assert len(futures[name].result(LIMIT_S)) == 1
    assert len(gate.begun) == len(set(gate.begun))
    assert set(names) - cancelled <= set(gate.begun)


def test_calls_do_not_pile_up_while_there_is_always_work(gate: Gate) -> None:
    """A command may keep all threads busy for days: what waits for a thread is no more than there are threads."""
    gate.shut("0")
    with FingerprintThreads(2, gate) as made:
        futures = [made.submit(records(2 * LEAST_SHARE_RECORDS)) for _ in range(5)]
        for future in futures:
            future.result(LIMIT_S)
        blocked = [made.submit(small("0")) for _ in range(50)]
        assert made._executor._work_queue.qsize() <= 2
        gate.open("0")
        for future in blocked:
            future.result(LIMIT_S)


def test_records_without_a_lane_wait_for_none(gate: Gate) -> None:
    """A command takes the columns of all in order: large ones may occupy every thread."""
    gate.shut("one", "two")
    with FingerprintThreads(2, gate) as made:
        futures = [made.submit(large(name)) for name in ("one", "two")]
        gate.has_begun("one", "two")
        gate.open("one", "two")
        for future in futures:
            future.result(LIMIT_S)


def test_a_single_thread_does_one_task_after_the_other(gate: Gate) -> None:
    """Large ones too, of whatever lane; a slow one then holds up all."""
    with FingerprintThreads(1, gate) as made:
        futures = made.submit_all([(large("a"), "a"), (small("b"), "b"), (large("c"), "c"), (small("d"), "a")])
        for future in futures:
            future.result(LIMIT_S)
    assert gate.begun == ["a", "b", "c", "d"]


def test_what_is_cancelled_does_not_begin(gate: Gate) -> None:
    """A request under way can be cancelled, too: its other tasks do not begin, and what follows is done."""
    gate.shut("0")
    two = [RawRecord(None, b"{}", f"{n}") for n in range(2 * CHUNK_RECORDS)]
    with FingerprintThreads(1, gate) as made:
        under_way, cancelled, other = made.submit_all([(two, "a"), (small("cancelled"), "a"), (small("other"), "b")])
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
    begun, waiting = made.submit_all([(small("begun"), "a"), (small("waiting"), "b")])
    gate.has_begun("begun")
    closing = threading.Thread(target=made.close)
    closing.start()
    with pytest.raises(CancelledError):
        waiting.result(LIMIT_S)
    assert closing.is_alive()
    gate.open("begun")
    closing.join(LIMIT_S)
    assert begun.done()
    assert gate.begun == ["begun"]
    assert not ours()
    made.close()
    with pytest.raises(UnavailableError, match="closed"):
        made.submit(small("late"))


def test_what_the_maker_raises_is_raised() -> None:
    """Where the columns are asked for; what follows is done."""
    failing = iter([True, False])

    def make(given: Sequence[RawRecord]) -> Columns:
        if next(failing):
            raise MemoryError
        return Columns.blank(len(given), Widths())

    with FingerprintThreads(1, make) as made:
        with pytest.raises(MemoryError):
            made.submit(small("a")).result(LIMIT_S)
        assert len(made.submit(small("b")).result(LIMIT_S)) == 1


def test_columns_that_cannot_be_joined(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Are an error of their request, as the maker's are: nobody waits for ever, and what follows is done."""

    def refuse(_parts: Sequence[Columns]) -> Columns:
        raise MemoryError

    with FingerprintThreads(2, gate) as made:
        with monkeypatch.context() as changed:
            changed.setattr(Columns, "concat", refuse)
            futures = made.submit_all([(large("slow"), "a"), (small("behind"), "a")])
            for future in futures:
                with pytest.raises(MemoryError):
                    future.result(LIMIT_S)
        assert len(made.submit(small("b"), "a").result(LIMIT_S)) == 1


def test_no_thread_is_started_before_there_is_work_for_it(gate: Gate) -> None:
    """None for a process that will be forked, and one for one record."""
    with FingerprintThreads(4, gate) as made:
        assert not ours()
        for name in ("a", "b", "c"):
            made.submit(small(name)).result(LIMIT_S)
            wait_until(lambda: made._executor._idle_semaphore._value == 1, LIMIT_S, "the thread waits")
        assert len(ours()) == 1


def test_a_thread_that_cannot_be_started(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is told, and can be remedied: nobody waits for columns that nobody makes."""

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with (
        FingerprintThreads(2, gate) as made,
        pytest.raises(UnavailableError, match=r"could not be started \(can't start new thread\): start again"),
    ):
        made.submit(small("a"))


def test_what_no_thread_could_be_started_for_is_not_done_later(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asked was told so; what is submitted when there is room again is done."""

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with FingerprintThreads(2, gate) as made:
        with monkeypatch.context() as changed:
            changed.setattr(threading.Thread, "start", refuse)
            for _ in range(3):
                with pytest.raises(UnavailableError):
                    made.submit(small("refused"))
        for _ in range(3):
            made.submit(small("done")).result(LIMIT_S)
    assert gate.begun == ["done"] * 3


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


def test_the_time_of_each_task_is_counted(gate: Gate) -> None:
    """Whatever comes of it, and in its thread."""
    seen: list[str] = []

    @contextmanager
    def working() -> Iterator[None]:
        try:
            yield
        finally:
            seen.append(threading.current_thread().name)

    def make(given: Sequence[RawRecord]) -> Columns:
        if given[0].fallback_id == "fails":
            raise MemoryError
        return gate(given)

    with FingerprintThreads(1, make, working) as made:
        futures = [made.submit(small(name)) for name in ("a", "fails", "b")]
        for future in futures:
            future.exception(LIMIT_S)
        assert seen == ours() * 3


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


PERIOD_US = 100_000


class Kernel:
    """A mount of control groups and the file that names the process's own, in a temporary folder."""

    def __init__(self, folder: Path, own: str) -> None:
        self.groups = folder / "groups"
        self.own = folder / "own"
        self.own.write_text(own)

    def quota(self, group: str, cores: float | None) -> None:
        """Give a group of version 2 a quota, or say that it has none."""
        limit = "max" if cores is None else f"{cores * PERIOD_US:.0f}"
        self._write(group, "cpu.max", f"{limit} {PERIOD_US}\n")

    def old_quota(self, group: str, cores: float | None) -> None:
        """The same in version 1."""
        self._write(group, "cpu.cfs_quota_us", f"{-1 if cores is None else cores * PERIOD_US:.0f}\n")
        self._write(group, "cpu.cfs_period_us", f"{PERIOD_US}\n")

    def cores(self, affinity: int) -> int:
        return usable_cores(affinity, self.own, self.groups)

    def _write(self, group: str, name: str, text: str) -> None:
        folder = self.groups / group
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("quota", "affinity", "expected"),
    [(2, 8, 2), (1, 8, 1), (1.5, 8, 1), (2.9, 8, 2), (0.25, 8, 1), (None, 8, 8), (16, 8, 8), (4, 2, 2)],
)
def test_quota_and_affinity(tmp_path: Path, quota: float | None, affinity: int, expected: int) -> None:
    """The smaller of both counts, in whole cores, and is at least 1; the root group of a container has its quota."""
    kernel = Kernel(tmp_path, "0::/\n")
    kernel.quota("", quota)
    assert kernel.cores(affinity) == expected


@pytest.mark.parametrize("limited", ["", "kubepods.slice", "kubepods.slice/pod7", "kubepods.slice/pod7/worker"])
def test_quota_of_any_parent(tmp_path: Path, limited: str) -> None:
    """The smallest quota between the process's own group and the root counts, whichever group has it."""
    kernel = Kernel(tmp_path, "0::/kubepods.slice/pod7/worker\n")
    for group in ("kubepods.slice", "kubepods.slice/pod7", "kubepods.slice/pod7/worker"):
        kernel.quota(group, 6)
    kernel.quota(limited, 3)
    assert kernel.cores(8) == 3


def test_quota_of_another_group(tmp_path: Path) -> None:
    """The quota of a group that the process is not in does not count."""
    kernel = Kernel(tmp_path, "0::/mine\n")
    kernel.quota("mine", None)
    kernel.quota("other", 1)
    assert kernel.cores(8) == 8


OLD = "12:memory:/docker/7\n4:cpu,cpuacct:/docker/7\n3:cpuset:/docker/7\n1:name=systemd:/docker/7\n0::/docker/7\n"


@pytest.mark.parametrize("mount", ["cpu,cpuacct", "cpu"])
@pytest.mark.parametrize("group", ["docker/7", "docker", ""])
def test_version_1(tmp_path: Path, mount: str, group: str) -> None:
    """Version 1: the hierarchy of the processor time alone, under either name; in a container the root is its own."""
    kernel = Kernel(tmp_path, OLD)
    kernel.old_quota(f"{mount}/{group}", 2.5)
    kernel.old_quota("memory/docker/7", 1)
    kernel.old_quota("cpuset/docker/7", 1)
    assert kernel.cores(8) == 2


def test_version_1_without_quota(tmp_path: Path) -> None:
    """Version 1: -1 is no quota."""
    kernel = Kernel(tmp_path, OLD)
    kernel.old_quota("cpu/docker/7", None)
    assert kernel.cores(8) == 8


@pytest.mark.parametrize("own", ["0::/\n", "0::/../other\n", OLD, ""])
def test_no_control_groups(tmp_path: Path, own: str) -> None:
    """Without control groups, or with a group that cannot be seen, the affinity alone counts."""
    assert Kernel(tmp_path, own).cores(8) == 8
    assert usable_cores(8, tmp_path / "missing", tmp_path) == 8


def test_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A configured number counts whatever the machine allows; without one, the affinity is the process's own."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {3})
    assert thread_count(7) == 7
    assert thread_count(None) == 1
