"""The state of an index: one JSON value, written with every record that is applied."""

from __future__ import annotations

import json
import reprlib
from dataclasses import dataclass, fields
from typing import Any

from stream_dedup.core.model import ROW_BITS, TABLE_COUNTS, DocNumber, LogOffset
from stream_dedup.index.layout import MAX_DOC_NUMBERS, STATE
from stream_dedup.index.store import Store, WriteBatch

MAX_LOG_OFFSET = 1 << (63 - ROW_BITS)
"""Log offsets are below: a log position holds one, and the number of a row, in 63 bits."""
MAX_TIME = (1 << 63) - 1
"""Greatest log time, ms."""
MAX_SHARDS = max(TABLE_COUNTS) * 16

_MAY_BE_NONE = frozenset({"log_id", "last_checksum", "start", "horizon", "newest"})
_STORED_NAMES = {
    "low_watermark": "floor",
    "last_void_trim": "bar",
    "next_doc_number": "next_ordinal",
    "first_doc_number": "floor_ordinal",
}
"""Names in the stored JSON that are not those of the fields."""
_FIELDS = {stored: name for name, stored in _STORED_NAMES.items()}
_RANGES = {
    "next_offset": (0, MAX_LOG_OFFSET),
    "last_checksum": (0, (1 << 64) - 1),
    "start": (0, MAX_LOG_OFFSET),
    "low_watermark": (0, MAX_LOG_OFFSET),
    "last_void_trim": (-1, MAX_LOG_OFFSET),
    "complete_trim": (-1, MAX_LOG_OFFSET),
    "horizon": (-MAX_TIME, MAX_TIME),
    "newest": (-MAX_TIME, MAX_TIME),
    "articles": (0, MAX_LOG_OFFSET),
    "next_doc_number": (0, MAX_DOC_NUMBERS),
    "first_doc_number": (0, MAX_DOC_NUMBERS),
    "withdrawn": (0, MAX_DOC_NUMBERS),
}


@dataclass(slots=True)
class State:
    """The applied position and what trims removed.

    ``start`` is the first log offset applied; everything before the log offset ``low_watermark`` is trimmed;
    ``last_void_trim`` is the log offset of the newest void trim, ``complete_trim`` that of the newest valid one that
    listed all that was forgotten there (-1 of none); ``horizon`` is the greatest of the valid trims, and ``newest`` the
    greatest log time of a batch, both in ms; ``articles`` counts the originals that are not
    trimmed; ``next_doc_number`` is what the
    next signed original gets, ``first_doc_number`` that of the first one that is not trimmed; ``withdrawn`` counts the
    withdrawn entries that are not trimmed. It is stored only where there are some, so that a release that knows no
    withdrawals opens an index without any, and refuses one with some.
    """

    log_id: str | None = None
    next_offset: LogOffset = LogOffset(0)
    last_checksum: int | None = None
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
        stored = {stored_name: getattr(self, name) for name, stored_name in _STORED_AS.items()}
        if not self.withdrawn:
            del stored["withdrawn"]
        batch.put(STATE, json.dumps(stored).encode())

    @classmethod
    def read(cls, store: Store) -> State:
        """Read the state; CorruptError where it cannot be read."""
        raw = store.get([STATE])[0]
        try:
            stored: dict[str, Any] = json.loads(raw)
            unknown = sorted(stored.keys() & _STORED_NAMES)
            if unknown:
                msg = f"unknown field {unknown[0]}"
                raise ValueError(msg)  # noqa: TRY301 - as what JSON itself refuses
            state = cls(**{_FIELDS.get(name, name): value for name, value in stored.items()})
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            reason = f"its state cannot be read: {error}"
            raise store.corrupt(reason) from error
        wrong = state.wrong_fields()
        if wrong:
            reason = f"its state cannot be: {', '.join(wrong)}"
            raise store.corrupt(reason)
        return state

    def wrong_fields(self) -> list[str]:
        """Return the fields with values that no index has, each as ``name value``."""
        values = {name: getattr(self, name) for name in _STORED_AS}
        wrong = [f"{name} {reprlib.repr(value)}" for name, value in values.items() if not _fits(name, value)]
        if not wrong and self.first_doc_number > self.next_doc_number:
            wrong.append(f"first_doc_number {self.first_doc_number} beyond next_doc_number {self.next_doc_number}")
        return wrong


_STORED_AS = {one.name: _STORED_NAMES.get(one.name, one.name) for one in fields(State)}
"""The name of each field in the stored JSON, in their order."""


def _fits(name: str, value: object) -> bool:
    if value is None:
        return name in _MAY_BE_NONE
    if name == "log_id":
        return isinstance(value, str)
    least, most = _RANGES[name]
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
