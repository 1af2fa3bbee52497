"""The figures of the benchmark of fingerprints: from turns to lines of JSON, tables, a picture, and two versions."""

from pathlib import Path

import pytest

from benchmarks import texts
from benchmarks.fingerprint_figures import (
    Timed,
    compare,
    draw,
    print_point,
    print_sweep,
    read_figures,
    timed,
    write_figures,
)
from stream_dedup.errors import UserError

PEER = "peer"
TIMES = {PEER: [10.0, 20.0, 30.0], "profile article": [20.0, 20.0, 90.0]}


def figures(factor: float = 1.0) -> list[Timed]:
    """Of two points; ours takes so many times as long at the second one."""
    first = timed("Chinese", ["好的", "好"], TIMES, PEER)
    return first + timed("English", ["four"], TIMES | {"profile article": [factor * 20.0] * 3}, PEER)


def test_a_figure_is_a_median_and_its_ratio_that_of_turns() -> None:
    """The ratio is the median of the ratios in the same turn, not the ratio of the medians."""
    assert timed("Chinese", ["好的", "好"], TIMES, PEER) == [
        Timed("Chinese", 2, 4, PEER, 20.0, 1.0),
        Timed("Chinese", 2, 4, "profile article", 20.0, 2.0),
    ]


def test_figures_are_read_as_they_were_written(tmp_path: Path) -> None:
    """A line that is no figure is named: a run that was killed may leave half a line."""
    path = tmp_path / "figures.jsonl"
    write_figures(path, figures())
    assert list(read_figures(path)) == figures()
    path.write_text(path.read_text("utf-8")[:-5], "utf-8")
    with pytest.raises(UserError, match=r"figures\.jsonl, line 4: .*delete it"):
        list(read_figures(path))


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


def test_what_got_slower_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    """Two versions side by side, at the points and contenders that both have; peers are no result."""
    rows = compare(figures()[1:], figures(1.5), PEER)
    assert rows == [
        (1.5, "English, 4 characters, profile article"),
        (1.0, "Chinese, 2 characters, profile article"),
    ]
    table = capsys.readouterr().out
    assert "| English | 4 | profile article | 20.0 | 30.0 | 1.50 | 1.50 |" in table
    assert "| Chinese | 2 | peer |" not in table


def test_a_slow_machine_is_left_out() -> None:
    """Where the peer took twice as long as well, a figure beside it is the same."""
    slow = [Timed(*one.where[:2], one.bytes, one.contender, 2 * one.us, one.beside) for one in figures()]
    assert {ratio for ratio, _ in compare(figures(), slow, PEER)} == {1.0}


@pytest.mark.slow
def test_the_same_figures_make_the_same_picture(tmp_path: Path) -> None:
    """Lines for the kinds that are named, bars for the others."""
    first, second = (draw(figures(), PEER, ("Chinese",), tmp_path / name).read_bytes() for name in ("a.svg", "b.svg"))
    assert first == second
    assert b"English, 4" in first


def test_texts_of_a_length_are_made_of_other_pieces() -> None:
    """Exactly so long, in the order of the pieces, which begin again where there are not enough."""
    assert texts.passages(["abc", "de", "fgh"], 5, 3, " ") == ["abc d", "fgh a", "de fg"]


def test_comments_have_the_mean_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """None has less than half of it."""
    monkeypatch.delenv("STREAM_DEDUP_DATA", raising=False)
    some = texts.comments_about(60, 2_000)
    assert abs(sum(map(len, some)) / len(some) - 60) < 3
    assert min(map(len, some)) >= 30
