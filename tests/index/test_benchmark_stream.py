"""The made articles that the benchmarks of the index apply."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.stream import FLIPS, KEPT_OF_BATCH, Search, Stream
from stream_dedup.core.entry import decode
from stream_dedup.core.model import BLOCK_WIDTHS, Verdict, log_position
from stream_dedup.core.probes import unpack_margins
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
            record = stream.record()
            index.apply([record._replace(payload=decode(record.raw))])
            judged = index.judge(log_position(record.offset, 0) + np.arange(ROWS))
            duplicates += sum(one.verdict is Verdict.DUPLICATE for one in judged)
    assert 0.1 < duplicates / (ROWS * RECORDS) < 0.2


def test_an_edited_article_is_a_kept_one_with_some_of_its_least_sure_bits_flipped() -> None:
    """Ten bits are flipped on the mean, none of them sure; margins stay, and a quarter of the sketch is drawn anew."""
    stream = Stream(ROWS, 4, 16)
    kept = stream.batch().rows(slice(0, KEPT_OF_BATCH))
    rows = stream.batch()
    distances = np.bitwise_count(rows.signatures[:, np.newaxis] ^ kept.signatures).sum(axis=2)
    nearest = distances.argmin(axis=1)
    edited = np.flatnonzero(distances.min(axis=1) <= 2 * FLIPS)
    flipped = np.unpackbits(rows.signatures[edited] ^ kept.signatures[nearest[edited]], axis=1)
    margins = unpack_margins(rows.margins[edited])
    anew = rows.sketches[edited] ^ kept.sketches[nearest[edited]]
    assert 0.1 < len(edited) / ROWS < 0.3
    assert 7 < flipped.sum(axis=1).mean() < 13
    assert margins[flipped[:, : margins.shape[1]] == 1].max() <= 2
    assert (rows.margins[edited] == kept.margins[nearest[edited]]).all()
    assert 0.15 < np.count_nonzero(np.stack((anew >> 4, anew & 15))) / anew.size / 2 < 0.3


def test_the_scheme_has_the_bits_of_a_block_and_the_log_its_articles() -> None:
    """Blocks of 16 bits are those of schemes that do not name them; ids are told apart."""
    assert [Stream(1, 4, 0, bits).scheme.block_bits for bits in BLOCK_WIDTHS] == list(BLOCK_WIDTHS)
    stream = Stream(ROWS, 4)
    ids = [article for _ in range(2) for article in stream.batch().ids]
    assert len(set(ids)) == 2 * ROWS
    assert ids[ROWS] == "https://example.org/000000200"
