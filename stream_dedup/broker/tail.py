"""The log's tail: a thread that reads the log and queues its records in order.

The engine therefore never waits for the broker: it is woken by new records, by results of the pool and by topic
look-ups. The queue is bounded: while it is full, the thread waits.
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
    from stream_dedup.core.model import LogOffset

TAIL_POLL_MS = 100
"""Longest wait for records: the delay until a request or a stop is noticed."""
READ_AHEAD = 2
"""Polls held for the engine, of up to 8 MiB of log each."""
FULL_S = 0.1
"""How long the thread waits for room before it checks whether it should end."""


class LogTail:
    """Owns a reader from ``start`` to ``stop``; the other methods may be called from any thread."""

    def __init__(self, reader: LogReader, wake: Callable[[], None], patience_s: float) -> None:
        """``wake`` is called for records and answers; ``patience_s`` limits a request to the broker."""
        self._reader = reader
        self._wake = wake
        self._patience_s = patience_s
        self._read: Queue[list[LogRecord]] = Queue(READ_AHEAD)
        self._requests: SimpleQueue[Future[LogOffset]] = SimpleQueue()
        self._failure: BaseException | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log-tail", daemon=True)
        self.high_water = 0
        """Offset after the log's last record, as of the last fetch."""

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def next_records(self) -> list[LogRecord]:
        """Return the next records in order; none if the queue is empty.

        Raises:
            StreamDedupError: the error that ended the reading, once every record read before it was returned.
        """
        try:
            return self._read.get_nowait()
        except Empty:
            if self._failure is None:
                return []
        # The thread has ended; its last records may have been queued between the two checks.
        try:
            return self._read.get_nowait()
        except Empty:
            raise self._failure from None

    def request_end(self) -> Future[LogOffset]:
        """Request the offset after the log's last record, as of some moment after this call."""
        request: Future[LogOffset] = Future()
        self._requests.put(request)
        return request

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
                    self._enqueue(records)
        except BaseException as error:  # noqa: BLE001 - the engine ends the worker with it
            self._failure = error
            self._wake()

    def _answer(self) -> None:
        while not self._requests.empty():
            request = self._requests.get_nowait()
            try:
                request.set_result(self._reader.bounds(self._patience_s)[1])
            except Exception as error:  # noqa: BLE001 - the caller of ``request_end`` gets it
                request.set_exception(error)
            self._wake()

    def _enqueue(self, records: list[LogRecord]) -> None:
        while not self._done.is_set():
            try:
                self._read.put(records, timeout=FULL_S)
            except Full:
                continue
            self._wake()
            return
