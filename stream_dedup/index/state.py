"""What an index knows of its log as a whole: one JSON value, written with every record that is applied."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from stream_dedup.index.layout import STATE
from stream_dedup.index.store import Store, WriteBatch


@dataclass(slots=True)
class State:
    """Applied position and what trims left.

    ``start`` is the first log offset applied; ``floor`` the one before which everything is
    trimmed; ``bar`` the log offset of the newest void trim; ``horizon`` the greatest of the
    trims that counted (ms); ``newest`` the greatest log time of a batch (ms); ``articles`` the
    entries that stand; ``purge`` the next stripe to purge, None when done; ``next_ordinal``
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
            return cls(**json.loads(raw))
        except (ValueError, TypeError) as error:
            reason = f"its state cannot be read: {error}"
            raise store.corrupt(reason) from error
