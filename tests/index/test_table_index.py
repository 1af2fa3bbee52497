"""The store and the tables without a log."""

from pathlib import Path

import numpy as np
import pytest

from stream_dedup.core.probes import words
from stream_dedup.errors import UnavailableError
from stream_dedup.index import IndexSettings, TableIndex, row_column
from stream_dedup.index.layout import RowArray
from stream_dedup.index.store import Store, WriteBatch


def signatures(count: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (count, 32), dtype=np.uint8)


def test_a_store_has_its_set_block_cache_after_opening_again(tmp_path: Path) -> None:
    """What is set now counts, not what was set when the folder was made."""
    for mib, create in ((3, True), (5, False)):
        settings = IndexSettings(block_cache_mib=mib)
        store = Store(tmp_path / "data", settings, create=create, on_corrupt=pytest.fail)
        assert store.number("rocksdb.block-cache-capacity") == mib << 20
        store.close()


def test_entries_that_could_not_be_written_leave_no_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next ones take their log positions, and are found under their own labels."""

    def full(_store: Store, _batch: WriteBatch) -> None:
        msg = "no space"
        raise UnavailableError(msg)

    groups, drawn = np.zeros(2, np.uint64), signatures(4)
    with monkeypatch.context() as patch:
        index = TableIndex(tmp_path)
        patch.setattr(Store, "write", full)
        with pytest.raises(UnavailableError):
            index.add(drawn[:2], groups, ["lost", "too"])
    assert len(index) == 0
    assert index.add(drawn[2:], groups, ["a", "b"]).tolist() == [0, 1]
    assert index.labels(np.array([1, 0])) == ["b", "a"]
    assert (index.signatures(np.array([0, 1])) == words(drawn[2:])).all()
    index.close()


def test_rows_are_read_a_few_chunks_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows far apart take a chunk each: what is held at once is bounded, and they come in their order."""
    monkeypatch.setattr(row_column, "ROW_CHUNK", 4)
    monkeypatch.setattr(row_column, "_READ_CHUNKS", 3)
    reads: list[int] = []
    read = row_column.RowColumn._read

    def counted(column: row_column.RowColumn, chunks: np.ndarray) -> RowArray:
        reads.append(len(chunks))
        return read(column, chunks)

    monkeypatch.setattr(row_column.RowColumn, "_read", counted)
    index, drawn = TableIndex(settings=IndexSettings(image_mib=0)), signatures(50)
    index.add(drawn, np.zeros(50, np.uint64), [str(at) for at in range(50)])
    asked = np.array([0, 1, 7, 8, 20, 23, 24, 40, 49])
    assert (index.tables.rows.fetch(asked)["signature"] == words(drawn[asked])).all()
    assert reads == [3, 3, 1]
    assert index.tables.rows.fetch(asked[:0]).shape == (0,)
    index.close()
