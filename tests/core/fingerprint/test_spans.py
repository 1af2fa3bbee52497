"""Texts as spans of one array."""

from hypothesis import example, given
from hypothesis import strategies as st

from stream_dedup.core.fingerprint.spans import Spans

TEXTS = st.lists(st.text("a国\U0001f600", max_size=6), min_size=1, max_size=5)


@example(["a", "国"], {0: "bé"})
@given(TEXTS, st.dictionaries(st.integers(0, 4), st.text("bé国", max_size=8)))
def test_texts_are_replaced(texts: list[str], others: dict[int, str]) -> None:
    """Shorter, longer and empty texts take the place of others, and the rest stays as it was."""
    others = {row: text for row, text in others.items() if row < len(texts)}
    made = Spans.of(texts).replaced(others)
    assert [made.text(row) for row in range(len(texts))] == [others.get(row, text) for row, text in enumerate(texts)]
