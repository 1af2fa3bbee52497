"""Counts the features of a text: words, or n-grams of characters.

This file loads the two segmenters, ``compiled`` (``dictionary``, the default) and ``jieba`` (the reference). Both have
the same dictionary and model and get Han runs only (``text.normalise``), so they give the same words. A user's words
are added to a separate segmenter, never to a shared one.

Runs of characters that are neither letters nor digits are no features; they do not reach this file.

Japanese, Thai, Lao, Khmer and Burmese are written without spaces, and there is no dictionary for them here. A run of
such letters would make one word of a whole sentence; among ``marked`` words it counts as its overlapping runs of
``UNSPACED_SIZE`` characters instead. The same holds for ideographs that jieba does not know.

A segmenter is loaded at the first call, in part of a second (jieba: about two seconds). jieba would cache its
dictionary in the folder for temporary files and trust any file of that name there, also an older dictionary or a file
of another user. So the dictionary is read without the cache, which also keeps jieba from logging.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stream_dedup.core.text.clean import simplify
from stream_dedup.core.text.normalise import Runs, marks, split
from stream_dedup.errors import UserError

if TYPE_CHECKING:
    from stream_dedup.core.fingerprint.dictionary import Dictionary

Segmenter = Callable[[str], list[str]]
"""Cuts Han runs, separated by spaces, into words; may return the spaces too."""

WITNESS = "南京市长江大桥 他来到了网易杭研大厦 买水果然后来世博园"
WITNESS_WORDS = "南京市 长江大桥 他 来到 了 网易 杭研 大厦 买 水果 然后 来 世博园"
"""The words of the witness by both segmenters, with the dictionary and model of jieba 0.42.1."""

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
MAX_FREQUENCY = 10**15
"""Of a user's word: 16 million times the sum of jieba's frequencies. Sums of them stay finite as floats."""
_SHOWN = 60
"""Characters of a wrong line that its error repeats."""


def words_of(text: str, segmenter: Segmenter) -> Counter[str]:
    """Count the ``plain`` words of the normalised text."""
    return count_words(split(text), segmenter)


def count_words(runs: Runs, segmenter: Segmenter) -> Counter[str]:
    """Count the words."""
    counts = Counter(segmenter(runs.han)) if runs.han else Counter()
    counts.pop(" ", None)
    if runs.words:
        counts.update(runs.words)
    return counts


def cut_unspaced(words: list[str]) -> list[str]:
    """Replace runs that are written without spaces by their overlapping runs of ``UNSPACED_SIZE`` characters."""
    if "".join(words).isascii():
        return words
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
def segmenter(name: str, user_dictionary: Path | None = None, *, simplified: bool = False) -> Segmenter:
    """Load the segmenter of this name, test it, and add the words of the user dictionary.

    ``simplified``: convert the user's words to simplified characters, as the texts are.

    Raises:
        UserError: the segmenter is not installed or cuts the witness differently, or the dictionary cannot be read.
    """
    if name != "jieba":
        return loaded_dictionary(user_dictionary, simplified=simplified).cut
    try:
        loaded = _load_jieba()
    except ImportError as error:
        msg = f"segmenter jieba cannot be loaded ({error}): install the package jieba"
        raise UserError(msg) from error
    _check_witness(name, loaded.lcut)
    for word, frequency in _simplified_words(user_dictionary, simplified=simplified):
        loaded.add_word(word, frequency)
    cut: Segmenter = loaded.lcut
    return cut


@cache
def loaded_dictionary(user_dictionary: Path | None = None, *, simplified: bool = False) -> Dictionary:
    """Load the dictionary of the compiled segmenter, test it, and add the words of the user dictionary.

    Raises:
        UserError: jieba's data are missing or cut the witness differently, or the user's dictionary cannot be read.
    """
    from stream_dedup.core.fingerprint.dictionary import jieba_dictionary  # noqa: PLC0415 - loads the compiler

    loaded = jieba_dictionary()
    _check_witness("compiled", loaded.cut)
    words = _simplified_words(user_dictionary, simplified=simplified)
    return loaded.with_words(words) if words else loaded


def _check_witness(name: str, cut: Segmenter) -> None:
    words = " ".join(word for word in cut(WITNESS) if word != " ")
    if words != WITNESS_WORDS:
        msg = f"segmenter {name} cuts {words!r} where {WITNESS_WORDS!r} is expected: install jieba 0.42.1 again"
        raise UserError(msg)


def _simplified_words(path: Path | None, *, simplified: bool) -> list[tuple[str, int | None]]:
    """Return the user's words as they stand in texts; some simplified characters are no ideographs that are cut."""
    words = {} if path is None else user_words(path)
    made = ((simplify(word) if simplified else word, frequency) for word, frequency in words.items())
    return [(word, frequency) for word, frequency in made if _IDEOGRAPHS.fullmatch(word)]


def user_words(path: Path) -> dict[str, int | None]:
    """Read words and frequencies of a dictionary in jieba's format, with lines ``word [frequency] [tag]``.

    Only words of ideographs are returned: other words are never cut, so a dictionary cannot change them.

    Raises:
        UserError: the file cannot be read, or a line has another form.
    """
    words: dict[str, int | None] = {}
    for number, line in read_lines(path).items():
        word, *rest = line.split()
        frequency = _frequency(rest[0]) if rest else None
        # In jieba, a frequency of 0 forbids the word in every tokenizer of the process.
        if len(rest) > 2 or (len(rest) == 2 and frequency is None) or frequency == 0:  # noqa: PLR2004 - and a tag
            shown = line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
            msg = f"{path}, line {number}: {shown!r} is no entry of a dictionary; write: word [frequency above 0] [tag]"
            raise UserError(msg)
        if frequency is not None and frequency > MAX_FREQUENCY:
            msg = f"{path}, line {number}: the frequency has {len(rest[0])} digits; write at most {MAX_FREQUENCY}"
            raise UserError(msg)
        if _IDEOGRAPHS.fullmatch(word):
            words[word] = frequency
    return words


def _frequency(digits: str) -> int | None:
    """Return the number, one above the maximum for a larger one, or None for a tag.

    Python itself reads 4,300 digits at most.
    """
    if not (digits.isascii() and digits.isdecimal()):
        return None
    significant = digits.lstrip("0")
    return int(significant or "0") if len(significant) <= len(str(MAX_FREQUENCY)) else MAX_FREQUENCY + 1


def read_lines(path: Path) -> dict[int, str]:
    """Return the lines of a file of words by their numbers, from 1, without empty lines and comments (#).

    Raises:
        UserError: the file cannot be read as UTF-8.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        msg = f"{path} cannot be read ({error.strerror}): name a text file"
        raise UserError(msg) from error
    except UnicodeDecodeError as error:
        msg = f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8"
        raise UserError(msg) from error
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    return {number: line for number, line in lines if line and not line.startswith("#")}


def _load_jieba() -> Any:  # noqa: ANN401 - a package without types
    with warnings.catch_warnings():
        # 0.42.1 has invalid escapes in its regular expressions and asks for pkg_resources.
        warnings.simplefilter("ignore")
        import jieba  # noqa: PLC0415 - slow to import; only where it is used
    # A separate tokenizer: words that other code adds to jieba's global one must not count here.
    tokenizer = jieba.Tokenizer()
    # As its initialize() does, without the cache.
    tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(tokenizer.get_dict_file())
    tokenizer.initialized = True
    return tokenizer
