"""Families, precision and recall, by hand."""

import numpy as np
import pytest

from stream_dedup.calibrate.labels import Score, families, score, should_be_found


def test_copies_of_copies_are_of_one_family() -> None:
    """Links join over several steps, in any order, also where the original is not among the articles."""
    family = families(["a", "b", "c", "d", "e", "f"], [None, "a", "b", "gone", "gone", ""])
    assert family.tolist() == [0, 0, 0, 1, 1, 2]


def test_one_id_is_one_family_and_circles_end() -> None:
    """A re-crawl is of the family; articles that name each other are one family, as is one that names itself."""
    assert families(["a", "a", "b", "c", "d"], [None, None, "c", "b", "d"]).tolist() == [0, 0, 1, 1, 2]


def test_who_has_family_before_should_be_found() -> None:
    """The first of a family need not be."""
    assert should_be_found(np.array([4, 4, 1, 4, 1])).tolist() == [False, True, False, True, True]


def test_score_by_hand() -> None:
    """Four judged, two of them with a match of their family; three should be found."""
    judged = np.array([True, True, True, True, False])
    own = np.array([0, 0, 1, 1, 2])
    matched = np.array([0, 0, 0, 2, 2])
    one = score(judged, own, matched, np.array([True, True, False, False, True]))
    assert one == Score(judged=4, right=2, due=3)
    assert one.precision == 0.5
    assert one.recall == pytest.approx(2 / 3)
    assert one.f1 == pytest.approx(2 * 0.5 * (2 / 3) / (0.5 + 2 / 3))


def test_of_nothing_there_is_no_share() -> None:
    """Nothing judged, nothing due: no number is made up."""
    nothing = Score(0, 0, 0)
    assert (nothing.precision, nothing.recall, nothing.f1) == (None, None, None)
