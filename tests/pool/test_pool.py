"""The pool of fingerprinting processes: real processes, really killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from stream_dedup.core.columns import Columns
from stream_dedup.core.fingerprint.entry_maker import EntryMaker
from stream_dedup.core.scheme import FingerprintSettings
from stream_dedup.core.text.decode import InputFormat, RawRecord
from stream_dedup.errors import UnavailableError
from stream_dedup.pool import FingerprintPool, process
from tests.pool.children import ENDLESS, RECORDS, SLOW_STEP, same, take_step, wait_until_gone


@pytest.fixture(scope="module")
def shared() -> Iterator[FingerprintPool]:
    with FingerprintPool(2) as pool:
        pool.warm()
        yield pool


def test_columns_are_those_of_the_core(shared: FingerprintPool) -> None:
    """The columns are the same in this process and in children."""
    with FingerprintPool(0) as here:
        for pool in (shared, here):
            assert same(pool.submit(RECORDS).result(), EntryMaker()(RECORDS))


def test_each_thread_has_a_maker_of_its_own_in_a_pool_of_0_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fingerprinter is for one thread, and any thread may call a pool."""
    makers: list[EntryMaker] = []
    make = EntryMaker.__call__

    def note(maker: EntryMaker, given: Sequence[RawRecord]) -> Columns:
        makers.append(maker)
        return make(maker, given)

    monkeypatch.setattr(EntryMaker, "__call__", note)
    with FingerprintPool(0) as here, ThreadPoolExecutor(1) as threads:
        for submit in (here.submit, lambda records: threads.submit(here.submit, records).result()) * 2:
            submit(RECORDS)
    assert [makers.index(maker) for maker in makers] == [0, 1, 0, 1]


@pytest.mark.slow
def test_settings_and_format_reach_the_children() -> None:
    """Children use the configured weights and fields."""
    settings, fmt = FingerprintSettings().with_features(weights="tf"), InputFormat(kind="text")
    with FingerprintPool(1, settings, fmt) as pool:
        assert same(pool.submit(RECORDS).result(), EntryMaker(settings, fmt)(RECORDS))


@pytest.mark.slow
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


def test_what_work_raises_comes_out_of_its_future(shared: FingerprintPool) -> None:
    """A programming error in a child is an error of that work alone, and the child lives on."""
    broken: Future[Columns] = shared.submit([None])  # type: ignore[list-item]
    assert isinstance(broken.exception(), TypeError)
    assert len(shared.submit(RECORDS).result()) == 3


@pytest.mark.slow
@pytest.mark.usefixtures("light")
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


@pytest.mark.slow
@pytest.mark.usefixtures("light")
def test_what_a_child_has_loaded_is_left_out_of_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    step = """\
import gc
from stream_dedup.core.fingerprint.entry_maker import EntryMaker
def count(maker, records):
    raise ValueError(gc.get_freeze_count())
EntryMaker.__call__ = count
"""
    take_step(monkeypatch, step)
    with FingerprintPool(1) as pool, pytest.raises(ValueError, match=r"^[1-9]\d{3,}$"):
        pool.submit(RECORDS).result()


@pytest.mark.usefixtures("light")
def test_close_cancels_what_is_queued_and_gives_up_on_long_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """``close`` returns within its time limit; the task that is late then fails, and no other child is started."""
    take_step(monkeypatch, SLOW_STEP)
    monkeypatch.setattr(process, "CLOSE_WAIT_S", 0.2)
    pool = FingerprintPool(1, article_limit_s=3600)
    pool.warm()
    futures = [pool.submit([ENDLESS]), *(pool.submit(RECORDS) for _ in range(5))]
    while not futures[0].running():
        assert not futures[0].done()
    pids = pool.pids
    pool.close()
    wait_until_gone(pids)
    assert isinstance(futures[0].exception(), UnavailableError)
    assert all(future.cancelled() for future in futures[1:])


@pytest.mark.slow
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
