"""The folder: one owner, staged work, formats, what killed processes leave."""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from stream_dedup.core.model import log_position
from stream_dedup.errors import CorruptError, UserError
from stream_dedup.index import LogIndex, folder, mark_corrupt
from tests.index.checks import build
from tests.index.trees import tree
from tests.logs import SCHEME, START_TIME, batch_record, rules_record

RECORDS = [rules_record(0), batch_record(1, START_TIME, [3, 3], [0, 1])]

OTHER_PROCESS = """
import sys
from pathlib import Path
from stream_dedup.index import LogIndex
index = LogIndex.open(Path(sys.argv[1]), scheme=None)
print("open", flush=True)
sys.stdin.readline()
index.close()
"""


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    """One owner at a time; when it ends, even killed, the index is free."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OTHER_PROCESS, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "open\n"
        with pytest.raises(UserError, match=r"in use by another process, which `fuser .*` names: stop that process"):
            LogIndex.open(tmp_path, scheme=SCHEME)
        with pytest.raises(UserError, match="in use"):
            LogIndex.open(tmp_path, scheme=SCHEME, emptied=True)
        owner.kill()
    LogIndex.open(tmp_path, scheme=SCHEME).close()


def test_a_second_opening_in_the_same_process_is_refused(tmp_path: Path) -> None:
    """The owner is the one that opened it, not the process alone."""
    with (
        LogIndex.open(tmp_path, scheme=SCHEME),
        pytest.raises(UserError, match="open in this process already"),
    ):
        LogIndex.open(tmp_path, scheme=SCHEME)
    LogIndex.open(tmp_path, scheme=SCHEME).close()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """The message names the folder and the flag."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"file/index cannot be made or written: .*--index"):
        LogIndex.open(tmp_path / "file" / "index", scheme=SCHEME)


def test_staged_work_counts_when_it_is_committed(tmp_path: Path) -> None:
    """Until then the kept index is as it was; afterwards work goes on in the same index."""
    build(LogIndex.open(tmp_path, scheme=SCHEME), RECORDS).close()
    staged = LogIndex.open(tmp_path, scheme=SCHEME, staged=True)
    staged.apply([batch_record(2, START_TIME, [3], [2])])
    staged.close()
    staged = LogIndex.open(tmp_path, scheme=SCHEME, staged=True)
    assert staged.next_offset == 2
    staged.apply([batch_record(2, START_TIME, [3], [2])])
    staged.commit()
    staged.apply([batch_record(3, START_TIME, [3], [3])])
    staged.close()
    index = LogIndex.open(tmp_path, scheme=SCHEME)
    assert index.next_offset == 4
    assert [judged.match is not None for judged in index.judge(np.array([log_position(3, 0), log_position(1, 0)]))] == [
        True,
        False,
    ]
    assert index.verify() == []
    index.close()
    assert len(list(tmp_path.glob("data-*"))) == 1


def test_a_new_index_can_be_staged(tmp_path: Path) -> None:
    """Nothing is kept of a first call that failed."""
    build(LogIndex.open(tmp_path, scheme=SCHEME, staged=True), RECORDS).close()
    assert not (tmp_path / "current").exists()
    assert list(tmp_path.glob("data-*")) == []
    index = LogIndex.open(tmp_path, scheme=SCHEME, staged=True)
    assert index.next_offset == 0
    index.close()


def test_leftovers_of_a_killed_staged_call_are_removed(tmp_path: Path) -> None:
    """A data folder that is not current goes at the next opening, if it has the mark of this program."""
    build(LogIndex.open(tmp_path, scheme=SCHEME), RECORDS).close()
    (tmp_path / "data-7").mkdir()
    (tmp_path / "data-7" / "staged").touch()
    (tmp_path / "data-7" / "CURRENT").write_text("MANIFEST-000001\n")
    index = LogIndex.open(tmp_path, scheme=SCHEME)
    assert index.next_offset == 2
    assert [data.name for data in tmp_path.glob("data-*")] == ["data-1"]
    index.close()


def test_data_of_killed_calls_make_room_for_a_new_index(tmp_path: Path) -> None:
    """Before it is filled; but not what `current` names, though a crash came before it was marked as committed."""
    build(LogIndex.open(tmp_path, scheme=SCHEME), RECORDS).close()
    (tmp_path / "data-1" / "committed").rename(tmp_path / "data-1" / "staged")
    (tmp_path / "data-7").mkdir()
    (tmp_path / "data-7" / "staged").touch()
    with LogIndex.open(tmp_path, scheme=SCHEME, staged=True, emptied=True):
        assert sorted(data.name for data in tmp_path.glob("data-*")) == ["data-1", "data-2"]
    with LogIndex.read(tmp_path, scheme=SCHEME) as index:
        assert index.next_offset == 2


def test_a_leftover_that_cannot_be_removed_keeps_nobody_from_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes space; the next opening that can removes it."""

    def forbidden(_data: Path) -> None:
        raise PermissionError

    build(LogIndex.open(tmp_path, scheme=SCHEME), [rules_record(0)]).close()
    leftover = tmp_path / "data-2"
    leftover.mkdir()
    (leftover / "staged").touch()
    with monkeypatch.context() as patch:
        patch.setattr(folder, "remove_data", forbidden)
        LogIndex.open(tmp_path, scheme=SCHEME).close()
    assert leftover.is_dir()
    LogIndex.open(tmp_path, scheme=SCHEME).close()
    assert not leftover.exists()


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    """Also where another index is to replace it; the message says what to do, and its files stay as they are."""
    build(LogIndex.open(tmp_path, scheme=SCHEME), RECORDS).close()
    pointer = json.loads((tmp_path / "current").read_text())
    (tmp_path / "current").write_text(json.dumps(pointer | {"format": 99}))
    before = tree(tmp_path)
    for opening in (LogIndex.open, LogIndex.read, partial(LogIndex.open, emptied=True)):
        with pytest.raises(UserError, match=r"has format 99, and this program reads format 10: name a folder that is"):
            opening(tmp_path, scheme=SCHEME)
    assert tree(tmp_path) == before
    (tmp_path / "current").write_text("{")
    with pytest.raises(CorruptError, match="`current` cannot be read"):
        LogIndex.open(tmp_path, scheme=SCHEME)


def test_a_mark_of_damage_is_believed_until_the_index_is_emptied(tmp_path: Path) -> None:
    """A worker that met damage leaves a mark; rebuilding begins with a new index in the same folder."""
    build(LogIndex.open(tmp_path, scheme=SCHEME), RECORDS).close()
    (tmp_path / "mine.txt").write_text("not the index's")
    mark_corrupt(tmp_path, "a block's checksum is wrong")
    with pytest.raises(CorruptError, match=r"damaged \(a block's checksum is wrong\)"):
        LogIndex.open(tmp_path, scheme=SCHEME)
    index = LogIndex.open(tmp_path, scheme=SCHEME, emptied=True)
    assert index.next_offset == 0
    index.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["current", "data-2", "mine.txt"]
    assert (tmp_path / "mine.txt").read_text() == "not the index's"
    LogIndex.open(tmp_path, scheme=SCHEME).close()
    LogIndex.open(tmp_path / "never there", scheme=SCHEME, emptied=True).close()
