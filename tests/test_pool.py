"""The pool of fingerprinting processes: real processes, really killed."""

import errno
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, wait

import numpy as np
import pytest

from stream_dedup.article_limit import LateError, interrupted_after
from stream_dedup.core.columns import Columns
from stream_dedup.core.fingerprint import entry_maker
from stream_dedup.core.fingerprint.entry_maker import EntryMaker
from stream_dedup.core.model import Status
from stream_dedup.core.scheme import FingerprintSettings
from stream_dedup.core.text.decode import InputFormat, RawRecord, decode
from stream_dedup.errors import UnavailableError
from stream_dedup.pool import FingerprintPool, process

GONE_SECONDS = 10
"""Longest wait for a process to end."""

RECORDS = [
    RawRecord(b"a", '{"text": "今天天气很好，我们去公园散步"}'.encode(), "t-0-0"),
    RawRecord(b"b", None, "t-0-1"),
    RawRecord(None, b'{"text": "the river froze early that year"}', "t-0-2"),
]
LONG_WORK = [RawRecord(None, json.dumps({"text": "不同的文字 some more words " * 20_000}).encode(), "t-0-3")] * 200


@pytest.fixture(scope="module")
def shared() -> Iterator[FingerprintPool]:
    with FingerprintPool(2) as pool:
        pool.warm()
        yield pool


def same(a: Columns, b: Columns) -> bool:
    return [*a.ids, *a.reasons] == [*b.ids, *b.reasons] and np.array_equal(a.signatures, b.signatures)


def wait_until_gone(pids: list[int]) -> None:
    """Wait for processes of which we may not be the parent: a pidfd is readable once its process has ended."""
    for pid in pids:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        with os.fdopen(handle):
            assert select.select([handle], [], [], GONE_SECONDS)[0], f"process {pid} still runs"


@pytest.mark.parametrize("processes", [0, 1, 2])
def test_columns_are_those_of_the_core(processes: int) -> None:
    """The columns are the same in this process and in children."""
    with FingerprintPool(processes) as pool:
        assert same(pool.submit(RECORDS).result(), EntryMaker()(RECORDS))


def test_settings_and_format_reach_the_children() -> None:
    """Children use the configured weights and fields."""
    settings, fmt = FingerprintSettings().with_features(weights="tf"), InputFormat(kind="text")
    with FingerprintPool(1, settings, fmt) as pool:
        assert same(pool.submit(RECORDS).result(), EntryMaker(settings, fmt)(RECORDS))


def test_each_future_has_the_result_of_its_own_records(shared: FingerprintPool) -> None:
    """Many pieces of work under way at once, over two children."""
    work = [[RawRecord(str(i).encode(), b'{"text": "a"}', "t-0-0")] * (i % 3 + 1) for i in range(100)]
    futures = [shared.submit(records) for records in work]
    assert [list(future.result().ids) for future in futures] == [[str(i)] * (i % 3 + 1) for i in range(100)]


def test_children_do_not_hear_ctrl_c_and_sigterm(shared: FingerprintPool) -> None:
    """The parent decides when they end; they are in no group that a terminal would send to."""
    for pid in shared.pids:
        os.kill(pid, signal.SIGINT)
        os.kill(pid, signal.SIGTERM)
        assert os.getpgid(pid) != os.getpgid(0)
    futures = [shared.submit(RECORDS) for _ in range(10)]
    assert [len(future.result()) for future in futures] == [3] * 10


def test_a_dead_child_is_named_and_the_pool_is_of_no_more_use() -> None:
    """Its task fails, queued tasks fail, and later ones are refused."""
    with FingerprintPool(1) as pool:
        pool.warm()
        [pid] = pool.pids
        futures = [pool.submit(LONG_WORK), pool.submit(RECORDS)]
        os.kill(pid, signal.SIGKILL)
        for future in futures:
            with pytest.raises(UnavailableError, match=f"process {pid} ended by SIGKILL"):
                future.result()
        with pytest.raises(UnavailableError, match=f"process {pid} ended by SIGKILL"):
            pool.submit(RECORDS)


def test_a_child_that_dies_while_it_is_idle_is_noticed_at_the_next_work() -> None:
    """The error names the process."""
    with FingerprintPool(1) as pool:
        pool.warm()
        [pid] = pool.pids
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(UnavailableError, match=f"process {pid} ended by SIGKILL"):
            pool.submit(RECORDS).result()


def test_a_child_that_cannot_load_fails_the_warming(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its exit code; a process that ends before it is ready is no hang."""
    monkeypatch.setattr(process, "CHILD_CODE", "import sys; sys.exit(7)  # {path} {connection} {lifeline}")
    with FingerprintPool(1) as pool, pytest.raises(UnavailableError, match="ended with exit code 7"):
        pool.warm()


def test_what_work_raises_comes_out_of_its_future(shared: FingerprintPool) -> None:
    """A programming error in a child is an error of that work alone, and the child lives on."""
    broken: Future[Columns] = shared.submit([None])  # type: ignore[list-item]
    assert isinstance(broken.exception(), AttributeError)
    assert len(shared.submit(RECORDS).result()) == 3


@pytest.mark.parametrize("processes", [0, 2])
def test_close_ends_the_children_and_refuses_work(processes: int) -> None:
    """``close`` may be called twice."""
    pool = FingerprintPool(processes)
    pids = pool.pids
    assert len(pids) == processes
    pool.close()
    pool.close()
    wait_until_gone(pids)
    with pytest.raises(UnavailableError, match="closed"):
        pool.submit(RECORDS)


def test_close_cancels_what_is_queued_and_gives_up_on_long_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """``close`` returns within its time limit."""
    monkeypatch.setattr(process, "CLOSE_WAIT_S", 0.2)
    pool = FingerprintPool(1)
    pool.warm()
    futures = [pool.submit(LONG_WORK), *(pool.submit(RECORDS) for _ in range(5))]
    while not futures[0].running():
        assert not futures[0].done()
    pool.close()
    wait_until_gone(pool.pids)
    assert isinstance(futures[0].exception(), UnavailableError)
    assert all(future.cancelled() for future in futures[1:])


SLOW_STEP = """\
import re, time
from stream_dedup.core.fingerprint import entry_maker
read = entry_maker.decode
def slowly(record, fmt):
    if b"endless" in (record.value or b""):
        re.match("(a|aa)+$", "a" * 200 + "b")
    until = time.monotonic() + (0.5 if b"leisurely" in (record.value or b"") else 0)
    while time.monotonic() < until:
        sum(range(1000))
    return read(record, fmt)
entry_maker.decode = slowly
"""
"""A step that never returns, in a loop that is not made of Python, and one that takes half a second."""
LIMIT_S = 2.0
ENDLESS = RawRecord(b"e", b'{"id": "own", "text": "endless"}', "t-0-4")


@pytest.fixture(params=[0, 1])
def slow_processes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Number of processes of a pool whose children, or this process, take the slow step."""
    monkeypatch.setattr(entry_maker, "decode", decode)
    processes: int = request.param
    if processes:
        monkeypatch.setattr(process, "CHILD_CODE", process.CHILD_CODE.replace("serve({", SLOW_STEP + "serve({"))
    else:
        exec(SLOW_STEP, {})  # noqa: S102 - what the children are given
    return processes


def test_an_article_that_takes_too_long_is_rejected_and_no_other(slow_processes: int) -> None:
    """Its reason names the limit; the records beside it and after it get the columns that they would get without it."""
    with FingerprintPool(slow_processes, FingerprintSettings(tables=8), article_limit_s=LIMIT_S) as pool:
        pool.warm()
        futures = [pool.submit([RECORDS[0], ENDLESS, *RECORDS[1:]]), pool.submit([ENDLESS]), pool.submit(RECORDS)]
        late, alone, after = (future.result() for future in futures)
    expected = EntryMaker(FingerprintSettings(tables=8))(RECORDS)
    reason = "takes longer than 2 s to fingerprint"
    assert (late.ids[1], late.reasons[1], late.statuses[1]) == ("e", reason, Status.REJECTED)
    assert same(Columns.concat([late.rows(slice(0, 1)), late.rows(slice(2, None))]), expected)
    assert [*alone.ids, *alone.reasons] == ["e", reason]
    assert same(after, expected)


def test_a_batch_that_is_slow_only_as_a_whole_loses_no_article(slow_processes: int) -> None:
    """Each record has the whole limit."""
    leisurely = [RawRecord(str(n).encode(), b'{"text": "leisurely"}', "t-0-0") for n in range(6)]
    with FingerprintPool(slow_processes, article_limit_s=LIMIT_S) as pool:
        pool.warm()
        assert list(pool.submit(leisurely).result().reasons) == [""] * 6


def test_a_pool_that_closes_starts_no_other_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that is late while the pool closes fails."""
    monkeypatch.setattr(process, "CHILD_CODE", process.CHILD_CODE.replace("serve({", SLOW_STEP + "serve({"))
    monkeypatch.setattr(process, "CLOSE_WAIT_S", 0.2)
    pool = FingerprintPool(1, article_limit_s=3600)
    pool.warm()
    future = pool.submit([ENDLESS])
    while not future.running():
        assert not future.done()
    pool.close()
    wait_until_gone(pool.pids)
    assert isinstance(future.exception(), UnavailableError)


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


STOPPING_STEP = """\
import os
from stream_dedup.core.fingerprint import entry_maker
read = entry_maker.decode
def stopping(record, fmt):
    os.kill(os.getpid(), signal.SIGSTOP)
    return read(record, fmt)
entry_maker.decode = stopping
"""


def test_a_process_that_is_stopped_loses_no_article(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container that is paused, a machine that does other things: the limit is processor time."""
    monkeypatch.setattr(process, "CHILD_CODE", process.CHILD_CODE.replace("serve({", STOPPING_STEP + "serve({"))
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
            spin(0.6)

    def work() -> None:
        Slow()
        spin(5)

    with pytest.raises(LateError), interrupted_after(0.5):
        work()


def spin(seconds: float) -> None:
    """Take so much processor time."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        sum(range(1000))


@pytest.mark.parametrize("number", [signal.SIGPROF, signal.SIGALRM])
def test_a_child_that_a_signal_of_others_ends_while_it_has_no_work_rejects_nothing(number: signal.Signals) -> None:
    """It was not late: it is dead, as with any other signal."""
    with FingerprintPool(1) as pool:
        pool.warm()
        [pid] = pool.pids
        os.kill(pid, number)
        wait_until_gone([pid])
        with pytest.raises(UnavailableError, match=f"process {pid} ended by {number.name}"):
            pool.submit(RECORDS[:1]).result()


def test_a_child_that_cannot_be_renewed_rejects_no_other_article(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system starts no process, the pool is of no more use, and says why."""
    monkeypatch.setattr(process, "CHILD_CODE", process.CHILD_CODE.replace("serve({", SLOW_STEP + "serve({"))
    with FingerprintPool(1, article_limit_s=1) as pool:
        pool.warm()
        monkeypatch.setattr(subprocess, "Popen", no_process)
        futures = [pool.submit([ENDLESS]), pool.submit(RECORDS[:1])]
        for future in futures:
            with pytest.raises(UnavailableError, match="could not be started: Cannot allocate memory"):
                future.result()


def no_process(*_: object, **__: object) -> None:
    """As ``Popen`` where memory ran out."""
    raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))


PARENT = """\
import json, sys
from stream_dedup.core.text.decode import RawRecord
from stream_dedup.pool import FingerprintPool
pool = FingerprintPool(2)
if sys.argv[1] != "starting":
    pool.warm()
if sys.argv[1] == "working":
    text = json.dumps({"text": "不同的文字 some more words " * 20_000}).encode()
    futures = [pool.submit([RawRecord(None, text, "t-0-0")] * 1000) for _ in range(4)]
print(*pool.pids, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("state", ["starting", "idle", "working"])
def test_children_end_when_their_parent_is_killed(state: str) -> None:
    """SIGKILL leaves the parent no time to say so; whatever the children were at, they end."""
    command = [sys.executable, "-c", PARENT, state]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2
        parent.kill()
        wait_until_gone(pids)


def test_children_load_nothing_but_the_core() -> None:
    """No Kafka, no RocksDB, no command line, and the parent's main module is not run again."""
    code = "import sys, stream_dedup.pool as p; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout.split()
    assert {"kafka", "rocksdict", "click", "pydantic", "prometheus_client"} & set(loaded) == set()
    done = subprocess.run(
        [sys.executable, "-"],
        input="print('main runs')\nimport stream_dedup.pool\nwith stream_dedup.pool.FingerprintPool(1) as p: p.warm()",
        capture_output=True,
        check=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("main runs\n", "")
