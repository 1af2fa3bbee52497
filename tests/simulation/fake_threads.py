"""Fingerprinting that takes virtual time, and whose fingerprints are trivial.

The value of an article is text:

    story.variant.serial    for example ``7.1.42``

Articles of one story are near: their signatures differ in as many bits as their variants. Those of different stories
are far. The serial number makes each value another one. The id of a schema may stand before it (``registry``). A value
that begins with ``!`` cannot be read, and a record without one is a delete where there are deletes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cache

import numpy as np
import xxhash
from numpy.typing import NDArray

from stream_dedup.core.columns import Columns
from stream_dedup.core.decode import RawRecord
from stream_dedup.core.fingerprinter import checksum
from stream_dedup.core.model import SIGNATURE_BYTES, Status, Widths
from stream_dedup.ports import SourceRecord
from tests.simulation.registry import article_of

UNREADABLE = "not readable"
"""The reason of every rejected record."""


def value_of(story: int, variant: int, serial: int, *, readable: bool = True) -> bytes:
    """Return the value of an article."""
    return f"{'' if readable else '!'}{story}.{variant}.{serial}".encode()


def is_delete(key: bytes | None, value: bytes | None) -> bool:
    """Return whether a record is a delete, where there are deletes."""
    return value is None and bool(key)


def columns_of(records: Sequence[RawRecord], widths: Widths, *, deletes: bool = False) -> Columns:
    """Return the entries of these records."""
    deleted = [deletes and is_delete(record.key, record.value) for record in records]
    values = [article_of(record.value) for record in records]
    readable = [value is not None and not value.startswith(b"!") for value in values]
    empty = bytes(SIGNATURE_BYTES)
    signatures = [_signature(value) if good else empty for value, good in zip(values, readable, strict=True)]
    margins = np.zeros((len(records), widths.margin_bytes), np.uint8)
    margins[readable] = 0xFF
    return Columns.of(
        checksums=np.array([checksum(record.value) for record in records], np.uint64),
        statuses=[
            Status.LONG if good else Status.DELETE if gone else Status.REJECTED
            for good, gone in zip(readable, deleted, strict=True)
        ],
        scope_hashes=np.zeros(len(records), np.uint64),
        signatures=np.frombuffer(b"".join(signatures), np.uint8).reshape(len(records), -1),
        margins=margins,
        sketches=np.array([_sketch(value, widths.sketch_bytes) for value in values]),
        ids=[(record.key or record.fallback_id.encode()).decode() for record in records],
        reasons=["" if good or gone else UNREADABLE for good, gone in zip(readable, deleted, strict=True)],
    )


def _sketch(value: bytes | None, size: int) -> NDArray[np.uint8]:
    """The articles of a story have one sketch, those that cannot be read a blank one."""
    readable = value is not None and not value.startswith(b"!")
    whole = xxhash.xxh3_128_digest((value or b"").split(b".")[0]) * 2
    return np.frombuffer(whole if readable else bytes(len(whole)), np.uint8)[:size]


def _signature(value: bytes | None) -> bytes:
    story, variant, _ = (value or b"").decode().split(".")
    number = _number_of(story)
    for bit in range(int(variant)):
        number ^= 1 << (255 - 16 * bit)
    return number.to_bytes(SIGNATURE_BYTES, "big")


@cache
def _number_of(story: str) -> int:
    halves = (xxhash.xxh3_128_digest(f"{story}/{half}".encode()) for half in "ab")
    return int.from_bytes(b"".join(halves), "big")


class FakeThreads:
    """Completes each request after a delay that ``delay_s`` draws, in whatever order that gives."""

    def __init__(
        self,
        later: Callable[[float, Callable[[], None]], None],
        delay_s: Callable[[], float],
        make: Callable[[Sequence[SourceRecord]], Columns],
    ) -> None:
        """``later`` calls a function in so many seconds."""
        self._later = later
        self._delay_s = delay_s
        self._make = make

    def submit(self, records: Sequence[SourceRecord]) -> Future[Columns]:
        """Return a future of the columns of these records."""
        future: Future[Columns] = Future()

        def complete() -> None:
            if future.set_running_or_notify_cancel():
                future.set_result(self._make(records))

        self._later(self._delay_s(), complete)
        return future

    def close(self) -> None:
        """Do nothing: what is under way completes when it will."""
