"""Near pairs as the peers find them, every pair compared: what they miss is missed by the method, not by a look-up.

* **MinHash**: datasketch's, 128 values over the shingles of the normalised text; near from a threshold on of the
  estimated Jaccard similarity. Hashes of shingles are datasketch's own, taken once for all seeds of its permutations.
* **simhash package**: its own features (words run together, four characters at a time), k = 3.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections import Counter
from collections.abc import Sequence

import numpy as np
from datasketch import MinHash
from datasketch.hashfunc import sha1_hash32

from benchmarks.quality.data import shingles
from benchmarks.quality.ours import Pairs
from stream_dedup.core.arrays import U32, U64
from tests.reference.normalise import normalise

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from simhash import Simhash

VALUES = 128
"""Values of a sketch; datasketch's own default."""
THRESHOLDS = (0.8, 0.5, 0.3)
PACKAGE_K = 3
_WORDS, _WIDTH = re.compile(r"[\w\u4e00-\u9fcc]+"), 4
"""The package's own defaults."""
ROWS = 256
"""Texts compared with all others at once."""


logging.getLogger("simhash").setLevel(logging.ERROR)


def hashed(texts: Sequence[str], size: int) -> list[U32]:
    """Of each text the hashes of its different shingles."""
    every = ({one.encode("utf-8", "surrogatepass") for one in shingles(text, size)} for text in texts)
    return [np.array(list(map(sha1_hash32, own)), np.uint32) for own in every]


def minhashes(texts: Sequence[U32], seed: int) -> U32:
    """Values of each text, shape (n, 128); datasketch's own seed is our 0."""
    empty = MinHash(VALUES, seed=seed + 1, hashfunc=int)
    values = np.empty((len(texts), VALUES), np.uint32)
    for row, hashes in enumerate(texts):
        one = empty.copy()
        one.update_batch(hashes.tolist())
        values[row] = one.hashvalues
    return values


def sketches(texts: Sequence[str], size: int, seed: int) -> U32:
    """Values of each text without its white space: it is not to suffer from line breaks."""
    return minhashes(hashed(["".join(normalise(text).split()) for text in texts], size), seed)


def equal(left: U32, right: U32) -> np.ndarray:
    """Estimated Jaccard similarity of each row with the row beside it."""
    return (left == right).mean(axis=-1)


def minhash_pairs(asking: U32, held: U32) -> dict[str, Pairs]:
    """By threshold: pairs whose estimate reaches it."""
    names = {threshold: f"MinHash of {VALUES} values, J ≥ {threshold}" for threshold in THRESHOLDS}
    every: dict[str, list[Pairs]] = {name: [] for name in names.values()}
    columns = np.ascontiguousarray(held.T)
    for start in range(0, len(asking), ROWS):
        equal = np.zeros((len(asking[start : start + ROWS]), len(held)), np.uint8)
        for own, other in zip(asking[start : start + ROWS].T, columns, strict=True):
            equal += own[:, np.newaxis] == other
        for threshold, name in names.items():
            rows = np.argwhere(equal >= threshold * VALUES)
            rows[:, 0] += start
            every[name].append(rows)
    return {name: np.concatenate(parts) for name, parts in every.items()}


def package_values(texts: Sequence[str]) -> U64:
    return np.array([package_value(text) for text in texts], np.uint64)


def package_value(text: str) -> int:
    """As ``Simhash(text)``; that one raises where a feature stands in a text more than 255 times (NumPy 2)."""
    run = "".join(_WORDS.findall(text.lower()))
    counts = Counter(run[at : at + _WIDTH] for at in range(max(len(run) - _WIDTH + 1, 1)))
    # Above this count the package multiplies bits by the count, which has to be no small integer then.
    value: int = Simhash({one: n if n <= Simhash.large_weight_cutoff else float(n) for one, n in counts.items()}).value
    return value


def package_pairs(asking: U64, held: U64) -> dict[str, Pairs]:
    parts = []
    for start in range(0, len(asking), ROWS):
        distances = np.bitwise_count(asking[start : start + ROWS, np.newaxis] ^ held)
        rows = np.argwhere(distances <= PACKAGE_K)
        rows[:, 0] += start
        parts.append(rows)
    return {f"simhash package, k = {PACKAGE_K}": np.concatenate(parts)}
