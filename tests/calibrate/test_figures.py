"""Families, precision and recall by hand; the valley of a histogram, where there is one and where there is none."""

import numpy as np
import pytest

from stream_dedup.calibrate.figures import Score, families, find_valley, should_be_found, smoothed


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
    one = Score(judged=4, right=2, due=3)
    assert one.precision == 0.5
    assert one.recall == pytest.approx(2 / 3)
    assert one.f1 == pytest.approx(2 * 0.5 * (2 / 3) / (0.5 + 2 / 3))


def test_of_nothing_there_is_no_share() -> None:
    """Nothing judged, nothing due: no number is made up."""
    nothing = Score(0, 0, 0)
    assert (nothing.precision, nothing.recall, nothing.f1) == (None, None, None)


def hills(near: int, far: int, *, gap: tuple[int, int] = (30, 80)) -> np.ndarray:
    """Two triangular hills of so many articles with nothing between."""
    counts = np.zeros(257, np.int64)
    for start, end, articles in ((0, gap[0], near), (gap[1], 120, far)):
        middle = (start + end) / 2
        shape = np.array([max(0.0, 1 - abs(x - middle) / (end - middle)) for x in range(257)])
        counts += np.round(shape / max(shape.sum(), 1) * articles).astype(np.int64)
    return counts


def test_two_hills_have_a_valley_between_them() -> None:
    """The limit lies in the middle of the gap, nearly."""
    valley = find_valley(hills(400, 4000))
    assert valley is not None
    assert 28 <= valley.low < valley.high <= 85
    assert valley.low < valley.limit < valley.high
    assert abs(valley.limit - 55) <= 5


@pytest.mark.parametrize(
    "counts",
    [
        np.zeros(257, np.int64),
        hills(0, 4000),
        hills(4000, 0),
        hills(4, 4000),
        np.full(257, 20, np.int64),
    ],
)
def test_one_hill_or_none_has_no_valley(counts: np.ndarray) -> None:
    """Nothing, one hill, a hill of a few stragglers, a plain: the data say nothing."""
    assert find_valley(counts) is None


def test_a_straggler_beyond_the_far_hill_makes_no_valley() -> None:
    """The gap before one far article is no valley."""
    counts = hills(0, 4000)
    counts[160] = 1
    assert find_valley(counts) is None


def test_hills_that_run_into_each_other_have_none() -> None:
    """A dip of less than half is none."""
    counts = np.zeros(257, np.int64)
    counts[10:50] = 100
    counts[50:60] = 70
    counts[60:110] = 120
    assert find_valley(counts) is None


def test_smoothing_keeps_a_plain_plain() -> None:
    """The ends have means of what is there."""
    assert smoothed(np.full(65, 3, np.int64)).tolist() == [3.0] * 65
