"""What an article has in the block tables: the posting lists that hold it, and those that it looks up.

The core computes both (``core.probes``), in the Python processes of Spark; ``near`` joins them. A posting list is the
number ``table << block_bits | value of the block``, of which ``block_bits`` the scheme says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_dedup.core import probes
from stream_dedup.core.arrays import I64
from stream_dedup.core.columns import Columns
from stream_dedup.core.model import BLOCKS_PER_WORD, signed
from stream_dedup.core.near import dominated
from stream_dedup.core.rules import Rules
from stream_dedup.seed.entry_rows import columns_of

LISTS_SCHEMA = pa.schema(
    [
        pa.field("words", pa.list_(pa.int64())),
        pa.field("sketch", pa.list_(pa.int64())),
        pa.field("keys", pa.list_(pa.int64())),
        pa.field("dominated", pa.int32()),
        pa.field("sure", pa.list_(pa.int64())),
        pa.field("lists", pa.list_(pa.int32())),
        pa.field("lookups", pa.list_(pa.int32())),
    ]
)
"""Words of the signature and of the sketch, the keys of the tables, how far the article is dominated, the two masks of
each key for the sieve of directed search, the posting lists of the article, and its look-ups in the order of the plan.
An article without a signature has no list and looks none up."""
PART_ENTRIES = 2_000
"""Entries whose plans are made at once: 548 look-ups of each are 4 MB."""


class ListsOfBatches(NamedTuple):
    """Adds the columns of ``LISTS_SCHEMA`` to Arrow batches of entries; Spark calls it once for each partition."""

    rules: Rules
    keep: tuple[str, ...]

    def lists(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the columns ``keep`` and the lists of each batch, in parts of ``PART_ENTRIES``."""
        for batch in batches:
            for start in range(0, batch.num_rows, PART_ENTRIES):
                yield self._made(batch.slice(start, PART_ENTRIES))

    def _made(self, entries: pa.RecordBatch) -> pa.RecordBatch:
        made = lists_of(columns_of(entries, self.rules.scheme), self.rules)
        kept = [entries.column(name) for name in self.keep]
        return pa.record_batch([*kept, *made], names=[*self.keep, *LISTS_SCHEMA.names])


def lists_of(columns: Columns, rules: Rules) -> list[pa.Array]:
    """Return the columns of ``LISTS_SCHEMA`` for these entries."""
    words = probes.words(columns.signatures)
    keys = probes.keys(columns.signatures, columns.groups)[:, : columns.widths.tables // BLOCKS_PER_WORD]
    block_bits = rules.scheme.block_bits
    values = np.concatenate([probes.blocks(key, block_bits) for key in keys.T], axis=1).astype(np.int64)
    lists = np.arange(columns.widths.tables) << block_bits | values
    which = signed(columns.statuses)
    return [
        _arrays(words.view(np.int64)),
        _arrays(probes.sketch_words(columns.sketches).view(np.int64)),
        _arrays(np.ascontiguousarray(keys).view(np.int64)),
        pa.array(dominated(rules.dominated, columns.statuses, columns.margins).astype(np.int32)),
        _arrays(probes.sieve_masks(rules, columns.margins).reshape(len(columns), -1).view(np.int64)),
        _arrays(lists.astype(np.int32), which),
        _arrays(_lookups(columns, values, rules).astype(np.int32), which),
    ]


def _lookups(columns: Columns, values: I64, rules: Rules) -> I64:
    """Return the posting lists that each entry looks up, one row each."""
    plan = probes.plan_of(rules, columns.margins)
    plan = np.broadcast_to(plan, (len(columns), plan.shape[1])).astype(np.int64)
    # A look-up has its table above its mask, and the mask flips bits of the article's own block.
    return plan ^ np.take_along_axis(values, plan >> rules.scheme.block_bits, axis=1)


def _arrays(rows: NDArray[np.int64] | NDArray[np.int32], which: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return one list for each row; an empty one where the row is not chosen."""
    chosen = rows if which is None else rows[which]
    lengths = np.full(len(rows), rows.shape[1]) if which is None else which * rows.shape[1]
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(chosen.reshape(-1)))
