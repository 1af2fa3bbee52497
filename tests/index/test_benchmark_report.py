"""The figures of the benchmark of the index as tables."""

import pytest

from benchmarks.index_report import Figure, Filled, Opened, Peer, Searched, print_tables
from benchmarks.processes import Memory

FIGURES: list[Figure] = [
    Filled(20, 4, 1_000, 3.25, 2.0, 41.0, 17.0, 12.5, 9.0, disk_bytes=198.0, list_bytes=48.0),
    Opened(20, 4, 1_000, 64, seconds=0.5, processor_s=0.25, first_s=0.625, warm_s=2.5, memory=Memory(1.0, 3.0)),
    Searched(20, 4, 1_048_576, 64, 3, 4, 2.0, 10.0, 12.0, 80.0, 8.0, Memory(30.0, 12.0)),
    Peer(20, 4, 1_048_576, 64, 3, 60.0, ""),
]


def test_tables_have_each_figure_beside_its_peer(capsys: pytest.CaptureFixture[str]) -> None:
    """Bytes are those of an article, candidates expected follow from the bits, and the ratio is that of the medians."""
    print_tables(FIGURES)
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| 20")]
    assert rows == [
        "| 20 | 1,048,576 | k = 3 | 64: 2 | 10.0 | 12.0 | 80 | 4 | 8 | 42 | 60 | 6 x |",
        "| 20 | 1,000 | 3.2 | 2.0 | 41 | 17 | 12.5 | 9 | 198 | 48 |",
        "| 20 | 1,000 | 64 | 0.50 | 0.25 | 0.62 | 2.5 | 4 | 4,194 |",
    ]
