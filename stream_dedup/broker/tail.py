"""The log's tail: a thread that reads the log and hands its records on in order.

The engine then never waits for the broker: it is woken when there are records, results of the pool,
or a look at the topics. What is read ahead is bounded; a reader that has read enough waits.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from queue import Empty, Full, Queue, SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from stream_dedup.broker.log import LogReader
    from stream_dedup.core.entry import LogRecord

TAIL_POLL_MS = 100
"""Longest wait for records: how late a question or the end is noticed."""
READ_AHEAD = 2
"""Polls held for the engine, of up to 8 MiB of log each."""
FULL_S = 0.1
"""How long the thread waits for room before it looks whether it should end."""


class LogTail:
    """Owns a reader from ``start`` to ``stop``; the other methods may be called from any thread."""

    def __init__(self, reader: LogReader, wake: Callable[[], None], patience_s: float) -> None:
        """``wake`` is called when there is something to take; ``patience_s`` bounds a question to the broker."""
        self._reader = reader
        self._wake = wake
        self._patience_s = patience_s
        self._read: Queue[list[LogRecord]] = Queue(READ_AHEAD)
        self._questions: SimpleQueue[Future[int]] = SimpleQueue()
        self._failure: BaseException | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log-tail", daemon=True)
        self.high_water = 0
        """Offset after the log's last record, as of the last fetch."""

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def take(self) -> list[LogRecord]:
        """Next records in order; none where none are there.

        Raises:
            StreamDedupError: what ended the reading, once everything read before it was taken.
        """
        try:
            return self._read.get_nowait()
        except Empty:
            if self._failure is None:
                return []
        # The reading has ended; what it put last may have come between the two looks.
        try:
            return self._read.get_nowait()
        except Empty:
            raise self._failure from None

    def ask_end(self) -> Future[int]:
        """Offset after the log's last record, as of some moment after this call."""
        question: Future[int] = Future()
        self._questions.put(question)
        return question

    def stop(self) -> None:
        """End the thread."""
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._done.is_set():
                self._answer()
                records = self._reader.poll(TAIL_POLL_MS)
                self.high_water = self._reader.high_water()
                if records:
                    self._hand_on(records)
        except BaseException as error:  # noqa: BLE001 - the engine ends the worker with it
            self._failure = error
            self._wake()

    def _answer(self) -> None:
        while not self._questions.empty():
            question = self._questions.get_nowait()
            try:
                question.set_result(self._reader.bounds(self._patience_s)[1])
            except Exception as error:  # noqa: BLE001 - whoever asked gets it
                question.set_exception(error)
            self._wake()

    def _hand_on(self, records: list[LogRecord]) -> None:
        while not self._done.is_set():
            try:
                self._read.put(records, timeout=FULL_S)
            except Full:
                continue
            self._wake()
            return
