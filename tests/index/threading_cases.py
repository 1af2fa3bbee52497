"""Programs that use one index from several threads, run as processes of their own: what they do wrong ends them.

    python -m tests.index.threading_cases FOLDER CASE ...

Each case has a folder of its own in FOLDER. One that uses the end of the interpreter is the last one.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from stream_dedup import Index, api, fingerprint
from stream_dedup.errors import RefusedError
from stream_dedup.index.store import Store, WriteBatch

THREADS = 4
STEP = 1 << 20
"""Fingerprints of whole steps are far from each other."""
TEXT = "中国人民银行今日宣布，自下月起调整存款准备金率。" * 50


def handlers(folder: Path) -> None:
    """Each thread searches, then adds, as a web handler does; what was added is found from then on."""
    sys.setswitchinterval(1e-6)
    index = Index(folder)

    def handle(number: int) -> bool:
        value = number // 2 * STEP * 4099
        if index.search(value, k=0):
            return False
        index.add(str(number), value)
        return str(number) in [found.id for found in index.search(value, k=0)] and len(index) > 0

    with ThreadPoolExecutor(THREADS) as threads:
        added = list(threads.map(handle, range(400)))
    count = len(index)
    index.close()
    _say(f"{200 <= sum(added) == count}")


def if_new(folder: Path) -> None:
    """Of threads that give one text at once, one adds it and the others find its article."""
    sys.setswitchinterval(1e-6)
    draw = random.Random(5)
    texts = [" ".join(f"w{draw.randrange(10**6)}" for _ in range(30)) for _ in range(40)]
    index, start = Index(folder), threading.Barrier(THREADS)

    def handle(thread: int) -> list[list[str]]:
        start.wait()
        return [[found.id for found in index.add_if_new(f"{at} {thread}", text)] for at, text in enumerate(texts)]

    with ThreadPoolExecutor(THREADS) as threads:
        answers = list(zip(*threads.map(handle, range(THREADS)), strict=True))
    winners = [[f"{at} {thread}" for thread in range(THREADS) if not found[thread]] for at, found in enumerate(answers)]
    once = all(len(won) == 1 for won in winners)
    agreed = all(ids in ([], won) for won, found in zip(winners, answers, strict=True) for ids in found)
    _say(f"{once} {agreed} {len(index)}")
    index.close()


def closing(folder: Path) -> None:
    """Each thread adds until another one has closed the index: the call ends well, or says that it is closed."""
    sys.setswitchinterval(1e-6)
    index, start = Index(folder), threading.Barrier(THREADS + 1)

    def handle(thread: int) -> tuple[int, str]:
        start.wait()
        for number in range(10**9):
            try:
                index.add(f"{thread} {number}", (thread << 40 | number) * STEP % (1 << 64))
                index.search(number, k=0)
            except ValueError as error:
                return number, str(error)
        return 0, ""

    with ThreadPoolExecutor(THREADS) as threads:
        running = [threads.submit(handle, thread) for thread in range(THREADS)]
        start.wait()
        while len(index) < 50:
            pass
        index.close()
        ended = [one.result() for one in running]
    with Index(folder) as again:
        # An add that had returned is there; the last one of a thread may be: its search was refused.
        added = sum(number for number, _ in ended)
        _say(f"{added <= len(again) <= added + THREADS} {sorted({said for _, said in ended})}")


def signals(folder: Path) -> None:
    """A signal in the middle of any call: the index goes on, and what was added is there."""

    class InterruptionError(Exception):
        pass

    def interrupt(_number: int, _frame: object) -> None:
        raise InterruptionError

    gc.collect()  # an exception in a finalizer of what earlier cases left would be written to standard error
    signal.signal(signal.SIGALRM, interrupt)
    draw, index, added, interrupted = random.Random(2), Index(folder), 1, 0
    index.add("0", 0)
    index.search(0, k=0)  # what is loaded once is loaded
    while interrupted < 150:
        returned = False
        try:
            signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-5, 2e-3))
            for _ in range(50):  # NumPy may swallow the exception
                returned = False
                index.add(str(added), added * STEP)
                returned = True
                added += 1
                index.search(0, k=0)
        except InterruptionError:
            interrupted += 1
            # Whether the add that was interrupted took effect is seen in the index alone.
            added = len(index) if returned or added <= len(index) else -(10**9)
    index.close()
    with Index(folder) as again:
        _say(f"{added == len(again)} {interrupted}")


def handler(folder: Path) -> None:
    """A signal handler in the middle of a call: another call is refused, and the index is closed afterwards."""
    index = Index(folder)
    said: list[str] = []

    def refuse() -> None:
        for call in (lambda: index.search(1), lambda: index.add("b", 2), index.flush, lambda: len(index)):
            try:
                call()
            except RefusedError as error:
                said.append(str(error).partition(" is ")[2])
        index.close()

    def in_main_thread(_number: int, _frame: object) -> None:
        refuse()

    signal.signal(signal.SIGUSR1, in_main_thread)

    def slow_write(store: Store, batch: WriteBatch) -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        while len(said) < 4:  # the handler runs in the main thread, which waits for this one
            time.sleep(0.001)
        refuse()  # as a finalizer would that runs here
        write(store, batch)

    write = Store.write
    Store.write = slow_write  # type: ignore[method-assign, assignment]
    index.add("a", 1)
    count = len(index)
    Store.write = write  # type: ignore[method-assign]
    try:
        index.add("c", 3)
    except ValueError as error:
        said.append(str(error))
    with Index(folder) as again:
        _say(f"{count} {len(again)} {len(said)} {sorted(set(said))}")


def twice(folder: Path) -> None:
    """A second signal, just before the caller would go on waiting, ends its call: the next call waits in its place."""

    class InterruptionError(Exception):
        pass

    def interrupt(_number: int, _frame: object) -> None:
        raise InterruptionError

    index, writing, go_on = Index(folder), threading.Event(), threading.Event()
    write, is_taken_by = Store.write, api._Uncut._is_taken_by

    def slow_write(store: Store, batch: WriteBatch) -> None:
        writing.set()
        os.kill(os.getpid(), signal.SIGALRM)
        go_on.wait()
        write(store, batch)
        writing.clear()

    def again(effect: api._Uncut, doer: str) -> bool:
        if doer == "nobody":  # the caller handles the first signal
            signal.raise_signal(signal.SIGALRM)
        return is_taken_by(effect, doer)

    signal.signal(signal.SIGALRM, interrupt)
    index.add("a", 1)
    Store.write, api._Uncut._is_taken_by = slow_write, again  # type: ignore[method-assign, assignment]
    with contextlib.suppress(InterruptionError):
        index.flush()
    Store.write, api._Uncut._is_taken_by = write, is_taken_by  # type: ignore[method-assign]
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    threading.Timer(0.1, go_on.set).start()
    written = [writing.is_set()]
    index.add("b", 2)
    written.append(writing.is_set())
    _say(f"{written} {[found.id for found in index.search(1, k=0)]} {len(index)}")
    index.close()


def fork(folder: Path) -> None:
    """A child that is forked while another thread is in a call neither waits nor writes, and ends as it likes."""
    index, inside, go_on = Index(folder), threading.Event(), threading.Event()
    write = Store.write

    def slow_write(store: Store, batch: WriteBatch) -> None:
        inside.set()
        go_on.wait()
        write(store, batch)

    Store.write = slow_write  # type: ignore[method-assign, assignment]
    index.add("a", 1)
    thread = threading.Thread(target=index.flush)
    idle = [threading.Thread(target=go_on.wait) for _ in range(20)]  # their stacks are given back in the child
    for each in (thread, *idle):
        each.start()
    inside.wait()
    codes = [_forked(index, sys.exit), _forked(index, os._exit)]
    go_on.set()
    for each in (thread, *idle):
        each.join()
    _say(f"{codes} {len(index)}")
    index.close()


def _forked(index: Index, leave: Callable[[int], object]) -> int:
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        calls: list[Callable[[], object]] = [index.flush, lambda: len(index), lambda: index.search(1)]
        calls.append(lambda: index.add("b", 2))
        refused = 0
        for call in calls:
            try:
                call()
            except RefusedError as error:
                refused += "a forked child cannot use it" in str(error)
        index.close()
        leave(refused)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def daemons(folder: Path) -> None:
    """The interpreter ends while daemon threads use an index that nobody closes."""
    sys.setswitchinterval(1e-6)
    index = Index(folder)
    index.add("flushed", 5)
    index.flush()

    def go_on(thread: int) -> None:
        for number in range(10**9):
            index.add(f"{thread} {number}", (thread << 40 | number) * STEP % (1 << 64))
            index.search(number, k=0)

    def read() -> None:
        while True:  # the native core reads without the interpreter, and wants it back when there is none
            fingerprint(TEXT)

    for thread in range(THREADS):
        threading.Thread(target=go_on, args=(thread,), daemon=True).start()
        threading.Thread(target=read, daemon=True).start()
    while len(index) < 50:
        pass
    _say("ends")


def late(folder: Path) -> None:
    """A daemon thread stands still in a call for good; what closes the index after it is refused, not left waiting."""
    index, inside = Index(folder), threading.Event()

    def stuck(_store: Store, _batch: WriteBatch) -> None:
        inside.set()
        threading.Event().wait()

    class Closes:
        def __del__(self, say: Callable[[str], None] = _say, refused: type[Exception] = RefusedError) -> None:
            try:
                self.index.close()  # type: ignore[attr-defined]
            except refused as error:
                say(str(error).partition(" is ")[2])

    Store.write = stuck  # type: ignore[method-assign, assignment]
    sys.modules["closes"] = closes = Closes()  # type: ignore[assignment] # let go of at the end
    closes.index = index  # type: ignore[attr-defined]
    index.add("a", 1)
    threading.Thread(target=index.flush, daemon=True).start()
    inside.wait()


def at_exit(folder: Path) -> None:
    """What runs at the exit closes the index, while daemon threads use it."""
    index = Index(folder)
    atexit.register(index.close)

    def go_on() -> None:
        with contextlib.suppress(ValueError):  # it is closed
            for number in range(10**9):
                index.add(str(number), number * STEP)

    threading.Thread(target=go_on, daemon=True).start()
    while len(index) < 50:
        pass
    _say("ends")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    for case in sys.argv[2:]:
        globals()[case](Path(sys.argv[1]) / case)
