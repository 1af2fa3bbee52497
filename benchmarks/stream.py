"""A stream of made articles as log records: what the benchmarks of the index apply.

Signatures and sketches are random bits, and margins those of normal sums, but for one article in five: that one is an
earlier article with up to twenty of its least sure bits flipped and a quarter of the values of its sketch drawn anew.
Making an article takes less than a microsecond, so that a hundred million are made in less time than an index applies
them.
"""

from __future__ import annotations

import json
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import I64, U8
from stream_dedup.core.columns import Columns
from stream_dedup.core.entry import Batch, LogRecord, encode, make_batch
from stream_dedup.core.fingerprint import simhash
from stream_dedup.core.logged_scheme import Scheme
from stream_dedup.core.model import BLOCK_BITS, SIGNATURE_BITS, SIGNATURE_BYTES, TABLE_MARGIN_BYTES, Status
from stream_dedup.core.rules import Rules
from stream_dedup.core.text_column import Texts

SEED = 20
FLIPS = 20
NEAR_SHARE = 0.2
ANEW_SHARE = 0.25
KEPT_ARTICLES, KEPT_OF_BATCH = 20_000, 4
"""Articles of which later ones are made: the newest, a few of each batch."""
ID_START = b"https://example.org/"
ID_DIGITS = 9

Search = dict[str, int | str | None]


class Stream:
    """Articles as log records, under a scheme of this many tables and bits a block, with sketches of so many bytes."""

    def __init__(self, batch: int, tables: int, sketch_bytes: int = 0, block_bits: int = BLOCK_BITS) -> None:
        parameters: dict[str, object] = {"block_bits": block_bits}
        parameters |= {"sketch": ["random", sketch_bytes]} if sketch_bytes else {}
        self.scheme = Scheme("benchmark", 1, json.dumps(parameters | {"tables": tables}, separators=(",", ":")))
        self._rng = np.random.Generator(np.random.SFC64(SEED))
        self.articles = batch
        """Articles of the next batch."""
        self._made = 0
        self._margin_bytes = TABLE_MARGIN_BYTES * tables
        self._sketch_bytes = sketch_bytes
        self._kept = _Kept(self._margin_bytes, sketch_bytes)
        self._offset = -1
        self._revision = 0

    def rules(self, search: Search) -> LogRecord:
        """A change of rules to this search as the next log record."""
        self._offset += 1
        self._revision += 1
        rules = Rules(self.scheme, revision=self._revision, **search)  # type: ignore[arg-type]
        return LogRecord(self._offset, self._offset, rules, encode(rules))

    def record(self) -> LogRecord:
        """The next batch as a log record."""
        batch = self.batch()
        return LogRecord(self._offset, self._offset, batch, encode(batch))

    def batch(self) -> Batch:
        """The next batch."""
        self._offset += 1
        n = self.articles
        signatures, margins, sketches = self._articles()
        numbers = np.arange(self._made, self._made + n)
        self._made += n
        columns = Columns(
            checksums=np.arange(n, dtype=np.uint64),
            statuses=np.full(n, Status.LONG, np.uint8),
            scope_hashes=np.zeros(n, np.uint64),
            signatures=signatures,
            margins=margins,
            sketches=sketches,
            ids=_ids(numbers),
            reasons=Texts(np.zeros(n, np.uint32), b""),
        )
        return make_batch(columns, bytes(16), "articles", 0, numbers)

    def _articles(self) -> tuple[U8, U8, U8]:
        """Signatures, margins and sketches: four fifths random, one fifth of earlier articles."""
        n = self.articles
        signatures = self._bits(n, SIGNATURE_BYTES)
        margins = self._margins(n, self._margin_bytes)
        sketches = self._bits(n, self._sketch_bytes)
        kept = self._kept
        near = np.flatnonzero(self._rng.random(n) < NEAR_SHARE)
        if kept.count:
            chosen = self._rng.integers(0, kept.count, len(near))
            signatures[near] = kept.signatures[chosen] ^ self._flips(kept.weak[chosen])
            margins[near] = kept.margins[chosen]
            anew = self._values(len(near)) & (kept.sketches[chosen] ^ sketches[near])
            sketches[near] = kept.sketches[chosen] ^ anew
        self._keep(signatures[:KEPT_OF_BATCH], margins[:KEPT_OF_BATCH], sketches[:KEPT_OF_BATCH])
        return signatures, margins, sketches

    def _keep(self, signatures: U8, margins: U8, sketches: U8) -> None:
        others = self._margins(len(margins), SIGNATURE_BITS // 2 - self._margin_bytes)
        every = simhash.unpack_margins(np.concatenate((margins, others), axis=1))
        # Of equally sure bits any is as weak.
        weak = np.argsort(every + self._rng.random(every.shape), axis=1)[:, : 2 * FLIPS]
        self._kept.add(signatures, margins, sketches, weak)

    def _flips(self, weak: U8) -> U8:
        """Signatures in which the bits to be flipped are set: of each article a share of its weak ones, up to half."""
        bits = np.zeros((len(weak), SIGNATURE_BITS), np.uint8)
        flipped = self._rng.random(weak.shape, np.float32) < self._rng.random((len(weak), 1), np.float32) / 2
        np.put_along_axis(bits, weak.astype(np.int64), flipped.astype(np.uint8), 1)
        return np.packbits(bits, axis=1)

    def _values(self, n: int) -> U8:
        """Sketches in which the bits of the values to be drawn anew are set."""
        anew = self._bits(n, 2 * self._sketch_bytes) < round(ANEW_SHARE * 256)
        return anew[:, ::2] * np.uint8(0xF0) | anew[:, 1::2] * np.uint8(0x0F)

    def _margins(self, n: int, width: int) -> U8:
        return _MARGINS[self._bits(n, 2 * width).view(np.uint16)]

    def _bits(self, n: int, width: int) -> U8:
        """Random bytes, shape (n, width); the width is a multiple of 8."""
        return self._rng.integers(0, 1 << 64, (n, width // 8), np.uint64).view(np.uint8).reshape(n, width)


class _Kept:
    """The articles of which later ones are made. ``weak`` has the numbers of their least sure bits."""

    def __init__(self, margin_bytes: int, sketch_bytes: int) -> None:
        self.signatures = np.empty((KEPT_ARTICLES, SIGNATURE_BYTES), np.uint8)
        self.margins = np.empty((KEPT_ARTICLES, margin_bytes), np.uint8)
        self.sketches = np.empty((KEPT_ARTICLES, sketch_bytes), np.uint8)
        self.weak = np.empty((KEPT_ARTICLES, 2 * FLIPS), np.uint8)
        self.count = 0
        self._at = 0

    def add(self, signatures: U8, margins: U8, sketches: U8, weak: I64) -> None:
        """Keep articles, in place of the oldest ones where there are enough."""
        rows = (self._at + np.arange(len(signatures))) % KEPT_ARTICLES
        self.signatures[rows], self.margins[rows] = signatures, margins
        self.sketches[rows], self.weak[rows] = sketches, weak
        self._at += len(rows)
        self.count = min(self._at, KEPT_ARTICLES)


def _ids(numbers: I64) -> Texts:
    digits = numbers[:, np.newaxis] // 10 ** np.arange(ID_DIGITS - 1, -1, -1) % 10 + ord("0")
    ids = np.empty((len(numbers), len(ID_START) + ID_DIGITS), np.uint8)
    ids[:, : len(ID_START)] = np.frombuffer(ID_START, np.uint8)
    ids[:, len(ID_START) :] = digits
    return Texts(np.cumsum(np.full(len(ids), ids.shape[1]), dtype=np.uint32), ids.tobytes())


def _margins_of_normal_sums() -> U8:
    """Two margins in a byte, as in a log entry, for each pair of random bytes."""
    sizes = [NormalDist().inv_cdf((1 + (byte + 0.5) / 256) / 2) for byte in range(256)]
    margins = np.minimum(np.array(sizes) * simhash.MARGIN_SCALE, simhash.MAX_MARGIN).astype(np.uint8)
    return (margins[:, np.newaxis] << 4 | margins).reshape(-1)


_MARGINS: NDArray[np.uint8] = _margins_of_normal_sums()
