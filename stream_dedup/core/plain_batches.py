"""Decodes the batches of many log records together: their columns are joined, and each batch is a part of these.

To decode a record by itself takes as long as to apply some dozens of articles, however few it has, and busy workers
append records of a few. ``entry.decode`` is the definition. It decodes every value that is not plain: one of another
kind or format, and one that is damaged, of which it says what is wrong.

The batches of one call share their memory, which is free when the last of them is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from stream_dedup import _native
from stream_dedup.core.columns import LAST_STATUS, kinds_of, numbers_of, widths_of
from stream_dedup.core.entry import BATCH_HEAD, KIND_BATCH, KIND_SEEDED, LOG_FORMAT_VERSION, NOT_READ, TOPIC_ID, Batch
from stream_dedup.core.model import MAX_ROWS, LogOffset
from stream_dedup.core.text_column import Texts
from stream_dedup.errors import CorruptError

LEAST_TOGETHER = 4
"""Values that are decoded together: fewer take as long one by one."""
MOST_TOGETHER_VALUE_BYTES = 8 << 10
"""Bytes of a value that is decoded with others, of some 50 articles: from some 100 on it takes less by itself, because
the wide columns are not copied then."""
_KNOWN_TOPICS = 64
"""Names of topics that are kept decoded."""


def decode_plain(raws: Sequence[bytes]) -> list[Batch | None]:
    """Return the batch of each record value, None of a value that ``entry.decode`` is to decode."""
    found: list[Batch | None] = [None] * len(raws)
    # A value that is empty is not plain.
    small = [raw if len(raw) <= MOST_TOGETHER_VALUE_BYTES else b"" for raw in raws]
    if len(raws) - small.count(b"") < LEAST_TOGETHER:
        return found
    joined = _native.join_batches(small, **_format())
    if not joined.batches:
        return found
    columns = _columns(joined)
    row = id_at = reason_at = 0
    for value, seeded, read_to, partition, entries, name_bytes, is_ascii, id_bytes, reason_bytes in joined.batches:
        rows = slice(row, row + entries)
        made = {name: column[rows] for name, column in columns.items()}
        made["ids"] = Texts(made["ids"], joined.ids[id_at : id_at + id_bytes])
        made["reasons"] = Texts(made["reasons"], joined.reasons[reason_at : reason_at + reason_bytes])
        row, id_at, reason_at = rows.stop, id_at + id_bytes, reason_at + reason_bytes
        raw = raws[value]
        try:
            if not is_ascii:
                made["ids"].check("ids")
                made["reasons"].check("reasons")
            topic = _topic(raw[BATCH_HEAD : BATCH_HEAD + name_bytes])
        except (CorruptError, UnicodeDecodeError):
            continue
        known = None if read_to == NOT_READ else LogOffset(read_to)
        found[value] = Batch(
            topic_id=raw[TOPIC_ID], topic=topic, partition=partition, read_to=known, seeded=seeded, **made
        )
    return found


def _columns(joined: _native.JoinedBatches) -> dict[str, Any]:
    """Return the numbers of each column of all plain batches, one after the other."""
    entries = sum(facts[4] for facts in joined.batches)
    raw = np.frombuffer(joined.columns, np.uint8)
    kinds = kinds_of(Batch)
    parts = {
        name: raw[joined.begins[kind] : joined.begins[kind] + entries * joined.widths[kind]]
        for name, kind in kinds.items()
    }
    return numbers_of(Batch, entries, parts)


@cache
def _format() -> dict[str, Any]:
    """Return what the formats say of a plain batch, as the native core takes it."""
    kinds, widths = kinds_of(Batch), widths_of(Batch)
    allowed: list[list[int]] = [[] for _ in range(max(kinds.values()) + 1)]
    for name, kind in kinds.items():
        allowed[kind] = list(widths[name])
    return {
        "version": LOG_FORMAT_VERSION,
        "kinds": (KIND_BATCH, KIND_SEEDED),
        "widths": allowed,
        "special": tuple(kinds[name] for name in ("offsets", "statuses", "ids", "reasons")),
        "last_status": int(LAST_STATUS),
        "most_entries": MAX_ROWS,
    }


@lru_cache(_KNOWN_TOPICS)
def _topic(name: bytes) -> str:
    return name.decode()
