"""Calls of one index from any number of threads: one at a time, each of them whole.

Rules:

* A call waits for the call of another thread. A call from within a call of the same thread (by a signal handler, or by
  a finalizer that the garbage collector runs) is refused: it would wait for itself, or see half of a change.
* Handlers of signals run in the main thread, between any two of its steps. What must not be cut off half-way is done by
  a thread of its own (``uncut``) while the main thread waits; what a handler raises is raised afterwards.
* A further signal may come while the caller is about to go on waiting: then the call ends, and its thread may not have.
  Whatever is called next waits for it.
* At the end of the interpreter the other threads stand still for good, with the calls that they were in. A call waits
  for none of them.

A forked child must not come here: a thread of its parent that is in a call is not forked with it.
"""

from __future__ import annotations

import _thread
import os
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

from stream_dedup.errors import RefusedError

_T = TypeVar("_T")

_LOOK_S = 1.0
"""Seconds between two looks whether a signal handler has forked, and this is the child."""

_WITHIN = "from within another call of it"
_AT_THE_END = "at the end of the interpreter, while a thread is in a call of it"
_FORKED = "in a child that a signal handler forked"


class Calls:
    """Runs calls of one index, one at a time."""

    def __init__(self, name: str) -> None:
        """``name`` is what an error calls the index."""
        self._name = name
        # ``with`` takes this lock and no signal comes in between, which no lock written in Python can promise.
        self._lock = threading.RLock()
        self._is_busy = False
        self._helper: int | None = None
        """The thread that does what must not be cut off."""
        self._effect: _Uncut | None = None
        """What it does, or did last."""
        self._deferred: Callable[[], None] | None = None

    def run(self, call: Callable[[], _T]) -> _T:
        """Return what a call returns.

        Raises:
            RefusedError: it comes from within another call, or the interpreter ends while a thread is in one.
        """
        self._refuse_waiting_for_ever()
        with self._lock:
            if self._is_busy:
                raise self._refused(_WITHIN)
            return self._run(call)

    def run_or_defer(self, call: Callable[[], None]) -> None:
        """Run a call; one that comes from within another call runs when that has ended, however it ends."""
        if threading.get_ident() != self._helper:
            self._refuse_waiting_for_ever()
            with self._lock:
                if not self._is_busy:
                    self._run(call)
                    return
        self._deferred = call

    def uncut(self, effect: Callable[[], None]) -> None:
        """Do what a call does in such a way that a signal cannot cut it off."""
        if threading.get_ident() != self._helper:
            self._finish_effect()
        if threading.current_thread() is not threading.main_thread() or sys.is_finalizing():
            effect()
            return
        self._effect = _Uncut(effect, self._note_helper)
        self._effect.run(self._refused(_FORKED))

    def _finish_effect(self) -> None:
        """Wait for the effect of an earlier call that signals ended before it."""
        if self._effect is not None:
            if sys.is_finalizing() and not self._effect.has_ended:
                raise self._refused(_AT_THE_END)
            self._effect.end()
            self._effect = None

    def _note_helper(self, thread: int | None) -> None:
        self._helper = thread

    def _run(self, call: Callable[[], _T]) -> _T:
        try:
            self._is_busy = True
            self._finish_effect()
            return call()
        finally:
            try:
                if self._deferred is not None:
                    self._deferred()
            finally:
                self._deferred, self._is_busy = None, False

    def _refuse_waiting_for_ever(self) -> None:
        if threading.get_ident() == self._helper:
            raise self._refused(_WITHIN)
        if sys.is_finalizing():
            if not self._lock.acquire(blocking=False):
                raise self._refused(_AT_THE_END)
            self._lock.release()

    def _refused(self, when: str) -> RefusedError:
        return RefusedError(f"{self._name} is called {when}, which would damage it: nothing was done")


class _Uncut:
    """An effect in a thread of its own, for which the main thread waits whatever signals come."""

    def __init__(self, effect: Callable[[], None], note_thread: Callable[[int | None], None]) -> None:
        self._effect = effect
        self._note_thread = note_thread
        self._pid = os.getpid()
        self._done = _thread.allocate_lock()
        self.has_ended = False
        self._error: BaseException | None = None
        self._doer: dict[str, str] = {}
        """Who has taken the effect, whoever asked first: the thread, or nobody because the caller gave it up."""

    def run(self, forked: RefusedError) -> None:
        """Have the effect done; raise what a signal handler raised meanwhile, or what the effect raised.

        Raises:
            RefusedError: ``forked``, in a child that has no such thread.
        """
        interruption: BaseException | None = None
        is_begun = False
        self._done.acquire()
        while not self.has_ended and os.getpid() == self._pid:
            try:
                if not is_begun:
                    is_begun = True
                    _thread.start_new_thread(self._do, ())
                self._done.acquire(timeout=_LOOK_S)
            except BaseException as error:  # noqa: BLE001 - a signal; or no thread could be started
                interruption = error
                if self._is_taken_by("nobody"):
                    break
        raised = interruption or self._error or (None if self.has_ended else forked)
        if raised is not None:
            raise raised

    def end(self) -> None:
        """Return when the effect has ended; one that no thread has taken is given up."""
        if not self._is_taken_by("nobody"):
            while not self.has_ended:
                self._done.acquire(timeout=_LOOK_S)

    def _do(self) -> None:
        self._note_thread(threading.get_ident())
        try:
            if self._is_taken_by("thread"):
                self._effect()
        except BaseException as error:  # noqa: BLE001 - raised by ``run``
            self._error = error
        finally:
            self._note_thread(None)
            self.has_ended = True
            self._done.release()

    def _is_taken_by(self, doer: str) -> bool:
        return self._doer.setdefault("is", doer) == doer
