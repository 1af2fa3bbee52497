"""Tricks of spam undone in several texts at once, against their definition in ``text.spam``."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.core.fingerprint import tricks_kernel
from stream_dedup.core.fingerprint.points import Kind, code_point_tables
from stream_dedup.core.fingerprint.reader import normalise_short
from stream_dedup.core.fingerprint.spans import Spans
from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.scheme import Normalisation
from stream_dedup.core.text.normalise import normalise
from stream_dedup.core.text.spam import MAX_SEPARATOR
from tests.amount import FULL
from tests.core.texts import MORE, SAMPLE, some_texts

SHORT = PROFILES["comment"].settings.short.normalisation
STEPS = st.just(SHORT) | st.builds(
    Normalisation, **{name: st.booleans() for name in ("unspace", "lookalikes", "repeats")}
)
PIECES = (
    *"abcilotxyz0123456789 .,-_!@$&+*中微信号のé߀ق٣яжα①ⓐ한ก\u0301\U00020000",
    *("l00k", "fr33", "c@sh", "b1d", "13800138000", "138ool3800o", "channe1", "t0", "mp3", "w.e.i.x", "微 信 号"),
    *("a . b . c", "v  x  1", "哈哈哈", "!!!!", "aaaa", "....", "x" * 70, "o1l0o1l0o1l0"),
)


def assert_undone(steps: Normalisation, texts: list[str]) -> int:
    """Each text without tricks is that of the definition; return how many were left to it."""
    texts = list(map(normalise, texts))
    points, spans = Spans.of(texts)
    found = (np.empty(len(points), np.uint32), np.empty_like(spans), np.empty(len(texts), np.bool_))
    taken = (Kind.NO_TABLE, steps.unspace, steps.lookalikes, steps.repeats)
    size = tricks_kernel.undo_tricks(points, spans, code_point_tables().kinds, taken, found)
    done = Spans(found[0][:size], found[1])
    for row, text in enumerate(texts):
        assert done.text(row) == ("" if found[2][row] else normalise_short(text, steps)), text
    return int(found[2].sum())


@given(STEPS, st.lists(st.lists(st.sampled_from(PIECES), max_size=25).map("".join) | st.text(max_size=9), max_size=5))
def test_texts_without_tricks_are_those_of_the_definition(steps: Normalisation, texts: list[str]) -> None:
    assert_undone(steps, texts)


@pytest.mark.parametrize(
    ("alphabet", "size"), [("ab01$ ", 6), ("ol01中", 8), ("a中. é", 7), ("yb1 ", 7), ("a1_!", 7), ("aaa10é", 6)]
)
def test_every_short_text_of_few_characters(alphabet: str, size: int) -> None:
    """All texts up to a size: each way in which these follow each other; none is left to the definition."""
    sizes = range(size + 1 if FULL else size - 1)
    texts = ["".join(one) for each in sizes for one in product(dict.fromkeys(alphabet), repeat=each)]
    assert assert_undone(SHORT, texts) == 0
    for steps in (replace(SHORT, unspace=False), replace(SHORT, lookalikes=False), replace(SHORT, repeats=False)):
        assert_undone(steps, texts)


@pytest.mark.parametrize("size", range(1, MAX_SEPARATOR + 2))
def test_single_characters_are_joined_as_far_as_separators_reach(size: int) -> None:
    """At the end of a text and in its middle, with as many signs between them as the step allows, and one more.

    No sign is repeated: a text with a repetition is not copied as it is, whatever else it has.
    """
    apart = ".-!+"[:size].join("abc")
    for text in (apart, f"好 {apart}", f"{apart} 好吧"):
        assert assert_undone(SHORT, [text]) == 0
        assert ("abc" in normalise_short(text, SHORT)) == (size <= MAX_SEPARATOR)


def test_real_texts_without_tricks_are_those_of_the_definition() -> None:
    """Few of them are left to it."""
    texts = [*SAMPLE, *MORE, *some_texts(500)]
    assert assert_undone(SHORT, texts) < len(texts) // 4
