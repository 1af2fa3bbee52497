"""The pool of 0 processes: columns are made in the caller's thread, and of many records in others beside it.

The text path is native code that several threads run at the same time; the rest of Python goes on in one of them.
"""

from __future__ import annotations

import _thread
import threading
import time
from collections import deque
from collections.abc import Sequence

from stream_dedup.article_limit import LateError, interrupted_after
from stream_dedup.core.columns import Columns
from stream_dedup.core.fingerprint.entry_maker import EntryMaker
from stream_dedup.core.text.decode import RawRecord
from stream_dedup.pool.recipe import Recipe

PIECE_RECORDS = 256
"""Records that a thread takes at once: some 10 ms of short texts, so that no thread waits long for the last piece."""
_SIGNAL_S = 0.1
"""Seconds after which a signal that another thread got is handled."""


class InProcess(threading.local):
    """Makes columns by makers that are the calling thread's own."""

    def __init__(self, recipe: Recipe, threads: int) -> None:
        """Load nothing yet.

        Args:
            recipe: how columns are made.
            threads: threads that share the records of a call from the main thread, that one included.
        """
        self._recipe, self._threads = recipe, threads
        self._makers: list[EntryMaker] = []
        self._left: list[_Helper] = []
        """Helpers that were at work when a call ended with an error."""
        self._is_warm = False

    def warm(self) -> None:
        """Load what the first record needs.

        Raises:
            UserError: a package or its data are missing.
        """
        if not self._makers:
            self._makers = [self._recipe.maker()]
        if not self._is_warm:
            self._makers[0].warm()
            self._is_warm = True

    def columns(self, records: Sequence[RawRecord]) -> Columns:
        """Return the columns of these records.

        Raises:
            LateError: a thread took longer for the records than the limit; raised in the main thread only.
            UserError: as ``warm``.
        """
        # The limit is that of an article: a start that takes longer must reject none.
        self.warm()
        if threading.current_thread() is not threading.main_thread():
            return self._makers[0](records)
        return self._shared(records)

    def _shared(self, records: Sequence[RawRecord]) -> Columns:
        """Make the columns in as many threads as there are, and pieces for them; after an error, by other makers."""
        work, helpers = _SharedRecords(records), list[_Helper]()
        limit_s = self._recipe.article_limit_s
        try:
            for maker in self._further_makers(len(work)):
                helpers.append(_Helper(maker, work, limit_s))
                try:
                    helpers[-1].start()
                except RuntimeError:  # no thread can be started: this one does all
                    helpers.pop()
            with interrupted_after(limit_s, helpers):
                work.take_part(self._makers[0])
                for helper in helpers:
                    helper.wait()
            return work.columns()
        except BaseException:
            work.give_up()
            # A maker may have been interrupted while it changed its caches, or be at work still.
            self._makers = []
            self._left += helpers
            raise

    def _further_makers(self, pieces: int) -> list[EntryMaker]:
        """Return the makers of helpers for so many pieces; none while an earlier helper is at work."""
        self._left = [helper for helper in self._left if helper.is_at_work()]
        if self._left:
            return []
        while len(self._makers) < min(self._threads, pieces):
            self._makers.append(self._recipe.maker())
        return self._makers[1:pieces]


class _SharedRecords:
    """The records of a call, in pieces that threads take one after the other."""

    def __init__(self, records: Sequence[RawRecord]) -> None:
        starts = range(0, max(len(records), 1), PIECE_RECORDS)
        self._left = deque((at, records[start : start + PIECE_RECORDS]) for at, start in enumerate(starts))
        self._made: list[Columns | None] = [None] * len(self._left)
        self._failure: BaseException | None = None

    def __len__(self) -> int:
        """Return the number of pieces."""
        return len(self._made)

    def take_part(self, maker: EntryMaker) -> None:
        """Make the columns of pieces until none is left."""
        while self._left:
            try:
                at, records = self._left.popleft()
            except IndexError:  # another thread took it meanwhile
                return
            self._made[at] = maker(records)

    def fail(self, error: BaseException) -> None:
        """Let ``columns`` raise what a thread has raised."""
        self._failure = error

    def give_up(self) -> None:
        """Let no thread begin another piece."""
        self._left.clear()

    def columns(self) -> Columns:
        """Return the columns of all records, in order, when all threads are done."""
        if self._failure is not None:
            raise self._failure
        parts = [made for made in self._made if made is not None]
        if len(parts) < len(self._made):
            msg = f"{len(self._made) - len(parts)} of {len(self._made)} pieces of a batch were not made"
            raise RuntimeError(msg)
        return parts[0] if len(parts) == 1 else Columns.concat(parts)


class _Helper:
    """A thread that makes columns beside the caller's. Nothing interrupts it: it may be left at work on a piece.

    It is none of ``threading``: an exception of a signal that interrupts the start, ``join`` or the wait for an event
    there becomes another exception, or leaves the thread or the event in a wrong state for good.
    """

    def __init__(self, maker: EntryMaker, work: _SharedRecords, limit_s: float) -> None:
        self._maker, self._work, self._limit_s = maker, work, limit_s
        self._clock: int | None = None
        self._has_begun = self._is_done = False
        self._done = _thread.allocate_lock()
        self._done.acquire()

    def start(self) -> None:
        """Begin to take part in the work.

        Raises:
            RuntimeError: no thread can be started.
        """
        _thread.start_new_thread(self._run, ())

    def _run(self) -> None:
        self._has_begun = True
        try:
            # Not by the caller: of a thread that has ended meanwhile, the system library must not be asked for its
            # clock.
            self._clock = time.pthread_getcpuclockid(threading.get_ident())
            self._work.take_part(self._maker)
            # A call that never returns to Python keeps the caller from seeing in time that this thread is late.
            if time.thread_time() > self._limit_s:
                self._work.fail(LateError())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            self._work.fail(error)
        finally:
            self._is_done = True
            self._done.release()

    def is_at_work(self) -> bool:
        """Return whether it has begun and is not done."""
        return self._has_begun and not self._is_done

    def wait(self) -> None:
        """Wait until it is done, once it was started.

        The timer's signal may reach the helper's thread, which does not wake the one that waits.
        """
        while not self._is_done:
            self._done.acquire(timeout=_SIGNAL_S)

    def processor_time(self) -> float:
        """Return the seconds of processor time that it took; 0 before it runs, and when it has ended."""
        if self._clock is None:
            return 0.0
        try:
            return time.clock_gettime(self._clock)
        except OSError:
            return 0.0
