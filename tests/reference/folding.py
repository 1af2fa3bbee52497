"""Folds what readers take for the same: optional marks, stretched words, radicals, letters written in two ways.

1. Marks that combine with letters of any script go from Latin, Greek and Cyrillic letters, digits, ideographs and
   signs, unless they compose with these, as NFKC has them: é, ế, й stay. In a word with ``MOST_LEFT`` marks that do not
   compose no mark means anything, and all go. Marks on letters of other scripts may say something, and stay; a solidus
   through them does not.
2. Characters become what the table says: nothing, or other characters.

Marks are known by their names in Unicode, which never change. The radicals are data (Equivalent_Unified_Ideograph of
Unicode 14), which Python does not have: those that the native core is built with.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable
from functools import cache
from itertools import groupby
from pathlib import Path

from tests.reference.normalise import MAX_MARKS
from tests.reference.unicode14 import unassigned

MOST_LEFT = 3
"""Different marks of a word that do not compose: no language needs as many."""
LETTERS = dict(
    spelling.split("=")
    for spelling in (
        # What stretches a word: tatweel, lajanyalan and nirugu.
        *("\u0640=", "\u07fa=", "\u180a="),
        # Arabic, then Persian and Urdu: alef wasla, teh marbuta, alef maksura; yeh, keheh, three heh.
        *("\u0671=\u0627", "\u0629=\u0647", "\u0649=\u064a"),
        *("\u06cc=\u064a", "\u06a9=\u0643", "\u06c1=\u0647", "\u06c3=\u0647", "\u06d5=\u0647"),
        # Yiddish: double vav, vav yod, double yod.
        *("\u05f0=\u05d5\u05d5", "\u05f1=\u05d5\u05d9", "\u05f2=\u05d9\u05d9"),
        # Romanian: a cedilla for the comma. Turkish: the case of İ folds to an i with a mark.
        *("\u015e=\u0218", "\u015f=\u0219", "\u0162=\u021a", "\u0163=\u021b", "\u0130=i"),
        # Apostrophes that are letters.
        *("\u02b9='", "\u02bb='", "\u02bc='", "\u02be='", "\u02bf='", "\ua78b='", "\ua78c='"),
        # Voiced sound marks beside their kana.
        *("\u309b=\uff9e", "\u309c=\uff9f"),
        # Forking, which decomposes into a sign and a stroke that do not compose.
        "\u2adc=\u2add",
        # Bengali and Malayalam: consonants without vowels.
        *("\u09ce=\u09a4\u09cd", "\u0d7a=\u0d23\u0d4d", "\u0d7b=\u0d28\u0d4d", "\u0d7c=\u0d30\u0d4d"),
        *("\u0d7d=\u0d32\u0d4d", "\u0d7e=\u0d33\u0d4d", "\u0d7f=\u0d15\u0d4d"),
    )
)
"""Letters that are written in two ways; ``native/build/folding.rs`` names the sources."""
_OPTIONAL = re.compile("(?:HEBREW|ARABIC|SYRIAC|SAMARITAN|MANDAIC) ")
_DECORATED = re.compile(r"(?:LATIN|GREEK|CYRILLIC|MODIFIER LETTER|CJK UNIFIED IDEOGRAPH|COMBINING)\b")
_TABLE = Path(__file__).parents[2] / "native" / "build" / "unicode14.txt"
_LINES = "\u0305\u0332\u0333\u033f"
_SOLIDUS = "\u0338"
"""The one stroke that composes, with mathematical signs."""


def fold(text: str) -> str:
    """Take both steps."""
    return _words().sub(_without_marks, text).translate(table())


def is_combining(one: str) -> bool:
    """Whether it is a mark that combines with letters of any script."""
    return unicodedata.category(one) in {"Mn", "Me"} and unicodedata.name(one).startswith("COMBINING ")


def is_apart(one: str) -> bool:
    """Whether marks on it stay: a letter of another script, or what Unicode 14 does not know."""
    if unassigned()[ord(one)] or not _belongs_to_words(one):
        return bool(unassigned()[ord(one)])
    parts = filter(_belongs_to_words, unicodedata.normalize("NFKC", one))
    return any(not (part.isdecimal() or _DECORATED.match(unicodedata.name(part, ""))) for part in parts)


@cache
def table() -> dict[int, str]:
    """Return what each character that is folded becomes."""
    folded = LETTERS | dict.fromkeys(_assigned(_is_dropped), "") | radicals()
    parts = {one: unicodedata.normalize("NFKD", one) for one in _assigned(lambda one: one not in folded)}
    made = {one: "".join(folded.get(part, part) for part in own) for one, own in parts.items()}
    return {ord(one): by for one, by in (folded | made).items() if by != parts.get(one)}


@cache
def radicals() -> dict[str, str]:
    """Return the ideograph that each radical and stroke stands for."""
    (line,) = (line for line in _TABLE.read_text("ascii").splitlines() if line.startswith("unified "))
    points = [chr(int(digits, 16)) for digits in line.split()[1:]]
    return dict(zip(points[::2], points[1::2], strict=True))


def _is_dropped(one: str) -> bool:
    """Whether it is an optional mark, or a stroke through a letter, a line over or under it, a ring around it."""
    category = unicodedata.category(one)
    if category == "Mn" and _OPTIONAL.match(unicodedata.name(one)):
        return True
    is_drawn = category == "Me" or one in _LINES or unicodedata.combining(one) == 1
    return is_combining(one) and one != _SOLIDUS and is_drawn


def _without_marks(word: re.Match[str]) -> str:
    """Return a word without its marks that do not compose, or without any."""
    if word[1] is not None:
        return word[1].replace(_SOLIDUS, "")
    if word[2] is not None:
        return ""
    marks = _marks()
    if not marks.search(word[0]):
        return word[0]
    few = marks.sub(lambda run: run[0][:MAX_MARKS], word[0])
    # Signs wait for NFKC: a comma between digits must stay the full-width one until numbers are joined.
    parts = (unicodedata.normalize("NFKD", one) if one.isalnum() else one for one in few)
    composed = unicodedata.normalize("NFC", "".join(parts))
    left = {mark for run in marks.findall(composed) for mark in run if ord(mark) not in table()}
    return marks.sub("", unicodedata.normalize("NFD", composed) if len(left) >= MOST_LEFT else composed)


def _assigned(has: Callable[[str], bool]) -> list[str]:
    every = (chr(point) for point in range(sys.maxunicode + 1) if not unassigned()[point])
    return [one for one in every if has(one)]


def _belongs_to_words(one: str) -> bool:
    return one.isalnum() or unicodedata.category(one)[0] == "M"


def _class(has: Callable[[str], bool]) -> str:
    """Return a character class of all characters that have a property."""
    points = [point for point in range(sys.maxunicode + 1) if has(chr(point))]
    runs = [[point for _, point in run] for _, run in groupby(enumerate(points), lambda one: one[1] - one[0])]
    return "[" + "".join(f"\\U{run[0]:08x}-\\U{run[-1]:08x}" for run in runs) + "]"


@cache
def _marks() -> re.Pattern[str]:
    return re.compile(f"{_class(lambda one: not unassigned()[ord(one)] and is_combining(one))}+")


@cache
def _words() -> re.Pattern[str]:
    """Return the pattern of a letter that keeps its marks, of marks that follow nothing, or of a word with marks."""
    marks, apart = _marks().pattern, _class(is_apart)
    return re.compile(rf"({apart}{marks[:-1]}*)|({marks})|(?:(?!{apart})\S)+")
