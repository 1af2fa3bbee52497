"""Malformed records through a real worker, a few of those that `make fuzz ARGS="--worker 20000"` takes."""

import pytest

from tests.amount import FULL
from tests.fuzz.worker import PARTITIONS, SETTINGS, faults, through
from tests.worker.conftest import MakePipeline

SEED = 20261122
RECORDS = 2_000 if FULL else 300


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_each_record_leaves_once_with_its_verdict_or_its_reason(make_pipeline: MakePipeline) -> None:
    """Bytes, JSON, HTML, Unicode, keys and headers that nobody would produce: nothing is lost, changed or fatal."""
    made = make_pipeline(partitions=PARTITIONS, **SETTINGS)
    records, outputs = through(made, RECORDS, SEED)
    assert list(faults(records, outputs)) == []
