"""The state of an index: one JSON value, written with every record that is applied."""

from __future__ import annotations

import json
import reprlib
from dataclasses import dataclass

from stream_dedup.core.model import ROW_BITS, DocNumber, LogOffset
from stream_dedup.index.layout import MAX_DOC_NUMBERS, STATE
from stream_dedup.index.store import Store, WriteBatch

MAX_LOG_OFFSET = 1 << (63 - ROW_BITS)
"""Log offsets are below: a log position holds one, and the number of a row, in 63 bits."""
MAX_TIME = (1 << 63) - 1
"""Greatest log time, ms."""

_MAY_BE_NONE = frozenset({"log_id", "last_checksum", "start", "horizon", "newest"})
_LEAST = {"last_void_trim": -1, "complete_trim": -1, "horizon": -MAX_TIME, "newest": -MAX_TIME}
"""0 of every other field."""
_MOST = {
    "last_checksum": (1 << 64) - 1,
    "horizon": MAX_TIME,
    "newest": MAX_TIME,
    "next_doc_number": MAX_DOC_NUMBERS,
    "first_doc_number": MAX_DOC_NUMBERS,
    "withdrawn": MAX_DOC_NUMBERS,
}
"""``MAX_LOG_OFFSET`` of every other field."""


@dataclass(slots=True)
class State:
    """The applied position and what trims removed.

    ``start`` is the first log offset applied; everything before the log offset ``low_watermark`` is trimmed;
    ``last_void_trim`` is the log offset of the newest void trim, ``complete_trim`` that of the newest valid one that
    listed all that was forgotten there (-1 of none); ``horizon`` is the greatest of the valid trims, and ``newest`` the
    greatest log time of a batch, both in ms; ``articles`` counts the originals that are not trimmed;
    ``next_doc_number`` is what the next signed original gets, ``first_doc_number`` that of the first one that is not
    trimmed; ``withdrawn`` counts the withdrawn entries that are not trimmed.
    """

    log_id: str | None = None
    next_offset: LogOffset = LogOffset(0)
    last_checksum: int | None = None
    """XXH3 of the value of the last record applied; None before the first."""
    start: LogOffset | None = None
    low_watermark: LogOffset = LogOffset(0)
    last_void_trim: LogOffset = LogOffset(-1)
    complete_trim: LogOffset = LogOffset(-1)
    horizon: int | None = None
    newest: int | None = None
    articles: int = 0
    next_doc_number: DocNumber = DocNumber(0)
    first_doc_number: DocNumber = DocNumber(0)
    withdrawn: int = 0

    def write(self, batch: WriteBatch) -> None:
        """Add the state to a batch of writes."""
        batch.put(STATE, json.dumps({name: getattr(self, name) for name in self.__slots__}).encode())

    @classmethod
    def read(cls, store: Store) -> State:
        """Read the state; CorruptError where it cannot be read, or has values that no index has."""
        try:
            stored = json.loads(store.get([STATE])[0])
            missing = set(cls.__slots__) - stored.keys()
            state = cls(**stored)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            reason = f"its state cannot be read: {error}"
            raise store.corrupt(reason) from error
        wrong = [f"without {name}" for name in sorted(missing)]
        wrong += [f"{name} {reprlib.repr(value)}" for name, value in stored.items() if not _fits(name, value)]
        if not wrong and state.first_doc_number > state.next_doc_number:
            wrong = [f"first_doc_number {state.first_doc_number} beyond next_doc_number {state.next_doc_number}"]
        if wrong:
            reason = f"its state cannot be: {', '.join(wrong)}"
            raise store.corrupt(reason)
        return state


def _fits(name: str, value: object) -> bool:
    if value is None:
        return name in _MAY_BE_NONE
    if name == "log_id":
        return isinstance(value, str)
    return type(value) is int and _LEAST.get(name, 0) <= value <= _MOST.get(name, MAX_LOG_OFFSET)
