"""Writes unicode14.txt: properties of the code points that Unicode 14.0.0 assigns.

    python3.11 native/build/unicode14.py

Python 3.11 has this version, and so has Perl 5.36, which has the property Equivalent_Unified_Ideograph, too. A line
for each property: its name, and the lengths of alternating runs of code points that have it not and that have it, in
base 36. The last line has pairs: a radical or stroke, and the ideograph that it stands for. The file never changes; a
test compares it with that of the interpreters.
"""

import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
OPTIONAL = re.compile("(?:HEBREW|ARABIC|SYRIAC|SAMARITAN|MANDAIC) ")
"""Names of marks that ordinary writing leaves out: vowels, cantillation, doubled letters, hamza."""
DECORATED = re.compile("(?:LATIN|GREEK|CYRILLIC|MODIFIER LETTER|CJK UNIFIED IDEOGRAPH|COMBINING)\\b")
"""Names of characters on which a mark that does not compose says nothing."""
RADICALS = (*range(0x2E80, 0x2FE0), *range(0x31C0, 0x31F0))
UNIFIED = "use Unicode::UCD 'charprop'; binmode STDOUT, ':utf8'; print charprop($_, 'EqUIdeo'), qq{\\n} for @ARGV"


def is_word_character(character: str) -> bool:
    """Whether it is a letter, a digit or a mark."""
    return character.isalnum() or unicodedata.category(character)[0] == "M"


def has_script_of_its_own(character: str) -> bool:
    """Whether marks on it may say something, because it belongs to none of the scripts of ``DECORATED``."""
    parts = filter(is_word_character, unicodedata.normalize("NFKC", character))
    others = (part for part in parts if not (part.isdecimal() or DECORATED.match(unicodedata.name(part, ""))))
    return is_word_character(character) and any(others)


PROPERTIES: dict[str, Callable[[str], object]] = {
    "assigned": lambda character: unicodedata.category(character) not in {"Cn", "Cs"},
    "alphanumeric": str.isalnum,
    "decimal": str.isdecimal,
    # Combining marks that belong to words; enclosing marks do not.
    "mark": lambda character: unicodedata.category(character) in {"Mn", "Mc"},
    "white": re.compile(r"\s").match,
    "optional": lambda character: (
        unicodedata.category(character) == "Mn" and OPTIONAL.match(unicodedata.name(character))
    ),
    "combining": lambda character: (
        unicodedata.category(character) in {"Mn", "Me"} and unicodedata.name(character).startswith("COMBINING ")
    ),
    "apart": has_script_of_its_own,
}


def base_36(number: int) -> str:
    """Return the digits of a number."""
    first, last = divmod(number, len(DIGITS))
    return (base_36(first) if first else "") + DIGITS[last]


def runs(has: Callable[[str], object]) -> str:
    """Return the lengths of alternating runs without and with a property."""
    flags = [bool(has(chr(point))) for point in range(sys.maxunicode + 1)]
    lengths = [len(list(run)) for _, run in groupby([False, *flags])]
    lengths[0] -= 1
    return " ".join(map(base_36, lengths))


def unified() -> str:
    """Return each radical and stroke with the ideograph that it looks like, in base 16."""
    command = ["perl", "-e", UNIFIED, *map(str, RADICALS)]
    made = subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout  # noqa: S603 - constant
    pairs = zip(RADICALS, made.split("\n"), strict=False)
    return " ".join(f"{radical:x} {ord(ideograph):x}" for radical, ideograph in pairs if ideograph)


if __name__ == "__main__":
    if unicodedata.unidata_version != "14.0.0":
        sys.exit(f"Python 3.11 has Unicode 14.0.0; this one has {unicodedata.unidata_version}")
    lines = [*(f"{name} {runs(has)}" for name, has in PROPERTIES.items()), f"unified {unified()}"]
    Path(__file__).with_suffix(".txt").write_text("\n".join(lines) + "\n", encoding="ascii")
