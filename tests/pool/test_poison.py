"""Articles that kill their process, processes that die for other reasons, and parents that die."""

import errno
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from stream_dedup.core.columns import Columns
from stream_dedup.core.fingerprint.entry_maker import EntryMaker
from stream_dedup.core.model import Status
from stream_dedup.core.reasons import KILLED_TWICE
from stream_dedup.core.text.decode import RawRecord
from stream_dedup.errors import UnavailableError
from stream_dedup.pool import FingerprintPool, process
from stream_dedup.pool.driver import MOST_USELESS_DEATHS
from stream_dedup.pool.isolation import MOST_KILLS
from tests.pool.children import (
    DYING_STEP,
    ENDLESS,
    LIGHT_STEP,
    RECORDS,
    SLOW_STEP,
    Observed,
    same,
    take_step,
    wait_until_gone,
)
from tests.waiting import wait_until

CRASHING = RawRecord(b"c", b'{"text": "segfault"}', "t-0-5")
GREEDY = RawRecord(b"c", b'{"text": "too much"}', "t-0-6")
START_LIMIT_S = 60

pytestmark = pytest.mark.usefixtures("light")


# Articles that kill their process.


@pytest.mark.slow
def test_articles_that_kill_their_process_are_rejected_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """After two processes for each and one for the task. Other records get the columns they always get."""
    take_step(monkeypatch, DYING_STEP)
    observed = Observed()
    with FingerprintPool(1, observer=observed) as pool:
        futures = [pool.submit([RECORDS[0], CRASHING, GREEDY, *RECORDS[1:]]), pool.submit(RECORDS)]
        beside, after = (future.result() for future in futures)
    expected = EntryMaker()(RECORDS)
    for row, record in ((1, CRASHING), (2, GREEDY)):
        assert (beside.ids[row], beside.reasons[row], beside.statuses[row]) == ("c", KILLED_TWICE, Status.REJECTED)
        assert beside.checksums[row] == EntryMaker()([record]).checksums[0]
    assert same(Columns.concat([beside.rows(slice(0, 1)), beside.rows(slice(3, None))]), expected)
    assert same(after, expected)
    assert (observed.restarts, observed.poisoned) == (Counter(killed=1 + 2 * MOST_KILLS), Counter(killed=2))


@pytest.mark.slow
def test_an_article_whose_process_is_killed_once_is_not_rejected(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Somebody else's kill, or a moment without memory: the article is done again by itself."""
    take_step(monkeypatch, DYING_STEP)
    record = RawRecord(b"k", f'{{"text": "once:{tmp_path / "killed"}"}}'.encode(), "t-0-6")
    observed = Observed()
    with FingerprintPool(1, observer=observed) as pool:
        assert same(pool.submit([record]).result(), EntryMaker()([record]))
    assert (observed.restarts, observed.poisoned) == (Counter(killed=1), Counter())


# Processes that die for other reasons.


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGPROF])
def test_a_child_that_dies_while_it_is_idle_is_replaced(number: signal.Signals) -> None:
    """At the next work, which loses nothing and rejects nothing: it was not late, whatever the signal."""
    observed = Observed()
    with FingerprintPool(1, observer=observed) as pool:
        pool.warm()
        [pid] = pool.pids
        os.kill(pid, number)
        wait_until_gone([pid])
        assert same(pool.submit(RECORDS).result(), EntryMaker()(RECORDS))
        assert pool.pids != [pid]
    assert (observed.restarts, observed.poisoned) == (Counter(idle=1), Counter())


def test_children_that_cannot_load_fail_the_warming(monkeypatch: pytest.MonkeyPatch) -> None:
    """With their exit code, after a few tries: no hang and no loop. Later work is refused with the same error."""
    monkeypatch.setattr(process, "CHILD_CODE", "import sys; sys.exit(7)  # {path} {connection} {lifeline} {parent}")
    observed = Observed()
    with FingerprintPool(1, observer=observed) as pool:
        with pytest.raises(UnavailableError, match="ended with exit code 7: start again"):
            pool.warm()
        with pytest.raises(UnavailableError, match="ended with exit code 7: start again"):
            pool.submit(RECORDS).result()
    assert observed.restarts == Counter(loading=MOST_USELESS_DEATHS - 1)


@pytest.mark.slow
def test_a_library_that_crashes_on_every_article_rejects_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child fingerprints a sentence before it is ready: the pool ends, and the articles are polled again."""
    crash = "from stream_dedup.core.fingerprint import entry_maker\n"
    crash += "entry_maker.Fingerprinter.fingerprint = lambda *_: os.kill(os.getpid(), signal.SIGILL)\n"
    take_step(monkeypatch, crash)
    with FingerprintPool(1) as pool, pytest.raises(UnavailableError, match="ended by SIGILL"):
        pool.submit(RECORDS).result()


def test_a_child_that_cannot_be_renewed_rejects_no_other_article(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system starts no process, the pool is of no more use, and says why."""
    take_step(monkeypatch, SLOW_STEP)
    with FingerprintPool(1, article_limit_s=0.4) as pool:
        pool.warm()
        monkeypatch.setattr(subprocess, "Popen", no_process)
        futures = [pool.submit([ENDLESS, *RECORDS]), pool.submit(RECORDS[:1])]
        for future in futures:
            with pytest.raises(UnavailableError, match="could not be started: Cannot allocate memory"):
                future.result()


def no_process(*_: object, **__: object) -> None:
    """As ``Popen`` where memory ran out."""
    raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))


# Parents that die.


PARENT = """\
import json, sys
from stream_dedup.core.text.decode import RawRecord
from stream_dedup.pool import FingerprintPool, process
step, state, busy = sys.argv[1:]
process.CHILD_CODE = process.CHILD_CODE.replace("serve({", step.replace("BUSY", busy) + "serve({")
pool = FingerprintPool(2)
if state != "starting":
    pool.warm()
if state == "working":
    text = json.dumps({"text": "不同的文字 some more words " * 20_000}).encode()
    futures = [pool.submit([RawRecord(None, text, "t-0-0")] * 1000) for _ in range(4)]
if state == "in a loop":
    futures = [pool.submit([RawRecord(None, b'{"text": "endless"}', "t-0-0")], lane=lane) for lane in range(2)]
print(*pool.pids, flush=True)
sys.stdin.read()
"""
BUSY_STEP = SLOW_STEP.replace(
    "        re.match", "        open(f'BUSY/{{os.getpid()}}', 'x').close()\n        re.match"
)
"""A child leaves a file just before it enters the loop that never returns."""


@pytest.mark.slow
@pytest.mark.parametrize("state", ["starting", "idle", "working", "in a loop"])
def test_children_end_when_their_parent_is_killed(state: str, tmp_path: Path) -> None:
    """SIGKILL leaves the parent no time to say so; whatever the children were at, they end: in a loop in C, too."""
    command = [sys.executable, "-c", PARENT, LIGHT_STEP + BUSY_STEP, state, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2
        if state == "in a loop":
            wait_until(lambda: len(list(tmp_path.iterdir())) == 2, START_LIMIT_S, "both children are in the loop")
        parent.kill()
        wait_until_gone(pids)


def test_a_child_whose_parent_is_gone_already_ends_at_once() -> None:
    """The parent can end before the child has asked the kernel to be told: then it has another parent."""
    code = process.CHILD_CODE.format(parent=os.getpid() + 1, path=["/nowhere"], connection=-1, lifeline=-1)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_children_outlive_the_thread_that_made_the_pool() -> None:
    """The kernel kills a child with the thread that started it: that thread is the child's driver."""
    made: list[FingerprintPool] = []

    def make() -> None:
        made.append(FingerprintPool(1))
        made[0].warm()

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    with made[0] as pool:
        pids = pool.pids
        assert same(pool.submit(RECORDS).result(), EntryMaker()(RECORDS))
        assert pool.pids == pids
