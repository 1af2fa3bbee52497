"""A stream of made articles as log records: what the benchmarks of the index apply.

Signatures and sketches are random but for one article in five, which is an earlier one with up to twenty of its least
sure bits flipped and a quarter of the values of its sketch drawn anew; margins are those of normal sums.
"""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.columns import Columns
from stream_dedup.core.entry import LogRecord, encode, make_batch
from stream_dedup.core.fingerprint import simhash
from stream_dedup.core.logged_scheme import Scheme
from stream_dedup.core.model import SIGNATURE_BITS
from stream_dedup.core.rules import Rules

SEED = 20
FLIPS = 20
NEAR_SHARE = 0.2
ANEW_SHARE = 0.25
KEPT_ARTICLES, KEPT_OF_BATCH = 20_000, 4
"""Articles of which later ones are made: the newest, a few of each batch."""

Fingerprints = NDArray[np.uint64]
Search = dict[str, int | str | None]


class Stream:
    """Articles as log records, under a scheme of this many tables, with sketches of so many bytes."""

    def __init__(self, batch: int, tables: int, sketch_bytes: int = 0) -> None:
        parameters = {"sketch": ["random", sketch_bytes], "tables": tables} if sketch_bytes else {"tables": tables}
        self.scheme = Scheme("benchmark", 1, json.dumps(parameters, separators=(",", ":")))
        self._rng = np.random.default_rng(SEED)
        self._batch = batch
        self._tables = tables
        self._sketch_values = self.scheme.sketch_values
        self._seen_sums = np.empty((0, SIGNATURE_BITS), np.int8)
        self._seen_sketches = np.empty((0, self._sketch_values), np.uint8)
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
        sums, sketches = self._articles()
        signatures = simhash.reduce(sums.astype(np.float64))
        margins = np.minimum(np.abs(sums[:, : 16 * self._tables]), simhash.MAX_MARGIN).astype(np.uint8)
        batch = make_batch(
            Columns.of(
                checksums=np.arange(n).astype(np.uint64),
                statuses=np.zeros(n, np.uint8),
                groups=np.zeros(n, np.uint64),
                signatures=signatures,
                margins=simhash.pack_margins(margins),
                sketches=sketches[:, ::2] << 4 | sketches[:, 1::2],
                ids=[f"https://example.org/{self._offset}/{row}" for row in range(n)],
                reasons=[""] * n,
            ),
            bytes(16),
            "articles",
            0,
            np.arange(self._offset * n, self._offset * n + n),
        )
        return LogRecord(self._offset, self._offset, batch, encode(batch)), batch.fingerprints

    def _articles(self) -> tuple[NDArray[np.int8], NDArray[np.uint8]]:
        """Sums in steps of a margin, and values of sketches: four fifths random, one fifth of earlier articles."""
        sums = self._rng.normal(0, simhash.MARGIN_SCALE, (self._batch, SIGNATURE_BITS)).astype(np.int8)
        sketches = self._rng.integers(0, 16, (self._batch, self._sketch_values), np.uint8)
        near = np.flatnonzero(self._rng.random(self._batch) < NEAR_SHARE)
        if len(self._seen_sums):
            chosen = self._rng.integers(0, len(self._seen_sums), len(near))
            sums[near] = self._edited(self._seen_sums[chosen])
            anew = self._rng.random((len(near), self._sketch_values)) < ANEW_SHARE
            sketches[near] = np.where(anew, sketches[near], self._seen_sketches[chosen])
        self._seen_sums = np.concatenate((self._seen_sums, sums[:KEPT_OF_BATCH]))[-KEPT_ARTICLES:]
        self._seen_sketches = np.concatenate((self._seen_sketches, sketches[:KEPT_OF_BATCH]))[-KEPT_ARTICLES:]
        return sums, sketches

    def _edited(self, sums: NDArray[np.int8]) -> NDArray[np.int8]:
        """The sums with some of the least sure bits flipped."""
        weak = np.argsort(np.abs(sums), axis=1)[:, : 2 * FLIPS]
        flipped = self._rng.random(weak.shape) < self._rng.random((len(sums), 1)) / 2
        np.put_along_axis(sums, weak, np.where(flipped, -1, 1) * np.take_along_axis(sums, weak, 1), 1)
        return sums
