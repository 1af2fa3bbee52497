"""An index opened to be read: nothing changes, no permission to write is needed, and readers share it."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from stream_dedup.core.model import log_position
from stream_dedup.errors import CorruptError, UserError
from stream_dedup.index import LogIndex, only_copy_in
from tests.index.dying import RECORDS, kept
from tests.index.trees import tree
from tests.logs import SCHEME, START_TIME, TOPICS

ROOT = Path(__file__).parents[2]


def look_into(path: Path) -> None:
    """Whatever a command that reads asks of an index."""
    with LogIndex.read(path, scheme=SCHEME) as index:
        assert index.next_offset == 2
        assert index.stats().articles == 2
        assert index.verify() == []
        assert index.entry(log_position(1, 1))[0].time == START_TIME
        assert index.judge(np.array([log_position(1, 1)]))[0].match is not None
        assert index.logged_positions(TOPICS[0], 0, np.array([0])).tolist() == [log_position(1, 0)]


def test_reading_changes_nothing(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No byte, no time stamp, no file, no lock; a temporary folder of links goes."""
    temporary = tmp_path_factory.mktemp("temporary")  # of this test alone: others run beside it
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    kept(tmp_path)
    before = tree(tmp_path)
    look_into(tmp_path)
    assert not only_copy_in(tmp_path)
    assert tree(tmp_path) == before
    assert list(temporary.iterdir()) == []


def test_an_index_has_one_writer_or_readers(tmp_path: Path) -> None:
    """A writer removes files that it has merged: a reader would miss them."""
    kept(tmp_path)
    with (
        LogIndex.read(tmp_path, scheme=SCHEME),
        LogIndex.read(tmp_path, scheme=SCHEME),
        pytest.raises(UserError, match="is in use by a process that reads it: wait for it to end"),
    ):
        LogIndex.open(tmp_path, scheme=SCHEME)
    with LogIndex.open(tmp_path, scheme=SCHEME):
        for opening in (LogIndex.read, LogIndex.open):
            with pytest.raises(UserError, match="is open in this process already: share it"):
                opening(tmp_path, scheme=SCHEME)
    look_into(tmp_path)


def test_damage_found_by_a_reader_leaves_no_mark(tmp_path: Path) -> None:
    """It is an error, and the folder stays as it is."""
    kept(tmp_path)
    next(tmp_path.rglob("*.sst")).write_bytes(b"")
    before = tree(tmp_path)
    with pytest.raises(CorruptError, match="RocksDB could not open") as raised:
        LogIndex.read(tmp_path, scheme=SCHEME)
    assert tree(tmp_path) == before
    assert tempfile.gettempdir() + "/stream-dedup-" not in str(raised.value)


NOBODY = 65534
READ_AS_NOBODY = """
import os, sys
from pathlib import Path
from tests.index.test_reading import look_into
if os.geteuid() == 0:
    os.setuid(int(sys.argv[2]))
assert not os.access(sys.argv[1], os.W_OK)
look_into(Path(sys.argv[1]))
"""


@pytest.fixture
def read_only_index() -> Iterator[Path]:
    """An index in folders that nobody may write, where everybody may read."""
    with tempfile.TemporaryDirectory() as above:
        Path(above).chmod(0o755)
        path = Path(above) / "index"
        kept(path)
        for each in [*path.rglob("*"), path]:
            each.chmod(0o555 if each.is_dir() else 0o444)
        yield path
        for each in [path, *path.rglob("*")]:
            each.chmod(0o755 if each.is_dir() else 0o644)


@pytest.mark.slow
def test_an_index_is_read_where_nothing_can_be_written(read_only_index: Path) -> None:
    """A backup on a read-only disk, or the index of another user."""
    before = tree(read_only_index)
    command = [sys.executable, "-c", READ_AS_NOBODY, str(read_only_index), str(NOBODY)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert tree(read_only_index) == before


def test_readers_share_an_index_and_keep_writers_out(tmp_path: Path) -> None:
    """Any number of readers; a writer waits for them, and they for the writer."""
    kept(tmp_path)
    with LogIndex.read(tmp_path, scheme=SCHEME) as one, LogIndex.read(tmp_path, scheme=SCHEME) as other:
        assert one.next_offset == other.next_offset == 2
        with pytest.raises(UserError, match="in use by a process that reads it: wait for it to end"):
            LogIndex.open(tmp_path, scheme=SCHEME)
    with LogIndex.open(tmp_path, scheme=SCHEME) as writer:
        with pytest.raises(UserError, match="is open in this process already"):
            LogIndex.read(tmp_path, scheme=SCHEME)
        writer.judge(np.array([log_position(1, 1)]))
    look_into(tmp_path)


def test_an_index_of_files_is_the_only_copy(tmp_path: Path) -> None:
    """Its folder says so, even without its pointer, marked as damaged, or where none of its data can be read."""
    path = tmp_path / "index"
    with LogIndex.open(path, scheme=SCHEME) as index:
        index.begin("files-1")
        index.apply(RECORDS)
    (path / "current").unlink()
    (path / "corrupt").write_text("damage was found\n")
    before = tree(tmp_path)
    assert only_copy_in(path)
    assert tree(tmp_path) == before
    assert not only_copy_in(tmp_path)
    assert not only_copy_in(tmp_path / "missing")
    next(path.rglob("MANIFEST-*")).write_bytes(b"")
    assert only_copy_in(path)
