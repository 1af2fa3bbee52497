"""The benchmark of filter beside a plain loop: its texts, its loops, and how it counts what they find."""

from pathlib import Path

import orjson
import pytest

from benchmarks import filter_beside, filter_loops, made_news
from benchmarks.filter_beside import Truth, judged, write_texts
from benchmarks.made_news import CHARACTERS, MadeText, made_text
from benchmarks.processes import Took
from benchmarks.texts import shingles

TEXTS = 300


def test_a_copy_is_one_of_an_earlier_text_with_one_change() -> None:
    """One text in five is; all its other sentences are those of the earlier one, which is none itself."""
    made = [made_text(number) for number in range(TEXTS)]
    copies = [(number, one) for number, one in enumerate(made) if one.origin is not None]
    assert TEXTS // 8 < len(copies) < TEXTS // 3
    for number, one in copies:
        assert one.origin is not None
        assert one.origin < number
        assert made[one.origin].origin is None
        assert one.text != made[one.origin].text
        assert share(one, made[one.origin]) > 0.6
    assert {one.change for _, one in copies} == {"header added", "sentence dropped", "sentence edited"}


def test_a_text_follows_from_its_number() -> None:
    """It has some 500 characters, and shares little with others."""
    assert made_text(17) == made_text(17)
    originals = [one for one in map(made_text, range(40)) if one.origin is None]
    assert all(CHARACTERS <= len(one.text) < CHARACTERS + made_news.MOST_CHARACTERS for one in originals)
    assert max(share(one, other) for one in originals for other in originals if one is not other) < 0.5


def share(one: MadeText, other: MadeText) -> float:
    """Jaccard similarity of the shingles."""
    own, others = (set(shingles(text)) for text in (one.text, other.text))
    return len(own & others) / len(own | others)


def mark(path: Path, *matches: int | None) -> Path:
    """Write verdicts: of a duplicate the number of its match."""
    dedup = [
        {"verdict": "unique"} if one is None else {"verdict": "duplicate", "match": {"id": str(one)}} for one in matches
    ]
    path.write_bytes(b"\n".join(orjson.dumps({"dedup": one}) for one in dedup))
    return path


def test_shares_are_those_of_the_planted_copies(tmp_path: Path) -> None:
    """Of six texts 1, 2 and 4 are copies, by three changes; 5 is confused, and the match of 4 is not what it copies."""
    truth = Truth([0, 0, 0, 3, 0, 5], ["", "dropped", "edited", "", "added", ""])
    marked = mark(tmp_path / "marked", None, 0, None, None, 3, 3)
    assert judged(marked, truth) == {
        "added": "1.0000",
        "dropped": "1.0000",
        "edited": "0.0000",
        "found": "0.6667",
        "of the right text": "0.3333",
        "confused": "0.333333",
    }


def test_a_match_that_is_another_copy_is_right(tmp_path: Path) -> None:
    """A copy's match may be an earlier copy of the same text."""
    marked = mark(tmp_path / "marked", None, 0, 1)
    assert judged(marked, Truth([0, 0, 0], ["", "a", "a"]))["of the right text"] == "1.0000"


@pytest.mark.slow
def test_the_loop_finds_most_copies_and_confuses_none(tmp_path: Path) -> None:
    """Each record leaves as it came, with its verdict."""
    given, marked = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    truth = write_texts(given, TEXTS)
    filter_loops.run(given, marked)
    shares = judged(marked, truth)
    assert float(shares["of the right text"]) > 0.9
    assert float(shares["confused"]) == 0
    records = [orjson.loads(line) for line in marked.read_bytes().splitlines()]
    assert [record["text"] for record in records] == [made_text(number).text for number in range(TEXTS)]


def test_start_up_is_taken_off() -> None:
    """Of both times, not of the memory."""
    least = filter_beside._least([Took(3, 2, 10), Took(2, 3, 20)])
    assert least == Took(2, 2, 10)
    assert least.without(Took(1, 0.5, 5)) == Took(1, 1.5, 10)
