"""The index behind ``stream_dedup.Index``: a log in the index alone."""

import shutil
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from stream_dedup import Index
from stream_dedup.core.model import LogOffset
from stream_dedup.core.probes import words
from stream_dedup.errors import CorruptError, RefusedError, UnavailableError, UserError
from stream_dedup.index import IndexSettings, LogIndex, folder, library, log_index, only_copy_in, records, row_column
from stream_dedup.index.folder import Folder, kind_of
from stream_dedup.index.layout import RowArray
from stream_dedup.index.library import article_ids, open_library
from stream_dedup.index.store import Store, WriteBatch
from tests.index.checks import add_signatures
from tests.index.make_fixture import FIXTURES, check_library, open_old
from tests.index.trees import tree
from tests.logs import SCHEME

OLD = FIXTURES / "v2" / "tables"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """An index that an earlier release kept for the Python API."""
    return shutil.copytree(OLD, tmp_path / "index")


def random_signatures(count: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (count, 32), dtype=np.uint8)


def test_articles_that_could_not_be_written_leave_no_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the error the index refuses every call; opened again it has what was durable, and takes new articles."""

    def full(_store: Store, _batch: WriteBatch) -> None:
        msg = "no space"
        raise UnavailableError(msg)

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
            patch.setattr(library, "encode", interrupted)
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

        def counted(of: records.StoredRecords, offset: LogOffset, raw: bytes, head: bytes) -> records.StoredRecord:
            decoded.append(offset)
            return decode(of, offset, raw, head)

        monkeypatch.setattr(records.StoredRecords, "_decode", counted)
        found = [match.id for match in index.search(0, k=3)]
    assert found == [f"{batch} {bits}" for bits in range(4) for batch in range(5)]
    assert len(decoded) == len(set(decoded))


def test_rows_are_read_a_few_chunks_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows far apart are in a chunk each: a read holds a few chunks at once and returns the rows in their order."""
    monkeypatch.setattr(row_column, "ROW_CHUNK", 4)
    monkeypatch.setattr(row_column, "_READ_CHUNKS", 3)
    reads: list[int] = []
    read = row_column.RowColumn._read

    def counted(column: row_column.RowColumn, chunks: np.ndarray) -> RowArray:
        reads.append(len(chunks))
        return read(column, chunks)

    monkeypatch.setattr(row_column.RowColumn, "_read", counted)
    index, drawn = open_library(tmp_path, SCHEME, IndexSettings(image_mib=0)), random_signatures(50)
    add_signatures(index, drawn, [str(at) for at in range(50)])
    chosen = np.array([0, 1, 7, 8, 20, 23, 24, 40, 49])
    assert (index._applied.tables.rows.fetch(chosen)["signature"] == words(drawn[chosen])).all()
    assert reads == [3, 3, 1]
    assert index._applied.tables.rows.fetch(chosen[:0]).shape == (0,)
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


def test_an_old_index_is_converted(old: Path) -> None:
    """The new data replace the old ones, and every search finds the same articles at the same distances, in order."""
    with closing(open_old(old)) as index:
        check_library(index)
    assert kind_of(old) == "log"
    assert sorted(path.name for path in old.iterdir()) == ["current", "data-2", "owner"]
    with closing(open_old(old)) as index:
        check_library(index)
    with LogIndex.read(old, scheme=None) as index:
        assert index.verify() == []


@pytest.mark.parametrize("step", ["filling", "before current", "after current"])
def test_a_conversion_that_was_cut_off_loses_nothing(old: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Whatever step an error ends, the next opening has every article."""

    class KilledError(Exception):
        pass

    def killed(*_arguments: object) -> None:
        raise KilledError

    def made_current(folder: Folder, data: Path) -> None:
        make_current(folder, data)
        killed()

    make_current = Folder.make_current
    with monkeypatch.context() as patch:
        if step == "filling":
            patch.setattr(library, "append_articles", killed)
        else:
            patch.setattr(Folder, "make_current", made_current if step == "after current" else killed)
        with pytest.raises(KilledError):
            open_old(old)
    assert kind_of(old) == ("log" if step == "after current" else "tables")
    with closing(open_old(old)) as index:
        check_library(index)


def test_a_crash_before_the_old_data_are_removed_leaves_them_to_the_next_opening(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data of a release without marks are removed too: the conversion marks them before it replaces them."""

    class KilledError(Exception):
        pass

    def killed(_data: Path) -> None:
        raise KilledError

    (old / "data-1" / "committed").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(folder, "remove_data", killed)
        with pytest.raises(KilledError):
            open_old(old)
    assert kind_of(old) == "log"
    assert (old / "data-1").is_dir()
    with closing(open_old(old)) as index:
        check_library(index)
    assert sorted(path.name for path in old.iterdir()) == ["current", "data-2", "owner"]


def test_conversions_that_were_killed_leave_one_copy_at_most(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each conversion removes what the one before left: the disk does not fill with copies."""

    class KilledError(Exception):
        pass

    def killed(*_arguments: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(library, "append_articles", killed)
        patch.setattr(log_index, "remove_data", lambda _data: None)
        for _ in range(3):
            with pytest.raises(KilledError):
                open_old(old)
            assert len(list(old.glob("data-*"))) == 2
    with closing(open_old(old)) as index:
        check_library(index)
    assert len(list(old.glob("data-*"))) == 1


def test_a_damaged_old_index_is_not_converted(old: Path) -> None:
    """A damaged label, a mark of damage or another scheme: nothing of the index is changed."""
    before = tree(old / "data-1")
    for profile in ("article", "comment"):
        with pytest.raises(UserError, match="holds fingerprints of scheme"):
            Index(old, profile)
    (old / "corrupt").write_text("a checksum\n")
    with pytest.raises(CorruptError, match="is damaged"):
        open_old(old)
    (old / "corrupt").unlink()
    assert tree(old / "data-1") == before
    (table,) = sorted((old / "data-1").glob("*.sst"))[-1:]
    table.write_bytes(table.read_bytes()[:-100])
    with pytest.raises(CorruptError):
        open_old(old)
    assert kind_of(old) == "tables"
    assert sorted(path.name for path in old.iterdir() if path.name.startswith("data")) == ["data-1"]


def test_an_old_index_is_the_only_copy(old: Path) -> None:
    """A worker neither opens nor empties it, before and after the conversion."""
    with pytest.raises(UserError, match=r"of kind 'tables', not 'log'.*stream_dedup\.Index, which converts it"):
        LogIndex.open(old, scheme=None)
    assert only_copy_in(old)
    open_old(old).close()
    assert only_copy_in(old)


def test_another_log_is_refused(tmp_path: Path) -> None:
    """An index of a worker or of `filter` is no index of the Python API; a call that is refused changes nothing."""
    index = LogIndex.open(tmp_path, scheme=None)
    index.begin("files-1")
    index.close()
    with pytest.raises(UserError, match="belongs to a worker or to `filter`"):
        open_library(tmp_path, SCHEME)
    LogIndex.open(tmp_path, scheme=None).close()
