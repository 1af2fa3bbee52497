"""Counts the features of a text: words, or n-grams of characters.

Han runs are cut by rjieba, jieba's twin in Rust: log entries were made with it first. A user's words are added to a
segmenter of their own.

Japanese, Thai, Lao, Khmer and Burmese are written without spaces, and there is no dictionary for them here. A run of
such letters would make one word of a whole sentence; among ``marked`` words it counts as its overlapping runs of
``UNSPACED_SIZE`` characters instead. The same holds for ideographs that jieba does not know.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from itertools import chain
from pathlib import Path

import rjieba

from stream_dedup.core.reader import user_words
from tests.reference.normalise import Runs, marks, normalise, split_normalised
from tests.reference.simplify import simplify

Segmenter = Callable[[str], list[str]]
"""Cuts a Han run into words."""

# Kana, bopomofo, Thai, Lao, Burmese, Khmer, and the ideographs beyond jieba's.
UNSPACED = (
    "\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31ff\u3400-\u4dbf\u9fd6-\u9fff\u0e00-\u0eff\u1000-\u109f\ua9e0-\ua9ff"
    "\uaa60-\uaa7f\u1780-\u17ff\u19e0-\u19ff\U00020000-\U0003ffff"
)
_UNSPACED_RUN = re.compile(f"[{UNSPACED}]")
_UNSPACED_RUNS = re.compile(f"[{UNSPACED}]+|[^{UNSPACED}]+")
_IDEOGRAPHS = re.compile("[\u4e00-\u9fd5]+")
UNSPACED_SIZE = 4
"""Characters: about a word of these languages. Pairs are so few that all long texts of one language share most."""
SINGLES = f"\u4e00-\u9fd5{UNSPACED}"
"""Characters of languages without spaces, for use inside a character class."""


def words_of(text: str) -> Counter[str]:
    """Count the ``plain`` words of a text."""
    return count_words(split_normalised(normalise(text)), rjieba.cut)


def count_words(runs: Runs, segmenter: Segmenter) -> Counter[str]:
    """Count the words."""
    counts = Counter(word for run in runs.han for word in segmenter(run))
    counts.update(runs.words)
    return counts


def cut_unspaced(words: list[str]) -> list[str]:
    """Replace runs that are written without spaces by their overlapping runs of ``UNSPACED_SIZE`` characters."""
    return list(chain.from_iterable([word] if word.isascii() else _parts(word) for word in words))


def units_of(text: str) -> list[str]:
    """Return the units of short text: each character of languages without spaces, and each other word."""
    found: list[str] = _units().findall(text)
    return found


def is_word(unit: str) -> bool:
    """Whether a unit is a word of a language that is written with spaces, or a number."""
    return _letter().match(unit) is not None


def grams_of(units: list[str]) -> Counter[str]:
    """Count the grams: of words the trigrams of letters, of all other units these and their pairs.

    A space joins a pair; a word stands between the units before and after it.
    """
    counts: Counter[str] = Counter()
    before = ""
    for unit in units:
        if is_word(unit):
            counts.update(trigrams_of(unit))
            before = ""
            continue
        counts[unit] += 1
        if before:
            counts[f"{before} {unit}"] += 1
        before = unit
    return counts


def trigrams_of(word: str) -> list[str]:
    """Return every run of three characters of a word between two ``_``; a number is taken whole.

    A letter that is wrong leaves most of a word as it was, but another digit makes another number.
    """
    bounded = f"_{word}_"
    if word.isdecimal():
        return [bounded]
    return [bounded[at : at + 3] for at in range(len(bounded) - 2)]


def _parts(word: str) -> Iterable[str]:
    for run in _UNSPACED_RUNS.findall(word):
        if len(run) > UNSPACED_SIZE and _UNSPACED_RUN.match(run):
            yield from (run[at : at + UNSPACED_SIZE] for at in range(len(run) - UNSPACED_SIZE + 1))
        else:
            yield run


@cache
def _letter() -> re.Pattern[str]:
    return re.compile(f"[^\\W_{SINGLES}]")


@cache
def _units() -> re.Pattern[str]:
    letter = _letter().pattern
    return re.compile(f"[{SINGLES}]|{letter}(?:{letter}|[{marks()}])*")


@cache
def segmenter(user_dictionary: Path | None = None, *, simplified: bool = False) -> Segmenter:
    """Return the segmenter, with the words of the user dictionary.

    ``simplified``: convert the user's words to simplified characters, as the texts are.
    """
    if user_dictionary is None:
        cut: Segmenter = rjieba.cut
        return cut
    own = rjieba.Jieba()
    for word, frequency in user_words(user_dictionary).items():
        made = simplify(word) if simplified else word
        # Some simplified characters are no ideographs that are cut.
        if _IDEOGRAPHS.fullmatch(made):
            own.add_word(made, frequency, "x")
    own_cut: Segmenter = own.cut
    return own_cut
