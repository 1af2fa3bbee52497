"""An index whose content does not agree is refused at opening, and what can be read of it is saved."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from stream_dedup import Index
from stream_dedup.cli import run
from stream_dedup.errors import CorruptError, StreamDedupError
from stream_dedup.folders import Owner
from stream_dedup.index import LogIndex, only_copy_in, save
from stream_dedup.index.folder import Folder
from stream_dedup.index.layout import LAST_ROWS, ROW, STATE, chunk_key, offset_key
from stream_dedup.index.store import IndexSettings, Store
from stream_dedup.index.tables import ROW_CHUNK_BYTES

ARTICLES = 700
"""More than a portion: two log records, at the offsets 1 and 2."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A kept index."""
    with Index(tmp_path / "index") as index:
        for number in range(ARTICLES):
            index.add(f"id {number}", number << 20)
    return tmp_path / "index"


def _change(folder: Path, change: Callable[[Store], dict[bytes, bytes | None]]) -> None:
    store = Store(folder / "data-1", IndexSettings(), create=False, on_corrupt=lambda _: None)
    batch = store.batch()
    for key, value in change(store).items():
        if value is None:
            batch.delete(key)
        else:
            batch.put(key, value)
    store.write(batch)
    store.flush()
    store.close()


def _state(**values: object) -> Callable[[Store], dict[bytes, bytes | None]]:
    return lambda store: {STATE: json.dumps(json.loads(store.get([STATE])[0]) | values).encode()}


def _row(number: int, field: int, value: int) -> Callable[[Store], dict[bytes, bytes | None]]:
    """Change a word of a row: 4 is the scope hash, 6 the log position."""

    def change(store: Store) -> dict[bytes, bytes | None]:
        stored = [*(chunk_key(chunk) for chunk in range(99)), LAST_ROWS]
        size = sum(map(len, store.get(stored))) // ARTICLES
        chunk, at = divmod(number, ROW_CHUNK_BYTES // size)
        key = next(key for key in (chunk_key(chunk), LAST_ROWS) if store.get([key])[0])
        raw = bytearray(store.get([key])[0])
        at = at * size + field * 8
        raw[at : at + 8] = value.to_bytes(8, "little")
        return {key: bytes(raw)}

    return change


def _last_head(store: Store) -> dict[bytes, bytes | None]:
    key = offset_key(b"E", 2)
    head = bytearray(store.get([key])[0])
    head[5:9] = (ARTICLES - 1).to_bytes(4, "little")
    return {key: bytes(head)}


def _no_ranges(store: Store) -> dict[bytes, bytes | None]:
    return dict.fromkeys((key for key, _ in store.scan(b"S", b"T")), None)


DAMAGE: dict[str, tuple[Callable[[Store], dict[bytes, bytes | None]], str, int]] = {
    "a record after the last one": (_state(next_offset=2), "its state ends before 2", ARTICLES),
    "fewer articles": (_state(articles=3), "its state says that there are 3", ARTICLES),
    "another last record": (_state(last_checksum=3), "log record 2, the last one, is not that of its state", ARTICLES),
    "the number of the last record": (_last_head, "its last log record ends at number", ARTICLES),
    "the rows of the last record": (_row(ARTICLES - 2, 4, 9), "are not those of the log", ARTICLES),
    "no source range": (_no_ranges, "no source range has its entries", ARTICLES),
    "no first record": (lambda _: {offset_key(b"E", 1): None}, "its entries begin at", 188),
    "no last record": (lambda _: {offset_key(b"E", 2): b"\1"}, "log record 2 cannot be read", 512),
}


@pytest.mark.parametrize("kind", list(DAMAGE))
def test_a_damaged_index_is_refused_and_what_can_be_read_is_saved(
    folder: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The advice of the refusal works: afterwards the index opens, is intact, and finds every article that was read."""
    change, reason, left = DAMAGE[kind]
    _change(folder, change)
    with pytest.raises(CorruptError, match=rf"{reason}.*`stream-dedup index rebuild --index FOLDER`"):
        Index(folder)
    command = ["index", "rebuild", "--index", str(folder)]
    counted = 3 if kind == "fewer articles" else ARTICLES
    assert run([*command, "--dry-run"]) == 0
    assert f"index {folder} would have {left} articles of the {counted} that it counted\n" in capsys.readouterr().out
    assert run(command) == 0
    assert f"{folder / 'kept-1'}: delete them" in capsys.readouterr().out
    with Index(folder) as index:
        assert len(index) == left
        number = ARTICLES - 1 if kind == "no first record" else 5
        assert [found.id for found in index.search(number << 20, k=0)] == [f"id {number}"]
    assert run(["index", "verify", "--index", str(folder)]) == 0
    assert capsys.readouterr().out == f"index {folder} is intact\n"


def test_what_only_verify_finds_is_saved_by_its_advice(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row in the middle is compared by nothing at opening; the command that verify names mends it."""
    _change(folder, _row(100, 4, 9))
    Index(folder).close()
    assert run(["index", "verify", "--index", str(folder)]) == 3
    command = f"stream-dedup index rebuild --index {folder}"
    assert f"save what can be read of it with: {command}\n" in capsys.readouterr().err
    assert run(command.split()[1:]) == 0
    with LogIndex.read(folder, scheme=None) as index:
        assert index.verify() == []
        assert index.state.next_doc_number == ARTICLES


def test_data_of_which_nothing_can_be_read_are_not_replaced(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are the only copy: no broker is asked, whose log would take their place."""
    for table in (folder / "data-1").glob("*.sst"):
        table.write_bytes(table.read_bytes()[:-1])
    before = sorted(folder.rglob("*"))
    for option in ([], ["--dry-run"]):
        assert run(["index", "rebuild", "--index", str(folder), "--brokers", "127.0.0.1:1", *option]) == 6
        said = capsys.readouterr().err
        assert f"index {folder} cannot be saved, its state or its rules cannot be read; nothing was changed" in said
    assert sorted(folder.rglob("*")) == before


def test_an_index_that_cannot_be_saved_is_not_told_to_be(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without its rules nothing can be judged; the advice is not the command that has just failed."""
    _change(folder, lambda store: {next(key for key, _ in store.scan(b"U", b"V")): b"{"})
    before = sorted(folder.glob("*"))
    for option in ([], ["--dry-run"]):
        assert run(["index", "rebuild", "--index", str(folder), *option]) == 6
        said = capsys.readouterr().err
        assert f"index {folder} cannot be saved, its state or its rules cannot be read; nothing was changed" in said
        assert "rebuild" not in said
    assert sorted(folder.glob("*")) == before


def test_a_saved_index_takes_new_articles_after_those_that_it_lost(folder: Path) -> None:
    """Their source offsets are after every one that is left, however few articles there are: none counts as a copy."""
    _change(folder, DAMAGE["no first record"][0])
    (folder / "kept-1").write_text("a file of somebody else")
    with pytest.raises(CorruptError):
        Index(folder)
    saved = save(folder, lambda _done, _whole: None)
    assert saved == (188, ARTICLES, [1], folder / "kept-2")
    with Index(folder) as index:
        for number in range(600):
            index.add(f"new {number}", number << 40)
        assert len(index) == 788
        assert [found.id for found in index.search(599 << 40, k=0)] == ["new 599"]


@pytest.mark.parametrize("step", ["filling", "filled", "kept", "current"])
def test_a_rebuild_that_ends_between_two_steps_loses_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The next call saves the same."""

    class KilledError(Exception):
        pass

    def killed(*_arguments: object, **_named: object) -> None:
        raise KilledError

    made_current = Folder.make_current

    def after(one: Folder, data: Path) -> None:
        made_current(one, data)
        killed()

    _change(folder, _row(40, 6, 1))
    with monkeypatch.context() as patch:
        where = {
            "filling": (LogIndex, "apply", killed),
            "filled": (LogIndex, "flush", killed),
            "kept": (Folder, "make_current", killed),
        }
        patch.setattr(*where.get(step, (Folder, "make_current", after)))
        with pytest.raises(KilledError):
            save(folder, lambda _done, _whole: None)
    assert only_copy_in(folder)
    assert (folder / "kept-1").exists() is (step in {"kept", "current"})
    if step != "current":
        assert save(folder, lambda _done, _whole: None).articles == ARTICLES
    with Index(folder) as index:
        assert len(index) == ARTICLES


def test_an_index_that_is_open_is_not_rebuilt(folder: Path) -> None:
    """Nor planned; nothing is changed."""
    with Index(folder):
        for dry_run in (False, True):
            with pytest.raises(StreamDedupError, match="is open in this process already"):
                save(folder, lambda _done, _whole: None, dry_run=dry_run)
    assert sorted(each.name for each in folder.iterdir()) == ["current", "data-1"]


def test_a_folder_that_is_replaced_while_it_is_open_is_left_alone(folder: Path) -> None:
    """The new one is another's: RocksDB would write into it, by the names of its files."""
    other = folder.with_name("other")
    shutil.copytree(folder, other)
    index = Index(folder)
    index.add("late", 3)
    folder.rename(folder.with_name("moved"))
    other.rename(folder)
    before = {each: each.read_bytes() for each in sorted(folder.rglob("*")) if each.is_file()}
    for call in (index.flush, lambda: index.search(3), lambda: index.add("later", 4), lambda: len(index), index.close):
        with pytest.raises(StreamDedupError, match=r"was removed, moved or replaced .* end this process"):
            call()
    index.close()
    assert {each: each.read_bytes() for each in before} == before
    with pytest.raises(StreamDedupError, match="end the process, then open this one"):
        Index(folder)
    with Index(folder.with_name("moved")) as moved:
        assert len(moved) == ARTICLES


def test_an_index_that_is_let_go_leaves_its_folder(folder: Path) -> None:
    """Without ``close``; a copy of an open folder has an owner of its own, and a process that was killed none."""
    index = Index(folder)
    copy = Path(shutil.copytree(folder, folder.with_name("copy")))
    del index
    for each in (folder, copy):
        with Index(each) as again:
            assert len(again) == ARTICLES


def test_a_child_that_outlives_a_killed_owner_does_not_keep_its_folder(tmp_path: Path) -> None:
    """As one of a pool of processes does, which waits for work for good."""
    works, ends = os.pipe()
    forked, runs = os.pipe()
    owner = os.fork()
    if owner == 0:
        held = Owner.write(tmp_path)
        if os.fork() == 0:
            os.write(runs, b"1")
            os.close(ends)
            os.read(works, 1)
        else:
            os.read(forked, 1)  # the child has let go of the lock
        os._exit(0 if held.here else 1)  # without release
    os.waitpid(owner, 0)
    try:
        Owner.write(tmp_path).release()
    finally:
        for handle in (works, ends, forked, runs):
            os.close(handle)


def test_an_index_of_filter_is_saved_with_its_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The next call finds what the calls before logged."""
    lines, folder = tmp_path / "lines", tmp_path / "index"
    lines.write_text('{"id":"a","text":"the ferry and the bridge and the river in the evening"}\n', "utf-8")
    command = ["filter", "--index", str(folder), str(lines)]
    assert run(command) == 0
    (data,) = folder.glob("data-*")
    data.rename(folder / "data-1")
    (folder / "current").write_text((folder / "current").read_text().replace(data.name, "data-1"))
    _change(folder, _state(articles=0))
    capsys.readouterr()
    assert run(command) == 6
    assert "`stream-dedup index rebuild --index FOLDER`" in capsys.readouterr().err
    assert run(["index", "rebuild", "--index", str(folder)]) == 0
    capsys.readouterr()
    assert run(command) == 0
    assert '"verdict":"duplicate"' in capsys.readouterr().out.replace(" ", "")


def test_rows_are_as_this_file_draws_them() -> None:
    """The words that the tests change."""
    assert ROW.itemsize == 64
    assert [name for name, *_ in ROW.descr] == ["signature", "scope_hash", "id_hash", "position", "time"]
