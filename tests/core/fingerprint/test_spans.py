"""Texts as spans of one array."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from stream_dedup.core.fingerprint.spans import Spans

TEXTS = st.lists(st.text("a国\U0001f600", max_size=6), min_size=1, max_size=5)


@example(["a", "国"], {0: "bé"})
@given(TEXTS, st.dictionaries(st.integers(0, 4), st.text("bé国", max_size=8)))
def test_overwritten_texts_are_replaced(texts: list[str], others: dict[int, str]) -> None:
    """Shorter, longer and empty texts take the place of others, and the rest stays as it was."""
    given_points, spans = Spans.of(texts)
    others = {row: text for row, text in others.items() if row < len(texts)}
    made = Spans(given_points.copy(), spans.copy()).overwritten(others)
    assert [made.text(row) for row in range(len(texts))] == [others.get(row, text) for row, text in enumerate(texts)]


def test_only_longer_texts_need_another_array() -> None:
    """Texts that fit are written into the array."""
    points, spans = Spans.of(["abc", "de"])
    own = Spans(points.copy(), spans)
    assert own.overwritten({0: "国", 1: ""}).points is own.points
    assert np.array_equal(own.points, np.frombuffer("国bcde".encode("utf-32-le"), np.uint32))
