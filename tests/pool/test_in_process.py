"""Columns that several threads of one process make together."""

from __future__ import annotations

import _thread
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from typing import Any

import pytest

from stream_dedup.article_limit import LateError
from stream_dedup.core.columns import Columns
from stream_dedup.core.fingerprint.entry_maker import EntryMaker
from stream_dedup.core.model import Status
from stream_dedup.core.scheme import FingerprintSettings
from stream_dedup.core.text.decode import RawRecord
from stream_dedup.errors import UserError
from stream_dedup.pool import FingerprintPool, in_process
from stream_dedup.pool.recipe import Recipe
from tests.pool.children import same
from tests.waiting import wait_until

PIECE = 3
LIMIT_S = 0.25
Make = Callable[[EntryMaker, Sequence[RawRecord]], Columns]
MAKE: Make = EntryMaker.__call__

pytestmark = pytest.mark.usefixtures("light", "small_pieces")


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_process, "PIECE_RECORDS", PIECE)


@pytest.fixture
def pool() -> Iterator[FingerprintPool]:
    with FingerprintPool(0, article_limit_s=LIMIT_S, threads=2) as made:
        made.warm()
        yield made


def records(count: int) -> list[RawRecord]:
    return [RawRecord(f"{n}".encode(), b'{"text": "text of record %d"}' % n, "t-0-0") for n in range(count)]


def replaced(monkeypatch: pytest.MonkeyPatch, in_helper: Make) -> None:
    """Let helpers make columns so; the main thread makes its first piece when a helper has begun."""
    begun = threading.Event()

    def make(maker: EntryMaker, given: Sequence[RawRecord]) -> Columns:
        if threading.current_thread() is not threading.main_thread():
            begun.set()
            return in_helper(maker, given)
        if len(given) > 1:
            assert begun.wait(10), "no helper came"
            time.sleep(0.001)  # as long as it takes compiled code: a helper that was started gets a piece
        return MAKE(maker, given)

    monkeypatch.setattr(EntryMaker, "__call__", make)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, PIECE, PIECE + 1, 40 * PIECE + 2])
def test_columns_are_those_of_one_thread(count: int, threads: int) -> None:
    """In the order of the records, call after call; those of no record, too, are as wide as the settings say."""
    settings = FingerprintSettings(tables=8)
    expected = EntryMaker(settings)(records(count))
    with FingerprintPool(0, settings, threads=threads) as made:
        for _ in range(3):
            columns = made.submit(records(count)).result()
            assert columns.widths == expected.widths
            assert same(columns, expected)


def test_threads_share_the_records(pool: FingerprintPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a maker of its own, and keeps it from call to call; a call of one piece starts no thread."""
    seen: list[EntryMaker] = []

    def make(maker: EntryMaker, given: Sequence[RawRecord]) -> Columns:
        seen.append(maker)
        return MAKE(maker, given)

    replaced(monkeypatch, make)
    for _ in range(2):
        pool.submit(records(4 * PIECE)).result()
    assert len({id(maker) for maker in seen}) == 1
    helped = len(seen)
    assert helped >= 2
    monkeypatch.setattr(EntryMaker, "__call__", make)
    pool.submit(records(PIECE)).result()
    (own,) = seen[helped:]
    assert own is not seen[0]


def left(pool: FingerprintPool) -> list[in_process._Helper]:
    """Return the helpers that were left at work."""
    assert pool._in_process is not None
    return pool._in_process._left


def take_part_again(pool: FingerprintPool, makers: list[EntryMaker]) -> None:
    """Return when a helper has made a piece: the main thread may be done before it begins."""
    wait_until(
        lambda: bool(pool.submit(records(6 * PIECE)).result()) and len(makers) > 1, 10, "a helper takes part again"
    )


def test_no_piece_is_left_out(pool: FingerprintPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever becomes of a helper: fewer columns than records would be those of others."""
    monkeypatch.setattr(in_process._Helper, "wait", lambda _: None)
    done = threading.Event()

    def be_late(maker: EntryMaker, given: Sequence[RawRecord]) -> Columns:
        done.wait(10)
        return MAKE(maker, given)

    replaced(monkeypatch, be_late)
    try:
        with pytest.raises(RuntimeError, match="1 of 4 pieces of a batch were not made"):
            pool.submit(records(4 * PIECE)).result()
    finally:
        done.set()


def test_what_a_helper_raises_is_raised(pool: FingerprintPool, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_maker: EntryMaker, _given: Sequence[RawRecord]) -> Columns:
        msg = "a dictionary is missing"
        raise UserError(msg)

    replaced(monkeypatch, fail)
    with pytest.raises(UserError, match="a dictionary is missing"):
        pool.submit(records(4 * PIECE)).result()


def test_a_maker_that_raised_makes_no_more_columns(pool: FingerprintPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been in the middle of a change of its caches."""
    makers: list[EntryMaker] = []

    def fail_once(maker: EntryMaker, given: Sequence[RawRecord]) -> Columns:
        makers.append(maker)
        if len(makers) == 1:
            raise MemoryError
        return MAKE(maker, given)

    replaced(monkeypatch, fail_once)
    with pytest.raises(MemoryError):
        pool.submit(records(4 * PIECE)).result()
    take_part_again(pool, makers)
    assert makers[0] not in makers[1:]


def test_a_maker_at_work_is_not_used_where_no_other_can_be_made(
    pool: FingerprintPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is short of memory fails twice, and then has memory again."""
    begun, done = threading.Event(), threading.Event()
    busy: list[EntryMaker] = []
    used: list[EntryMaker] = []

    def make(maker: EntryMaker, given: Sequence[RawRecord]) -> Columns:
        if threading.current_thread() is not threading.main_thread() and not busy:
            busy.append(maker)
            begun.set()
            done.wait(10)
        elif not used:
            assert begun.wait(10)
            used.append(maker)
            raise MemoryError
        else:
            used.append(maker)
        return MAKE(maker, given)

    def refuse(_recipe: Recipe) -> EntryMaker:
        raise MemoryError

    monkeypatch.setattr(EntryMaker, "__call__", make)
    try:
        with pytest.raises(MemoryError):
            pool.submit(records(6 * PIECE)).result()
        with monkeypatch.context() as short:
            short.setattr(Recipe, "maker", refuse)
            with pytest.raises(MemoryError):
                pool.submit(records(6 * PIECE)).result()
        assert len(pool.submit(records(6 * PIECE)).result()) == 6 * PIECE
        assert len(used) > 1
        assert busy[0] not in used
    finally:
        done.set()


class _Idle:
    """Work that ends when it is told to."""

    def __init__(self) -> None:
        self.ends = threading.Event()

    def take_part(self, _maker: object) -> None:
        self.ends.wait(10)

    def fail(self, error: BaseException) -> None:
        raise AssertionError from error


def _interrupt_a_wait(after_s: float) -> None:
    def wait() -> None:
        signal.setitimer(signal.ITIMER_REAL, after_s)
        helper.wait()

    work: Any = _Idle()
    helper = in_process._Helper(EntryMaker(), work, LIMIT_S)
    helper.start()
    with pytest.raises(LateError):
        wait()
    work.ends.set()
    helper.wait()
    assert not helper.is_at_work()


def test_a_wait_for_a_helper_may_be_interrupted_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is that of the signal, and the helper is seen to end: Python code leaves a lock held now and then."""
    draw = random.Random(1)

    def interrupt(*_: object) -> None:
        raise LateError

    monkeypatch.setattr(in_process, "_SIGNAL_S", 2e-4)  # as often as can be
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(600):
            _interrupt_a_wait(draw.uniform(1e-4, 1e-3))
    finally:
        signal.signal(signal.SIGALRM, before)


class _Interruption:
    """A handler that raises while the start of a helper may be interrupted."""

    def __init__(self) -> None:
        self.is_wanted = False
        self.count = 0

    def __call__(self, *_: object) -> None:
        if self.is_wanted:
            self.is_wanted = False
            self.count += 1
            raise LateError


def _interrupt_a_start(interruption: _Interruption, after_s: float) -> None:
    work: Any = _Idle()
    work.ends.set()
    helper = in_process._Helper(EntryMaker(), work, LIMIT_S)
    with suppress(LateError):
        interruption.is_wanted = True
        signal.setitimer(signal.ITIMER_REAL, after_s)
        helper.start()
        interruption.is_wanted = False
    interruption.is_wanted = False
    wait_until(lambda: not helper.is_at_work(), 5, "the helper has ended, if it was started")


def test_the_start_of_a_helper_may_be_interrupted_anywhere() -> None:
    """The error is that of the signal: one that says that no thread was started would leave out what it makes."""
    draw, interruption = random.Random(1), _Interruption()
    before = signal.signal(signal.SIGALRM, interruption)
    try:
        for _ in range(10_000):
            _interrupt_a_start(interruption, draw.uniform(1e-6, 6e-5))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interruption.count > 1_000


def test_one_thread_does_all_where_no_other_can_be_started(
    pool: FingerprintPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        msg = "can't start new thread"
        raise RuntimeError(msg)

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    assert len(pool.submit(records(4 * PIECE)).result()) == 4 * PIECE


def test_a_helper_that_is_late_costs_no_article(pool: FingerprintPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left at work, and its records are done in the main thread, which nobody helps until it has ended.

    Else each late article would leave another thread that takes a core and memory.
    """
    done, makers = threading.Event(), []

    def go_on(maker: EntryMaker, given: Sequence[RawRecord]) -> Columns:
        makers.append(maker)
        while len(makers) == 1 and not done.is_set():
            sum(range(1000))
        return MAKE(maker, given)

    replaced(monkeypatch, go_on)
    try:
        expected = EntryMaker()(records(1))
        columns = pool.submit(records(6 * PIECE)).result()
        assert columns.statuses.tolist() == [Status.LONG] * 6 * PIECE
        assert same(columns.rows(slice(0, 1)), expected)
        assert len(makers) == 1, "the helper took another piece"
        assert pool.submit(records(6 * PIECE)).result().ids[-1] == f"{6 * PIECE - 1}"
        assert len(makers) == 1, "another helper was started beside it"
        (helper,) = left(pool)
        done.set()
        wait_until(lambda: not helper.is_at_work(), 10, "the helper has ended")
        take_part_again(pool, makers)
        assert makers[0] not in makers[1:], "a maker that was left at work was given to another thread"
    finally:
        done.set()


def test_a_helper_that_is_left_at_work_takes_no_other_piece(
    pool: FingerprintPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the main thread raises; nor is its maker given to another thread."""
    begun, done = threading.Event(), threading.Event()
    makers: list[EntryMaker] = []

    def make(maker: EntryMaker, given: Sequence[RawRecord]) -> Columns:
        if threading.current_thread() is threading.main_thread():
            assert begun.wait(10)
            msg = "no memory"
            raise MemoryError(msg)
        makers.append(maker)
        begun.set()
        done.wait(10)
        return MAKE(maker, given)

    monkeypatch.setattr(EntryMaker, "__call__", make)
    with pytest.raises(MemoryError):
        pool.submit(records(6 * PIECE)).result()
    (helper,) = left(pool)
    done.set()
    wait_until(lambda: not helper.is_at_work(), 10, "the helper has ended")
    assert len(makers) == 1, "the helper went on"

    def note(maker: EntryMaker, given: Sequence[RawRecord]) -> Columns:
        makers.append(maker)
        return MAKE(maker, given)

    replaced(monkeypatch, note)
    take_part_again(pool, makers)
    assert makers[0] not in makers[1:]


def test_a_helper_that_was_late_is_noticed_behind_it(pool: FingerprintPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no signal was handled meanwhile: each record is done by itself, and the late one is rejected."""
    sizes: list[int] = []
    monkeypatch.setattr(in_process, "interrupted_after", lambda *_: nullcontext())

    def make(maker: EntryMaker, given: Sequence[RawRecord]) -> Columns:
        while time.thread_time() < 2 * LIMIT_S:
            sum(range(1000))
        return MAKE(maker, given)

    replaced(monkeypatch, make)
    counted = EntryMaker.__call__

    def count(maker: EntryMaker, given: Sequence[RawRecord]) -> Columns:
        sizes.append(len(given))
        return counted(maker, given)

    monkeypatch.setattr(EntryMaker, "__call__", count)
    assert len(pool.submit(records(2 * PIECE)).result()) == 2 * PIECE
    assert sizes[-2 * PIECE :] == [1] * 2 * PIECE
