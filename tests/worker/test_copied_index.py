"""An index folder that is copied to a second worker: the same verdicts, and a transactional id of its own.

The workers are those of the simulation, in virtual time on a broker in memory; their indexes are RocksDB's.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from stream_dedup.errors import CorruptError
from stream_dedup.index import LogIndex
from stream_dedup.worker import committer as module
from stream_dedup.worker.committer import worker_id, write_worker_id
from tests.simulation.auditing import audit_faults
from tests.simulation.checker import faults
from tests.simulation.world import Mended, SimulatedWorld
from tests.worker.quiet_plan import quiet_plan, start, write

GROUP = "group"
READ_S = 1.0
"""A worker without articles of its own reads the log ten times a second."""


def id_in(folder: Path) -> str:
    return (folder / "worker-id").read_text().splitlines()[1]


@pytest.mark.slow
def test_two_workers_with_copies_of_one_index(tmp_path: Path) -> None:
    """Copied in the middle of the log, and used beside its original, which has read on: no fault, two ids.

    Neither worker is fenced by the other one.
    """
    world = SimulatedWorld(quiet_plan(workers=2, partitions=2), tmp_path)
    first, second = (slot.config.index.path for slot in world.slots)
    (first / "worker-id").unlink()
    # 1  one worker alone; its index is copied, and it reads on
    write(world)
    start(world, 0)
    assert world.run_until_quiet()
    assert world.stop()
    shutil.rmtree(second)
    shutil.copytree(first, second)
    write(world)
    start(world, 0)
    assert world.run_until_quiet()
    with LogIndex.read(second, scheme=None) as copy:
        assert copy.next_offset < world.log.end
    # 2  both
    write(world)
    start(world, 1)
    assert world.run_until_quiet()
    assert id_in(first) != id_in(second)
    assert [note for note in world.notes if "ended" in note] == []
    world.run_until(world.scheduler.now() + READ_S)
    assert world.stop()
    assert faults(world) + audit_faults(world) == []
    for folder in (first, second):
        with LogIndex.read(folder, scheme=None) as index:
            assert (index.next_offset, index.verify()) == (world.log.end, [])


def test_a_copy_takes_an_id_of_its_own(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """And says so; the original keeps its id, and so does the copy from then on."""
    original = worker_id(tmp_path / "a", GROUP)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with caplog.at_level(logging.INFO):
        copied = worker_id(tmp_path / "b", GROUP)
    assert f"index {tmp_path / 'b'} was copied or moved here: this worker takes a new transactional id" in caplog.text
    assert len({original, copied}) == 2
    assert (worker_id(tmp_path / "a", GROUP), worker_id(tmp_path / "b", GROUP)) == (original, copied)


def test_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that has the same device and folder numbers, by the name of its machine; without a name they count."""
    monkeypatch.setattr(module, "MACHINE_FILE", tmp_path / "machine-id")
    original = worker_id(tmp_path / "a", GROUP)
    assert worker_id(tmp_path / "a", GROUP) == original
    (tmp_path / "machine-id").write_text("another\n")
    copied = worker_id(tmp_path / "a", GROUP)
    assert copied != original
    assert worker_id(tmp_path / "a", GROUP) == copied


@pytest.mark.parametrize("content", ["", "worker-id 0\ngroup-1\n0123456789abcdef\n", "worker-id 1\ngroup-1\n"])
def test_an_id_that_cannot_be_read_is_refused(tmp_path: Path, content: str) -> None:
    """It is not written over; once the file is deleted, as the message says, the worker gets an id."""
    file = tmp_path / "worker-id"
    file.write_text(content)
    with pytest.raises(CorruptError, match=r"worker-id holds no transactional id: .* delete it once no worker has had"):
        worker_id(tmp_path, GROUP)
    assert file.read_text() == content
    file.unlink()
    assert worker_id(tmp_path, GROUP) == worker_id(tmp_path, GROUP)


@pytest.mark.slow
@pytest.mark.expect_log("If this happens repeatedly: was this worker's index folder copied.*Delete the file worker-id")
def test_a_copy_that_is_not_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Two workers with one id interrupt each other: both say so, and what they do meanwhile is right."""
    world = SimulatedWorld(quiet_plan(workers=2, partitions=2), tmp_path)
    first, second = (slot.config.index.path for slot in world.slots)
    write_worker_id(second, id_in(first))
    world.mended.append(Mended("was this worker's index folder copied", (second / "worker-id").unlink))
    write(world)
    start(world, 0)
    start(world, 1)
    assert world.run_until_quiet()
    assert world.stop()
    assert "was this worker's index folder copied" in caplog.text
    assert faults(world) + audit_faults(world) == []
