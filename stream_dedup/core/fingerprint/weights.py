"""How much a word counts: whole numbers from the start.

Three kinds of weight for a word that stands tf times in a text:

* ``tf``: tf.
* ``tfidf``: IDF times 1 + ln tf (damped; of some profiles 1 + 2 ln tf) or times tf, in units of 1/64.
* ``level``: importance 1 to 5 by IDF alone, however often it stands there: below 4, 6, 8, 10, and above.

IDF is jieba's own table, in units of 1/1024. A word that is not in it has the table's median,
as in jieba. Noise words (jieba's English stop words, and what has one character only and is
not in the table, a lone letter say) have the table's minimum, which is 的's: they
decide where nothing else does, and a text of nothing but noise still has a signature. Chinese function
words need no list: the table gives them their small IDF.

The table knows no other language. Where ``Features.idf`` says ``languages``, words that are not of ideographs have
an IDF by their length: the more often a word is used the shorter it is (Zipf's law of abbreviation), and so it is
in every language with words; 2 and 1 more a character, 12 at most. jieba's English
stop words weigh next to nothing, other function words of eight languages 2. Numbers have 32, of one digit 12: two
templates differ in little else. Words of ideographs that the table does not know, most of them names and accidents of
cutting, have 5 in place of the median, which is 12.

With ``root`` the square root of the IDF is taken: a rare word that an edit adds or takes away then moves the sums less,
and common words, which an edited text has kept, hold more.

Characters and pairs of short text have a weight of their own in place of an IDF.

``top_k`` keeps the K heaviest words; among equals those with the smaller hash.

The same weights on every machine: IDF and 1 + ln tf are rounded to fixed point once, and the
rest is whole-number arithmetic. A logarithm may differ in its last digit between
machines; a test shows that no value of the table stands so near to a rounding edge.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import I64, U8
from stream_dedup.core.fingerprint import simhash
from stream_dedup.core.fingerprint.features import read_lines
from stream_dedup.core.scheme import Features, common_words_path, idf_path
from stream_dedup.core.text.normalise import HAN_FIRST, HAN_LAST

MAX_COUNT = 65_535
"""Largest count of one word that is told apart: more is spam of one word, and squares of weights stay in 63 bits."""
IDF_UNIT = 1024
DAMP_UNIT = 1024
TFIDF_SHIFT = 14
"""1/1024 times 1/1024 leaves units of 1/64: 14,000 different words stay below 2**24, the limit of float32."""
LEVEL_EDGES = (4, 6, 8, 10)
"""IDF from which the next level begins."""
_LEVEL_EDGES = np.array(LEVEL_EDGES, np.int64) * IDF_UNIT

HAN_UNKNOWN = 5 * IDF_UNIT
DIGIT, NUMBER = 12 * IDF_UNIT, 32 * IDF_UNIT
NOISE, COMMON = IDF_UNIT // 10, 2 * IDF_UNIT
LENGTH_FLOOR, LENGTH_CEILING = 2, 12

# jieba.analyse's STOP_WORDS, which a test compares with these: importing them would load jieba.
_STOP_WORDS = """
    the of is and to in that we for an are by be as on with can if from which you it this then at have all
    not one has or
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())


class IdfTable(NamedTuple):
    """IDF of words in units of 1/1024."""

    values: dict[str, int]
    median: int
    minimum: int

    def of(self, word: str) -> int:
        """IDF of any word."""
        value = self.values.get(word)
        if value is not None:
            return value
        return self.minimum if len(word) == 1 or word in STOP_WORDS else self.median


@cache
def idf_table() -> IdfTable:
    """The table of jieba's package, read at the first call: 270,000 words."""
    return parse_idf(idf_path().read_text(encoding="utf-8"))


def parse_idf(text: str) -> IdfTable:
    """Table from lines of a word and its IDF."""
    parts = text.split()
    # The numbers are few (3,300 in jieba's table): each is read once.
    fixed = {number: math.floor(float(number) * IDF_UNIT + 0.5) for number in set(parts[1::2])}
    values = dict(zip(parts[::2], map(fixed.__getitem__, parts[1::2]), strict=True))
    ordered = sorted(values.values())
    return IdfTable(values, ordered[len(ordered) // 2], ordered[0])


@cache
def common_words() -> frozenset[str]:
    """Function words of languages other than Chinese."""
    return frozenset(word for line in read_lines(common_words_path()) for word in line.split())


def idf_of(features: Features) -> Callable[[str], int]:
    """What gives each feature its IDF, or what stands for it."""
    if features.kind == "chars":
        idf = gram_idf(features)
        return lambda gram: _gram_weight(gram, idf)
    plain = _idf_of_languages if features.idf == "languages" else _idf_by_jieba
    # Fixed point again: the root of 1024 times 1024 is 1024.
    return (lambda word: math.isqrt(plain(word) * IDF_UNIT)) if features.root else plain


def gram_idf(features: Features) -> tuple[int, int, int]:
    """What stands for the IDF of one character or word, of a pair, and of a pair of words."""
    single, pair, words = (weight * IDF_UNIT // 100 for weight in features.gram_weights)
    return single, pair, words


def _gram_weight(gram: str, idf: tuple[int, int, int]) -> int:
    first, pair, second = gram.partition(" ")
    if not pair:
        return idf[0]
    return idf[1 if len(first) == 1 or len(second) == 1 else 2]


def _idf_by_jieba(word: str) -> int:
    return idf_table().of(word)


def _idf_of_languages(word: str) -> int:
    if HAN_FIRST <= word[:1] <= HAN_LAST:
        table = idf_table()
        return table.values.get(word, table.minimum if len(word) == 1 else HAN_UNKNOWN)
    if word.isdecimal():
        return DIGIT if len(word) == 1 else NUMBER
    if word in STOP_WORDS:
        return NOISE
    if word in common_words():
        return COMMON
    return min(LENGTH_FLOOR + len(word), LENGTH_CEILING) * IDF_UNIT


@cache
def damping() -> I64:
    """1 + ln tf for each tf up to ``MAX_COUNT`` in units of 1/1024; 0 for none."""
    table = [0] + [math.floor(DAMP_UNIT * (1 + math.log(tf)) + 0.5) for tf in range(1, MAX_COUNT + 1)]
    return np.array(table, np.int64)


def weigh(counts: I64, idf: I64, settings: Features) -> I64:
    """Weights of words that stand ``counts`` times in a text, each at least 1."""
    counts = np.minimum(counts, MAX_COUNT)
    if settings.weights == "tf":
        return counts
    if settings.weights == "level":
        levels: I64 = 1 + np.searchsorted(_LEVEL_EDGES, idf, side="right")
        return levels
    times = _damped(counts, settings.damping) if settings.damped else counts * DAMP_UNIT
    weights: I64 = np.maximum(idf * times >> TFIDF_SHIFT, 1)
    return weights


def _damped(counts: I64, much: int) -> I64:
    """1 + much ln tf, in units of 1/1024."""
    logs: I64 = damping()[counts] - DAMP_UNIT
    return DAMP_UNIT + much * logs


def heaviest(weights: I64, hashes: U8, top_k: int) -> NDArray[np.intp]:
    """Indices of the K heaviest of one text's words; ``hashes`` has a row for each."""
    smaller = np.ascontiguousarray(hashes[:, :8]).view(">u8").reshape(-1)
    return np.lexsort((smaller, -weights))[:top_k]


class Sums(NamedTuple):
    """Of n texts."""

    sums: NDArray[np.float64]
    """Shape (n, 256)."""
    squares: I64
    """Sum of the squares of each text's weights."""


def sums_of(
    counts: I64,
    idf: I64,
    hashes: U8,
    ends: NDArray[np.intp],
    settings: Features,
) -> Sums:
    """What the features of texts add up to, which stand one text after the other up to ``ends``."""
    weights = weigh(counts, idf, settings)
    if settings.top_k is not None:
        kept = _heaviest_of_each(weights, hashes, ends, settings.top_k)
        weights, hashes = weights[kept], hashes.take(kept, axis=0)
        ends = np.cumsum(np.minimum(np.diff(ends, prepend=0), settings.top_k))
    return Sums(simhash.add_each(weights, hashes, ends), simhash.per_text(weights * weights, ends))


def _heaviest_of_each(weights: I64, hashes: U8, ends: NDArray[np.intp], top_k: int) -> NDArray[np.intp]:
    starts = [0, *ends[:-1].tolist()]
    kept = [
        start + heaviest(weights[start:end], hashes[start:end], top_k)
        for start, end in zip(starts, ends.tolist(), strict=True)
    ]
    return np.concatenate(kept)
