"""A stream of made articles as log records: what the benchmarks of the index apply.

Signatures are random but for one article in five, which is an earlier one with up to twenty of its least sure bits
flipped; margins are those of normal sums.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.columns import Columns
from stream_dedup.core.entry import LogRecord, encode, make_batch
from stream_dedup.core.fingerprint import simhash
from stream_dedup.core.model import SIGNATURE_BITS
from stream_dedup.core.rules import Rules, Scheme

SEED = 20
FLIPS = 20
NEAR_SHARE = 0.2

Fingerprints = NDArray[np.uint64]
Search = dict[str, int | str | None]


class Stream:
    """Articles as log records."""

    def __init__(self, batch: int, tables: int) -> None:
        self.scheme = Scheme("benchmark", 1, f'{{"tables":{tables}}}')
        self._rng = np.random.default_rng(SEED)
        self._batch = batch
        self._tables = tables
        self._seen = np.empty((0, SIGNATURE_BITS), np.int8)
        self._offset = -1
        self._revision = 0

    def rules(self, search: Search) -> LogRecord:
        """A change of rules to this search as the next log record."""
        self._offset += 1
        self._revision += 1
        rules = Rules(self.scheme, revision=self._revision, **search)  # type: ignore[arg-type]
        return LogRecord(self._offset, self._offset, rules, encode(rules))

    def record(self) -> tuple[LogRecord, Fingerprints]:
        """The next log record, and the fingerprints of its articles."""
        self._offset += 1
        n = self._batch
        sums = self._sums()
        signatures = simhash.reduce(sums.astype(np.float64))
        margins = np.minimum(np.abs(sums[:, : 16 * self._tables]), simhash.MAX_MARGIN).astype(np.uint8)
        batch = make_batch(
            Columns.of(
                checksums=np.arange(n).astype(np.uint64),
                statuses=np.zeros(n, np.uint8),
                groups=np.zeros(n, np.uint64),
                signatures=signatures,
                margins=simhash.pack_margins(margins),
                ids=[f"https://example.org/{self._offset}/{row}" for row in range(n)],
                reasons=[""] * n,
            ),
            bytes(16),
            "articles",
            0,
            np.arange(self._offset * n, self._offset * n + n),
        )
        return LogRecord(self._offset, self._offset, batch, encode(batch)), batch.fingerprints

    def _sums(self) -> NDArray[np.int8]:
        """Sums in steps of a margin: four fifths of them random, one fifth those of earlier articles, edited."""
        sums = self._rng.normal(0, simhash.MARGIN_SCALE, (self._batch, SIGNATURE_BITS)).astype(np.int8)
        near = np.flatnonzero(self._rng.random(self._batch) < NEAR_SHARE)
        if len(self._seen):
            edited = self._rng.choice(self._seen, len(near))
            weak = np.argsort(np.abs(edited), axis=1)[:, : 2 * FLIPS]
            chosen = self._rng.random(weak.shape) < self._rng.random((len(near), 1)) / 2
            np.put_along_axis(edited, weak, np.where(chosen, -1, 1) * np.take_along_axis(edited, weak, 1), 1)
            sums[near] = edited
        self._seen = np.concatenate((self._seen, sums[:4]))[-20_000:]
        return sums
