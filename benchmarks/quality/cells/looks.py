"""Text that looks the same to readers: optional and stacked marks, radicals, readings, the cues of subtitles."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterator
from functools import partial
from random import Random

from benchmarks.quality.cells import texts
from benchmarks.quality.cells.declaration import paragraphs
from benchmarks.quality.cells.model import Aimed, Cell, Pair, Pairs, fixed

NUMBER = 200
SIZES = {"article": (500, 1500), "comment": (60, 200)}
ALL_FOUND = fixed(1.0)
"""What is folded is one text."""
NEARLY_ALL = fixed(0.98)

_VOWEL_MARKS = "\u064b\u064c\u064d\u064e\u064f\u0650\u0651\u0652"
_STACKED = "\u0300\u0301\u0311\u0316\u0323\u0327\u0330\u0345\u0347\u034e\u035b"
_LINES = "\u0332\u0336\u0335"
_RADICALS = {unicodedata.normalize("NFKC", chr(point)): chr(point) for point in range(0x2F00, 0x2FD6)} | dict(
    zip("母民西角长门车见贝页风", "⺟⺠⻄⻆⻓⻔⻋⻅⻉⻚⻛", strict=True)
)
"""Radicals as PDF writers take them for ideographs: those that NFKC knows, and some of those that it leaves."""
_READINGS = ("dà", "rén", "guó", "zhōng", "shàng", "lái", "shuō", "mín", "hǎo", "xué")

Change = Callable[[str, Random], str]


def cells() -> Iterator[Cell]:
    """Both profiles."""
    for profile in SIZES:
        for share in (0.1, 0.3, 1.0):
            marks = partial(_paragraph, partial(_marked, share, _VOWEL_MARKS, 1))
            yield Pairs(f"looks/ar {profile} marks on {share * 100:.0f} %", profile, NUMBER, marks, ALL_FOUND)
        for language in ("en", "ru"):
            # A few compose with their letter, and make another one.
            stacked, struck = partial(_marked, 0.3, _STACKED, 6), partial(_marked, 1.0, _LINES, 1)
            yield _of(f"{language} {profile} stacked marks on a third", profile, language, stacked, NEARLY_ALL)
            yield _of(f"{language} {profile} struck through", profile, language, struck, ALL_FOUND)
        yield _of(f"zh {profile} radicals", profile, "zh", _with_radicals, ALL_FOUND)
        yield _of(f"zh {profile} readings", profile, "zh", _with_readings, NEARLY_ALL)
        for language in ("en", "zh"):
            yield _of(f"{language} {profile} as subtitles", profile, language, _as_subtitles, NEARLY_ALL)


def _of(name: str, profile: str, language: str, change: Change, aim: Aimed) -> Pairs:
    return Pairs(f"looks/{name}", profile, NUMBER, partial(_text, language, SIZES[profile], change), aim)


def _text(language: str, size: tuple[int, int], change: Change, rng: Random) -> Pair:
    whole = texts.text(language, rng.randint(*size), rng)
    return whole, change(whole, rng)


def _paragraph(change: Change, rng: Random) -> Pair:
    one = rng.choice(paragraphs("ar"))
    return one, change(one, rng)


def _marked(share: float, marks: str, most: int, whole: str, rng: Random) -> str:
    """Up to so many marks behind so large a share of the letters."""

    def marked(letter: re.Match[str]) -> str:
        if rng.random() >= share:
            return letter[0]
        return letter[0] + "".join(rng.sample(marks, rng.randint(1, most)))

    return re.sub(r"[^\W\d_]", marked, whole)


def _with_radicals(whole: str, _rng: Random) -> str:
    return "".join(_RADICALS.get(one, one) for one in whole)


def _with_readings(whole: str, rng: Random) -> str:
    """One ideograph in five has its reading, as pages for learners have."""

    def read(one: re.Match[str]) -> str:
        return (
            one[0]
            if rng.random() >= 0.2
            else f"<ruby>{one[0]}<rp>(</rp><rt>{rng.choice(_READINGS)}</rt><rp>)</rp></ruby>"
        )

    return re.sub(r"[\u4e00-\u9fff]", read, whole)


def _as_subtitles(whole: str, rng: Random) -> str:
    """The cues of SubRip, some seconds each."""
    made, at = [], rng.randint(0, 5_000)
    for number, line in enumerate(textwrap.wrap(whole, 40 if whole.isascii() else 20), 1):
        end = at + rng.randint(1_500, 4_000)
        made.append(f"{number}\n{_time(at)} --> {_time(end)}\n{line}\n")
        at = end + rng.randint(0, 300)
    return "\n".join(made)


def _time(ms: int) -> str:
    return f"{ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms // 1_000 % 60:02},{ms % 1_000:03}"
