"""What an index knows of its log as a whole: one JSON value, written with every record that is applied."""

from __future__ import annotations

import json
import reprlib
from dataclasses import asdict, dataclass

from stream_dedup.core.model import ROW_BITS, TABLE_COUNTS
from stream_dedup.index.layout import MAX_DOC_NUMBERS, STATE
from stream_dedup.index.settings import RANGES
from stream_dedup.index.store import Store, WriteBatch

MAX_LOG_OFFSET = 1 << (63 - ROW_BITS)
"""Log offsets are below: a log position holds one, and the number of a row, in 63 bits."""
MAX_TIME = (1 << 63) - 1
"""Greatest log time, ms."""
MAX_SHARDS = max(TABLE_COUNTS) * RANGES
"""Shards of an index with the most tables."""

_MAY_BE_NONE = frozenset({"log_id", "last_checksum", "start", "horizon", "newest", "purge"})
_RANGES = {
    "next_offset": (0, MAX_LOG_OFFSET),
    "last_checksum": (0, (1 << 64) - 1),
    "start": (0, MAX_LOG_OFFSET),
    "floor": (0, MAX_LOG_OFFSET),
    "bar": (-1, MAX_LOG_OFFSET),
    "horizon": (-MAX_TIME, MAX_TIME),
    "newest": (-MAX_TIME, MAX_TIME),
    "articles": (0, MAX_LOG_OFFSET),
    "purge": (0, MAX_SHARDS - 1),
    "next_ordinal": (0, MAX_DOC_NUMBERS),
    "floor_ordinal": (0, MAX_DOC_NUMBERS),
}


@dataclass(slots=True)
class State:
    """Applied position and what trims left.

    ``start`` is the first log offset applied; ``floor`` the one before which everything is
    trimmed; ``bar`` the log offset of the newest void trim; ``horizon`` the greatest of the
    trims that counted (ms); ``newest`` the greatest log time of a batch (ms); ``articles`` the
    entries that stand; ``purge`` the next shard to purge, None when done; ``next_ordinal``
    what the next signed entry gets, ``floor_ordinal`` that of the first one that is not trimmed.
    """

    log_id: str | None = None
    next_offset: int = 0
    last_checksum: int | None = None
    start: int | None = None
    floor: int = 0
    bar: int = -1
    horizon: int | None = None
    newest: int | None = None
    articles: int = 0
    purge: int | None = None
    next_ordinal: int = 0
    floor_ordinal: int = 0

    def put(self, batch: WriteBatch) -> None:
        """Write into a batch."""
        batch.put(STATE, json.dumps(asdict(self)).encode())

    @classmethod
    def read(cls, store: Store) -> State:
        """Read from the store; CorruptError where it cannot be read."""
        raw = store.get([STATE])[0]
        try:
            state = cls(**json.loads(raw))
        except (ValueError, TypeError, RecursionError) as error:
            reason = f"its state cannot be read: {error}"
            raise store.corrupt(reason) from error
        wrong = state.wrong_fields()
        if wrong:
            reason = f"its state cannot be: {', '.join(wrong)}"
            raise store.corrupt(reason)
        return state

    def wrong_fields(self) -> list[str]:
        """Fields with values that no index has, each as ``name value``."""
        wrong = [f"{name} {reprlib.repr(value)}" for name, value in asdict(self).items() if not _fits(name, value)]
        if not wrong and self.floor_ordinal > self.next_ordinal:
            wrong.append(f"floor_ordinal {self.floor_ordinal} beyond next_ordinal {self.next_ordinal}")
        return wrong


def _fits(name: str, value: object) -> bool:
    if value is None:
        return name in _MAY_BE_NONE
    if name == "log_id":
        return isinstance(value, str)
    least, most = _RANGES[name]
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
