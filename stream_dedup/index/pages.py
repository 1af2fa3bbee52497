"""Pages of neighbouring lists (see ``layout``), many at once: nothing but arithmetic on arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_dedup.core.arrays import I64
from stream_dedup.errors import CorruptError
from stream_dedup.index.layout import ENTRY_BYTES, HEADER_ENTRIES, Packed
from stream_dedup.index.settings import PAGE_BLOCKS

_WIDTH = ENTRY_BYTES // 2


@dataclass(frozen=True, slots=True, eq=False)
class Pages:
    """Pages one after the other: of each list how many entries it has and where they start in ``packed``."""

    counts: I64
    """Shape (pages, PAGE_BLOCKS)."""
    starts: I64
    packed: Packed

    @classmethod
    def decode(cls, raws: list[bytes]) -> Pages:
        """Read stored pages; a missing one (no bytes) has empty lists.

        Raises:
            CorruptError: a page's length does not fit its counts.
        """
        sizes = np.fromiter(map(len, raws), np.int64, len(raws))
        whole = b"".join(raws)
        if len(whole) % ENTRY_BYTES:
            msg = f"pages of {len(whole)} bytes: not a whole number of entries"
            raise CorruptError(msg)
        packed = np.frombuffer(whole, "<u2").reshape(-1, _WIDTH)
        firsts = (np.cumsum(sizes) - sizes) // ENTRY_BYTES
        there = np.flatnonzero(sizes >= ENTRY_BYTES * HEADER_ENTRIES)
        headers = packed.take(firsts[there, np.newaxis] + np.arange(HEADER_ENTRIES), axis=0)
        counts = np.zeros((len(raws), PAGE_BLOCKS), np.int64)
        counts[there] = headers.reshape(len(there), HEADER_ENTRIES * _WIDTH)[:, :PAGE_BLOCKS]
        fits = counts.sum(axis=1) + HEADER_ENTRIES == sizes // ENTRY_BYTES
        if not (fits | (sizes == 0)).all():
            at = int(np.flatnonzero(~fits & (sizes > 0))[0])
            msg = f"page of {sizes[at]} bytes does not fit its counts of {counts[at].sum()} entries"
            raise CorruptError(msg)
        starts = firsts[:, np.newaxis] + HEADER_ENTRIES + np.cumsum(counts, axis=1) - counts
        return cls(counts, starts, packed)

    def take(self, pages: I64, blocks: I64) -> Packed:
        """Entries of these lists, named by page and block in it, one list after the other."""
        return self.packed.take(spans(self.starts[pages, blocks], self.counts[pages, blocks]), axis=0)

    def all(self) -> Packed:
        """Every entry, one list after the other."""
        return self.packed.take(spans(self.starts.ravel(), self.counts.ravel()), axis=0)


def encode(counts: I64, packed: Packed) -> list[bytes]:
    """Return the stored pages, ``b""`` for one without entries; ``counts`` of shape (pages, PAGE_BLOCKS)."""
    headers = np.zeros((len(counts), HEADER_ENTRIES * _WIDTH), "<u2")
    headers[:, :PAGE_BLOCKS] = counts
    ends = np.cumsum(counts.sum(axis=1)).tolist()
    return [
        header.tobytes() + packed[start:end].tobytes() if end > start else b""
        for header, start, end in zip(headers, [0, *ends], ends, strict=False)
    ]


def spans(starts: I64, counts: I64) -> I64:
    """``starts[0]`` and the next ``counts[0]`` numbers, and so on."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - counts), counts) + np.arange(total)


def merged(old_counts: I64, old: Packed, new_counts: I64, new: Packed) -> Packed:
    """Return posting lists with their new entries behind their old ones."""
    place_old, place_new = merge_places(old_counts, new_counts)
    # Taking whole entries in their new order is ten times as fast as putting them to their places.
    order = np.empty(len(old) + len(new), np.int64)
    order[place_old] = np.arange(len(old))
    order[place_new] = np.arange(len(old), len(order))
    return np.concatenate((old, new)).take(order, axis=0)


def merge_places(old_counts: I64, new_counts: I64) -> tuple[I64, I64]:
    """Where each old and each new entry goes when lists get their new entries behind their old ones."""
    before_new = np.cumsum(new_counts) - new_counts
    upto_old = np.cumsum(old_counts)
    place_old = np.repeat(before_new, old_counts) + np.arange(int(upto_old[-1]))
    place_new = np.repeat(upto_old, new_counts) + np.arange(int(new_counts.sum()))
    return place_old, place_new
