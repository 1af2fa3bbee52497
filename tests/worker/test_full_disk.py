"""A worker whose index is on a disk that is full, or read only: a clear error, and with space again nothing is lost.

The workers are those of the simulation, in virtual time on a broker in memory; their indexes are RocksDB's, on a small
disk. A test at the end of the file does the same with a worker and a broker that are real.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from stream_dedup.cli import exit_code_of
from stream_dedup.errors import EXIT_UNAVAILABLE, EXIT_USER, StreamDedupError
from stream_dedup.index import LogIndex
from stream_dedup.worker import Step, opening
from tests.forks import ForkedProcess
from tests.memory.runtime import Phase
from tests.simulation.auditing import audit_faults
from tests.simulation.checker import faults
from tests.simulation.worker_process import WorkerProcess
from tests.simulation.world import SimulatedWorld
from tests.small_disk import SmallDisk, small_disk
from tests.worker.conftest import MakePipeline
from tests.worker.mixture import records
from tests.worker.planted_worker import small_buffers
from tests.worker.quiet_plan import ARTICLES, quiet_plan, start, write

SEED = 5
OPENS_BYTES = 70_000
"""Enough for opening an index, and for a few of its files."""
MAKES_BYTES = 600_000
"""The same for making one."""
LIMIT_S = 200.0
"""Virtual seconds."""
MOST_ROUNDS = 5
"""Times that the articles are written before a worker has to have met the end of the disk."""
FULL = r"No space left on device.*(see that the disk has space and can be written|make room), then start again"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path) as mounted:
        yield mounted


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let indexes write files and merge lists as often as those of millions of articles do."""
    monkeypatch.setattr(opening, "index_settings_of", small_buffers)


@pytest.fixture
def world(disk: SmallDisk) -> SimulatedWorld:
    """A worker that has not been started, its index on the disk, and the articles."""
    made = SimulatedWorld(quiet_plan(), disk.folder)
    write(made)
    return made


def error_of(world: SimulatedWorld, process: WorkerProcess) -> StreamDedupError:
    """Let a worker run until it ends with an error; return that. Where the room is enough, more articles come."""
    for _ in range(MOST_ROUNDS):
        if world.scheduler.run_until(lambda: not process.is_running, world.scheduler.now() + LIMIT_S):
            break
        write(world)
    assert not process.is_running, "the worker goes on"
    assert isinstance(process.error, StreamDedupError), process.error
    return process.error


def assert_told(error: StreamDedupError, reason: str, folder: Path) -> None:
    """An error names the index folder, the reason and the remedy."""
    assert str(folder) in str(error)
    assert re.search(reason, str(error)), error


def fill(disk: SmallDisk, folder: Path, but_bytes: int = 0) -> None:
    """Fill the disk; RocksDB's own old log goes first, which it would remove to make room."""
    for old in folder.glob("data-*/LOG.old*"):
        old.unlink()
    disk.fill(but_bytes)


def keep_full(disk: SmallDisk, process: WorkerProcess, left: int) -> None:
    """Fill the disk now and at each later batch: a file that RocksDB removes in the meantime makes no room."""
    fill(disk, process.folder, left)
    process.at_step[Step.READ] = (0, partial(keep_full, disk, process, min(left, disk.left())))


def finish(world: SimulatedWorld, number: int = 0) -> None:
    """Start a worker, wait for every verdict, and stop it: nothing is missing or wrong, and its index is sound."""
    start(world, number)
    assert world.run_until_quiet()
    assert world.stop()
    assert faults(world) + audit_faults(world) == []
    with LogIndex.read(world.slots[number].config.index.path, scheme=None) as index:
        assert index.verify() == []


@pytest.mark.slow
def test_a_disk_that_fills_under_a_worker(world: SimulatedWorld, disk: SmallDisk) -> None:
    """The worker ends with exit code 5 and the remedy, also when it is started again; then it goes on where it was."""
    for times, left in ((3, 0), (2, 20_000), (1, OPENS_BYTES)):
        for passes in (times, 0):
            process = start(world)
            process.at_step[Step.READ] = (passes, partial(keep_full, disk, process, left))
            error = error_of(world, process)
            assert exit_code_of(error) == EXIT_UNAVAILABLE
            assert_told(error, FULL, process.folder)
        disk.free()
    assert not world.is_quiet()
    finish(world)


NO_INDEX, AN_INDEX, A_DAMAGED_INDEX = "no index", "an index", "a damaged index"


@pytest.mark.slow
@pytest.mark.expect_log("it is rebuilt from the log")
@pytest.mark.parametrize("before", [NO_INDEX, AN_INDEX, A_DAMAGED_INDEX])
def test_a_start_on_a_full_disk(world: SimulatedWorld, disk: SmallDisk, before: str) -> None:
    """Whatever is left of the space: exit code 5, the folder and the remedy; what was there is not lost by it."""
    folder = world.slots[0].config.index.path
    if before != NO_INDEX:
        finish(world)
        write(world)
    if before == A_DAMAGED_INDEX:
        shutil.rmtree(folder / "data-1")
    for left in (0, 4_096, 16_384, 32_768):
        fill(disk, folder, left)
        error = error_of(world, start(world))
        assert exit_code_of(error) == EXIT_UNAVAILABLE
        assert_told(error, FULL, folder)
        disk.free()
    if before == AN_INDEX:
        with LogIndex.read(folder, scheme=None) as index:
            assert index.next_offset == world.log.end
    finish(world)


@pytest.mark.slow
def test_a_disk_that_fills_while_the_log_is_read(world: SimulatedWorld, disk: SmallDisk) -> None:
    """An index that was lost is built again as far as there is space, and then from there on."""
    finish(world)
    folder = world.slots[0].config.index.path
    shutil.rmtree(folder)
    disk.fill(MAKES_BYTES)
    assert_told(error_of(world, start(world)), FULL, folder)
    with LogIndex.read(folder, scheme=None) as index:
        assert 0 < index.next_offset < world.log.end
        assert index.verify() == []
    disk.free()
    finish(world)


@pytest.mark.slow
def test_no_space_for_the_transactional_id(world: SimulatedWorld, disk: SmallDisk) -> None:
    """The worker does not begin under an id that the next start would not find."""
    process = start(world)
    (process.folder / "worker-id").unlink()
    hook, calls = process.link.connection.hook, list[str]()

    def fill_when_read(call: str, phase: Phase) -> None:
        hook(call, phase)
        calls.append(call)
        if "log.poll" in calls and (call, phase) == ("log.seek", Phase.END):
            disk.fill()

    process.link.connection.hook = fill_when_read
    assert_told(error_of(world, process), f"cannot be written: .*{FULL}", process.folder)
    assert "sink.renew" not in calls
    disk.free()
    finish(world)


@pytest.mark.slow
@pytest.mark.parametrize("before", [NO_INDEX, AN_INDEX])
def test_a_read_only_disk(world: SimulatedWorld, disk: SmallDisk, before: str) -> None:
    """Exit code 2, the folder and the remedy; nothing in the folder is another afterwards."""
    if before == AN_INDEX:
        finish(world)
        write(world)
    disk.set_writable(False)
    error = error_of(world, start(world))
    assert exit_code_of(error) == EXIT_USER
    assert_told(error, r"Read-only file system.*name another with --index", world.slots[0].config.index.path)
    disk.set_writable(True)
    finish(world)


@pytest.mark.slow
def test_a_real_worker_on_a_disk_that_fills(make_pipeline: MakePipeline, disk: SmallDisk) -> None:
    """The process ends with exit code 5 and the remedy as its last line, at each start; then it goes on."""
    folder = disk.folder / "index"
    made = make_pipeline(index={"path": str(folder)}, worker={"batch_records": 20})

    def begin() -> ForkedProcess:
        return made.start(program="tests.worker.planted_worker:often_flushing")

    stream = records(3 * ARTICLES, SEED)
    made.produce(stream[:ARTICLES])
    worker = begin()
    made.wait_judged(ARTICLES)
    disk.fill()
    made.produce(stream[ARTICLES:])
    for running in (worker, None):
        assert (running or begin()).wait() == EXIT_UNAVAILABLE, made.log()
        assert str(folder) in made.log().splitlines()[-1]
        assert re.search(FULL, made.log().splitlines()[-1])
    assert not made.done()
    disk.free()
    worker = begin()
    made.wait_done()
    made.stop(worker)
    made.assert_sound()
    assert len(made.stamps()) == sum(made.ends().values())
