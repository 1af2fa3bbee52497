"""Making, merging and removing run files: what the disk does is neither waited for nor a reason to stop."""

from __future__ import annotations

import errno
import itertools
import mmap
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_dedup.core.model import DocNumber
from stream_dedup.index import run_files
from stream_dedup.index.chains import Merge, RunChain
from stream_dedup.index.run_files import MappedRun
from stream_dedup.index.run_removal import RunRemoval
from tests.index.run_cases import TableWorld, check_opened, filled
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("small_runs")


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EINVAL])
def test_a_disk_that_sets_no_room_aside_gets_zeros(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    """The files are the same."""
    monkeypatch.setattr(run_files, "_HASHED_BYTES", 1_000)
    expected = filled(TableWorld(tmp_path / "expected")).contents()

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    world = filled(TableWorld(tmp_path / "world"))
    assert world.contents() == expected
    assert all(path.stat().st_blocks * 512 >= path.stat().st_size for path in (world.data / "runs").iterdir())
    check_opened(world, caplog)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("effect", ["posix_fallocate", "pwrite", "ftruncate"])
@pytest.mark.expect_log("its runs are not merged now")
def test_a_disk_that_is_full_or_fails_puts_merges_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, effect: str, number: int
) -> None:
    """Whenever it does: the lists stay whole, no draft takes room or a descriptor, and merges go on when it works."""
    world = filled(TableWorld(tmp_path))
    world.opened = world.open()
    refused: list[int] = []

    def refuse(*_: object) -> None:
        refused.append(1)
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as full:
        full.setattr(os, effect, refuse)
        world.trim(300)  # a draft is cut only if entries of it are gone
        for _ in range(30):
            world.append(40)
            world.check()
        world.opened.merge_all()
        world.check()
        assert refused
        assert not any(name.endswith(".new") for name in world.names())
        assert not any(".new" in path for path in _open_files(tmp_path))
        before = world.opened.most_runs
    world.append(40)
    world.opened.merge_all()
    world.opened.remove_trimmed()
    world.check()
    assert world.opened.most_runs < before or effect == "ftruncate"
    assert all(kept.first >= 300 for chain in world.opened.chains for kept in chain.kept)
    world.close()
    world.opened = world.open()
    world.check()
    world.close()


def _open_files(folder: Path) -> list[str]:
    """Paths of what this process has open there, those that were removed with `` (deleted)``.

    Other tests of the process let worlds crash, with what these had open.
    """
    opened = [str(handle.readlink()) for handle in Path("/proc/self/fd").iterdir() if handle.is_symlink()]
    return [path for path in opened if path.startswith(str(folder.resolve()))]


@pytest.mark.expect_log("its runs are not merged now")
def test_a_disk_that_stays_full_is_warned_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """However many runs wait: a fold tries one file of each table. When files were made meanwhile, it is said again."""
    world = filled(TableWorld(tmp_path))
    world.opened = world.open()
    tried: list[int] = []

    def refuse(*_: object) -> None:
        tried.append(1)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for times in (1, 2):
        with monkeypatch.context() as full:
            full.setattr(os, "posix_fallocate", refuse)
            for _ in range(40):
                before = len(tried)
                world.append(world.fold_entries)
                assert len(tried) - before <= world.tables
        world.check()
        assert len(tried) > 40 * times
        assert len(caplog.records) == times
        for _ in range(40):
            world.append(world.fold_entries)
    assert "its runs are not merged now, and tried again later" in caplog.text
    world.close()


def test_a_file_that_cannot_be_cut_holds_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others go, and it goes at the next opening."""
    world = filled(TableWorld(tmp_path))
    world.opened = world.open()
    refused: set[Path] = set()
    truncate = os.truncate

    def refuse_one(path: Path, length: int) -> None:
        if not refused or path in refused:
            refused.add(path)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        truncate(path, length)

    with monkeypatch.context() as broken:
        broken.setattr(os, "truncate", refuse_one)
        for _ in range(40):
            world.append(40)
            world.opened.note_flush(durable=True)
        assert {name for name in world.names() if name.endswith(".old")} == {path.name for path in refused}
    assert refused
    world.close()
    world.opened = world.open()
    assert world.names() == world.names_in_use()
    world.close()


def test_no_append_waits_until_a_file_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk holds up the first piece: entries are appended and merged, and then every file goes."""
    world = TableWorld(tmp_path)
    held, goes_on, truncate = threading.Event(), threading.Event(), os.truncate

    def wait(path: Path, length: int) -> None:
        held.set()
        assert goes_on.wait(60)
        truncate(path, length)

    monkeypatch.setattr(os, "truncate", wait)
    for _ in range(60):
        world.append(40)
    assert held.wait(60)
    folds = world.opened.counters.folds
    for _ in range(20):
        world.append(40)
    world.check()
    assert world.opened.counters.folds > folds
    waiting = [path for path, _ in world.opened._files._removal._waiting]
    assert len(waiting) > 10
    assert all(path.exists() for path in waiting)
    goes_on.set()
    assert not world.names() & {path.name for path in waiting}
    world.close()


def test_closing_waits_for_the_piece_that_is_cut_off_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left of each file goes at once."""
    world = TableWorld(tmp_path)
    cuts: list[int] = []
    held, goes_on = threading.Event(), threading.Event()

    def wait(_: Path, length: int) -> None:
        cuts.append(length)
        held.set()
        assert goes_on.wait(60)

    monkeypatch.setattr(os, "truncate", wait)
    for _ in range(80):
        world.append(40)
    assert held.wait(60)
    closing = threading.Thread(target=world.close)
    closing.start()
    wait_until(world.opened._files._removal._closing.is_set, 60, "the tables close")
    assert closing.is_alive()
    goes_on.set()
    closing.join(60)
    assert len(cuts) == 1
    assert world.names() == world.names_in_use()


@pytest.mark.parametrize("renamed", [True, False])
def test_a_name_is_cleared_for_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, renamed: bool) -> None:
    """While the thread is busy with another one: the new file stays, the old one goes if it could be renamed."""
    world = TableWorld(tmp_path)
    for _ in range(20):
        world.append(40)
    (kept, *_) = (kept for kept in world.opened.chains[0].kept if kept.path is not None)
    held, goes_on, truncate, replace = threading.Event(), threading.Event(), os.truncate, Path.replace
    refused: list[Path] = []

    def wait(path: Path, length: int) -> None:
        held.set()
        assert goes_on.wait(60)
        truncate(path, length)

    def refuse(path: Path, to: Path) -> Path:
        if path.name == "waits" and not refused:
            refused.append(path)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return replace(path, to)

    monkeypatch.setattr(os, "truncate", wait)
    if not renamed:
        monkeypatch.setattr(Path, "replace", refuse)
    removal, first, waits = RunRemoval(), tmp_path / "first", tmp_path / "waits"
    for path in (first, waits):
        path.write_bytes(bytes(10_000))
        removal.begin(path, kept)
    assert held.wait(60)
    removal.clear_name(waits)
    removal.clear_name(tmp_path / "nobody's")
    waits.write_bytes(b"new")
    goes_on.set()
    removal.wait()
    assert waits.read_bytes() == b"new"
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} == {"waits"}
    world.close()


def test_tables_fold_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No batch has two of them to fold, before and after an opening; none has more than a fold in memory."""
    folded: list[RunChain] = []
    fold = RunChain.fold

    def note(self: RunChain, after: DocNumber) -> None:
        folded.append(self)
        fold(self, after)

    monkeypatch.setattr(RunChain, "fold", note)
    world = TableWorld(tmp_path, fold_entries=160)
    for _ in range(2):
        for _ in range(1_000):
            folded.clear()
            world.append(1)
            assert len(folded) <= 1
            assert all(len(chain.newest) <= 160 for chain in world.opened.chains)
        world.close()
        world.opened = world.open()
        world.check()
    world.close()


def test_a_merge_asks_for_what_it_reads_before_it_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every entry of a mapped run, once, a bounded number of them ahead."""
    asked: dict[int, list[tuple[int, int]]] = {}
    most_ahead = 32
    step, read_ahead = Merge.step, MappedRun.read_ahead
    files: list[MappedRun] = []

    def note(self: MappedRun, first: int, after: int) -> None:
        asked.setdefault(id(self), []).append((first, after))
        read_ahead(self, first, after)

    def checked(self: Merge, most: int) -> None:
        before = self.merging.taken
        step(self, most)
        for kept, started, taken in zip((self.older, self.newer), before, self.merging.taken, strict=True):
            if kept.mapped is not None:
                files.append(kept.mapped)  # kept alive: its id is its own
                parts = asked.get(id(kept.mapped), [])
                # Each goes on where the last one ended, at an entry that was not read yet.
                assert all(one[1] == next_one[0] for one, next_one in itertools.pairwise(parts))
                assert parts[0][0] == 0
                assert min(started, len(kept)) <= parts[-1][1] <= started + most_ahead
                assert min(started + most_ahead // 2, len(kept)) <= parts[-1][1] or taken < started

    monkeypatch.setattr(MappedRun, "read_ahead", note)
    monkeypatch.setattr(Merge, "step", checked)
    world = TableWorld(tmp_path)
    for _ in range(60):
        world.append(16)
    world.check()
    assert len(asked) > 4
    world.close()


class _Map:
    """Notes what a map is told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, int, int]] = []

    def madvise(self, *advice: Any) -> None:  # noqa: ANN401 - as of a map
        self.told.append(advice)


def test_read_ahead_names_the_pages_of_the_entries(tmp_path: Path) -> None:
    """Their keys and their document numbers, from the beginning of a page on; nothing beyond the last."""
    world = TableWorld(tmp_path)
    for _ in range(40):
        world.append(100)
    world.opened.merge_all()
    kept = world.opened.chains[1].kept[0]
    assert kept.mapped is not None
    assert kept.path is not None
    entries = len(kept)
    assert entries > 3_000
    arrays: list[NDArray[Any]] = [kept.run.keys, kept.run.doc_numbers]
    raw = kept.path.read_bytes()
    for first, after in ((0, 10), (100, 900), (2_000, 3_000), (entries - 1, entries + 999), (entries, entries + 5)):
        told = _Map()
        kept.mapped._map = told  # type: ignore[assignment]
        kept.mapped.read_ahead(first, after)
        assert len(told.told) == (2 if first < entries else 0)
        for (advice, start, length), array in zip(told.told, arrays, strict=False):
            assert (advice, start % mmap.PAGESIZE) == (mmap.MADV_WILLNEED, 0)
            wanted = np.ascontiguousarray(array[first:after]).tobytes()
            assert wanted in raw[start : start + length]
            assert length < len(wanted) + mmap.PAGESIZE
    world.close()
