"""Foreign text for a terminal: what is escaped, what stays, and how wide it is."""

import json
import unicodedata
from itertools import chain

import pytest

from stream_dedup.terminal import shorten, table, visible, visible_json, width_of
from tests.amount import code_points

DANGEROUS = [
    *chain(range(0x20), range(0x7F, 0xA0)),  # C0, DEL, C1
    *chain(range(0x202A, 0x202F), range(0x2066, 0x206A), (0x200E, 0x200F, 0x061C)),  # direction
    *chain((0x2028, 0x2029, 0xAD, 0xFEFF), range(0x200B, 0x200E), range(0x2060, 0x2065), range(0xE0020, 0xE0080)),
    *range(0xD800, 0xE000),
]
"""Code points that act on a terminal or are not seen there, listed by hand."""


def test_every_code_point_is_shown_or_escaped() -> None:
    """No character of the five categories comes through; each other one comes as it is."""
    for character in map(chr, code_points()):
        hidden = unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
        shown = visible(character)
        assert (shown != character) == hidden
        assert shown.isascii() or not hidden
        assert visible(f"a{character}字") == f"a{shown}字"


def test_what_acts_on_a_terminal_is_escaped() -> None:
    """Each becomes ASCII that Python reads back as the same character."""
    shown = {point: visible(chr(point)) for point in DANGEROUS}
    assert [text for text in shown.values() if not (text.isascii() and text.startswith("\\"))] == []
    assert {point: ord(text.encode().decode("unicode_escape")) for point, text in shown.items()} == {
        point: point for point in DANGEROUS
    }


@pytest.mark.parametrize(
    "text", ["今天天气很好！", "naïve café", "e\u0301", "क्षि", "👍🏽 🇨🇳 ❤️", "עברית", "C:\\new", "a\u00a0b"]
)
def test_printable_text_stays(text: str) -> None:
    """Chinese, accents, combining marks, emoji, right-to-left letters, backslashes."""
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b]0;x\x07", "\\x1b]0;x\\x07"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\U000e0041", "\\U000e0041"),
        ("\udcff", "\\udcff"),
        ("👩\u200d👧", "👩\\u200d👧"),
    ],
)
def test_how_an_escape_looks(text: str, expected: str) -> None:
    """As Python writes it; the joiner of an emoji too."""
    assert visible(text) == expected


def test_json_stays_the_same_value() -> None:
    """Every character but a half surrogate, in a key and in a value; nothing hidden is left but our line feeds."""
    text = "".join(chr(point) for point in code_points() if not 0xD800 <= point < 0xE000)
    shown = visible_json(json.dumps({text: [text]}, ensure_ascii=False, indent=2))
    assert json.loads(shown) == {text: [text]}
    assert {one for one in shown if visible(one) != one} == {"\n"}


def test_half_surrogates_become_json() -> None:
    """Which cannot be encoded as they are."""
    shown = visible_json(json.dumps("a\ud83d b\udcff", ensure_ascii=False))
    assert shown == '"a\\ud83d b\\udcff"'


def test_a_shortened_text_holds_whole_escapes() -> None:
    """However narrow: an escape is shown whole or not at all, and counts as wide as it is."""
    for width in range(2, 40):
        shown = shorten("字\x1b[31m\u202e字\x07" * 3, width)
        assert width_of(shown) <= width
        assert visible(shown) == shown
        kept = shown.removesuffix("…")
        assert "字\\x1b[31m\\u202e字\\x07字\\x1b[31m\\u202e字\\x07字\\x1b[31m\\u202e字\\x07".startswith(kept)
        assert not kept.endswith(("\\", "\\x", "\\x1", "\\u", "\\u2", "\\u20", "\\u202", "\\x0"))


def test_a_table_shows_foreign_cells() -> None:
    """Escaped, and aligned by what is shown."""
    assert table([["a\x07", "1"], ["字", "22"]]) == ["a\\x07   1", "字     22"]
