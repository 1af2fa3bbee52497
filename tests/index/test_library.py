"""The index behind ``stream_dedup.Index``: a log in the index alone."""

from pathlib import Path

import numpy as np
import pytest

from stream_dedup import Index, api
from stream_dedup.api import article_ids, open_library
from stream_dedup.core.model import LogOffset
from stream_dedup.core.probes import words
from stream_dedup.errors import RefusedError, UnavailableError, UserError
from stream_dedup.index import IndexSettings, LogIndex, records, tables
from stream_dedup.index.store import Store, WriteBatch
from tests.index.checks import add_signatures
from tests.logs import SCHEME


def random_signatures(count: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (count, 32), dtype=np.uint8)


def test_articles_that_could_not_be_written_leave_no_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the error the index refuses every call; opened again it has what was durable, and takes new articles."""

    def full(_store: Store, _batch: WriteBatch) -> None:
        raise UnavailableError("no space")

    with Index(tmp_path) as index:
        index.add("durable", 1)
        index.flush()
        with monkeypatch.context() as patch:
            patch.setattr(Store, "write", full)
            index.add("lost", 2)
            with pytest.raises(UnavailableError):
                index.flush()
        for call in (index.flush, lambda: len(index), lambda: index.search(1), lambda: index.add("refused", 3)):
            with pytest.raises(RefusedError, match="close it and open it again"):
                call()
    with Index(tmp_path) as index:
        index.add("next", 4)
        assert len(index) == 2
        assert [index.search(number, k=0)[0].id for number in (1, 4)] == ["durable", "next"]


def test_articles_wait_where_their_record_could_not_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt or a lack of memory before anything is written loses no article: the next call appends them."""

    def interrupted(_payload: object) -> bytes:
        raise KeyboardInterrupt

    with Index(tmp_path) as index:
        index.add("first", 1)
        with monkeypatch.context() as patch:
            patch.setattr(api, "encode", interrupted)
            with pytest.raises(KeyboardInterrupt):
                index.flush()
        index.add("second", 2)
        index.flush()
        assert [index.search(number, k=0)[0].id for number in (1, 2)] == ["first", "second"]


def test_each_batch_is_read_once_for_the_ids_of_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Matches of many batches, nearest first, come from one batch after the other; a search reads no batch twice."""
    monkeypatch.setattr(records, "RECENT_BYTES", 0)
    with Index(tmp_path) as index:
        for batch in range(5):
            for bits in range(4):
                index.add(f"{batch} {bits}", (1 << bits) - 1)
            index.flush()
        decoded: list[LogOffset] = []
        decode = records.StoredRecords._decode

        def counted(of: records.StoredRecords, offset: LogOffset, stored: bytes) -> records.StoredRecord:
            decoded.append(offset)
            return decode(of, offset, stored)

        monkeypatch.setattr(records.StoredRecords, "_decode", counted)
        found = [match.id for match in index.search(0, k=3)]
    assert found == [f"{batch} {bits}" for bits in range(4) for batch in range(5)]
    assert len(decoded) == len(set(decoded))


def test_rows_are_read_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From within any chunk to within any other, once and several times."""
    monkeypatch.setattr(tables, "ROW_CHUNK_BYTES", 256)
    index, drawn = open_library(tmp_path, SCHEME, IndexSettings(memory_mib=0)), random_signatures(50)
    add_signatures(index, drawn, [str(at) for at in range(50)])
    for numbers in (np.arange(50), np.arange(50)[::-1], np.arange(3, 5), np.zeros(0, np.int64), np.array([49, 0, 49])):
        assert (index.rows(numbers)["signature"] == words(drawn)[numbers]).all()
    chosen = np.array([0, 1, 7, 8, 20, 23, 24, 40, 49])
    assert article_ids(index, index.rows(chosen)) == [str(at) for at in chosen]
    index.close()


@pytest.mark.parametrize(
    "article_id", ["", "a", "\0", "\0a", "\ud800", "a\ud800\udfff", "é", "\U0001f600", "\\ud800", "?"]
)
def test_every_id_is_read_as_it_was_added(tmp_path: Path, article_id: str) -> None:
    """The log holds UTF-8 only; ids that are no UTF-8 are escaped, and ids that look escaped too."""
    with Index(tmp_path) as index:
        index.add(article_id, 5)
        assert index.search(5) == [(article_id, 0, 1.0)]


def test_another_log_is_refused(tmp_path: Path) -> None:
    """An index of a worker or of `filter` is no index of the Python API; a call that is refused changes nothing."""
    index = LogIndex.open(tmp_path, scheme=None)
    index.begin("files-1")
    index.close()
    with pytest.raises(UserError, match="belongs to a worker or to `filter`"):
        open_library(tmp_path, SCHEME)
    LogIndex.open(tmp_path, scheme=None).close()
