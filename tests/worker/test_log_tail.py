"""The log's tail, with a scripted reader."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from stream_dedup.core.entry import LogRecord
from stream_dedup.core.model import LogOffset
from stream_dedup.errors import CorruptError, RefusedError, StreamDedupError, UnavailableError, UserError
from stream_dedup.kafka.clients import SystemClock
from stream_dedup.ports import OffsetGoneError, Partition, PassingError, RefusedByBrokerError, SourceChangedError
from stream_dedup.worker.log_tail import FOLLOW_PAUSE_S, FULL_S, READ_AHEAD, LogTail
from tests.waiting import wait_until

if TYPE_CHECKING:
    from stream_dedup.core.entry import Payload
    from stream_dedup.ports import FingerprintLog

LIMIT_S = 60


class Scripted:
    """A stand-in for the log: ``poll`` returns the scripted items, ``bounds`` returns ``end``."""

    def __init__(self) -> None:
        self.script: SimpleQueue[list[LogRecord] | BaseException] = SimpleQueue()
        self.given = 0
        self.end: int | Exception = 0

    def poll(self, wait_s: float) -> list[LogRecord]:
        try:
            item = self.script.get(timeout=wait_s)
        except Empty:
            return []
        if isinstance(item, BaseException):
            raise item
        self.given += 1
        return item

    def high_water(self) -> int:
        return 10 * self.given

    def bounds(self) -> tuple[int, int]:
        if isinstance(self.end, Exception):
            raise self.end
        return 0, self.end


def polled(number: int) -> list[LogRecord]:
    """Poll ``number``: two records."""
    return [LogRecord(LogOffset(offset), 0, cast("Payload", None), b"") for offset in (2 * number, 2 * number + 1)]


class Taker:
    """Takes as the engine does: when it is woken."""

    def __init__(self, reader: Scripted) -> None:
        self.wakes = threading.Semaphore(0)
        self.tail = LogTail(cast("FingerprintLog", reader), SystemClock(), self.wakes.release, "log")
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.tail.run()
        except StreamDedupError as error:
            self.failure = error

    def next(self) -> list[int]:
        """Offsets of the next records that are there."""
        assert self.wakes.acquire(timeout=LIMIT_S), "the taker is woken"
        return [record.offset for record in self.tail.next_records()]


@contextmanager
def running(reader: Scripted) -> Iterator[Taker]:
    taker = Taker(reader)
    taker.thread.start()
    try:
        yield taker
    finally:
        taker.tail.stop()
        taker.thread.join(LIMIT_S)
        assert not taker.thread.is_alive()


@pytest.fixture
def reader() -> Scripted:
    return Scripted()


def test_order_is_kept(reader: Scripted) -> None:
    """Records come in the order of the log, with one wake for each poll that returned some and none for empty polls."""
    with running(reader) as taker:
        assert taker.tail.next_records() == []
        for number in range(50):
            reader.script.put([] if number % 7 == 0 else polled(number))
        wanted = [[2 * number, 2 * number + 1] for number in range(50) if number % 7]
        assert [taker.next() for _ in wanted] == wanted
        assert taker.tail.next_records() == []
    assert not taker.wakes.acquire(blocking=False)


def test_read_ahead_is_bounded(reader: Scripted) -> None:
    """While the taker is busy the reader is not polled further; each take makes room for one poll."""
    for number in range(READ_AHEAD + 5):
        reader.script.put(polled(number))
    with running(reader) as taker:
        for taken in range(4):
            most = READ_AHEAD + 1 + taken  # one more waits in the thread's hand
            wait_until(lambda most=most: reader.given >= most, LIMIT_S, f"{most} polls")  # type: ignore[misc]
            threading.Event().wait(2 * FULL_S)  # long enough for another poll, were there one
            assert reader.given == most
            assert taker.next() == [2 * taken, 2 * taken + 1]


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (CorruptError("record 4 cannot be read"), CorruptError, "record 4"),
        (OffsetGoneError([Partition("log", 0)]), RefusedError, "a worker has trimmed the log"),
        (SourceChangedError("log-0"), RefusedError, "the log lost records that were read"),
        (RefusedByBrokerError("no right"), UserError, "does not let this client read it: no right"),
    ],
)
def test_an_error_ends_the_thread(
    reader: Scripted, error: Exception, raised: type[StreamDedupError], message: str
) -> None:
    """What was read before it can still be taken; ``run`` raises it, and the worker ends with it."""
    reader.script.put(polled(0))
    reader.script.put(polled(1))
    reader.script.put(error)
    with running(reader) as taker:
        wait_until(lambda: not taker.thread.is_alive(), LIMIT_S, "the thread has ended")
        assert [taker.next(), taker.next()] == [[0, 1], [2, 3]]
        assert isinstance(taker.failure, raised)
        assert message in str(taker.failure)


def test_ask_end(reader: Scripted) -> None:
    """The end is asked for while records go through, and the asker is woken."""
    reader.end = 41
    with running(reader) as taker:
        assert taker.tail.request_end().result(LIMIT_S) == 41
        assert taker.wakes.acquire(timeout=LIMIT_S)
        reader.script.put(polled(0))
        assert taker.next() == [0, 1]
        reader.end = 43
        questions = [taker.tail.request_end() for _ in range(3)]
        assert [question.result(LIMIT_S) for question in questions] == [43, 43, 43]


def test_end_that_cannot_be_told(reader: Scripted) -> None:
    """The future of the request has the error; the reading goes on."""
    reader.end = PassingError("the broker is away")
    with running(reader) as taker:
        with pytest.raises(UnavailableError, match="away"):
            taker.tail.request_end().result(LIMIT_S)
        assert taker.wakes.acquire(timeout=LIMIT_S)
        reader.script.put(polled(0))
        assert taker.next() == [0, 1]


@pytest.mark.parametrize("polls", [0, READ_AHEAD + 3])
def test_stop(reader: Scripted, polls: int) -> None:
    """``stop`` ends the thread, both while there is nothing to read and while the queue is full."""
    for number in range(polls):
        reader.script.put(polled(number))
    with running(reader) as taker:
        wait_until(lambda: reader.given >= min(polls, READ_AHEAD + 1), LIMIT_S, "the thread is at its limit")
        taker.tail.stop()
        taker.thread.join(LIMIT_S)
        assert not taker.thread.is_alive()


class Waits:
    """A clock whose events note for how long they are waited for, and do not wait."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    def event(self) -> SimpleNamespace:
        return SimpleNamespace(
            wait=self.waited.append, set=lambda: self.waited.append(0), clear=lambda: None, is_set=lambda: False
        )


def read_on(*, is_wanted: bool, behind: bool) -> list[float]:
    """Return the waits of a tail that reads two records and is then stopped."""
    clock = Waits()
    tails: list[LogTail] = []

    def poll(_wait_s: float) -> list[LogRecord]:
        if reads:
            return reads.pop()
        tails[0].stop()
        return []

    reads = [polled(0)]
    log = SimpleNamespace(poll=poll, high_water=lambda: 100 if behind else 2)
    tail = LogTail(cast("Any", log), cast("Any", clock), lambda: None, "log", is_wanted=lambda: is_wanted)
    tails.append(tail)
    tail.run()
    return [seconds for seconds in clock.waited if seconds]


def test_the_log_is_read_in_large_parts_while_nothing_waits_for_it() -> None:
    """A worker with a batch in flight, and one that is behind, read on at once."""
    assert read_on(is_wanted=False, behind=False) == [FOLLOW_PAUSE_S]
    assert read_on(is_wanted=True, behind=False) == []
    assert read_on(is_wanted=False, behind=True) == []


@pytest.mark.parametrize("end", [LogTail.hurry, LogTail.request_end, LogTail.stop])
def test_a_pause_ends_when_something_waits(end: Callable[[LogTail], object]) -> None:
    """A batch of this worker, a request for the end, the end of the worker."""
    clock = SystemClock()
    tail = LogTail(cast("Any", SimpleNamespace(high_water=lambda: 0)), clock, lambda: None, "log")
    end(tail)
    assert tail._wanted.is_set()
