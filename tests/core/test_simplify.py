"""Traditional to simplified."""

import pytest

from tests.core.texts import STORY, TRADITIONAL_STORY, some_texts
from tests.native_steps import simplified
from tests.reference.normalise import normalise
from tests.reference.simplify import simplifiable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("繁體中文，臺灣的夜市", "繁体中文，台湾的夜市"),
        ("乾隆與乾燥", "乾隆与干燥"),
        ("著名作家帶著衣著", "著名作家带着衣着"),
        ("名著與專著，看著", "名著与专著，看着"),
        ("简体 English 日本 123", "简体 English 日本 123"),
        ("體\ud83d\ude00體", "体\U0001f600体"),
        ("體\ud83d", "体 "),
        ("", ""),
    ],
)
def test_simplify(text: str, expected: str) -> None:
    """Characters and phrases are simplified, and half surrogates become spaces, before a text is normalised."""
    assert simplified(text) == normalise(expected)


def test_a_story_and_its_traditional_form() -> None:
    """A story and its traditional form give one text."""
    assert simplified(TRADITIONAL_STORY) == normalise(STORY)


def test_text_without_a_simplifiable_character_is_simple() -> None:
    """Text without a simplifiable character is not changed, so the test before the step misses none."""
    known = simplifiable()
    simple = [text for text in some_texts(2000) if known.isdisjoint(map(ord, text))]
    assert simple
    assert [text for text in simple if simplified(text) != normalise(text)] == []
