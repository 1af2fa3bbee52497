"""What a fingerprint is measured beside: MinHash by rensa and datasketch, SimHash by the simhash package, segmenting.

Contenders take turns on the same texts: a noisy minute of the machine meets all of them.

Each is called as its documentation shows. All take the text as it is: none normalises. rensa was also tried with
many texts in one call, which took no less: most of its time makes the shingles, a string for each character.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

import rensa
import rjieba
from datasketch import MinHash

from benchmarks.texts import SHINGLE, VALUES, shingles
from stream_dedup.core.fingerprinter import Fingerprinter
from stream_dedup.core.scheme import FingerprintSettings
from stream_dedup.threads import chunks

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import jieba
    from simhash import Simhash

Work = Callable[[Sequence[str]], None]
RENSA = f"rensa RMinHash, {VALUES} values"
"""The fastest peer, which ratios are taken to."""


def microseconds(contenders: dict[str, Work], texts: Sequence[str], turns: int) -> dict[str, list[float]]:
    """Return microseconds of processor time a text of each contender's turns.

    A turn before them loads dictionaries and meets the words.
    """
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(turns + 1):
        for name, work in contenders.items():
            start = time.process_time()
            work(texts)
            if turn:
                times[name].append((time.process_time() - start) * 1e6 / len(texts))
    return times


def minhash_peers() -> dict[str, Work]:
    """Return the ways to make a MinHash of a text, the fastest first; its shingles are made in Python."""
    return {
        RENSA: each(_rensa),
        f"rensa CMinHash, {VALUES} values": each(_rensa_circulant),
        f"its shingles alone, of {SHINGLE} characters": each(shingles),
        f"datasketch MinHash, {VALUES} values": each(_datasketch),
    }


def package_peers() -> dict[str, Work]:
    """Return SimHash by the simhash package, of the same shingles."""
    return {"simhash package": each(lambda text: Simhash(shingles(text)).value)}


def segmenting_peers() -> dict[str, Work]:
    """Return segmenting by jieba, alone and with the simhash package."""
    jieba.setLogLevel(logging.CRITICAL)
    return {"jieba.cut": each(jieba.lcut), "jieba + simhash package": each(_words_by_the_package)}


def segmenting_floor() -> dict[str, Work]:
    """Return the fastest segmenting."""
    return {"rjieba.cut": each(rjieba.cut)}


def is_slow(name: str) -> bool:
    """Whether a contender takes ten times as long as the fastest."""
    return any(slow in name for slow in (" jieba", "datasketch", "simhash package")) or name.startswith("jieba")


def each(work: Callable[[str], object]) -> Work:
    """Return the work on one text after the other."""

    def run(texts: Sequence[str]) -> None:
        for text in texts:
            work(text)

    return run


def warm(settings: FingerprintSettings) -> Work:
    """Return the fingerprints of texts, which are handed over in chunks as by a worker."""
    fingerprinter = Fingerprinter(settings)

    def run(texts: Sequence[str]) -> None:
        for part in chunks(list(map(_size, texts))):
            fingerprinter.fingerprint(texts[part])

    return run


@cache
def _size(text: str) -> int:
    """Return the bytes of a text, which a worker knows before it decodes the text: counted once, in the first turn."""
    return len(text.encode("utf-8", "surrogatepass"))


def _rensa(text: str) -> object:
    made = rensa.RMinHash(num_perm=VALUES, seed=1)
    made.update(shingles(text))
    return made.digest()


def _rensa_circulant(text: str) -> object:
    made = rensa.CMinHash(num_perm=VALUES, seed=1)
    made.update(shingles(text))
    return made.digest()


def _datasketch(text: str) -> object:
    made = MinHash(num_perm=VALUES, seed=1)
    made.update_batch([one.encode("utf-8", "surrogatepass") for one in set(shingles(text))])
    return made.digest()


def _words_by_the_package(text: str) -> int:
    # Weights as floats: version 2.1.2 raises with whole ones on long texts under NumPy 2.
    counts = Counter(word for word in jieba.cut(text) if not word.isspace())
    value: int = Simhash({word: float(count) for word, count in counts.items()}).value
    return value
