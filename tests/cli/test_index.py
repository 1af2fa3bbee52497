"""Commands on index folders: what they refuse, and that looking changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_dedup import Index
from stream_dedup.cli import run
from stream_dedup.errors import UserError
from tests.index.trees import tree

LINES = '{"id":"a","text":"ferry and bridge"}\n{"id":"b","text":"ferry and bridge"}\n'


@pytest.fixture
def lines(tmp_path: Path) -> str:
    """A file of two equal articles."""
    file = tmp_path / "lines"
    file.write_text(LINES, "utf-8")
    return str(file)


@pytest.fixture
def kept(tmp_path: Path, lines: str, capsys: pytest.CaptureFixture[str]) -> Path:
    """An index that `filter` keeps."""
    index = tmp_path / "index"
    assert run(["filter", "--index", str(index), lines]) == 0
    capsys.readouterr()
    return index


def calls(index: Path, lines: str) -> dict[str, list[str]]:
    """Every command that opens an index and needs no broker."""
    at = ["--index", str(index)]
    return {
        "stats": ["index", "stats", *at],
        "verify": ["index", "verify", *at],
        "explain": ["explain", *at, "--id", "a", "ferry"],
        "filter": ["filter", *at, lines],
    }


NAMES = list(calls(Path(), ""))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("others", ["data-2024/a.txt", "notes.txt", "current"])
def test_a_folder_that_holds_something_else_is_refused(
    tmp_path: Path, lines: str, capsys: pytest.CaptureFixture[str], name: str, others: str
) -> None:
    """Exit code 2, and not a byte or a time stamp of it is changed."""
    file = tmp_path / "folder" / others
    file.parent.mkdir(parents=True)
    file.write_text("a stranger's")
    before = tree(tmp_path)
    assert run(calls(tmp_path / "folder", lines)[name]) == 2
    assert "--index" in capsys.readouterr().err
    assert tree(tmp_path) == before


def test_the_python_index_refuses_such_a_folder(tmp_path: Path) -> None:
    """As the commands do."""
    (tmp_path / "data-2024").mkdir()
    (tmp_path / "data-2024" / "a.txt").write_text("a stranger's")
    before = tree(tmp_path)
    with pytest.raises(UserError, match=r"holds other files \('data-2024'\) and no index"):
        Index(tmp_path)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("name", [*NAMES[:3], "stats of two"])
def test_looking_into_an_index_changes_nothing(
    kept: Path, lines: str, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Not a byte, a time stamp or a file."""
    before = tree(kept)
    assert run(calls(kept, lines).get(name, ["index", "stats", "--json", "--index", str(kept)])) == 0
    assert capsys.readouterr().out
    assert tree(kept) == before


@pytest.mark.parametrize("name", NAMES)
def test_a_kept_index_that_lost_its_pointer_is_damaged(
    kept: Path, lines: str, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Exit code 6; nothing is emptied, and with the pointer back its articles are there."""
    pointer = (kept / "current").rename(kept.parent / "pointer")
    data = tree(kept / "data-1")
    assert run(calls(kept, lines)[name]) == 6
    assert "put it back from a copy" in capsys.readouterr().err
    assert tree(kept / "data-1") == data
    pointer.rename(kept / "current")
    assert run(["filter", "--index", str(kept), lines]) == 0
    assert capsys.readouterr().out.count('"verdict":"duplicate"') == 2


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("small", ["current", "corrupt"])
def test_a_damaged_small_file_is_damage(kept: Path, lines: str, small: str, name: str) -> None:
    """Exit code 6 and no traceback."""
    (kept / small).write_bytes(b"\xff\xfe\x00")
    assert run(calls(kept, lines)[name]) == 6
