"""What the joint reading of log batches shares with its compiled functions (``batch_kernel``): where the fields are.

``entry`` draws the head of a batch, and ``columns`` the kinds of its columns.
"""

from __future__ import annotations

import numpy as np

from stream_dedup.core.columns import kinds_of
from stream_dedup.core.entry import Batch

BATCH_HEAD = np.dtype(
    [
        ("version", "u1"),
        ("kind", "u1"),
        ("read_to", "<i8"),
        ("topic_id", "u1", (16,)),
        ("partition", "<i4"),
        ("entries", "<u4"),
        ("name_bytes", "<u2"),
    ]
)
"""The head of a batch of format 4, before the name of its topic."""
HEAD_BYTES = BATCH_HEAD.itemsize
KIND_AT, READ_TO_AT, PARTITION_AT, ENTRIES_AT, NAME_BYTES_AT, _TOPIC_ID_AT = (
    int(BATCH_HEAD.fields[name][1])  # type: ignore[index] # a type with fields
    for name in ("kind", "read_to", "partition", "entries", "name_bytes", "topic_id")
)
TOPIC_ID = slice(_TOPIC_ID_AT, PARTITION_AT)
"""The bytes of the topic id."""
_KINDS = kinds_of(Batch)
COLUMN_KINDS = max(_KINDS.values()) + 1
"""Column kinds are 1 to before this."""
OFFSETS, STATUSES, IDS, REASONS = (_KINDS[name] for name in ("offsets", "statuses", "ids", "reasons"))

PLACE = np.dtype(
    [
        ("entries", "<i8"),
        ("read_to", "<i8"),
        ("partition", "<i8"),
        ("name_bytes", "<i8"),
        ("is_ascii", "<i8"),
        ("id_bytes", "<i8"),
        ("reason_bytes", "<i8"),
        ("at", "<i8", (COLUMN_KINDS,)),
        ("widths", "<i8", (COLUMN_KINDS,)),
    ],
    align=True,
)
"""Where the columns of one batch are in the joined values: ``at`` is -1 of a column that is not there."""
