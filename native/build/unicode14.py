"""Writes unicode14.txt: properties of the code points that Unicode 14.0.0 assigns.

    python3.11 native/build/unicode14.py

Python 3.11 has this version. A line for each property: its name, and the lengths of alternating runs of code points
that have it not and that have it, in base 36. The file never changes; a test compares it with Python's own.
"""

import re
import sys
import unicodedata
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
PROPERTIES: dict[str, Callable[[str], object]] = {
    "assigned": lambda character: unicodedata.category(character) not in {"Cn", "Cs"},
    "alphanumeric": str.isalnum,
    "decimal": str.isdecimal,
    # Combining marks that belong to words; enclosing marks do not.
    "mark": lambda character: unicodedata.category(character) in {"Mn", "Mc"},
    "white": re.compile(r"\s").match,
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


if __name__ == "__main__":
    if unicodedata.unidata_version != "14.0.0":
        sys.exit(f"Python 3.11 has Unicode 14.0.0; this one has {unicodedata.unidata_version}")
    lines = [f"{name} {runs(has)}\n" for name, has in PROPERTIES.items()]
    Path(__file__).with_suffix(".txt").write_text("".join(lines), encoding="ascii")
