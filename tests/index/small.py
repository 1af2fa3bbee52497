"""Chunks so small that a few entries go through every path of the tables."""

from typing import Any

from stream_dedup.index import tables

OF_RUNS = {"CHUNK_ENTRIES": 5}
"""Each run says how large its chunks are: who opens the folder need not know, if its own chunks are not smaller."""
OF_ROWS = {"ROW_CHUNK_BYTES": 300}


def small_runs(set_to: Any = setattr) -> None:  # noqa: ANN401 - or a test's own, which sets them back
    """Set the limits of runs."""
    for name, value in OF_RUNS.items():
        set_to(tables, name, value)


def small_chunks(set_to: Any = setattr) -> None:  # noqa: ANN401 - as above
    """Set the limits of runs and of rows; nobody else can open the folder."""
    small_runs(set_to)
    for name, value in OF_ROWS.items():
        set_to(tables, name, value)
