"""Malformed records, a few of the million that `make fuzz` takes: each has its reason or its verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from stream_dedup.core.columns import Columns
from stream_dedup.core.decode import RawRecord
from stream_dedup.core.model import Status
from tests.amount import FULL
from tests.fuzz.core import WAYS, faults, maker_of, run_shard

SEED = 20261122
RECORDS = 5_000 if FULL else 300


@pytest.mark.parametrize("shard", range(len(WAYS)))
def test_each_record_has_its_entry_or_its_reason(shard: int) -> None:
    """In each configuration; some are articles. Nothing raises, and no record changes the entry of another."""
    report = run_shard(SEED, shard, RECORDS)
    assert report.faults == []
    assert report.outcomes.total() == RECORDS
    assert "tombstone" in report.outcomes
    assert {"LONG", "SHORT"} & report.outcomes.keys()


def test_a_shard_is_the_same_again() -> None:
    """The command that names a record finds it again."""
    once, again = (run_shard(SEED, 0, 100) for _ in range(2))
    assert once.outcomes == again.outcomes


def without_reason(columns: Columns) -> Columns:
    return columns.rejected({0: ""})


def rejected_with_a_status(columns: Columns) -> Columns:
    return replace(columns.rejected({0: "no"}), statuses=np.full(2, Status.LONG, np.uint8))


def one_row_less(columns: Columns) -> Columns:
    return columns.rows(slice(0, 1))


def of_other_values(columns: Columns) -> Columns:
    return replace(columns, checksums=columns.checksums + np.uint64(1))


@pytest.mark.parametrize("spoil", [without_reason, rejected_with_a_status, one_row_less, of_other_values])
def test_what_is_wrong_is_found(spoil: Callable[[Columns], Columns]) -> None:
    """The check can fail."""
    records = [RawRecord(b"a", b'{"text": "one"}', "t-0-0"), RawRecord(b"b", b'{"text": "two"}', "t-0-1")]
    columns = maker_of("article")(records)
    assert list(faults(records, columns)) == []
    assert list(faults(records, spoil(columns)))
