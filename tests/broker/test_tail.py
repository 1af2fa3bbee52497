"""The log's tail, with a scripted reader."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, cast

import pytest

from stream_dedup.broker.tail import FULL_S, READ_AHEAD, LogTail
from stream_dedup.core.entry import LogRecord
from stream_dedup.errors import CorruptError, UnavailableError
from tests.waiting import wait_until

if TYPE_CHECKING:
    from stream_dedup.broker.log import LogReader
    from stream_dedup.core.entry import Payload

LIMIT_S = 20
PATIENCE_S = 7.5


class Scripted:
    """A stand-in for the log's reader: ``poll`` gives the scripted items, ``bounds`` gives ``end``."""

    def __init__(self) -> None:
        self.script: SimpleQueue[list[LogRecord] | BaseException] = SimpleQueue()
        self.given = 0
        self.end: int | Exception = 0
        self.patience: list[float] = []

    def poll(self, timeout_ms: int) -> list[LogRecord]:
        try:
            item = self.script.get(timeout=timeout_ms / 1000)
        except Empty:
            return []
        if isinstance(item, BaseException):
            raise item
        self.given += 1
        return item

    def high_water(self) -> int:
        return 10 * self.given

    def bounds(self, patience_s: float) -> tuple[int, int]:
        self.patience.append(patience_s)
        if isinstance(self.end, Exception):
            raise self.end
        return 0, self.end


def polled(number: int) -> list[LogRecord]:
    """Poll ``number``: two records."""
    return [LogRecord(offset, 0, cast("Payload", None), b"") for offset in (2 * number, 2 * number + 1)]


class Taker:
    """Takes as the engine does: when it is woken."""

    def __init__(self, reader: Scripted) -> None:
        self.wakes = threading.Semaphore(0)
        self.tail = LogTail(cast("LogReader", reader), self.wakes.release, PATIENCE_S)

    def next(self) -> list[int]:
        """Offsets of the next records that are there."""
        assert self.wakes.acquire(timeout=LIMIT_S), "the taker is woken"
        return [record.offset for record in self.tail.next_records()]


@contextmanager
def running(reader: Scripted) -> Iterator[Taker]:
    taker = Taker(reader)
    taker.tail.start()
    try:
        yield taker
    finally:
        taker.tail.stop()
        assert not taker.tail._thread.is_alive()


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
        assert taker.tail.high_water == 500
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


def test_error_surfaces_after_what_was_read(reader: Scripted) -> None:
    """The error that ended the reading is raised after the records before it, and by every later call."""
    reader.script.put(polled(0))
    reader.script.put(polled(1))
    reader.script.put(CorruptError("record 4 cannot be read"))
    with running(reader) as taker:
        wait_until(lambda: not taker.tail._thread.is_alive(), LIMIT_S, "the thread has ended")
        assert [taker.next(), taker.next()] == [[0, 1], [2, 3]]
        for _ in range(2):
            with pytest.raises(CorruptError, match="record 4"):
                taker.tail.next_records()
        assert taker.wakes.acquire(timeout=LIMIT_S), "the taker is woken for the error, too"


def test_ask_end(reader: Scripted) -> None:
    """The end is asked for while records go through, with the patience given, and the asker is woken."""
    reader.end = 41
    with running(reader) as taker:
        assert taker.tail.request_end().result(LIMIT_S) == 41
        assert taker.wakes.acquire(timeout=LIMIT_S)
        reader.script.put(polled(0))
        assert taker.next() == [0, 1]
        reader.end = 43
        questions = [taker.tail.request_end() for _ in range(3)]
        assert [question.result(LIMIT_S) for question in questions] == [43, 43, 43]
    assert reader.patience == [PATIENCE_S] * 4


def test_end_that_cannot_be_told(reader: Scripted) -> None:
    """The future of the request has the error; the reading goes on."""
    reader.end = UnavailableError("the broker is away")
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
        assert not taker.tail._thread.is_alive()
