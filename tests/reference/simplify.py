"""Converts traditional Chinese to simplified: OpenCC's conversion ``t2s`` of characters and phrases, and one more rule.

OpenCC knows phrases: 乾 stays in 乾坤 and becomes 干 in 乾燥. It also unifies compatibility ideographs. A text is
converted only if one of its characters has a simplified form by itself. This is part of the definition, and it makes
the step free for text that is simplified already.

The scheme has the hash of OpenCC's dictionaries.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from opencc import OpenCC

from tests.reference.unicode14 import join_halves

# The letter comes first in the pattern, because it is searched for.
_PARTICLE = re.compile("著(?<![名专原编合论显卓昭土巨译遗拙撰]著)(?![名作者称述录书])")
"""著 where Taiwan writes it for the particle 着; in the commonest words with 著 itself it stays. OpenCC's conversion
for Taiwan (tw2s) does this too, but it turns 么 of simplified text into 幺."""
_IDEOGRAPHS = ((0x2E80, 0x2FDF), (0x3400, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x31FFF))


def simplify(text: str) -> str:
    """Return the text in simplified characters. Half surrogates become spaces, as in normalising."""
    return _PARTICLE.sub("着", _converter()(join_halves(text)))


@cache
def simplifiable() -> frozenset[int]:
    """Return the code points that have a simplified form by themselves."""
    points = [point for first, last in _IDEOGRAPHS for point in range(first, last + 1)]
    simple = simplify("\n".join(map(chr, points))).split("\n")
    return frozenset(point for point, one in zip(points, simple, strict=True) if one != chr(point))


@cache
def _converter() -> Callable[[str], str]:
    convert: Callable[[str], str] = OpenCC("t2s").convert
    return convert
