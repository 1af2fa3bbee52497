"""Decodes the batches of many log records together: their columns are joined, and each batch is a part of these.

To decode a record by itself takes as long as to apply some dozens of articles, however few it has, and busy workers
append records of a few. ``entry.decode`` is the definition. It decodes every value that is not plain (see
``batch_kernel``): one of another kind or an earlier format, and one that is damaged, of which it says what is wrong.

The batches of one call share their memory, which is free when the last of them is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import accumulate
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import I64, U8
from stream_dedup.core.batch_places import COLUMN_KINDS, HEAD_BYTES, KIND_AT, PLACE, TOPIC_ID
from stream_dedup.core.columns import kinds_of, numbers_of, widths_of
from stream_dedup.core.entry import KIND_SEEDED, NOT_READ, Batch
from stream_dedup.core.model import LogOffset
from stream_dedup.core.text_column import Texts
from stream_dedup.errors import CorruptError

LEAST_TOGETHER = 4
"""Values that are decoded together: fewer take as long one by one."""
MOST_TOGETHER_VALUE_BYTES = 8 << 10
"""Bytes of a value that is decoded with others, of some 50 articles: from some 100 on it takes less by itself, because
the wide columns are not copied then."""
_KNOWN_TOPICS = 64
"""Names of topics that are kept decoded."""
_OF_BATCH = ["entries", "read_to", "partition", "name_bytes", "is_ascii", "id_bytes", "reason_bytes"]
_ALIGNMENT = 8
"""Each column begins at a multiple of so many bytes, the size of the largest number."""


_kernel: ModuleType | None = None
"""The compiled functions, once they are loaded."""


def load_batch_kernel() -> None:
    """Compile the kernel of the batches, or load its kept machine code: from now on there are plain batches."""
    global _kernel  # noqa: PLW0603 - loaded once for the process
    from stream_dedup.core import batch_kernel  # noqa: PLC0415 - loads the compiler

    _kernel = batch_kernel


def decode_plain(raws: Sequence[bytes]) -> list[Batch | None]:
    """Return the batch of each record value, None of a value that ``entry.decode`` is to decode.

    That is every value until ``load_batch_kernel`` is called: a command that only reads the rules of a log does not
    wait for the compiler.
    """
    # A value that is empty is not plain.
    small = [raw if len(raw) <= MOST_TOGETHER_VALUE_BYTES else b"" for raw in raws]
    if _kernel is None or len(raws) - small.count(b"") < LEAST_TOGETHER:
        return [None] * len(raws)
    raw = np.frombuffer(b"".join(small), np.uint8)
    widths, places = np.zeros(COLUMN_KINDS, np.int64), np.zeros(len(raws), PLACE)
    _kernel.find_columns(raw, np.cumsum([*map(len, small)]), _allowed_widths(), widths, places)
    if not widths[0]:
        return [None] * len(raws)
    columns, ids, reasons = _joined(_kernel, raw, widths, places)
    found: list[Batch | None] = []
    row = id_at = reason_at = 0
    for value, place in zip(small, places[_OF_BATCH].tolist(), strict=True):
        entries, read_to, partition, name_bytes, is_ascii, id_bytes, reason_bytes = place
        if not entries:
            found.append(None)
            continue
        rows = slice(row, row + entries)
        made = {name: column[rows] for name, column in columns.items()}
        made["ids"] = Texts(made["ids"], ids[id_at : id_at + id_bytes])
        made["reasons"] = Texts(made["reasons"], reasons[reason_at : reason_at + reason_bytes])
        row, id_at, reason_at = rows.stop, id_at + id_bytes, reason_at + reason_bytes
        try:
            if not is_ascii:
                made["ids"].check("ids")
                made["reasons"].check("reasons")
            topic = _topic(value[HEAD_BYTES : HEAD_BYTES + name_bytes])
        except (CorruptError, UnicodeDecodeError):
            found.append(None)
            continue
        known = None if read_to == NOT_READ else LogOffset(read_to)
        seeded = value[KIND_AT] == KIND_SEEDED
        batch = Batch(topic_id=value[TOPIC_ID], topic=topic, partition=partition, read_to=known, seeded=seeded, **made)
        found.append(batch)
    return found


def _joined(kernel: ModuleType, raw: U8, widths: I64, places: NDArray[np.void]) -> tuple[dict[str, Any], bytes, bytes]:
    """Return the numbers of each column of all plain batches, one after the other, and the joined ids and reasons."""
    entries = int(places["entries"].sum())
    sizes = [*(entries * widths[1:]).tolist(), int(places["id_bytes"].sum()), int(places["reason_bytes"].sum())]
    ends = list(accumulate(sizes, _end_of, initial=0))
    begins = [end - size for size, end in zip(sizes, ends[1:], strict=True)]
    stored = np.zeros(ends[-1], np.uint8)
    kernel.join_columns(raw, places, widths, np.array([0, *begins]), stored)
    stored.setflags(write=False)
    *parts, ids, reasons = [stored[begin : begin + size] for begin, size in zip(begins, sizes, strict=True)]
    columns = numbers_of(Batch, entries, {name: parts[kind - 1] for name, kind in kinds_of(Batch).items()})
    return columns, ids.tobytes(), reasons.tobytes()


def _end_of(before: int, size: int) -> int:
    """Return where a column ends that begins at the next multiple of ``_ALIGNMENT``."""
    return -(-before // _ALIGNMENT) * _ALIGNMENT + size


@cache
def _allowed_widths() -> I64:
    """Return the widths that each kind of column may have, the least one first, and again where it has fewer."""
    kinds, widths = kinds_of(Batch), widths_of(Batch)
    allowed = np.zeros((COLUMN_KINDS, max(map(len, widths.values()))), np.int64)
    for name, kind in kinds.items():
        allowed[kind] = widths[name][0]
        allowed[kind, : len(widths[name])] = widths[name]
    return allowed


@lru_cache(_KNOWN_TOPICS)
def _topic(name: bytes) -> str:
    return name.decode()
