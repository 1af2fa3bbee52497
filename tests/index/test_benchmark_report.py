"""The figures of the benchmark of the index, from their file to tables and a picture."""

from pathlib import Path

import pytest

from benchmarks.index_report import Figure, Filled, Opened, Peer, Searched, print_tables, read_figures, to_json
from benchmarks.processes import Memory
from stream_dedup.errors import UserError

FIGURES: list[Figure] = [
    Filled(20, 4, 1_000, 3.25, 2.0, 41.0, 17.0, 12.5, 9.0, disk_bytes=198.0, list_bytes=48.0),
    Opened(20, 4, 1_000, 64, seconds=0.5, processor_s=0.25, first_s=0.625, warm_s=2.5, memory=Memory(1.0, 3.0)),
    Searched(20, 4, 1_048_576, 64, 3, 4, 2.0, 10.0, 12.0, 80.0, 8.0, Memory(30.0, 12.0)),
    Peer(20, 4, 1_048_576, 64, 3, 60.0, ""),
]


def test_figures_are_read_as_they_were_written(tmp_path: Path) -> None:
    """One file has the lines of several runs, each with every kind of figure."""
    path = tmp_path / "figures.jsonl"
    path.write_text("".join(to_json(figure) + "\n" for figure in FIGURES * 2), "utf-8")
    assert list(read_figures(path)) == FIGURES * 2


def test_tables_have_each_figure_beside_its_peer(capsys: pytest.CaptureFixture[str]) -> None:
    """Bytes are those of an article, candidates expected follow from the bits, and the ratio is that of the medians."""
    print_tables(FIGURES)
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| 20")]
    assert rows == [
        "| 20 | 1,048,576 | k = 3 | 64: 2 | 10.0 | 12.0 | 80 | 4 | 8 | 42 | 60 | 6 x |",
        "| 20 | 1,000 | 3.2 | 2.0 | 41 | 17 | 12.5 | 9 | 198 | 48 |",
        "| 20 | 1,000 | 64 | 0.50 | 0.25 | 0.62 | 2.5 | 4 | 4,194 |",
    ]


def test_a_line_that_is_no_figure_is_named(tmp_path: Path) -> None:
    """A run that was killed may leave half a line."""
    path = tmp_path / "figures.jsonl"
    path.write_text(to_json(FIGURES[0]) + "\n" + to_json(FIGURES[1])[:-5], "utf-8")
    with pytest.raises(UserError, match=r"figures\.jsonl, line 2: .*delete it"):
        list(read_figures(path))
