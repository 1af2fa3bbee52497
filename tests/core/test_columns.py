"""The columns of entries: slices, concatenation and rejected rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stream_dedup.core.columns import COLUMNS, Columns
from stream_dedup.core.model import SIGNATURE_BYTES, Status, Widths

N, WIDTHS = 5, Widths(8, 16)


@pytest.fixture
def columns() -> Columns:
    """Five signed entries, no two rows alike in any column but the status."""
    draw = np.random.default_rng(7)
    return Columns.of(
        checksums=range(1, N + 1),
        statuses=[Status.LONG] * N,
        scope_hashes=range(11, N + 11),
        signatures=draw.integers(1, 256, (N, SIGNATURE_BYTES)),
        margins=draw.integers(1, 256, (N, WIDTHS.margin_bytes)),
        sketches=draw.integers(1, 256, (N, WIDTHS.sketch_bytes)),
        ids=["a", "", "文章", "d", "eé"],
        reasons=["r0", "", "r2", "", "r4"],
    )


def values(columns: Columns) -> dict[str, list[Any]]:
    """Each column as a list."""
    return {name: list(map(_value, getattr(columns, name))) for name in COLUMNS}


def _value(value: Any) -> Any:  # noqa: ANN401 - an element of any column
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


@pytest.mark.parametrize("rows", [slice(0, 0), slice(0, 2), slice(1, 4), slice(3, None), slice(4, 2)])
def test_a_slice_has_the_rows_of_each_column(columns: Columns, rows: slice) -> None:
    """Every column of a slice is the slice of the column."""
    assert values(columns.rows(rows)) == {name: column[rows] for name, column in values(columns).items()}


def test_chosen_rows_come_in_the_order_of_their_numbers(columns: Columns) -> None:
    """Row numbers choose rows in their own order."""
    rows = [4, 0, 2]
    expected = {name: [column[row] for row in rows] for name, column in values(columns).items()}
    assert values(columns.rows(np.array(rows))) == expected


def test_slices_concatenate_to_the_whole(columns: Columns) -> None:
    """The concatenation of consecutive slices has every column of the whole."""
    parts = [columns.rows(slice(start, start + 2)) for start in range(0, N, 2)]
    assert values(Columns.concat(parts)) == values(columns)


def test_a_rejected_row_keeps_its_checksum_and_id(columns: Columns) -> None:
    """All else of the row becomes blank but the reason; the other rows and the columns given stay as they were."""
    before = values(columns)
    rejected = values(columns.rejected({1: "late", 3: "cut"}))
    blank = values(Columns.blank(N, WIDTHS))
    for name, column in rejected.items():
        kept = before if name in {"checksums", "ids"} else blank
        expected = [(kept if row in {1, 3} else before)[name][row] for row in range(N)]
        if name == "reasons":
            expected[1], expected[3] = "late", "cut"
        assert column == expected, name
    assert values(columns) == before
