"""Foreign text as pages show it: harmless, complete, with its passages; and the bits of two signatures.

The steps of the page Check: which conditions of near a pair fulfils.
"""

from __future__ import annotations

import re
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.core.model import Status
from stream_dedup.core.probes import pack_margins
from stream_dedup.core.rules import Rules
from stream_dedup.explain.explain import explain
from stream_dedup.explain.side import Side
from stream_dedup.serve.pages.check_page import bit_pairs, steps
from stream_dedup.serve.pages.rendering import Renderer, read_assets
from stream_dedup.serve.pages.shown_text import (
    DRAWN_MARKS,
    EXCERPT,
    MAX_SHOWN,
    ComparedTexts,
    Piece,
    compared,
    differing_excerpt,
    excerpt,
    is_hidden,
    pieces,
)
from tests.calibrate.entries import directed_rules, exact_rules, plain_matches, some_entries

TEXTS = st.text(st.sampled_from("ab 文字，。\n\u202e\u200b\u0301é１🙂"), max_size=60)


def marked(passages: ComparedTexts) -> tuple[list[str], list[str]]:
    """The differing passages of both texts."""
    return [one.text for one in passages.a if not one.is_common], [one.text for one in passages.b if not one.is_common]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("\u202e", "U+202E"),  # reverses what follows
        ("\u2066", "U+2066"),
        ("\u200b", "U+200B"),
        ("\u00ad", "U+00AD"),
        ("\x1b", "U+001B"),
        ("\x00", "U+0000"),
        ("\u2028", "U+2028"),
        ("\ud800", "U+D800"),
        ("\u3164", "U+3164"),  # a letter that is drawn as nothing
        ("\U000e0041", "U+E0041"),
        ("\ufeff", "U+FEFF"),
    ],
)
def test_a_hidden_character_is_shown_as_its_code(text: str, code: str) -> None:
    """Between two letters, and alone."""
    assert [one.text for one in pieces(f"a{text}b")] == ["a", code, "b"]
    assert [(one.text, one.is_code) for one in pieces(text)] == [(code, True)]


def test_lines_stay_where_a_text_has_lines() -> None:
    """In a line of a table they are codes; a carriage return is a line feed."""
    assert pieces("a\r\nb\rc\td") == [Piece("a\nb\nc\td")]
    assert [one.text for one in pieces("a\nb", keeps_lines=False)] == ["a", "U+000A", "b"]


def test_a_tower_of_marks_is_cut() -> None:
    """A letter keeps its first combining marks; what would cover other lines is gone."""
    assert pieces("a" + "\u0301" * 500 + "b") == [Piece("a" + "\u0301" * DRAWN_MARKS + "b")]


@given(TEXTS)
def test_what_is_shown_is_seen(text: str) -> None:
    """No piece has a hidden character but line feeds and tabs."""
    shown = "".join(one.text for one in pieces(text))
    assert [one for one in shown if is_hidden(one) and one not in "\n\t"] == []


@given(TEXTS, TEXTS)
def test_passages_are_the_text(a: str, b: str) -> None:
    """Joined, they are the text again; a text has no differing passage beside itself."""
    both = compared(a, b)
    assert ("".join(one.text for one in both.a), "".join(one.text for one in both.b)) == (a, b)
    assert marked(compared(a, a)) == ([], [])
    assert 0 <= both.common <= 1
    swapped = compared(b, a)
    assert (swapped.a, swapped.b) == (both.b, both.a)


@pytest.mark.parametrize(
    ("a", "b", "in_a", "in_b"),
    [
        (
            "The ferry left the old pier at noon today with nine people",
            "The ferry left the new pier at noon today with nine people",
            ["old"],
            ["new"],
        ),
        ("渡口的船今天早上八点开了很久", "渡口的船今天傍晚八点开了很久", ["早上"], ["傍晚"]),
        ("one two three four five six", "four five six one two three", [], []),  # moved is common
        ("ONE ＴＷＯ three", "one two, three!", [], []),  # case, width and marks do not count
        ("completely different words here", "nothing that stands above", ["completely different words here"], None),
        ("", "words", [], ["words"]),
    ],
)
def test_passages(a: str, b: str, in_a: list[str], in_b: list[str] | None) -> None:
    """Exactly the words that differ are marked."""
    found = marked(compared(a, b))
    assert found == (in_a, [b] if in_b is None else in_b)


def test_passages_take_time_in_proportion() -> None:
    """Of texts that are hostile to a comparison by longest common subsequences, too."""
    texts = [("a b " * MAX_SHOWN)[:MAX_SHOWN], ("文" * MAX_SHOWN), ("ab" * MAX_SHOWN)[:MAX_SHOWN]]
    begun = time.process_time()
    for one in texts:
        for other in texts:
            compared(one, other)
    assert time.process_time() - begun < 5


def test_an_excerpt_begins_before_the_first_difference() -> None:
    """With a few characters of what is before it, on one line."""
    words = "one two three four five six seven eight nine ten\n"
    both = compared(words * 3, words * 2 + "eleven twelve " + words)
    shown = differing_excerpt(both.b)
    assert [one.text for one in shown if not one.is_common] == ["eleven twelve"]
    assert shown[0].text == "…ht nine ten "
    assert differing_excerpt(compared("a b c", "a b c").b)[0].text == "a b c"
    assert excerpt("x" * 500) == "x" * EXCERPT + "…"


def test_the_bits_of_two_signatures() -> None:
    """Each has its number, those that differ are known, and the unsure ones; not every bit has a margin."""
    a = bytes([0x80, *bytes(30), 1])
    b = bytes([*bytes(7), 1, *bytes(24)])
    margins = np.array([3] + [15] * 62 + [2], np.uint8)
    shown = bit_pairs(*(Side("", Status.LONG, 7, bits, pack_margins(margins)) for bits in (a, b)))
    assert [number for number, bit in enumerate(shown) if bit.differs] == [0, 63, 255]
    assert [number for number, bit in enumerate(shown) if bit.unsure] == [0, 63]
    assert {number: bit[:2] for number, bit in enumerate(shown) if bit.a or bit.b} == {
        0: (1, 0),
        63: (0, 1),
        255: (1, 0),
    }
    assert (len(shown), shown[64].margin) == (256, None)


def test_bars() -> None:
    """The largest count has the whole height; a count of 0 has no bar."""
    template = '{% import "parts.html" as parts with context %}{{ parts.bars(growth, "label") }}'
    drawn = Renderer(read_assets())._environment.from_string(template).render(growth=[(0, 0), (60, 5), (120, 10)])
    found = re.findall(r'<rect x="(\d+)" y="([\d.]+)" width="5" height="([\d.]+)"/>', drawn)
    assert found == [("6", "9.0", "9.0"), ("12", "0.0", "18.0")]


RULES = [
    exact_rules(9),
    directed_rules(16, probes=300, limit=40),
    directed_rules(16, probes=300, min_equal=9, certain=12, form_limit=20),
    directed_rules(16, probes=300, min_equal=5, far=20, far_min_equal=20),
    directed_rules(16, probes=300, min_equal=12, certain=30, far=40, far_min_equal=20, dominated=32),
]


@pytest.mark.slow
@pytest.mark.parametrize("rules", RULES, ids=["exact", "limit", "certain, form", "far", "dominated"])
def test_all_steps_hold_of_a_pair_that_is_near(rules: Rules) -> None:
    """And of no other pair: as the reference finds in a log of the two. Each of the steps fails for some pair."""
    entries = some_entries(23, 40, tables=rules.scheme.tables, flips=40)
    entries.scope_hashes[:] = 7
    failed, near = set(), 0
    sides = [
        Side(str(row), Status.LONG, 7, signature.tobytes(), margins, sketch=sketch.tobytes())
        for row, (signature, margins, sketch) in enumerate(
            zip(entries.signatures, entries.margins, entries.sketches, strict=True)
        )
    ]
    for later in range(len(entries) - 7, len(entries)):
        for earlier in range(later):
            two = entries.rows(np.array([earlier, later]))
            shown = steps(explain(sides[earlier], sides[later], rules))
            assert all(step.holds for step in shown) is (plain_matches(two, rules)[1] is not None)
            near += all(step.holds for step in shown)
            failed |= {step.name for step in shown if not step.holds}
    wanted = (
        {"distance", "lookup"} | ({"sketch"} if rules.min_equal else set()) | ({"form"} if rules.form_limit else set())
    )
    assert near
    assert failed == wanted


@pytest.mark.parametrize(("bits", "holds"), [((), True), ((0,), False), ((255,), False)])
def test_exact_texts_are_equal_or_not(bits: tuple[int, ...], holds: bool) -> None:
    """One step says so, whatever the limits."""
    b = Side("B", Status.EXACT, 5, bytes(range(32)), np.full(32, 0xFF, np.uint8), sketch=bytes(16))
    flipped = np.unpackbits(np.frombuffer(b.signature, np.uint8))
    flipped[list(bits)] ^= 1
    a = Side("A", Status.EXACT, 5, np.packbits(flipped).tobytes(), b.margins, sketch=b.sketch)
    rules = directed_rules(min_equal=9)
    (step,) = steps(explain(a, b, rules))
    assert (step.name, step.holds) == ("equal", holds)
