"""`filter` judges one batch while it fingerprints the next: what a caller sees is as if it did one after the other."""

from __future__ import annotations

import errno
import gzip
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from stream_dedup.config.load import load_config
from stream_dedup.core.model import Verdict
from stream_dedup.errors import UnavailableError, UserError
from stream_dedup.files import filter as filter_module
from stream_dedup.files import inputs
from stream_dedup.files.filter import LOOK_AHEAD, FilterOptions, Outputs, filter_files
from stream_dedup.files.inputs import LineBatch, read_batches
from stream_dedup.index import LogIndex
from stream_dedup.threads import FingerprintThreads
from tests.files.filtering import record, write
from tests.waiting import wait_until

BATCH, BATCHES = 4, 6
WAIT_S = 60
"""Longest wait for the other thread: it fails instead of hanging."""


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "LINE_BATCH_LINES", BATCH)


@pytest.fixture
def source(tmp_path: Path) -> str:
    """Lines of which every second one is a copy of the one before it."""
    return write(tmp_path / "in", *(record(number, _text(number // 2)) for number in range(BATCH * BATCHES)))


def _text(number: int) -> str:
    return " ".join(f"{word}x{number * 7919 % 9973 + word}" for word in range(50))


def before(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, do: Callable[[int], object]) -> None:
    """Call ``do`` with the number of the call, from 0, before each call of a method."""
    method, numbers = getattr(owner, name), count()

    def called(*args: Any, **more: Any) -> Any:  # noqa: ANN401 - whatever the method takes and gives
        do(next(numbers))
        return method(*args, **more)

    monkeypatch.setattr(owner, name, called)


def after(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, do: Callable[[int], object]) -> None:
    """Call ``do`` with the number of the call, from 0, after each call of a method."""
    method, numbers = getattr(owner, name), count()

    def called(*args: Any, **more: Any) -> Any:  # noqa: ANN401 - whatever the method takes and gives
        done = method(*args, **more)
        do(next(numbers))
        return done

    monkeypatch.setattr(owner, name, called)


class Call:
    """A call of `filter` with one fingerprinting thread, into one file and a kept index."""

    def __init__(self, folder: Path) -> None:
        self.out, self.index = folder / "out", folder / "index"

    def __call__(self, source: str, clock: Callable[[], int] = lambda: 0) -> list[dict[str, Any]]:
        config = load_config(overrides={"worker": {"threads": 1}}, environment={})
        options = FilterOptions((source,), self.index, outputs=dict.fromkeys(Verdict, self.out))
        filter_files(config, options, clock, lambda _tally: None)
        return [json.loads(line) for line in self.out.read_bytes().splitlines()]


@pytest.fixture
def call(tmp_path: Path) -> Call:
    return Call(tmp_path)


def test_a_batch_is_judged_while_the_next_is_fingerprinted(
    source: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Judging waits until another batch was fingerprinted, and goes on."""
    done = [threading.Event() for _ in range(BATCHES)]
    waited = []
    after(monkeypatch, FingerprintThreads, "submit", lambda number: done[number].set())
    before(
        monkeypatch, LogIndex, "judge", lambda number: waited.append(done[min(number + 1, BATCHES - 1)].wait(WAIT_S))
    )
    call(source)
    assert waited == [True] * BATCHES


def test_lines_leave_in_order(source: str, call: Call) -> None:
    """Each line has the verdict of its place in the input."""
    lines = call(source)
    assert [line["id"] for line in lines] == list(range(BATCH * BATCHES))
    assert [line["dedup"].get("match", {}).get("id") for line in lines] == [
        str(number - 1) if number % 2 else None for number in range(BATCH * BATCHES)
    ]


def test_an_input_that_breaks_off_is_answered_so_far(
    source: str, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batches before the damage are written; the index remembers none."""
    whole = Path(source).read_bytes()
    damaged = tmp_path / "damaged.gz"
    damaged.write_bytes(gzip.compress(whole)[:-8])
    written: list[int] = []
    after(monkeypatch, Outputs, "write", written.append)
    with pytest.raises(UserError, match="end"):
        call(str(damaged))
    assert len(written) == BATCHES
    assert [line["dedup"]["verdict"] for line in call(source)][::2] == ["unique"] * (BATCH * BATCHES // 2)


def test_a_disk_that_cannot_be_read_is_answered_so_far(
    source: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An input may end with an error of the system: what was read before it is written."""

    def breaking_off(*args: Any, **more: Any) -> Iterator[LineBatch | None]:  # noqa: ANN401 - as the reader
        batches = read_batches(*args, **more)
        for _ in range(3):
            yield next(batches)
        raise OSError(errno.EIO, "the disk fails")

    written: list[int] = []
    monkeypatch.setattr(filter_module, "read_batches", breaking_off)
    after(monkeypatch, Outputs, "write", written.append)
    with pytest.raises(OSError, match="the disk fails"):
        call(source)
    assert len(written) == 3


def test_a_second_signal_waits_for_the_thread_too(source: str, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes while the first one waits: the index is closed after the batch is judged."""
    handled, story, closed = list[int](), list[int | str](), threading.Event()

    def interrupted(number: int, _frame: object) -> None:
        handled.append(number)
        raise KeyboardInterrupt

    def judging(number: int) -> None:
        if number == 2:
            for signals in range(1, 4):
                os.kill(os.getpid(), signal.SIGINT)
                wait_until(lambda signals=signals: len(handled) == signals, WAIT_S, "a signal")  # type: ignore[misc]
                wait_until(lambda: _waits_for_judging() or closed.is_set(), WAIT_S, "the main thread")
                if closed.is_set():
                    break

    def closing(_number: int) -> None:
        story.append("closed")
        closed.set()

    before(monkeypatch, LogIndex, "judge", judging)
    after(monkeypatch, LogIndex, "judge", story.append)
    before(monkeypatch, LogIndex, "close", closing)
    handler = signal.signal(signal.SIGINT, interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            call(source)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert (story, len(handled)) == ([*range(len(story) - 1), "closed"], 3)
    assert "judging" not in {thread.name.split("_")[0] for thread in threading.enumerate()}


def _waits_for_judging() -> bool:
    """Whether the main thread has left the call, but for the thread that judges."""
    stack = traceback.walk_stack(sys._current_frames()[threading.main_thread().ident or 0])
    codes = [frame.f_code for frame, _ in stack]
    return codes[0].co_filename == threading.__file__ and "_judging" in {code.co_name for code in codes}


@pytest.mark.parametrize("error", [UnavailableError("the index fails"), KeyboardInterrupt()], ids=["error", "signal"])
def test_an_end_in_between_waits_for_the_thread(
    source: str, call: Call, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """It comes while a batch is judged: no thread is left, the index is closed after it, and remembers nothing."""
    threads = set(threading.enumerate())
    raised, story = threading.Event(), list[int | str]()

    def judging(number: int) -> None:
        if number == 2:
            raised.wait(WAIT_S)

    def clock() -> int:
        if next(calls) == 4:  # of the rules, and of each batch
            raised.set()
            raise error
        return 0

    calls = count()
    before(monkeypatch, LogIndex, "judge", judging)
    after(monkeypatch, LogIndex, "judge", story.append)
    before(monkeypatch, LogIndex, "close", lambda _number: story.append("closed"))
    with pytest.raises(type(error)):
        call(source, clock)
    assert set(threading.enumerate()) <= threads  # those of other tests may end meanwhile
    assert story == [0, 1, 2, "closed"]
    assert not call.out.exists()
    assert [line["dedup"]["verdict"] for line in call(source)][::2] == ["unique"] * (BATCH * BATCHES // 2)


def test_what_cannot_be_judged_ends_the_call(source: str, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of a batch in the thread is that of the call, after the lines before it."""
    written: list[int] = []

    def judging(number: int) -> None:
        if number == 2:
            raise UnavailableError("the index fails")

    before(monkeypatch, LogIndex, "judge", judging)
    after(monkeypatch, Outputs, "write", written.append)
    with pytest.raises(UnavailableError, match="the index fails"):
        call(source)
    assert len(written) == 2


def test_few_batches_are_in_memory(source: str, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those before the one that is read, one is judged and ``LOOK_AHEAD`` are submitted; the others are written."""
    written: list[int] = []
    in_memory = []

    def reading(*args: Any, **more: Any) -> Iterator[LineBatch | None]:  # noqa: ANN401 - what is read
        for number, batch in enumerate(read_batches(*args, **more)):
            in_memory.append(number - len(written))
            yield batch

    after(monkeypatch, Outputs, "write", written.append)
    monkeypatch.setattr(filter_module, "read_batches", reading)
    call(source)
    assert 1 <= max(in_memory) <= 1 + LOOK_AHEAD
