"""Between short and long text: the shares of the features of either kind."""

import math
from itertools import pairwise

import numpy as np
import pytest

from stream_dedup.core.fingerprinter import Fingerprinter
from stream_dedup.core.profiles import PROFILES
from tests.core.texts import STORY
from tests.reference.mixing import WHOLE, factor, mixing_begin, mixing_end, share_of_short

ARTICLE = PROFILES["article"].settings
SIZE = 300
OWN_SIZE = ARTICLE.article_size or 0
EDGES = (mixing_begin(OWN_SIZE), OWN_SIZE, mixing_end(OWN_SIZE))
"""Letters at which the treatment of a text by the profile changes."""


@pytest.mark.parametrize(
    ("size", "share"), [(1, WHOLE), (150, WHOLE), (300, 683), (600, 341), (1199, 0), (1200, 0), (9999, 0)]
)
def test_the_share_of_short_text_falls_over_three_octaves(size: int, share: int) -> None:
    """Half the article size is all short, four times of it is all long, each octave between is a third."""
    assert share_of_short(size, SIZE) == share


def test_no_share_is_near_a_rounding_edge() -> None:
    """The last digit of a logarithm decides no share, whatever the article size."""
    for begin in (50, 150, 500, 1000):
        for size in range(begin + 1, begin * 8):
            exact = WHOLE * (1 - math.log2(size / begin) / 3) + 0.5
            assert min(exact % 1, 1 - exact % 1) > 1e-9 or math.log2(size / begin).is_integer()


def test_shares_have_no_steps() -> None:
    """One more character changes the share by less than a hundredth."""
    shares = [share_of_short(size, SIZE) for size in range(mixing_begin(SIZE) - 2, mixing_end(SIZE) + 2)]
    assert max(before - after for before, after in pairwise(shares)) <= WHOLE // 100


def test_where_every_text_is_long_none_is_short() -> None:
    """An article size of 0 leaves no room for short text."""
    assert [share_of_short(size, 0) for size in (0, 1, 1000)] == [0, 0, 0]


def test_both_kinds_of_features_are_brought_to_one_length() -> None:
    """A vector of any length has, times its factor, the length of its share."""
    for square in (100, 12345, 10**9):
        assert factor(300, square) * math.sqrt(square) == pytest.approx(300 << 20, rel=0.05)


@pytest.mark.parametrize("size", [edge + beyond for edge in EDGES for beyond in (-10, -5, 5)])
def test_a_source_line_changes_little_at_every_length(size: int) -> None:
    """A text of any length is near itself with a source line, also where the line leads across an edge.

    The text is of letters alone, for its size counts these.
    """
    text = "".join(filter(str.isalnum, STORY * 8))[:size]
    made = Fingerprinter(ARTICLE).fingerprint([text, f"{text} 来源：河口日报 编辑：陈一"])
    assert int(np.bitwise_count(made.signatures[0] ^ made.signatures[1]).sum()) <= 40
