"""The load of a worker on a large index: the articles that are fed, and the rate of what comes out."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.large_index import _rate_of, made_articles

CHARACTERS = 120


def test_one_in_five_is_an_earlier_article_with_a_line_more() -> None:
    """The others are mixtures that no other article has, of the length that was asked for."""
    made = [json.loads(value) for value in made_articles(7, 500, CHARACTERS)]
    texts = [one["text"] for one in made]
    fresh = [text for text in texts if len(text) == CHARACTERS]
    again = [text for text in texts if len(text) > CHARACTERS]
    assert [one["id"] for one in made] == [f"a{number}" for number in range(7, 507)]
    assert len(fresh) == len(set(fresh))
    assert len(fresh) + len(again) == 500
    assert all(text[:CHARACTERS] in fresh for text in again)
    assert 0.1 < len(again) / 500 < 0.3
    assert texts == [json.loads(value)["text"] for value in made_articles(7, 500, CHARACTERS)]


def test_the_first_seconds_of_a_load_do_not_count() -> None:
    """Ten a second, then a thousand a second; where nearly all came at first, everything counts."""
    slow, fast = np.arange(0, 5_000, 100), np.arange(5_000, 7_000)
    times = np.concatenate((slow, fast))
    assert _rate_of(np.stack((times, times), axis=1), 5.0) == pytest.approx(1_000)
    assert _rate_of(np.stack((slow, slow), axis=1), 4.5) == pytest.approx(10)
    with pytest.raises(SystemExit, match="no outputs came"):
        _rate_of(np.empty((0, 2), np.int64), 5.0)
