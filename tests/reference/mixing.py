"""Between short and long text: how much the features of either count in a signature.

Words tell long texts apart, and characters short ones. Between two sizes a text has the features of both, with weights
that change with its length as little as can be: two texts of nearly the same length have nearly the same weights,
whatever their length is, so no length is an edge across which copies are lost.

Up to half of the article size a text is short, from four times the article size on it is long: three octaves, in which
the share of the short text's features falls from ``WHOLE`` to 0 with the logarithm of the size. Each of the two weight
vectors is divided by its Euclidean length first, which the number of features would decide otherwise.

The numbers are whole and the same on every machine: a logarithm may differ in its last digit between machines; a test
shows that no share is close enough to a rounding edge for that to matter.
"""

from __future__ import annotations

import math

WHOLE = 1024
FACTOR_BITS = 20
"""A weight vector is multiplied by its share times this power of 2, over its length. Sums stay below 2**53."""
_OCTAVES = 3


def mixing_end(article_size: int) -> int:
    """Return the size, in letters, from which on a text is long."""
    return mixing_begin(article_size) << _OCTAVES


def mixing_begin(article_size: int) -> int:
    """Return the size, in letters, up to which a text is short."""
    return article_size // 2


def share_of_short(size: int, article_size: int) -> int:
    """Return the share of the features of short text in a text of this size, of ``WHOLE``."""
    begin = mixing_begin(article_size)
    if size <= begin:
        return WHOLE if begin else 0
    if size >= mixing_end(article_size):
        return 0
    return math.floor(WHOLE * (1 - math.log2(size / begin) / _OCTAVES) + 0.5)


def factor(share: int, square: int) -> int:
    """Return what weights are multiplied by so that their vector, of this squared length, has this share.

    It is 1 where all features are of this kind.
    """
    return 1 if share == WHOLE else (share << FACTOR_BITS) // math.isqrt(square)
