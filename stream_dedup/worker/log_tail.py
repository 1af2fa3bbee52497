"""The log's tail: a thread that reads the log and queues its records in order.

The engine therefore never waits for the broker: it is woken by new records, by fingerprinted records and by topic
look-ups. The queue is bounded: while it is full, the thread waits.

A worker without a batch in flight only follows the others: no verdict waits for the records that it reads. The thread
then pauses after each poll that has read the log to its end, so that the next poll returns many records: a poll costs
as much as applying some dozens of articles. A batch of this worker ends the pause at once.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stream_dedup.errors import StreamDedupError
from stream_dedup.kafka.log import log_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from stream_dedup.core.entry import LogRecord
    from stream_dedup.core.model import LogOffset
    from stream_dedup.ports import Clock, FingerprintLog

TAIL_POLL_S = 0.1
"""Longest wait for records: the delay until a request or a stop is noticed."""
READ_AHEAD = 2
"""Polls held for the engine, of up to 8 MiB of log each."""
FOLLOW_PAUSE_S = 0.1
"""Pause after records that no batch waits for."""
FULL_S = 0.1
"""How long the thread waits at a full queue before it checks whether it should end."""


@dataclass(eq=False)
class LogTail:
    """Reads the log in ``run``, on a thread of its own; the other methods may be called from any thread."""

    log: FingerprintLog
    clock: Clock
    wake: Callable[[], None]
    """Called for records and answers."""
    topic: str
    """The log's name."""
    is_wanted: Callable[[], bool] = lambda: True
    """Returns whether something waits for the next records."""

    def __post_init__(self) -> None:
        """Read nothing yet."""
        self._read: deque[list[LogRecord]] = deque()
        self._taken, self._wanted = self.clock.event(), self.clock.event()
        self._requests: deque[Future[LogOffset]] = deque()
        self._done = False

    def next_records(self) -> list[LogRecord]:
        """Return the next records in order; none if the queue is empty. One thread."""
        if not self._read:
            return []
        records = self._read.popleft()
        self._taken.set()
        return records

    def request_end(self) -> Future[LogOffset]:
        """Request the offset after the log's last record, as of some moment after this call."""
        request: Future[LogOffset] = Future()
        self._requests.append(request)
        self._wanted.set()
        return request

    def hurry(self) -> None:
        """End a pause: something waits for the next records."""
        self._wanted.set()

    def stop(self) -> None:
        """Let ``run`` return."""
        self._done = True
        self._taken.set()
        self._wanted.set()

    def run(self) -> None:
        """Read until ``stop``.

        Raises:
            StreamDedupError: a record cannot be read, or the log was cut past the next one.
        """
        while not self._done:
            self._answer()
            records = self._poll()
            if records:
                self._enqueue(records)
                self._pause(records[-1].offset + 1)

    def _pause(self, position: int) -> None:
        if position >= self.log.high_water() and not self.is_wanted():
            self._wanted.wait(FOLLOW_PAUSE_S)
        self._wanted.clear()

    def _poll(self) -> list[LogRecord]:
        with log_errors(self.topic):
            return self.log.poll(TAIL_POLL_S)

    def _answer(self) -> None:
        while self._requests:
            request = self._requests.popleft()
            try:
                with log_errors(self.topic):
                    request.set_result(self.log.bounds()[1])
            except StreamDedupError as error:
                request.set_exception(error)
            self.wake()

    def _enqueue(self, records: list[LogRecord]) -> None:
        while len(self._read) >= READ_AHEAD and not self._done:
            self._taken.wait(FULL_S)
            self._taken.clear()
        self._read.append(records)
        self.wake()
