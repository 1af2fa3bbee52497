"""``run --new-log`` is interrupted between any two of its effects: the same command goes on, and nothing is lost.

The broker is in memory. An effect is a change of a name or a flush in the index folder, a write to an index, a topic
that is made, or an append.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from stream_dedup.config.effective import rules_of
from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config
from stream_dedup.core.entry import encode
from stream_dedup.core.model import SourceOffset
from stream_dedup.errors import RefusedError, StreamDedupError
from stream_dedup.index import LogIndex, mark_corrupt
from stream_dedup.index.store import Store
from stream_dedup.kafka.rules_log import PreparedLog
from stream_dedup.ports import CommittedOffset, Partition
from stream_dedup.worker.committer import worker_id
from stream_dedup.worker.opening import OpenedLog, open_log
from tests.amount import FULL
from tests.index.dying import EFFECTS, counting
from tests.logs import TOPIC, batch
from tests.memory.broker import Cluster
from tests.memory.log import MemoryLog
from tests.memory.log_topic import MemoryLogTopic
from tests.memory.partition import Message
from tests.memory.runtime import Connection
from tests.simulation.scheduler import Scheduler

COMMITTED = CommittedOffset(SourceOffset(7), TOPIC)
ARTICLES = Partition("articles", 0)

NO_LOG, DAMAGED, OTHER_LOG = CASES = ("no log", "no log, index damaged", "log of another worker")


class _Interrupted(BaseException):
    """The process ends here."""


class MadeTopic(MemoryLogTopic):
    """A log topic that the opening makes where it is missing, as the broker's adapter does."""

    def prepare(self) -> PreparedLog:
        if self._topic not in self._cluster.topics:
            self._cluster.make_topic(self._topic, has_append_time=True)
        return super().prepare()


class World:
    """A group whose log was lost, and the index of one of its workers, which has read all of it."""

    def __init__(self, folder: Path, *, begun: bool, damaged: bool) -> None:
        self.config: Config = load_config(
            None,
            {"index": {"path": str(folder), "memory_mib": 0}, "topics": {"input": ["articles"]}},
            {},
        )
        self.cluster = Cluster(Scheduler(Random(0)))
        self.cluster.make_topic(self.config.log_topic, has_append_time=True)
        self.cluster.group(self.config.kafka.group).commit(ARTICLES, COMMITTED)
        self._append_rules()
        self._append(batch([0, 1], [3, 5], sketch_bytes=rules_of(self.config).scheme.sketch_bytes))
        with self.opened(new_log=False) as opened:
            self.history = (opened.index.log_id, opened.index.next_offset)
        self.worker = worker_id(folder, self.config.kafka.group)
        self.cluster.delete_topic(self.config.log_topic)
        self.cluster.group(self.config.kafka.group).commit(ARTICLES, COMMITTED)
        if begun:
            self.cluster.make_topic(self.config.log_topic, has_append_time=True)
            self._append_rules()
        if damaged:
            mark_corrupt(folder)

    @contextmanager
    def opened(self, *, new_log: bool) -> Iterator[OpenedLog]:
        """Log and index, opened as a worker does."""
        topic = MadeTopic(self.cluster, Connection(), self.config.kafka.group, self.config.log_topic)
        opened = open_log(self.config, topic, lambda _done, _whole: None, new_log=new_log)
        with closing(opened.log), opened.index:
            yield opened

    @property
    def log_records(self) -> int:
        return len(self.cluster.partition(Partition(self.config.log_topic, 0)).records)

    def histories(self) -> list[Path]:
        """The folders in which the old index is, whole."""
        folder = self.config.index.path
        return [place for place in (folder, *sorted(folder.glob("kept-*"))) if _content(place) == self.history]

    def _append_rules(self) -> None:
        self._append(rules_of(self.config))

    def _append(self, payload: Any) -> None:  # noqa: ANN401 - rules or a batch
        log = self.cluster.partition(Partition(self.config.log_topic, 0))
        self.cluster.append(log, Message(None, encode(payload)))


def _content(place: Path) -> tuple[str | None, int] | None:
    """The log that an index belongs to, and how far it has read it, damaged or not; None where there is no index."""
    if not any(place.glob("data-*/CURRENT")):
        return None
    copy = place.parent / f"copy-of-{place.name}"
    shutil.copytree(place, copy, ignore=shutil.ignore_patterns("kept-*"))
    try:
        (copy / "corrupt").unlink(missing_ok=True)
        with LogIndex.read(copy, scheme=None) as index:
            return index.log_id, index.next_offset
    except StreamDedupError:
        return None
    finally:
        shutil.rmtree(copy)


def _interrupt() -> None:
    raise _Interrupted


@contextmanager
def interrupted(after: int) -> Iterator[None]:
    """End the process, as the block sees it, after so many effects."""
    counted = counting(after, _interrupt)
    with pytest.MonkeyPatch.context() as patch:
        effects = [*EFFECTS, (Store, "write"), (Cluster, "make_topic"), (MemoryLog, "append")]
        for where, name in effects:
            patch.setattr(where, name, counted(getattr(where, name)))
        yield


def ends(world: World, after: int) -> bool:
    """Whether the command comes to its end before it is interrupted."""
    try:
        with interrupted(after), world.opened(new_log=True):
            return True
    except _Interrupted:
        return False


def has_way_out(world: World) -> bool:
    """Whether a worker starts without the flag, or is refused with the way out."""
    try:
        with world.opened(new_log=False):
            return True
    except RefusedError as error:
        return "--new-log" in str(error)


@pytest.mark.slow
@pytest.mark.expect_log("")
@pytest.mark.parametrize("case", CASES)
def test_an_interruption_between_any_two_steps(tmp_path: Path, case: str) -> None:
    """The old index is whole at any time, in its place or kept aside; the command goes on, and keeps it once.

    The log begins with its rules; they are there twice where the first append was still on its way, and the first
    count. The committed offsets and the worker's transactional id stay.
    """
    effects, ended = 0, False
    while not ended:
        effects += 1 if FULL else 3 if case == NO_LOG else 5  # odd and even ones in turn
        begun, damaged = case == OTHER_LOG, case == DAMAGED
        world = World(tmp_path / str(effects) / "index", begun=begun, damaged=damaged)
        ended = ends(world, effects)
        assert len(world.histories()) == 1, effects
        if effects % 2:
            assert has_way_out(world), effects
            assert len(world.histories()) == 1, effects
        with world.opened(new_log=True) as opened:
            assert opened.index.rules == rules_of(world.config)
            assert opened.index.next_offset == world.log_records in {1, 2}, effects
        assert [place.name for place in world.histories()] == ["kept-1"], effects
        assert worker_id(world.config.index.path, world.config.kafka.group) == world.worker
        assert world.cluster.group(world.config.kafka.group).committed == {ARTICLES: COMMITTED}
        shutil.rmtree(tmp_path / str(effects))
    assert effects > 15
