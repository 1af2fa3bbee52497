"""Run files of an index: the verdicts are those without them, in copies, on a full disk, and in old folders."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from stream_dedup.audit.reference import plain_log
from stream_dedup.core.entry import LogRecord
from stream_dedup.core.model import DocNumber
from stream_dedup.index import IndexSettings, LogIndex
from stream_dedup.index.layout import STORED_LISTS
from stream_dedup.index.posting_lists import Run
from stream_dedup.index.run_folder import RunFolder
from tests.index.checks import build, check_verdicts, covered_positions
from tests.index.make_fixture import FIXTURES, SCHEMES, log_of
from tests.index.run_cases import TableWorld
from tests.index.trees import tree
from tests.logs import SCHEME
from tests.random_logs import stepwise_log
from tests.small_disk import small_disk

pytestmark = pytest.mark.usefixtures("small_runs")

WINDOW = 20_000
SETTINGS = IndexSettings(fold_entries=30)


def a_log() -> list[LogRecord]:
    """Some thousand articles; the first third is trimmed in the middle."""
    writer = stepwise_log(5)
    writer.append_rules(distance=5, window_ms=WINDOW)
    for _ in range(50):
        writer.append_batch()
    before = writer.append_rules(distance=5, window_ms=WINDOW)
    for _ in range(50):
        writer.append_articles()
    writer.append_trim(before, writer.time)
    for _ in range(50):
        writer.append_articles()
    return writer.records


RECORDS = a_log()
KEPT = RECORDS[:-45]
"""Records of the index that is kept: a trim is among the last."""


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A closed index with run files."""
    path = tmp_path / "index"
    with build(LogIndex.open(path, scheme=SCHEME, settings=SETTINGS), KEPT) as index:
        index.merge_all()
        assert index.low_watermark > 0
        assert index.verify() == []
    assert len(runs_of(path / "data-1")) >= 4
    return path


def check_index(path: Path, records: Sequence[LogRecord]) -> None:
    """Opened again, it has the verdicts of its log and no problem."""
    with LogIndex.open(path, scheme=SCHEME, settings=SETTINGS) as index:
        plain = plain_log([record for record in records if record.offset >= index.low_watermark])
        check_verdicts(index, plain, covered_positions(plain))
        assert index.next_offset == records[-1].offset + 1
        assert index.verify() == []


def runs_of(data: Path) -> dict[str, tuple[object, object]]:
    """Inode and content of each run file; the number of its names, and with it a time stamp, may change."""
    return {name: (facts[1], facts[-1]) for name, facts in tree(data / "runs").items() if name != "."}


@pytest.mark.expect_log("read from the rows again")
@pytest.mark.parametrize("damage", ["flipped", "gone", "some gone", "of another index"])
def test_verdicts_are_those_of_an_index_without_run_files(
    kept: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    """Whatever became of the files."""
    with build(LogIndex.open(tmp_path / "other", scheme=SCHEME, settings=SETTINGS), KEPT[: len(KEPT) // 2]) as other:
        other.merge_all()
    others = {path.name: path for path in (tmp_path / "other" / "data-1" / "runs").iterdir()}
    folder = kept / "data-1" / "runs"
    for at, path in enumerate(sorted(folder.iterdir())):
        if damage == "flipped":
            content = bytearray(path.read_bytes())
            content[(at * 997) % len(content)] ^= 1
            path.write_bytes(content)
        elif damage != "some gone" or at % 2:
            path.unlink()
    for name in others if damage == "of another index" else ():
        shutil.copy(others[name], folder / name)
    check_index(kept, KEPT)
    assert bool(caplog.records) is (damage in {"flipped", "of another index"})


@pytest.mark.parametrize("committed", [False, True])
def test_a_copy_has_the_same_run_files(kept: Path, *, committed: bool) -> None:
    """By hard links: nothing is made again. What the copy merges and removes is not taken from the other one."""
    before = runs_of(kept / "data-1")
    with LogIndex.open(kept, scheme=SCHEME, settings=SETTINGS, staged=True) as index:
        assert runs_of(kept / "data-2") == before
        index.apply(RECORDS[len(KEPT) :])
        index.merge_all()
        assert runs_of(kept / "data-2") != before
        assert runs_of(kept / "data-1") == before
        assert index.verify() == []
        if committed:
            index.commit()
    if not committed:
        assert runs_of(kept / "data-1") == before
    check_index(kept, RECORDS if committed else KEPT)


@pytest.mark.expect_log("its runs are not merged now, and tried again later: .* No space left on device; make room")
def test_a_full_disk_delays_merging_and_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The lists are right and no draft is left; with space again runs become files."""
    with small_disk(tmp_path, mib=1) as disk:
        world = TableWorld(disk.folder)
        world.append(200)
        world.opened.merge_all()
        before = world.names()
        disk.fill()
        for _ in range(5):
            world.append(100)
            world.opened.merge_all()
            world.check()
        assert caplog.records
        caplog.clear()
        assert world.names() == before == world.names_in_use()
        world.crash(0, 700)
        world.check()
        assert caplog.records
        disk.free()
        caplog.clear()
        world.append(100)
        world.opened.merge_all()
        world.check()
        assert world.names() - before
        assert not caplog.records
        world.close()
        assert world.names() == world.names_in_use()


def test_a_file_goes_when_its_successor_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no crash leaves less to map than there was: at most trimmed entries are then in no file."""
    world = TableWorld(tmp_path)
    removed = []
    real = RunFolder.remove

    def remove(self: RunFolder, kept: object, after: DocNumber) -> None:
        path = getattr(kept, "path", None)
        if path is not None:
            table, first, end = map(int, path.name.split("-"))
            others = [tuple(map(int, name.split("-"))) for name in world.names() if "." not in name]
            needed = max(first, world.rows.first)
            covers = [one for one in others if one[0] == table and one[1] <= needed and end <= one[2]]
            assert end <= world.rows.first or len(covers) > 1
            removed.append(path)
        real(self, kept, after)  # type: ignore[arg-type]

    monkeypatch.setattr(RunFolder, "remove", remove)
    for step in range(30):
        world.append(60)
        if step % 7 == 6:
            world.trim(world.rows.after - 200)
    assert len(removed) > 20
    world.close()


def test_files_stay_until_the_rows_of_their_successor_are_durable(tmp_path: Path) -> None:
    """A crash that loses the end of the rows, and so the newest files, finds those before them."""
    world = TableWorld(tmp_path)
    for _ in range(30):
        world.append(60)
    durable, files = world.rows.after, {path.name for chain in world.opened.chains for path in chain.paths}
    ends = [max(kept.after for kept in chain.kept if kept.path is not None) for chain in world.opened.chains]
    while files & {path.name for chain in world.opened.chains for path in chain.paths}:
        world.append(60, durable=False)
    left = [tuple(map(int, name.split("-"))) for name in world.names() if "." not in name]
    for table, end in enumerate(ends):
        assert [one for one in left if one[0] == table and end <= one[2] <= durable]
    world.crash(0, durable)
    world.check()
    world.close()


@pytest.mark.parametrize("name", ["log", "sketches"])
def test_an_index_of_an_earlier_release_is_opened_again_and_again(tmp_path: Path, name: str) -> None:
    """Its stored posting lists go, once; a reader reads it as it is, before and after."""
    path = tmp_path / "index"
    shutil.copytree(FIXTURES / "v2" / name, path)
    records = log_of("v2", name)
    for writes in (False, True, False, True):
        before = tree(path / "data-1")
        index = (LogIndex.open if writes else LogIndex.read)(path, scheme=SCHEMES[name])
        with index:
            plain = plain_log([record for record in records if record.offset >= index.low_watermark])
            check_verdicts(index, plain, covered_positions(plain))
            assert index.verify() == []
            stored = [index._applied.store.last(start, end[:-1] + start + b"\xff") for start, end in STORED_LISTS]
            if writes:
                assert stored == [None] * len(STORED_LISTS)
        if not writes:
            assert tree(path / "data-1") == before


def test_runs_are_checked_when_they_are_mapped(kept: Path) -> None:
    """Arrays of a map cannot be written: what a look-up reads is what the checksums were of."""
    with LogIndex.open(kept, scheme=SCHEME, settings=SETTINGS) as index:
        runs: list[Run] = [kept.run for chain in index._applied.tables.chains for kept in chain.kept if kept.path]
        assert runs
        for run in runs:
            assert not any(array.flags.writeable for array in (run.starts, run.keys, run.doc_numbers))
