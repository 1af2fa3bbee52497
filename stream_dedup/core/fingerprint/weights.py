"""Weights of features, as whole numbers.

A word that occurs tf times in a text has one of three kinds of weight:

* ``tf``: tf.
* ``tfidf``: IDF times 1 + ln tf (damped; 1 + 2 ln tf in some profiles), or IDF times tf, in units of 1/64.
* ``level``: 1 to 5 by IDF alone, whatever tf is: below 4, 6, 8, 10, and above.

IDF is jieba's own table, in units of 1/1024. A word that is not in the table has the table's median, as in jieba.
Noise words (jieba's English stop words, and single characters that are not in the table) have the
table's minimum, that of 的: they matter only if there is nothing else, and a text of nothing but noise still has a
signature. Chinese function words need no list, because the table gives them a small IDF.

The table has only Chinese. If ``Features.idf`` is ``languages``, the IDF of other words depends on their length:
frequent words are short in every language (Zipf's law of abbreviation): 2, and 1 more for each character, at most 12.
jieba's English stop words have 0.1, other function words of eight languages 2. Numbers have 32, those of one digit 12,
because texts from one template may differ in numbers only. Words of ideographs that are not in the table, most of them
names and wrong cuts, have 5 instead of the median, which is 12.

``root`` takes the square root of the IDF: a rare word that an edit adds or removes then changes the sums less, and the
common words that an edited text keeps weigh more.

Characters and pairs of short text have weights of their own instead of an IDF.

``top_k`` keeps the K heaviest words; of equal weight, those with the smaller hash.

The weights are the same on every machine: IDF and 1 + ln tf are rounded to fixed point once, and the rest is
whole-number arithmetic. A logarithm may differ in its last digit between machines; a test shows that no value of the
table is close enough to a rounding edge for that to matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import I64, U8, Bools
from stream_dedup.core.fingerprint import simhash
from stream_dedup.core.fingerprint.features import read_lines
from stream_dedup.core.fingerprint.word_numbers import WordNumbers, packed_words
from stream_dedup.core.kept_tables import TableArrays, kept_arrays, kept_table, only
from stream_dedup.core.scheme import Features, common_words_path, content_hash, idf_path
from stream_dedup.core.text.normalise import HAN_FIRST, HAN_LAST

WordArrays = tuple[NDArray[Any], ...]
NO_WORDS: WordArrays = WordNumbers(packed_words({})).arrays
"""The arrays of a table without words."""

MAX_COUNT = 65_535
"""Counts above this are taken as this: they are spam of one word, and squares of weights stay within 63 bits."""
IDF_UNIT = 1024
DAMP_UNIT = 1024
TFIDF_SHIFT = 14
"""Turns units of 1/1024 times 1/1024 into 1/64: sums of 14,000 different words stay below 2**24, the float32 limit."""
LEVEL_EDGES = (4, 6, 8, 10)
"""IDF at which the next level begins."""
_LEVEL_EDGES = np.array(LEVEL_EDGES, np.int64) * IDF_UNIT

HAN_UNKNOWN = 5 * IDF_UNIT
DIGIT, NUMBER = 12 * IDF_UNIT, 32 * IDF_UNIT
NOISE, COMMON = IDF_UNIT // 10, 2 * IDF_UNIT
LENGTH_FLOOR, LENGTH_CEILING = 2, 12

# A copy of jieba.analyse's STOP_WORDS, which a test compares with the original: an import would load jieba.
_STOP_WORDS = """
    the of is and to in that we for an are by be as on with can if from which you it this then at have all
    not one has or
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())


class IdfTable(NamedTuple):
    """IDF of words in units of 1/1024."""

    values: Mapping[str, int]
    median: int
    minimum: int

    def of(self, word: str) -> int:
        """Return the IDF of a word."""
        value = self.values.get(word)
        if value is not None:
            return value
        return self.minimum if len(word) == 1 or word in STOP_WORDS else self.median


@cache
def _idf_arrays() -> TableArrays:
    """Return the arrays of jieba's table, read at the first call: 270,000 words, their median and minimum."""

    def make() -> TableArrays:
        read = parse_idf(idf_path().read_bytes().decode())
        return packed_words(read.values) | {"others": np.array((read.median, read.minimum), np.int64)}

    return kept_arrays("idf", (content_hash(idf_path()),), make)


@cache
def idf_table() -> IdfTable:
    """Return the table of jieba's package."""
    arrays = _idf_arrays()
    return IdfTable(WordNumbers(arrays), *arrays["others"].tolist())


def parse_idf(text: str) -> IdfTable:
    """Make a table from lines of a word and its IDF."""
    parts = text.split()
    # There are few distinct numbers (3,300 in jieba's table): each is parsed once.
    fixed = {number: math.floor(float(number) * IDF_UNIT + 0.5) for number in set(parts[1::2])}
    values = dict(zip(parts[::2], map(fixed.__getitem__, parts[1::2]), strict=True))
    ordered = np.sort(np.fromiter(values.values(), np.int64, len(values)))
    return IdfTable(values, int(ordered[len(ordered) // 2]), int(ordered[0]))


@cache
def common_words() -> frozenset[str]:
    """Return function words of languages other than Chinese."""
    return frozenset(word for line in read_lines(common_words_path()).values() for word in line.split())


def idf_of(features: Features) -> Callable[[str], int]:
    """Return the function from a feature to its IDF, or to the weight that replaces it."""
    if features.kind == "chars":
        idf = gram_idf(features)
        return lambda gram: _gram_weight(gram, idf)
    plain = _idf_of_languages if features.idf == "languages" else _idf_by_jieba
    # The root of 1024 times 1024 is 1024: the unit stays.
    return (lambda word: math.isqrt(plain(word) * IDF_UNIT)) if features.root else plain


class WordIdf(NamedTuple):
    """The IDF of words of ideographs and of ASCII, as ``idf_of`` has it, for many words at once."""

    table: WordArrays
    """The arrays of ``WordNumbers``."""
    alone: int
    """That of an ideograph that is not in the table."""
    unknown: int
    """That of a word that begins with an ideograph and is not in the table."""
    root: bool
    listed: WordArrays = NO_WORDS
    """The arrays of the words of ASCII with an IDF of their own. Words of digits are not looked up here."""
    others: I64 = np.empty((2, 0), np.int64)
    """Of the other words of ASCII that of each size, the last one of all longer ones too: of words, and of digits.
    Empty where nothing is known of such words."""
    in_table: bool = False
    """Whether words of ASCII are looked up in the table first."""

    def of(self, plain: I64) -> I64:
        """Return the IDF of words of which the tables, or what takes their place, say these numbers."""
        # Exact: the root of a number below 2**50 is rounded to a whole number only where it is one.
        return np.sqrt(plain * float(IDF_UNIT)).astype(np.int64) if self.root else plain


def word_idf(features: Features) -> WordIdf:
    """Return the IDF of words under these settings; loads the tables."""
    table, arrays = idf_table(), WordNumbers(_idf_arrays()).arrays
    if features.idf == "languages":
        return WordIdf(arrays, table.minimum, HAN_UNKNOWN, features.root, _listed_words(), _by_size())
    listed = WordNumbers(packed_words(dict.fromkeys(sorted(STOP_WORDS), table.minimum))).arrays
    others = np.array([[table.minimum, table.minimum, table.median]] * 2, np.int64)
    return WordIdf(arrays, table.minimum, table.median, features.root, listed, others, in_table=True)


@cache
def _listed_words() -> WordArrays:
    """Return the arrays of the words whose IDF is not that of their length."""
    given = dict.fromkeys(filter(str.isascii, common_words()), COMMON) | dict.fromkeys(STOP_WORDS, NOISE)
    return WordNumbers(packed_words(dict(sorted(given.items())))).arrays


def _by_size() -> I64:
    """Return the IDF of words of each size, and of digits."""
    sizes = np.arange(LENGTH_CEILING + 1)
    words = np.minimum(LENGTH_FLOOR + sizes, LENGTH_CEILING) * IDF_UNIT
    return np.stack((words, np.where(sizes <= 1, DIGIT, NUMBER))).astype(np.int64)


def gram_idf(features: Features) -> tuple[int, ...]:
    """Return the weights that replace the IDF, in the order of ``Features.gram_weights``."""
    return tuple(weight * IDF_UNIT // 100 for weight in features.gram_weights)


def _gram_weight(gram: str, idf: tuple[int, ...]) -> int:
    if len(gram) == 1:
        return idf[0 if is_ideograph(gram) else 2]
    if gram[1] == " ":
        return idf[1 if is_ideograph(gram[0]) and is_ideograph(gram[2]) else 3]
    return idf[4]


def is_ideograph(character: str) -> bool:
    """Whether a character is one of the ideographs of Chinese text."""
    return HAN_FIRST <= character <= HAN_LAST


def _idf_by_jieba(word: str) -> int:
    return idf_table().of(word)


def _idf_of_languages(word: str) -> int:
    if is_ideograph(word[:1]):
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
@kept_table(only)
def damping() -> I64:
    """Return 1 + ln tf for each tf up to ``MAX_COUNT``, in units of 1/1024; 0 for tf 0."""
    table = [0] + [math.floor(DAMP_UNIT * (1 + math.log(tf)) + 0.5) for tf in range(1, MAX_COUNT + 1)]
    return np.array(table, np.int64)


def weigh(counts: I64, idf: I64, settings: Features) -> I64:
    """Return the weights of words that occur ``counts`` times in a text; each is at least 1."""
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
    """Return 1 + ``much`` ln tf, in units of 1/1024."""
    logs: I64 = damping()[counts] - DAMP_UNIT
    return DAMP_UNIT + much * logs


def heaviest(weights: I64, hashes: U8, top_k: int) -> NDArray[np.intp]:
    """Return the indices of the K heaviest words of one text; ``hashes`` has a row for each word."""
    smaller = np.ascontiguousarray(hashes[:, :8]).view(">u8").reshape(-1)
    return np.lexsort((smaller, -weights))[:top_k]


class Sums(NamedTuple):
    """Sums of n texts."""

    sums: NDArray[np.float64]
    """Shape (n, 256)."""
    squares: I64
    """Sum of the squares of each text's weights."""

    @classmethod
    def joined(cls, parts: Iterable[Sums]) -> Sums:
        """Return the sums of all texts."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

    def where(self, keep: Bools) -> Sums:
        """Return the sums of some of the texts."""
        return self if keep.all() else Sums(self.sums[keep], self.squares[keep])


def sums_of(
    counts: I64,
    idf: I64,
    hashes: U8,
    ends: NDArray[np.intp],
    settings: Features,
) -> Sums:
    """Return the sums of texts; their features are joined, ``ends`` has the end of each text."""
    weights, hashes, ends = that_count(weigh(counts, idf, settings), hashes, ends, settings)
    return Sums(simhash.add_each(weights, hashes, ends), simhash.per_text(weights * weights, ends))


def that_count(
    weights: I64, hashes: U8, ends: NDArray[np.intp], settings: Features
) -> tuple[I64, U8, NDArray[np.intp]]:
    """Return weights and hashes of the features that count, of each text the heaviest, and the end of each text."""
    if settings.top_k is None or not len(ends):
        return weights, hashes, ends
    kept = _heaviest_of_each(weights, hashes, ends, settings.top_k)
    sizes = np.minimum(np.diff(ends, prepend=0), settings.top_k)
    return weights[kept], hashes.take(kept, axis=0), np.cumsum(sizes)


def _heaviest_of_each(weights: I64, hashes: U8, ends: NDArray[np.intp], top_k: int) -> NDArray[np.intp]:
    starts = [0, *ends[:-1].tolist()]
    kept = [
        start + heaviest(weights[start:end], hashes[start:end], top_k)
        for start, end in zip(starts, ends.tolist(), strict=True)
    ]
    return np.concatenate(kept)
