"""Which pairs of joined articles pass the sieve, and which are near.

``near`` joins the pairs. The core decides (``core.near``), in the Python processes of Spark: the conditions are those
of the index.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from stream_dedup.core.arrays import I64, U8, U64
from stream_dedup.core.model import SIGNATURE_BYTES
from stream_dedup.core.near import PairCheck, PairTexts
from stream_dedup.core.rules import Rules

SIEVE_COLUMNS = ("status", "key", "once", "twice", "other_key")
"""What the sieve takes of a pair: of the article the status, the key word of the list, its two masks; the other key."""
CHECK_COLUMNS = ("status", "dominated", "words", "sketch", "other_words", "other_sketch")
"""What the check takes of a pair: of the article the status, how far it is dominated, words of signature and sketch;
the other's words."""
DISTANCE_FIELDS = (pa.field("distance", pa.int32()), pa.field("whole", pa.int32()))
"""What the check adds to a near pair: the distance that is limited, and that of the signatures."""


class PairsOfBatches(NamedTuple):
    """Takes the pairs that count from Arrow batches; Spark calls it once for each partition."""

    rules: Rules
    keep: tuple[str, ...]

    def sieved(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the columns ``keep`` of the pairs that pass the sieve; each batch has ``SIEVE_COLUMNS``, too."""
        check = PairCheck(self.rules)
        for batch in batches:
            statuses, *words = (_numbers(batch, name) for name in SIEVE_COLUMNS)
            key, once, twice, other = (_unsigned(word, (batch.num_rows, 1)) for word in words)
            met = check.meetings(_statuses(statuses), key, other, np.stack([once, twice], axis=2))
            yield batch.select(self.keep).filter(pa.array(met.passed[:, 0]))

    def near(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the columns ``keep`` of the near pairs, and their distances; each has ``CHECK_COLUMNS``, too."""
        check = PairCheck(self.rules)
        for batch in batches:
            statuses, dominated = (_numbers(batch, name).astype(np.uint8) for name in CHECK_COLUMNS[:2])
            article, entry = (self._texts(batch, *names) for names in (CHECK_COLUMNS[2:4], CHECK_COLUMNS[4:]))
            accounts = check.accounts(statuses, dominated, article, entry)
            found = batch.select(self.keep)
            for field, bits in zip(DISTANCE_FIELDS, (accounts.distances, accounts.signature_distances), strict=True):
                found = found.append_column(field, pa.array(bits.astype(np.int32)))
            yield found.filter(pa.array(accounts.near))

    def _texts(self, batch: pa.RecordBatch, words: str, sketch: str) -> PairTexts:
        sketch_words = self.rules.scheme.sketch_bytes // 8
        return PairTexts(_lists(batch, words, SIGNATURE_BYTES // 8), _lists(batch, sketch, sketch_words))


def _numbers(batch: pa.RecordBatch, name: str) -> I64:
    numbers: I64 = batch.column(name).to_numpy(zero_copy_only=False)
    return numbers


def _lists(batch: pa.RecordBatch, name: str, each: int) -> U64:
    """Return the words of lists that have so many each, a row for each list."""
    return _unsigned(batch.column(name).flatten().to_numpy(zero_copy_only=False), (batch.num_rows, each))


def _unsigned(numbers: I64, shape: tuple[int, int]) -> U64:
    return numbers.view(np.uint64).reshape(shape)


def _statuses(numbers: I64) -> U8:
    return numbers.astype(np.uint8)
