"""From a text to its features, each with its count: words, or n-grams of characters.

Owns the two segmenters. Only Han runs reach them (``text``), and both know the same
dictionary, so ``rjieba`` (the fast default) and ``jieba`` (the reference) give the same
words. Where they differ at all it is in the order of words in a run of one repeated character, where
two ways to cut are equally probable: order is no part of the counts. A user's words are added to a
segmenter of one's own, never to one that others use.

Words of one kind are no features: what is neither letter nor digit. It never reaches this
file.

Japanese, Thai, Lao, Khmer and Burmese are written without spaces, and no dictionary of them is here. A run
of kana or of such letters would be one word, that of a whole sentence; of ``marked`` words
it counts as its overlapping pairs of characters instead. So do ideographs that jieba does not know.

Loading a segmenter takes part of a second (jieba: some two) and is done at the first call. jieba would keep
a cache of its dictionary in the folder for temporary files, and believe whatever stands there
under that name: an older dictionary, or what another user put there. So its dictionary is read
without it, which also keeps it from logging.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from itertools import chain, pairwise
from operator import add
from pathlib import Path
from typing import Any

from stream_dedup.core.text.normalise import Runs, marks, split
from stream_dedup.core.text.simplify import simplify
from stream_dedup.errors import UserError

Segmenter = Callable[[str], list[str]]
"""Cuts Han runs that spaces separate; may return the spaces too."""

WITNESS = "南京市长江大桥 他来到了网易杭研大厦 买水果然后来世博园"
WITNESS_WORDS = "南京市 长江大桥 他 来到 了 网易 杭研 大厦 买 水果 然后 来 世博园"
"""What both segmenters make of the witness with the dictionary and model of jieba 0.42.1."""
DEFAULT_TAG = "x"
"""Part of speech of a user's word: no one asks for it, but rjieba wants one."""

# Kana, bopomofo, Thai, Lao, Burmese, Khmer, and the ideographs beyond jieba's.
_UNSPACED = (
    "\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31ff\u3400-\u4dbf\u9fd6-\u9fff\u0e00-\u0eff\u1000-\u109f\ua9e0-\ua9ff"
    "\uaa60-\uaa7f\u1780-\u17ff\u19e0-\u19ff\U00020000-\U0003ffff"
)
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]{{2}}")
_UNSPACED_RUNS = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_IDEOGRAPHS = re.compile("[\u4e00-\u9fd5]+")
SINGLES = f"\u4e00-\u9fd5{_UNSPACED}"
"""Characters of languages without spaces, as the inside of a character class."""


def words_of(text: str, segmenter: Segmenter) -> Counter[str]:
    """How often each word of the normalised text stands in it: ``plain`` words."""
    return count_words(split(text), segmenter)


def count_words(runs: Runs, segmenter: Segmenter) -> Counter[str]:
    """How often each word stands there."""
    counts = Counter(segmenter(runs.han)) if runs.han else Counter()
    counts.pop(" ", None)
    if runs.words:
        counts.update(runs.words)
    return counts


def pair_up(words: list[str]) -> list[str]:
    """Words, with pairs of characters in place of runs that are written without spaces."""
    if "".join(words).isascii():
        return words
    return list(chain.from_iterable([word] if word.isascii() else _parts(word) for word in words))


def units_of(text: str) -> list[str]:
    """What short text is made of: each character of Chinese and of other languages without spaces, each other word."""
    found: list[str] = _units().findall(text)
    return found


def grams_of(units: list[str]) -> Counter[str]:
    """How often each unit, and each pair of neighbours, stands there; a space joins a pair."""
    counts = Counter(units)
    counts.update([f"{first} {second}" for first, second in pairwise(units)])
    return counts


def _parts(word: str) -> Iterable[str]:
    for run in _UNSPACED_RUNS.findall(word):
        if _UNSPACED_RUN.match(run):
            yield from map(add, run, run[1:])
        else:
            yield run


@cache
def _units() -> re.Pattern[str]:
    letter = f"[^\\W_{SINGLES}]"
    return re.compile(f"[{SINGLES}]|{letter}(?:{letter}|[{marks()}])*")


@cache
def segmenter(name: str, user_dictionary: Path | None = None, *, simplified: bool = False) -> Segmenter:
    """The segmenter of this name, loaded and tried; with a user's words, if there are any.

    ``simplified``: the texts are, and so shall be the user's words.

    Raises:
        UserError: it is not installed, gives other words than the scheme says, or the words cannot be read.
    """
    try:
        loaded = _load_jieba() if name == "jieba" else _load_rjieba(own=user_dictionary is not None)
    except ImportError as error:
        msg = f"segmenter {name} cannot be loaded ({error}): install the package {name}"
        raise UserError(msg) from error
    cut: Segmenter = loaded.lcut if name == "jieba" else loaded.cut
    words = " ".join(word for word in cut(WITNESS) if word != " ")
    if words != WITNESS_WORDS:
        msg = f"segmenter {name} cuts {words!r} where {WITNESS_WORDS!r} is expected: install the version in the README"
        raise UserError(msg)
    if user_dictionary is not None:
        for word, frequency in user_words(user_dictionary).items():
            simple = simplify(word) if simplified else word
            loaded.add_word(simple, loaded.suggest_freq(simple) if frequency is None else frequency, DEFAULT_TAG)
    return cut


def user_words(path: Path) -> dict[str, int | None]:
    """Words and frequencies of a dictionary in jieba's format: a line ``word [frequency] [tag]`` each.

    Only words of ideographs: others are never cut, so a dictionary cannot change them.

    Raises:
        UserError: the file cannot be read, or a line is no such line.
    """
    words: dict[str, int | None] = {}
    for number, line in enumerate(read_lines(path), 1):
        word, *rest = line.split()
        frequency = int(rest[0]) if rest and rest[0].isascii() and rest[0].isdecimal() else None
        # jieba takes a frequency of 0 for an order never to join these characters, in every tokenizer of the process.
        if len(rest) > 2 or (len(rest) == 2 and frequency is None) or frequency == 0:  # noqa: PLR2004 - and a tag
            msg = f"{path}, entry {number}: {line!r} is no entry of a dictionary; write: word [frequency above 0] [tag]"
            raise UserError(msg)
        if _IDEOGRAPHS.fullmatch(word):
            words[word] = frequency
    return words


def read_lines(path: Path) -> list[str]:
    """The lines of a file of words that hold anything; what begins with # is a comment.

    Raises:
        UserError: it cannot be read as UTF-8.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        msg = f"{path} cannot be read ({error.strerror}): name a text file"
        raise UserError(msg) from error
    except UnicodeDecodeError as error:
        msg = f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8"
        raise UserError(msg) from error
    return [line for line in map(str.strip, text.splitlines()) if line and not line.startswith("#")]


def _load_rjieba(*, own: bool) -> Any:  # noqa: ANN401 - a package without types
    import rjieba  # noqa: PLC0415 - loads its dictionary; only where it is wanted

    # Words that are added to the package's own are everyone's.
    return rjieba.Jieba() if own else rjieba


def _load_jieba() -> Any:  # noqa: ANN401 - a package without types
    with warnings.catch_warnings():
        # 0.42.1 has invalid escapes in its regular expressions and asks for pkg_resources.
        warnings.simplefilter("ignore")
        import jieba  # noqa: PLC0415 - slow to import; only where it is wanted
    # A tokenizer of our own: words that someone else adds to jieba's global one are none of ours.
    tokenizer = jieba.Tokenizer()
    # What its initialize() does, but for the cache.
    tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(tokenizer.get_dict_file())
    tokenizer.initialized = True
    return tokenizer
