"""A pool of fingerprinting processes.

Owns the child processes: one connection and one thread of the parent for each, so that a result
belongs to the work that was asked for, and a child that dies is noticed at once and named.

Rules:

* Children live no longer than their parent, however it ends: a thread in each waits on a
  pipe that only the parent holds open, and ends the process when it closes.
* Children do not hear Ctrl-C and SIGTERM, which a terminal or a service manager sends to the whole
  group: the parent decides when its work is done.
* A child imports the core and nothing else (no Kafka, no RocksDB, not the program's
  ``__main__``, which ``multiprocessing``'s spawn would run again), and BLAS keeps to one thread in it: the
  processes are the parallelism.
* An article that takes longer than its limit is rejected, and no other for its sake: what could not be done together
  within the limit is done again, one record after the other, each with the whole limit.
* The limit is processor time of the process. A process that is stopped, or waits for a core because others have
  them all, loses no article.
* A child sets itself a timer that ends it, whatever it is doing, and another takes its place. A child that dies
  otherwise is not replaced. What it worked on fails, and so does all that follows: the caller stops, and starts anew
  from what was committed.
* With 0 processes the timer interrupts the main thread, but no single call into a library that is not written in
  Python, and no other thread. Nothing more is to be had without a process.

The queue has no limit of its own: callers bound the work that they have under way.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as WaitedTooLong
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Self, TypeVar

from stream_dedup.article_limit import (
    ARTICLE_LIMIT_S,
    LIMIT_SIGNAL,
    TOO_SLOW,
    LateError,
    ended_after,
    interrupted_after,
)
from stream_dedup.core.columns import Columns
from stream_dedup.core.fingerprint.entry_maker import EntryMaker, rejected_columns
from stream_dedup.core.scheme import FingerprintSettings
from stream_dedup.core.text.decode import InputFormat, RawRecord
from stream_dedup.errors import StreamDedupError, UnavailableError

START_SECONDS = 60
"""Longest wait for children to load: it takes part of a second, longer where all cores are taken."""
CLOSE_SECONDS = 5
"""Longest wait for work under way when the pool closes: a batch takes a fraction of it."""
_THREAD_SETTINGS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_CHILD = """\
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sys.path[:] = {path!r}
from stream_dedup.pool import serve
serve({connection}, {lifeline})
"""


_T = TypeVar("_T")


class _Task(NamedTuple):
    records: Sequence[RawRecord]
    future: Future[Columns]


class FingerprintPool:
    """Makes columns of records, in ``processes`` children or, with 0, in the caller's thread."""

    def __init__(
        self,
        processes: int,
        settings: FingerprintSettings | None = None,
        fmt: InputFormat | None = None,
        article_limit_s: float = ARTICLE_LIMIT_S,
    ) -> None:
        """Start the children; they load what they need while the caller goes on."""
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._broken: StreamDedupError | None = None
        self._closed = False
        made = _Made(settings, fmt, article_limit_s)
        self._here = _Here(made) if processes == 0 else None
        self._lifeline = os.pipe()
        self._children = [_Child(self._lifeline[0], made) for _ in range(processes)]
        self._drivers = [threading.Thread(target=self._drive, args=(one,), daemon=True) for one in self._children]
        for driver in self._drivers:
            driver.start()

    @property
    def pids(self) -> list[int]:
        """Process ids of the children."""
        return [child.process.pid for child in self._children]

    def warm(self) -> None:
        """Wait until everything is loaded.

        Raises:
            UserError: a package or its data are missing.
            UnavailableError: a child died, or did not load within ``START_SECONDS``.
        """
        if self._here is not None:
            self._here.warm()
        for child in self._children:
            try:
                child.ready.result(START_SECONDS)
            except WaitedTooLong as error:
                msg = f"fingerprinting process {child.process.pid} did not load within {START_SECONDS} s: start again"
                raise UnavailableError(msg) from error

    def submit(self, records: Sequence[RawRecord]) -> Future[Columns]:
        """Columns of these records, in order. Does not block, but with 0 processes does the work.

        The future may raise ``UnavailableError`` (the child died) or ``UserError`` (as ``warm``).

        Raises:
            UnavailableError: the pool is closed, or a child died before.
            UserError: as ``warm``.
        """
        if self._closed:
            msg = "the pool of fingerprinting processes is closed"
            raise UnavailableError(msg)
        if self._broken is not None:
            raise type(self._broken)(*self._broken.args)
        task = _Task(records, Future())
        if self._here is None:
            self._tasks.put(task)
        else:
            _settle(task.future, partial(_columns, self._here, records))
        return task.future

    def close(self) -> None:
        """End the children. Work not begun is cancelled; may be called twice.

        1. No new work; what is queued is cancelled.
        2. Each thread ends its child when its work is done, within ``CLOSE_SECONDS``.
        3. A child that is not done is killed.
        """
        if self._closed:
            return
        self._closed = True
        self._cancel_queued()
        for _ in self._drivers:
            self._tasks.put(None)
        for child, driver in zip(self._children, self._drivers, strict=True):
            driver.join(CLOSE_SECONDS)
            child.kill()
            driver.join()
        self._cancel_queued()
        for end in self._lifeline:
            os.close(end)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _cancel_queued(self) -> None:
        try:
            while (task := self._tasks.get_nowait()) is not None:
                task.future.cancel()
        except Empty:
            return

    def _drive(self, child: _Child) -> None:
        """Give one child its work, one piece after the other; runs in a thread of its own."""
        _settle(child.ready, child.receive)
        self._note(child.ready)
        while (task := self._tasks.get()) is not None:
            if not task.future.set_running_or_notify_cancel():
                continue
            if self._broken is not None:
                task.future.set_exception(self._broken)
                continue
            _settle(task.future, partial(_columns, child, task.records))
            self._note(task.future)
        child.end()

    def _note(self, done: Future[Any]) -> None:
        """Remember an error after which this pool is of no more use."""
        error = done.exception()
        if isinstance(error, StreamDedupError) and self._broken is None:
            self._broken = error


class _Made(NamedTuple):
    """How columns are made."""

    settings: FingerprintSettings | None
    fmt: InputFormat | None
    article_limit_s: float

    def maker(self) -> EntryMaker:
        """What makes them."""
        return EntryMaker(self.settings, self.fmt)

    def late(self, record: RawRecord) -> Columns:
        """The entry of a record that takes too long."""
        tables = (self.settings or FingerprintSettings()).tables
        return rejected_columns(record, TOO_SLOW.format(limit=self.article_limit_s), tables)


class _Here:
    """This thread as one that makes columns."""

    def __init__(self, made: _Made) -> None:
        self.made = made
        self._maker = made.maker()

    def warm(self) -> None:
        self._maker.warm()

    def ask(self, records: Sequence[RawRecord]) -> Columns:
        """Columns of these records.

        Raises:
            LateError: they took longer than the limit, as far as it can be noticed here.
        """
        if threading.current_thread() is not threading.main_thread():
            return self._maker(records)
        with interrupted_after(self.made.article_limit_s):
            return self._maker(records)

    def renew(self) -> None:
        """Make a new maker: the old one may have been interrupted while it noted what it knows."""
        self._maker = self.made.maker()


class _Child:
    """A child process and the parent's end of the connection to it; a new process where one is renewed."""

    def __init__(self, lifeline: int, made: _Made) -> None:
        self.ready: Future[None] = Future()
        self.made = made
        self._lifeline = lifeline
        self._killed = False
        self._start = threading.Lock()
        self._spawn()

    def _spawn(self) -> None:
        """Start a process.

        Raises:
            UnavailableError: the system starts none, or it ended at once.
        """
        try:
            self._begin()
        except OSError as error:
            msg = f"a fingerprinting process could not be started: {error.strerror or error}"
            raise UnavailableError(msg) from error

    def _begin(self) -> None:
        self._connection, theirs = Pipe()
        code = _CHILD.format(path=_import_path(), connection=theirs.fileno(), lifeline=self._lifeline)
        self.process = subprocess.Popen(  # noqa: S603 - this program itself
            [sys.executable, "-P", "-c", code],  # -P: nothing is imported from the current folder
            env=os.environ | dict.fromkeys(_THREAD_SETTINGS, "1"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(), self._lifeline),
            # A group of its own, out of a terminal's reach from the first moment.
            process_group=0,
        )
        theirs.close()
        self._connection.send(self.made)

    def renew(self) -> None:
        """Start a process in place of one that is gone, and wait until it has loaded.

        Raises:
            UnavailableError: the pool is closing, or the new one could not be started or died.
        """
        with self._start:
            if self._killed:
                raise self._death()
            self._connection.close()
            self._spawn()
        self.receive()

    def kill(self) -> None:
        """End the process now, and start no other."""
        with self._start:
            self._killed = True
            self.process.kill()

    def ask(self, records: Sequence[RawRecord]) -> Columns:
        """Columns of these records; blocks.

        Raises:
            LateError: they took longer than the limit, and the child is gone.
            UnavailableError: the child died otherwise.
        """
        try:
            self._connection.send(records)
        except OSError as error:
            raise self._death() from error
        try:
            columns: Columns = self.receive()
        except UnavailableError as error:
            # Only here: a child that has no work has no timer, and nothing was late.
            if self.process.returncode == -LIMIT_SIGNAL and not self._killed:
                raise LateError from error
            raise
        return columns

    def receive(self) -> Any:  # noqa: ANN401 - what the child's next answer holds
        """The child's next answer; blocks.

        Raises:
            UnavailableError: the child died.
            Exception: what it raised.
        """
        try:
            ok, answer = self._connection.recv()
        except (EOFError, OSError) as error:
            raise self._death() from error
        if not ok:
            raise answer
        return answer

    def end(self) -> None:
        """Let the child end, and see it gone."""
        self._connection.close()
        self.process.wait()

    def _death(self) -> UnavailableError:
        """What is to be said of the end of the process; it is gone then."""
        try:
            code = self.process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            # Its connection is closed and it is not gone: no use to anyone.
            self.process.kill()
            code = self.process.wait()
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return UnavailableError(
            f"fingerprinting process {self.process.pid} ended {how}: start again (if it was killed, see whether "
            "memory ran out)"
        )


def _import_path() -> list[str]:
    """Where this process imports from, without the current folder as Python adds it for ``-c`` and a prompt."""
    return [entry for entry in sys.path if os.path.normpath(entry) != os.curdir]


def _columns(asked: _Here | _Child, records: Sequence[RawRecord]) -> Columns:
    """Columns of these records; one that takes too long is rejected.

    1. All are asked for together.
    2. Where that took too long for one article, each is asked for by itself.
    3. One that takes too long by itself is rejected.

    Raises:
        UnavailableError: as ``_Child.ask``.
    """
    try:
        return asked.ask(records)
    except LateError:
        asked.renew()
    if len(records) == 1:
        return asked.made.late(records[0])
    return Columns.concat([_columns(asked, [record]) for record in records])


def serve(connection: int, lifeline: int) -> None:
    """A child's life: settings in, then for each list of records its columns out.

    Args:
        connection: file descriptor of its end of the connection.
        lifeline: file descriptor of the pipe that closes when the parent ends.
    """
    threading.Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()
    parent = Connection(connection)
    try:
        made: _Made = parent.recv()
        maker = made.maker()
        parent.send(_answer_to(maker.warm))
        while True:
            records = parent.recv()
            with ended_after(made.article_limit_s):
                answer = _answer_to(partial(maker, records))
            parent.send(answer)
    except (EOFError, OSError):
        return  # the parent closed the pool, or is gone


def _end_with_parent(lifeline: int) -> None:
    os.read(lifeline, 1)
    os._exit(0)


def _answer_to(work: Callable[[], object]) -> tuple[bool, object]:
    """Whether the work was done, and what it gave or raised."""
    try:
        return True, work()
    except Exception as error:  # noqa: BLE001 - raised again in the parent
        return False, error


def _settle(future: Future[_T], work: Callable[[], _T]) -> None:
    try:
        future.set_result(work())
    except Exception as error:  # noqa: BLE001 - raised again where the result is asked for
        future.set_exception(error)
