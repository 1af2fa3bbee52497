"""Subtitles without their times."""

from itertools import product

import pytest

from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.reader import readable
from stream_dedup.core.scheme import Normalisation
from tests.amount import FULL
from tests.core.texts import some_texts
from tests.native_steps import as_long, assert_cleaned
from tests.reference.subtitles import FIELD, NAME, drop_cues

TAGS = Normalisation(tags=True)
ARTICLE = PROFILES["article"].settings.long.normalisation
SRT = "00:00:04,148 --> 00:00:08,296"
VTT = "00:04.148 --> 00:08.296"
SHORT = "00:00:04 --> 00:00:08"
SBV = "0:00:04.148,0:00:08.296"
SCRIPT = "[Script Info]\nTitle: x\n\n[V4+ Styles]\nFormat: Name, Size\nStyle: Default,20\n\n[Events]\n"
DIALOGUE = "Dialogue: 0,0:00:04.14,0:00:08.29,Default,,0,0,0,,"


@pytest.mark.parametrize(
    "subtitles",
    [
        f"1\n{SRT}\nwe take off\n\n2\n{SRT}\nevery plank\n",
        f"\ufeff1\r\n{SRT}\r\nwe take off\r\n\r\n2\r\n{SRT} X1:1 X2:2 Y1:3 Y2:4\r\nevery plank\r\n",
        f"1 {SRT} we take off 2 {SRT} every plank",
        f"WEBVTT\nKind: captions\nLanguage: en\n\n{VTT} align:start position:0%\nwe take off\n\n{VTT}\nevery plank",
        f"WEBVTT - a talk\r\n\r\nc0/1-0\r\n{VTT}\r\n<v Ann>we take off</v>\r\n\r\nc0/2-0\r\n{VTT}\r\nevery plank",
        f"WEBVTT\n\n{VTT}\nwe<00:05.000><c> take</c><00:06.500><c> off</c>\n\n{VTT}\nevery plank",
        f"[{VTT}]   we take off\n[{VTT}]   every plank",
        "[00:04.14]we take off\n[00:08.29]every plank",
        f"1\n{SRT.replace('>', '&gt;')}\nwe take off every plank",
        f"1\r\r\n{SRT}\r\r\nwe take off\r\r\n\r\r\nc0/1\r\r\n{SRT}\r\r\nevery plank",
        f"1\n{SHORT}\nwe take off\n\n2\r\n{SHORT} \r\nevery plank",
        f"[{SHORT}] we take off [{SHORT}] every plank",
        f"{SBV}\nwe take off\n\n{SBV}\nevery plank",
        f"{SCRIPT}{DIALOGUE}we take\\Noff\n{DIALOGUE}{{\\an8\\i1}}every{{\\i0}} plank",
        f"\ufeff{SCRIPT}{DIALOGUE.replace('0,0', 'Marked=0,0', 1)}we take off {DIALOGUE}every plank",
    ],
)
def test_subtitles_are_their_text(subtitles: str) -> None:
    """SubRip and WebVTT, with headings, numbers, names, settings and times of words; lines that were joined; lyrics.

    SBV and SubStation Alpha, too.
    """
    assert as_long([subtitles], ARTICLE) == ["we take off every plank"]


@pytest.mark.parametrize(
    "text",
    [
        *("a --> b", "from 10:30 --> 11:45", "1999\n\nthe year", "WEBVTT is a format\n\nof text", "at [12:34] <5:30>"),
        *("00:04.148 -> 00:08.296", "00:04.148 --> then", "4.5 --> 5.5", "[10:30] hello", "1:02.5 and 1:03.5", "[3.5]"),
        *(
            f"at {SHORT} we",
            f"{SHORT} we",
            f"times {SBV}",
            f"{SBV} and",
            "00:00:04,00:00:08",
            "[00:00:04] a",
            "Dialogue: a, b",
        ),
        *("{\\bf a} \\Nb", "Dialogue: 0,0:00:04,0:00:08,,,,,,", f"{DIALOGUE[:-1]}\n,", "[Script Info] a"),
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    """Arrows, times of the day, numbers and the name of a format are no cues."""
    assert drop_cues(text) == text
    assert_cleaned(TAGS, [text])


def test_real_texts_have_no_cues() -> None:
    """None of them changes."""
    assert [text for text in some_texts(2000) if drop_cues(text) != text] == []


def test_a_reader_sees_no_times() -> None:
    """Lines stay lines."""
    assert (
        readable(f"1\n{SRT}\nwe take off\n\n2\n{SRT}\nevery plank", TAGS, is_html=False) == "we take off\n\nevery plank"
    )


@pytest.mark.parametrize(
    "alphabet",
    [
        (VTT, "\n", "1", " ", "a-b", "[", "]", "\r\n"),
        ("WEBVTT", "\n", "\r", VTT, "x ", "\ufeff", "-->"),
        ("0", "1:", "00:01.5", ",", ".", "-->", " ", "<", ">"),
        (" line:0", "X1:", SRT, "\t", "1", "align:start", "中"),
        ("\n", "\r", " ", "1", SHORT, "x", "[", "]"),
        ("\n", " ", ",", "0:00:04.1", "0:00:04", SBV, "x"),
        ("[Script Info]", "\n", "中", DIALOGUE, DIALOGUE[:-3], ",", "\ufeff"),
        (DIALOGUE, "{", "\\", "}", "\n", "N", "x"),
    ],
)
def test_cues_end_where_their_definition_says(alphabet: tuple[str, ...]) -> None:
    """All texts up to some pieces."""
    sizes = range(7 if FULL else 5)
    assert_cleaned(TAGS, ["".join(one) for size in sizes for one in product(alphabet, repeat=size)])


def test_names_and_numbers_have_limits() -> None:
    """Longer ones are text."""
    assert_cleaned(TAGS, [f"a {'1' * size} {SRT} b" for size in (5, 6, 7)])
    assert_cleaned(TAGS, [f"{name * size}\n{SRT} b" for name in "1x" for size in (5, 6, 7, NAME - 1, NAME, NAME + 1)])
    assert_cleaned(TAGS, [f"{one * size}00:01.5 --> 00:02.5{one * size}" for one in "0 :\t" for size in range(18)])
    layers = [size * one for one in "1 a" for size in range(FIELD - 2, FIELD + 2)]
    assert_cleaned(TAGS, [DIALOGUE.replace("0", layer, 1) + "b" for layer in layers])
    assert_cleaned(TAGS, [DIALOGUE.replace("0:00:04", " " * size + "0:00:04") + "b" for size in range(FIELD)])
