"""What tests of the pool share: records, steps that a child is made to take, and waiting for processes to end."""

from __future__ import annotations

import os
import select
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from stream_dedup.core.columns import Columns
from stream_dedup.core.text.decode import RawRecord
from stream_dedup.pool import process

GONE_SECONDS = 10
"""Longest wait for a process to end."""

RECORDS = [
    RawRecord(b"a", '{"text": "今天天气很好，我们去公园散步"}'.encode(), "t-0-0"),
    RawRecord(b"b", None, "t-0-1"),
    RawRecord(None, b'{"text": "the river froze early that year"}', "t-0-2"),
]
ENDLESS = RawRecord(b"e", b'{"id": "own", "text": "endless"}', "t-0-4")
"""Never done under ``SLOW_STEP``."""

LIGHT_STEP = """\
from stream_dedup.core.fingerprint import entry_maker
from tests.pool.light import LightFingerprinter
entry_maker.Fingerprinter = LightFingerprinter
"""
"""A step that leaves out dictionaries and tables, which take two thirds of a child's start."""
SLOW_STEP = """\
import re, time
from stream_dedup.core.fingerprint.entry_maker import EntryMaker
make = EntryMaker.__call__
def slowly(maker, records):
    for record in records:
        if b"endless" in (record.value or b""):
            re.match("(a|aa)+$", "a" * 200 + "b")
        until = time.process_time() + (0.1 if b"leisurely" in (record.value or b"") else 0)
        while time.process_time() < until:
            sum(range(1000))
    return make(maker, records)
EntryMaker.__call__ = slowly
"""
"""A step that never returns, in a loop that is not made of Python, and one that takes a tenth of a second."""
WAITING_STEP = """\
import time
from stream_dedup.core.fingerprint.entry_maker import EntryMaker
make_waited = EntryMaker.__call__
def waiting(maker, records):
    for value in [record.value or b"" for record in records]:
        while b"until:" in value and not os.path.exists(value.partition(b"until:")[2].partition(b'"')[0]):
            time.sleep(0.01)
    return make_waited(maker, records)
EntryMaker.__call__ = waiting
"""
"""A step that waits until a file is there."""
DYING_STEP = """\
import pathlib
from stream_dedup.core.fingerprint.entry_maker import EntryMaker
make_alive = EntryMaker.__call__
def die(value):
    if b"segfault" in value:
        os.kill(os.getpid(), signal.SIGSEGV)
    if b"too much" in value:
        raise MemoryError
    if b"once:" in value:
        flag = pathlib.Path(value.partition(b"once:")[2].partition(b'"')[0].decode())
        if not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
def dying(maker, records):
    for record in records:
        die(record.value or b"")
    return make_alive(maker, records)
EntryMaker.__call__ = dying
"""
"""A step that crashes, one whose memory runs out, and one that is killed the first time: it leaves a file."""


def waiting_for(path: Path) -> RawRecord:
    """Return a record that ``WAITING_STEP`` is done with when a file is there."""
    return RawRecord(b"w", f'{{"text": "until:{path}"}}'.encode(), "t-0-7")


class Observed:
    """An observer that counts restarts by cause, articles by code, and work."""

    def __init__(self) -> None:
        self.restarts: Counter[str] = Counter()
        self.poisoned: Counter[str] = Counter()
        self.worked_s = 0.0
        self.works = 0

    def count_restart(self, cause: str) -> None:
        self.restarts[cause] += 1

    def count_work(self, seconds: float) -> None:
        self.worked_s += seconds
        self.works += 1

    def count_poisoned(self, code: str) -> None:
        self.poisoned[code] += 1


def take_step(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Make every child that is started from now on take a step for each record."""
    monkeypatch.setattr(process, "CHILD_CODE", process.CHILD_CODE.replace("serve({", step + "serve({"))


def same(a: Columns, b: Columns) -> bool:
    return [*a.ids, *a.reasons] == [*b.ids, *b.reasons] and np.array_equal(a.signatures, b.signatures)


def wait_until_gone(pids: Iterable[int]) -> None:
    """Wait for processes of which we may not be the parent: a pidfd is readable once its process has ended."""
    for pid in pids:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        with os.fdopen(handle):
            assert select.select([handle], [], [], GONE_SECONDS)[0], f"process {pid} still runs"
