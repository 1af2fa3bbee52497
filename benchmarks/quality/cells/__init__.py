"""Cells of the sweep: pairs of texts that are copies of each other, and sets of texts that are none."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.quality.cells import lengths, looks, quotes, rows, templates
from benchmarks.quality.cells.model import Cell


def every() -> Iterator[Cell]:
    """Every cell of the sweep."""
    yield from rows.rows()
    yield from templates.cells()
    yield from quotes.cells()
    yield from looks.cells()
    yield from lengths.cells()
