"""Undoes tricks that change a text for programs and keep it readable for people.

Three steps, each a pure function of normalised text (NFKC, lower case):

* ``unspace`` joins single characters that are kept apart (w.e.i.x.i.n, 微 信 号).
* ``undo_lookalikes`` replaces letters and digits by those that they look like.
* ``shorten_repeats`` keeps two of a repeated letter or sign.

The steps are made for comments. Each changes some honest text too: "x + y = z" is joined, "mp3player" becomes
"mpeplayer". The change is the same in every text, so an error costs little; a few rules are enough, without lists of
words.

The results may depend only on the text.
"""

from __future__ import annotations

import re

MIN_APART = 3
"""Least single characters in a row that are joined: honest text has two (e.g., "5 元 起")."""
MAX_SEPARATOR = 3
"""Most characters between two of them: with more, people do not read one word."""
KEPT_REPEATS = 2
"""How many of a repeated character stay: many Chinese and English words have two (看看, book)."""
MIN_BEFORE_1 = 3
"""Least letters before a 1 at the end of a word that make it an l (channe1); v1 and q1 stay."""
MIN_DIGITS, MIN_NUMBER = 3, 6
"""Least digits and least characters of a number in which o and l become 0 and 1: those of a short phone number."""

UNIT = "a-z0-9\u00df-\u024f\u0370-\u052f\u4e00-\u9fd5"
# White space, ASCII and general punctuation, arrows, symbols, pictures, CJK punctuation. No combining marks: between
# the letters of Thai or Hindi these are no separators.
SEPARATOR = (
    "\\s!-/:-@\\[-`{-~\u00a1-\u00a9\u00ab-\u00b1\u00b4-\u00b9\u00bb-\u00bf\u2010-\u2027\u2030-\u20cf\u2100-\u2bff\u3001-\u3004"
    "\u3008-\u3029\u3030\u30fb\U0001f000-\U0001faff"
)
_APART = re.compile(
    f"(?<![^\\W_])[{UNIT}](?:[{SEPARATOR}]{{1,{MAX_SEPARATOR}}}[{UNIT}](?![^\\W_])){{{MIN_APART - 1},}}"
)
_SEPARATORS = re.compile(f"[{SEPARATOR}]+")
# Neither digits nor white space nor _; written out, because a counted repeat takes longer to begin.
_REPEATS = re.compile(r"([^\d\s_])\1\1+")

_CYRILLIC = ("абвгеёкмнорстухѕіјһӏԁԛԝѵ", "abbreekmhopctyxsijhldqwv")
_GREEK = ("αβγεηικμνορτυχω", "abyenikuvoptuxw")
_LOOKALIKES = str.maketrans(dict(zip(_CYRILLIC[0] + _GREEK[0], _CYRILLIC[1] + _GREEK[1], strict=True)))
FOREIGN = re.compile("[\u0370-\u04ff\u0500-\u052f]")
_WESTERN_WORD = re.compile("[a-z0-9\u0370-\u052f]+")
_LATIN = re.compile("[a-z]")
# Only a word of both has such a place; a text of one script is not taken word by word.
_BOTH = re.compile("[a-z][0-9]*[\u0370-\u052f]|[\u0370-\u052f][0-9]*[a-z]")
_LEET = str.maketrans("0134578@$", "oleastbas")
# The rare part of the pattern comes first, here and in numbers, because it is searched for.
_LEET_INSIDE = re.compile(r"[0134578@$](?<=[a-z].)(?:[0134578@$](?=[a-z])|(?=[a-z]))")
_LEET_END = re.compile(rf"0(?<=[a-z]0)(?![^\W_\u4e00-\u9fd5])|1(?<=[a-z]{{{MIN_BEFORE_1}}}1)(?![^\W_\u4e00-\u9fd5])")
_CONSONANTS = frozenset("bcdfghjklmnpqrstvwxz")
_LETTER = r"[^\W_\u4e00-\u9fd5]"
_NUMBER = re.compile(rf"[\dol](?<!{_LETTER}.)[\dol]{{{MIN_NUMBER - 1},}}(?!{_LETTER})")
_DIGITS = str.maketrans("ol", "01")


def _enclosed() -> dict[int, str]:
    """Return letters and digits in circles and squares that NFKC does not change."""
    table = {0x24EB + n: str(n + 11) for n in range(10)} | {0x24FF: "0"}
    for first in (0x24F5, 0x2776, 0x2780, 0x278A):
        table |= {first + n: str(n + 1) for n in range(10)}
    for first in (0x1F150, 0x1F170):
        table |= {first + n: chr(ord("a") + n) for n in range(26)}
    return table | {0x1F1E6 + n: chr(ord("a") + n) for n in range(26)}


_ENCLOSED = _enclosed()
ENCLOSED = re.compile("[\u24eb-\u24ff\u2776-\u2793\U0001f150-\U0001f189\U0001f1e6-\U0001f1ff]")


def unspace(text: str) -> str:
    """Join ``MIN_APART`` or more single characters with at most ``MAX_SEPARATOR`` signs or spaces between them."""
    return _APART.sub(lambda run: _SEPARATORS.sub("", run.group()), text)


def shorten_repeats(text: str) -> str:
    """Keep letters and signs at most ``KEPT_REPEATS`` times in a row; digits are not shortened."""
    return _REPEATS.sub(lambda run: run.group(1) * KEPT_REPEATS, text)


def undo_lookalikes(text: str) -> str:
    """Replace letters and digits by those that they look like.

    1. Letters and digits in circles and squares become plain letters and digits.
    2. Cyrillic and Greek letters in a word with Latin letters become the Latin letters that they look like.
    3. o and l in a number become 0 and 1.
    4. One or two digits or signs between two Latin letters become the letters that they look like (fr3e, c@sh, l00k),
       and so do 0 (t0) and 1 (channe1) at the end of a word. 1 becomes i between two consonants, l elsewhere.
    """
    if ENCLOSED.search(text):
        text = text.translate(_ENCLOSED)
    if _BOTH.search(text):
        text = _WESTERN_WORD.sub(_as_latin, text)
    text = _NUMBER.sub(_as_number, text)
    text = _LEET_INSIDE.sub(_as_letters, text)
    return _LEET_END.sub(lambda sign: sign.group().translate(_LEET), text)


def _as_latin(word: re.Match[str]) -> str:
    return word.group().translate(_LOOKALIKES) if _LATIN.search(word.group()) else word.group()


def _as_letters(run: re.Match[str]) -> str:
    signs = run.group()
    if signs == "1" and run.string[run.start() - 1] in _CONSONANTS and run.string[run.end()] in _CONSONANTS:
        return "i"
    return signs.translate(_LEET)


def _as_number(run: re.Match[str]) -> str:
    digits = sum(map(str.isdecimal, run.group()))
    return run.group().translate(_DIGITS) if digits >= MIN_DIGITS else run.group()
