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
from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from stream_dedup.core.reader import read_lines
from stream_dedup.core.scheme import Features
from tests.reference.normalise import HAN_FIRST, HAN_LAST

MAX_COUNT = 65_535
"""Counts above this are taken as this: they are spam of one word, and squares of weights stay within 63 bits."""
IDF_UNIT = 1024
DAMP_UNIT = 1024
TFIDF_SHIFT = 14
"""Turns units of 1/1024 times 1/1024 into 1/64: sums of 14,000 different words stay below 2**24, the float32 limit."""
LEVEL_EDGES = (4, 6, 8, 10)
"""IDF at which the next level begins."""

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
COMMON_WORDS = Path(__file__).parents[2] / "native" / "src" / "features" / "common_words.txt"


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


def jieba_file(name: str) -> Path:
    """Return the path of a file of jieba's package, which is not imported: that takes long."""
    spec = find_spec("jieba")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / name


@cache
def idf_table() -> IdfTable:
    """Return the table of jieba's package."""
    parts = jieba_file("analyse/idf.txt").read_text("utf-8").split()
    values = {
        word: math.floor(float(number) * IDF_UNIT + 0.5) for word, number in zip(parts[::2], parts[1::2], strict=True)
    }
    ordered = sorted(values.values())
    return IdfTable(values, ordered[len(ordered) // 2], ordered[0])


@cache
def common_words() -> frozenset[str]:
    """Return function words of languages other than Chinese."""
    return frozenset(word for line in read_lines(COMMON_WORDS).values() for word in line.split())


def idf_of(features: Features) -> Callable[[str], int]:
    """Return the function from a feature to its IDF, or to the weight that replaces it."""
    if features.kind == "chars":
        idf = tuple(weight * IDF_UNIT // 100 for weight in features.gram_weights)
        return lambda gram: _gram_weight(gram, idf)
    plain = _idf_of_languages if features.idf == "languages" else idf_table().of
    # The root of 1024 times 1024 is 1024: the unit stays.
    return (lambda word: math.isqrt(plain(word) * IDF_UNIT)) if features.root else plain


def _gram_weight(gram: str, idf: tuple[int, ...]) -> int:
    if len(gram) == 1:
        return idf[0 if is_ideograph(gram) else 2]
    if gram[1] == " ":
        return idf[1 if is_ideograph(gram[0]) and is_ideograph(gram[2]) else 3]
    return idf[4]


def is_ideograph(character: str) -> bool:
    """Whether a character is one of the ideographs of Chinese text."""
    return HAN_FIRST <= character <= HAN_LAST


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


def one_and_log(count: int) -> int:
    """Return 1 + ln tf, in units of 1/1024."""
    return math.floor(DAMP_UNIT * (1 + math.log(count)) + 0.5)


def weigh(count: int, idf: int, settings: Features) -> int:
    """Return the weight of a word that occurs ``count`` times in a text; it is at least 1."""
    count = min(count, MAX_COUNT)
    if settings.weights == "tf":
        return count
    if settings.weights == "level":
        return 1 + sum(edge * IDF_UNIT <= idf for edge in LEVEL_EDGES)
    damped = DAMP_UNIT + settings.damping * (one_and_log(count) - DAMP_UNIT)
    return max(idf * (damped if settings.damped else count * DAMP_UNIT) >> TFIDF_SHIFT, 1)
