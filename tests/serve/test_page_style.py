"""The colours of the pages: every text can be read on what is behind it, in both themes."""

from __future__ import annotations

import re
from itertools import product

import pytest

from stream_dedup.serve.pages.rendering import STATIC

LEAST = 4.5
"""Ratio of text to its background (WCAG 2.2, 1.4.3)."""
LEAST_MARK = 3.0
"""The same of what is no text: the frame around what has the focus, frames of fields (WCAG 2.2, 1.4.11)."""
WORDS = ("ink", "quiet", "link", "unique", "update", "duplicate", "rejected")
PAIRS = {
    *product(WORDS, ("back", "panel")),
    *product(("ink", "link", "quiet"), ("warn", "bad")),
    ("mark-ink", "mark"),
    ("back", "link"),  # the button of the form
}
"""Colours of text, and what is behind it."""
MARKS = {
    *product(("focus", "quiet", "link", "rejected"), ("back", "panel")),
    ("rejected", "bad"),
    ("duplicate", "warn"),
}
THEMES = {
    "light": r":root \{(.*?)\}",
    "dark": r':root\[data-theme="dark"\] \{(.*?)\}',
    "dark system": r':root\[data-theme="auto"\] \{(.*?)\}',
}


def css() -> str:
    return (STATIC / "pages.css").read_text("utf-8")


def colours(theme: str) -> dict[str, str]:
    """The colours of a theme by their names."""
    found = re.search(THEMES[theme], css(), re.DOTALL)
    assert found is not None
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", found[1]))


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Ratio of the luminances of two colours."""
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_the_ratio_is_that_of_wcag() -> None:
    """Black on white is 21; a grey known to be just enough is just enough."""
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("theme", THEMES)
def test_text_can_be_read(theme: str) -> None:
    """Every colour of text on every background that it stands on; frames of what is used."""
    known = colours(theme)
    weak = {pair: round(contrast(known[pair[0]], known[pair[1]]), 2) for pair in sorted(PAIRS)}
    assert {pair: ratio for pair, ratio in weak.items() if ratio < LEAST} == {}
    frames = {pair: round(contrast(known[pair[0]], known[pair[1]]), 2) for pair in sorted(MARKS)}
    assert {pair: ratio for pair, ratio in frames.items() if ratio < LEAST_MARK} == {}


def test_the_system_and_a_choice_are_the_same_dark() -> None:
    """Who chooses the dark theme sees what a dark system shows; every theme has every colour."""
    assert colours("dark") == colours("dark system")
    assert colours("dark").keys() == colours("light").keys()


def test_no_colour_but_the_named_ones() -> None:
    """Rules use the colours of the themes, so that the pairs above are all there are."""
    rules = re.sub("|".join(THEMES.values()), "", css(), flags=re.DOTALL)
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b(?=[^{}]*[;}])|\b(?:rgb|hsl)a?\(", rules) == []
    used = set(re.findall(r"var\(--([a-z-]+)\)", css()))
    assert used == set(colours("light"))
