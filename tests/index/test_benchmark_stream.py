"""The made articles that the benchmarks of the index apply."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.stream import Search, Stream
from stream_dedup.core.entry import decode
from stream_dedup.core.model import Verdict, log_position
from stream_dedup.core.rules import DIRECTED
from stream_dedup.index import LogIndex

SEARCH: Search = {"search": DIRECTED, "distance": None, "probes": 64, "limit": 60, "short_limit": 60}
CHECK: Search = {"min_equal": 22, "short_min_equal": 22, "certain": 20}
ROWS, RECORDS = 200, 5


@pytest.mark.parametrize(("sketch_bytes", "check"), [(0, {}), (24, CHECK)])
def test_a_fifth_of_the_made_articles_is_near_an_earlier_one(tmp_path: Path, sketch_bytes: int, check: Search) -> None:
    """Their log is read and applied, with sketches and without them, and most of that fifth is found."""
    stream = Stream(ROWS, 4, sketch_bytes)
    duplicates = 0
    with LogIndex.open(tmp_path, scheme=stream.scheme) as index:
        index.begin("log")
        index.apply([stream.rules(SEARCH | check)])
        for _ in range(RECORDS):
            record, _ = stream.record()
            index.apply([record._replace(payload=decode(record.raw))])
            judged = index.judge(log_position(record.offset, 0) + np.arange(ROWS))
            duplicates += sum(one.verdict is Verdict.DUPLICATE for one in judged)
    assert 0.1 < duplicates / (ROWS * RECORDS) < 0.2
