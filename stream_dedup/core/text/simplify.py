"""Traditional Chinese to simplified, by OpenCC's own conversion ``t2s``, characters and phrases, and one rule more.

Owns the converter. OpenCC is C++ and alive; its conversion knows that 乾 of 乾坤 stays where 乾 of
乾燥 becomes 干, and it unifies compatibility ideographs on the way. Text goes through it only if one of its
characters has a simplified form when it stands alone: that is part of the definition, and what makes the
step free for text that is simplified already.

Loads OpenCC at the first call; the scheme holds the hash of its dictionaries.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from stream_dedup.core.text.unicode14 import join_halves
from stream_dedup.errors import UserError

_PARTICLE = re.compile("(?<![名专原编合论显卓昭土巨译遗拙撰])著(?![名作者称述录书])")
"""著 as Taiwan writes the particle 着; in the commonest words that keep it, it stays. OpenCC's conversion for Taiwan
(tw2s) does that too, but it turns 么 of text that is simplified already into 幺."""
_IDEOGRAPHS = ((0x2E80, 0x2FDF), (0x3400, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x31FFF))


def simplify(text: str) -> str:
    """The text in simplified characters. Half surrogates become spaces, as they do in normalising."""
    return _PARTICLE.sub("着", _converter()(join_halves(text)))


@cache
def simplifiable() -> frozenset[int]:
    """Code points that have a simplified form when they stand alone."""
    points = [point for first, last in _IDEOGRAPHS for point in range(first, last + 1)]
    simple = simplify("\n".join(map(chr, points))).split("\n")
    return frozenset(point for point, one in zip(points, simple, strict=True) if one != chr(point))


@cache
def _converter() -> Callable[[str], str]:
    try:
        from opencc import OpenCC  # noqa: PLC0415 - loads its dictionaries; only where it is wanted
    except ImportError as error:
        msg = f"package opencc cannot be loaded ({error}): install it, or set simplify = false"
        raise UserError(msg) from error
    convert: Callable[[str], str] = OpenCC("t2s").convert
    return convert
