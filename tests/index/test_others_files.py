"""Files that are not the index's: never removed, never written to, never reached through a link."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from stream_dedup.api import open_library
from stream_dedup.errors import CorruptError, UserError
from stream_dedup.index import LogIndex, mark_corrupt
from tests.index.dying import EXTRA, RECORDS, kept
from tests.index.trees import tree
from tests.logs import SCHEME

REMEDY = "put it back from a backup; .* by `stream-dedup index rebuild`, and of one that `filter` .* nothing is left"


OPENINGS: dict[str, Callable[[Path], object]] = {
    "read": lambda path: LogIndex.read(path, scheme=SCHEME),
    "write": lambda path: LogIndex.open(path, scheme=SCHEME),
    "staged": lambda path: LogIndex.open(path, scheme=SCHEME, staged=True),
    "emptied": lambda path: LogIndex.open(path, scheme=SCHEME, emptied=True),
    "library": lambda path: open_library(path, SCHEME),
}
WRITERS = ["write", "staged", "emptied"]


@pytest.mark.parametrize("opening", OPENINGS)
@pytest.mark.parametrize("name", ["data-2024/a.txt", "current", "data-1/a.txt", "notes", "staged"])
def test_a_folder_that_holds_something_else_is_refused(tmp_path: Path, opening: str, name: str) -> None:
    """Whatever its name: nothing in it is made, changed or removed."""
    file = tmp_path / "folder" / name
    file.parent.mkdir(parents=True)
    file.write_text("a stranger's")
    before = tree(tmp_path)
    with pytest.raises(UserError, match=r"holds other files \('.*'\) and no index: name a folder|there is none"):
        OPENINGS[opening](tmp_path / "folder")
    assert tree(tmp_path) == before


def test_a_reader_makes_no_index(tmp_path: Path) -> None:
    """Neither in an empty folder nor in place of a missing one."""
    before = tree(tmp_path)
    for path in (tmp_path, tmp_path / "missing", tmp_path / "missing" / "too"):
        with pytest.raises(UserError, match="there is none; name its folder with --index"):
            LogIndex.read(path, scheme=SCHEME)
    assert tree(tmp_path) == before


def test_folders_beside_the_data_stay(tmp_path: Path) -> None:
    """Without this program's mark nothing is removed, by opening, committing or emptying; no number is used again."""
    path, outside = tmp_path / "index", tmp_path / "outside"
    kept(path)
    for folder in (path / "data-2024", path / "data-2", path / "data-3x", path / "data-03", outside):
        folder.mkdir()
        (folder / "a.txt").write_text("a stranger's")
    (outside / "staged").touch()
    (path / "data-5").symlink_to(outside)
    (path / "data-6").write_text("a stranger's file")
    before = tree(tmp_path)
    strangers = {name for name in before if name.startswith("outside") or name[6:12] in {"data-2", "data-3", "data-0"}}
    strangers |= {"index/data-5", "index/data-6"}
    LogIndex.open(path, scheme=SCHEME).close()
    with LogIndex.open(path, scheme=SCHEME, staged=True) as index:
        index.apply([EXTRA])
        index.commit()
    LogIndex.open(path, scheme=SCHEME, emptied=True).close()
    after = tree(tmp_path)
    assert {name: after.get(name) for name in strangers} == {name: before[name] for name in strangers}
    assert json.loads((path / "current").read_text())["data"] == "data-2026"
    assert not (path / "data-1").exists()
    assert not (path / "data-2025").exists()


def test_a_strangers_folder_of_the_greatest_number_is_no_obstacle(tmp_path: Path) -> None:
    """Data get a name that data may have, or the index could not be opened any more."""
    kept(tmp_path)
    (tmp_path / "data-999999999").mkdir()
    with LogIndex.open(tmp_path, scheme=SCHEME, staged=True) as index:
        index.apply([EXTRA])
        index.commit()
    with LogIndex.open(tmp_path, scheme=SCHEME) as index:
        assert index.next_offset == 3
    assert sorted(each.name for each in tmp_path.glob("data-*")) == ["data-2", "data-999999999"]


def test_a_volume_of_its_own_is_an_empty_folder(tmp_path: Path) -> None:
    """A file system's `lost+found` is no stranger's; a file of that name is."""
    path, other = tmp_path / "volume", tmp_path / "other"
    (path / "lost+found").mkdir(parents=True)
    kept(path)
    assert sorted(each.name for each in path.iterdir()) == ["current", "data-1", "lost+found"]
    other.mkdir()
    (other / "lost+found").touch()
    with pytest.raises(UserError, match="holds other files"):
        kept(other)


@pytest.mark.parametrize("opening", ["read", "write", "staged"])
def test_data_without_current_are_damage_and_stay(tmp_path: Path, opening: str) -> None:
    """A kept index is not begun anew because its pointer was lost; with the pointer back it is whole."""
    path = tmp_path / "log"
    kept(path)
    pointer = (path / "current").read_text()
    (path / "current").unlink()
    data = tree(path / "data-1")
    with pytest.raises(CorruptError, match="data-1 is there and the file `current` that names it is not"):
        OPENINGS[opening](path)
    assert tree(path / "data-1") == data
    (path / "current").write_text(pointer)
    with LogIndex.read(path, scheme=SCHEME) as index:
        assert index.next_offset > 0


@pytest.mark.parametrize("opening", WRITERS)
@pytest.mark.parametrize("name", ["current.new", "corrupt", "corrupt.new"])
def test_no_file_is_written_through_a_link(tmp_path: Path, opening: str, name: str) -> None:
    """What a link of one of the index's names leads to stays as it is, whatever becomes of the index."""
    path, target = tmp_path / "index", tmp_path / "precious"
    kept(path)
    target.write_text("precious")
    (path / name).unlink(missing_ok=True)
    (path / name).symlink_to(target)
    before = tree(target)
    try:
        index = OPENINGS[opening](path)
    except CorruptError as error:
        assert "link" in str(error)  # noqa: PT017 - or it is replaced
    else:
        assert isinstance(index, LogIndex)
        index.commit()
        index.close()
    mark_corrupt(path)
    assert tree(target) == before


@pytest.mark.parametrize("opening", ["read", "write", "staged"])
@pytest.mark.parametrize(
    "data", ["../outside", "/outside", "data-1/../../outside", ".", "", "data-7", "data-1/", "d" * 999]
)
def test_data_lie_directly_in_the_index(tmp_path: Path, opening: str, data: str) -> None:
    """A pointer that leads out of the folder, or to a link, is damage; what it leads to is not touched."""
    path, outside = tmp_path / "index", tmp_path / "outside"
    kept(path)
    shutil.copytree(path / "data-1", outside)
    (path / "data-7").symlink_to(outside)
    pointer = json.loads((path / "current").read_text())
    named = data.replace("/outside", str(outside)) if data.startswith("/") else data
    (path / "current").write_text(json.dumps(pointer | {"data": named}))
    before = tree(outside)
    with pytest.raises(CorruptError, match=r"its data folder .* is missing, or is none of its own: " + REMEDY):
        OPENINGS[opening](path)
    LogIndex.open(path, scheme=SCHEME, emptied=True).close()
    assert tree(outside) == before
    assert (path / "data-7").is_symlink()


GARBAGE = {
    "empty": b"",
    "not UTF-8": b"\xff\xfe\x00",
    "not JSON": b"{",
    "no object": b"[1, 2]",
    "a number": b"7",
    "nested": b"[" * 50_000,
    "long": b" " * 100_000,
    "lists": b'{"format": 10, "data": []}',
    "a long number": b'{"format": ' + b"9" * 5000 + b', "data": "data-1"}',
    "half a surrogate": b'{"format": 10, "data": "\\ud800"}',
}
UNREADABLE: dict[str, Callable[[Path], object]] = {
    "link": lambda file: file.symlink_to(file.with_name("data-1") / "CURRENT"),
    "dangling link": lambda file: file.symlink_to("nowhere"),
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
}


@pytest.mark.parametrize("opening", ["read", "write", "staged"])
@pytest.mark.parametrize("kind", [*GARBAGE, *UNREADABLE])
@pytest.mark.parametrize("name", ["current", "corrupt"])
def test_a_damaged_small_file_is_damage(tmp_path: Path, opening: str, kind: str, name: str) -> None:
    """It is refused at once, and nothing is lost."""
    kept(tmp_path)
    data = tree(tmp_path / "data-1")
    (tmp_path / name).unlink(missing_ok=True)
    if kind in GARBAGE:
        (tmp_path / name).write_bytes(GARBAGE[kind])
    else:
        UNREADABLE[kind](tmp_path / name)
    with pytest.raises(CorruptError, match="index rebuild") as refused:
        OPENINGS[opening](tmp_path)
    assert len(str(refused.value)) < 1000
    assert tree(tmp_path / "data-1") == data


def test_a_mark_of_damage_is_shown_on_one_line(tmp_path: Path) -> None:
    """It may have been written by anybody."""
    kept(tmp_path)
    mark_corrupt(tmp_path, "first\nsecond \x1b[31m\ud800" + "x" * 2000)
    with pytest.raises(CorruptError, match=r"damaged \(first second \?\[31m\\ud800x+\)"):
        LogIndex.read(tmp_path, scheme=SCHEME)


def test_damage_is_told_where_no_mark_can_be_written(tmp_path: Path) -> None:
    """The error that is raised is the damage."""
    mark_corrupt(tmp_path / "not there", "a reason")
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_first_call_left_is_no_obstacle(tmp_path: Path) -> None:
    """A worker's id, drafts, data that were never committed, an empty data folder."""
    (tmp_path / "worker-id").write_text("articles-1\n")
    (tmp_path / "current.new").write_text("{")
    for name, mark in (("data-1", "staged"), ("data-2", None)):
        (tmp_path / name).mkdir()
        if mark is not None:
            (tmp_path / name / mark).touch()
            (tmp_path / name / "CURRENT").write_text("MANIFEST-000001\n")
    with LogIndex.open(tmp_path, scheme=SCHEME) as index:
        index.begin("a log")
        index.apply(RECORDS)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["current", "data-2", "data-3", "worker-id"]
