"""Batches of the log as formats 2 and 3 drew them, packed by hand: no release writes them any more."""

from __future__ import annotations

import struct

from stream_dedup.core.entry import Batch


def as_before_4(batch: Batch) -> bytes:
    """The bytes of a batch: of format 2 where its author does not say up to where it had read, else of format 3."""
    n, name = len(batch), batch.topic.encode()
    kind = 5 if batch.seeded else 1
    raw = struct.pack("<BB", 2, kind) if batch.read_to is None else struct.pack("<BBq", 3, kind, batch.read_to)
    raw += struct.pack("<16siIBH", batch.topic_id, batch.partition, n, batch.margins.shape[1] // 8, len(name)) + name
    raw += struct.pack(f"<{n}q", *batch.offsets.tolist())
    raw += struct.pack(f"<{n}Q", *batch.checksums.tolist())
    raw += struct.pack(f"<{n}B", *batch.statuses.tolist())
    raw += struct.pack(f"<{n}Q", *batch.groups.tolist())
    raw += batch.signatures.tobytes() + batch.margins.tobytes()
    texts = [[batch.id(row).encode() for row in range(n)], [batch.reason(row).encode() for row in range(n)]]
    for column in texts:
        raw += struct.pack(f"<{n}I", *(sum(map(len, column[: row + 1])) for row in range(n)))
    return raw + b"".join(map(b"".join, texts))
