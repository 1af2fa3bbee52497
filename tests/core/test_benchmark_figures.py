"""The figures of the benchmark of fingerprints: from turns to tables."""

import pytest

from benchmarks import texts
from benchmarks.fingerprint import Timed, print_point, print_sweep, timed

PEER = "peer"
TIMES = {PEER: [10.0, 20.0, 30.0], "profile article": [20.0, 20.0, 90.0]}


def figures() -> list[Timed]:
    """Of two points."""
    first = timed("Chinese", ["好的", "好"], TIMES, PEER)
    return first + timed("English", ["four"], TIMES | {"profile article": [20.0] * 3}, PEER)


def test_a_figure_is_a_median_and_its_ratio_that_of_turns() -> None:
    """The ratio is the median of the ratios in the same turn, not the ratio of the medians."""
    assert timed("Chinese", ["好的", "好"], TIMES, PEER) == [
        Timed("Chinese", 2, 4, PEER, 20.0, 1.0),
        Timed("Chinese", 2, 4, "profile article", 20.0, 2.0),
    ]


def test_a_table_has_the_ratios_to_the_peer(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a point by contender, and of a sweep by point."""
    print_point(figures()[:2], (PEER, "not measured"))
    print_sweep(figures())
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|") and "---" not in line]
    assert rows == [
        "| | µs a text | MB/s | x peer | x peer |",
        "| peer | 20.0 | 0.2 | 1.00 | 1.00 |",
        "| profile article | 20.0 | 0.2 | 2.00 | 1.00 |",
        "| text | characters | peer | profile article |",
        "| Chinese | 2 | 20.0 (1.00) | 20.0 (2.00) |",
        "| English | 4 | 20.0 (1.00) | 20.0 (1.00) |",
    ]


def test_texts_of_a_length_are_made_of_other_pieces() -> None:
    """Exactly so long, in the order of the pieces, which begin again where there are not enough."""
    assert texts.passages(["abc", "de", "fgh"], 5, 3, " ") == ["abc d", "fgh a", "de fg"]


def test_comments_have_the_mean_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """None has less than half of it."""
    monkeypatch.delenv("STREAM_DEDUP_DATA", raising=False)
    some = texts.comments_about(60, 2_000)
    assert abs(sum(map(len, some)) / len(some) - 60) < 3
    assert min(map(len, some)) >= 30
