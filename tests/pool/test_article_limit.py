"""The limit of time of one article, in pools of real processes."""

import os
import signal
import time
from concurrent.futures import wait
from threading import Thread

import pytest

from stream_dedup.article_limit import LateError, interrupted_after
from stream_dedup.core.columns import Columns
from stream_dedup.core.fingerprint.entry_maker import EntryMaker
from stream_dedup.core.model import Status
from stream_dedup.core.scheme import FingerprintSettings
from stream_dedup.core.text.decode import RawRecord
from stream_dedup.pool import FingerprintPool
from tests.pool.children import ENDLESS, RECORDS, SLOW_STEP, same, take_step

LIMIT_S = 0.25

pytestmark = pytest.mark.usefixtures("light")


@pytest.fixture(params=[0, 1])
def slow_processes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Number of processes of a pool whose children, or this process, take the slow step."""
    monkeypatch.setattr(EntryMaker, "__call__", EntryMaker.__call__)
    processes: int = request.param
    if processes:
        take_step(monkeypatch, SLOW_STEP)
    else:
        exec(SLOW_STEP, {})  # noqa: S102 - what the children are given
    return processes


@pytest.mark.slow
def test_an_article_that_takes_too_long_is_rejected_and_no_other(slow_processes: int) -> None:
    """Its reason names the limit; the records beside it and after it get the columns that they would get without it."""
    with FingerprintPool(slow_processes, FingerprintSettings(tables=8), article_limit_s=LIMIT_S) as pool:
        pool.warm()
        futures = [pool.submit([RECORDS[0], ENDLESS, *RECORDS[1:]]), pool.submit([ENDLESS]), pool.submit(RECORDS)]
        late, alone, after = (future.result() for future in futures)
    expected = EntryMaker(FingerprintSettings(tables=8))(RECORDS)
    reason = f"takes longer than {LIMIT_S} s to fingerprint"
    assert (late.ids[1], late.reasons[1], late.statuses[1]) == ("e", reason, Status.REJECTED)
    assert same(Columns.concat([late.rows(slice(0, 1)), late.rows(slice(2, None))]), expected)
    assert [*alone.ids, *alone.reasons] == ["e", reason]
    assert same(after, expected)


@pytest.mark.slow
def test_a_batch_that_is_slow_only_as_a_whole_loses_no_article(slow_processes: int) -> None:
    """Each record has the whole limit."""
    leisurely = [RawRecord(str(n).encode(), b'{"text": "leisurely"}', "t-0-0") for n in range(6)]
    with FingerprintPool(slow_processes, article_limit_s=LIMIT_S) as pool:
        pool.warm()
        assert list(pool.submit(leisurely).result().reasons) == [""] * 6


def test_a_timer_that_was_set_before_goes_on() -> None:
    """A pool of 0 processes restores the timer and the signal handler of the process."""
    handler = signal.signal(signal.SIGPROF, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_PROF, 1000, 7)
    try:
        with FingerprintPool(0, article_limit_s=LIMIT_S) as pool:
            pool.submit(RECORDS)
        seen, (left, interval) = signal.getsignal(signal.SIGPROF), signal.getitimer(signal.ITIMER_PROF)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)
    assert (seen, left == pytest.approx(1000, abs=60), interval) == (signal.SIG_IGN, True, 7)


@pytest.mark.parametrize("processes", [0, 1])
def test_loading_does_not_count(processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that compiles takes longer than an article may: the first article is not rejected for it."""
    if processes:
        take_step(monkeypatch, LOADING_STEP)
    else:
        for name in ("warm", "__call__"):
            monkeypatch.setattr(EntryMaker, name, getattr(EntryMaker, name))
        exec(LOADING_STEP, {})  # noqa: S102 - what the child is given
    with FingerprintPool(processes, article_limit_s=LIMIT_S) as pool:
        assert list(pool.submit(RECORDS[:1]).result().reasons) == [""]


LOADING_STEP = f"""\
import time
from stream_dedup.core.fingerprint.entry_maker import EntryMaker
make, until = EntryMaker.__call__, []
def load(_maker):
    until[:] = until or [time.process_time() + {2 * LIMIT_S}]
    while time.process_time() < until[0]:
        sum(range(1000))
def make_loaded(maker, records):
    load(maker)
    return make(maker, records)
EntryMaker.warm, EntryMaker.__call__ = load, make_loaded
"""
STOPPING_STEP = """\
import os
from stream_dedup.core.fingerprint.entry_maker import EntryMaker
make = EntryMaker.__call__
def stopping(maker, records):
    for _ in records:
        os.kill(os.getpid(), signal.SIGSTOP)
    return make(maker, records)
EntryMaker.__call__ = stopping
"""


@pytest.mark.slow
def test_a_process_that_is_stopped_loses_no_article(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container that is paused, a machine that does other things: the limit is processor time."""
    take_step(monkeypatch, STOPPING_STEP)
    with FingerprintPool(1, article_limit_s=1) as pool:
        pool.warm()
        [pid] = pool.pids
        future = pool.submit(RECORDS[:1])
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
        wait([future], timeout=1.5)
        os.kill(pid, signal.SIGCONT)
        assert list(future.result().reasons) == [""]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_limit_that_passes_in_a_finalizer_is_kept() -> None:
    """Python drops an exception raised in a finalizer; the timer repeats, and its next exception is not dropped."""

    class Slow:
        def __del__(self) -> None:
            spin(0.3)

    def work() -> None:
        Slow()
        spin(5)

    with pytest.raises(LateError), interrupted_after(LIMIT_S):
        work()


def test_the_time_of_other_threads_does_not_count() -> None:
    """A block that waits for a thread that takes twice the limit is not late; then it is, by itself."""
    other = Thread(target=spin, args=(2 * LIMIT_S,))
    done = []

    def work() -> None:
        other.start()
        other.join()
        done.append(other)
        spin(5)

    with pytest.raises(LateError), interrupted_after(LIMIT_S):
        work()
    assert done == [other]


def spin(seconds: float) -> None:
    """Take so much processor time in this thread."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        sum(range(1000))
