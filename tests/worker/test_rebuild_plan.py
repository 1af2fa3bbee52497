"""``index rebuild --dry-run``: what a rebuild would do, and where it would refuse. The broker is in memory."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from stream_dedup import Index
from stream_dedup.config.effective import rules_of
from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config
from stream_dedup.core.entry import Payload, encode
from stream_dedup.core.profiles import PROFILES
from stream_dedup.errors import RefusedError, UserError
from stream_dedup.index import mark_corrupt
from stream_dedup.ports import Partition
from stream_dedup.worker.opening import RebuildPlan, open_log, plan_rebuild
from tests.index.trees import tree
from tests.logs import batch
from tests.memory.broker import Cluster
from tests.memory.log_topic import MemoryLogTopic
from tests.memory.partition import Message
from tests.memory.runtime import Connection
from tests.profiles import profile_with
from tests.simulation.scheduler import Scheduler


class Group:
    """A group whose log has rules and two articles, and the index of a worker that has read them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cluster = Cluster(Scheduler(Random(0)))
        config = self.config()
        self.cluster.make_topic(config.log_topic, has_append_time=True)
        for payload in (rules_of(config), batch([0, 1], [3, 5], sketch_bytes=rules_of(config).scheme.sketch_bytes)):
            self.append(payload)
        opened = open_log(config, self.topic(), lambda _done, _whole: None)
        with closing(opened.log), opened.index:
            assert opened.index.next_offset == 2

    def append(self, payload: Payload) -> None:
        self.cluster.append(
            self.cluster.partition(Partition(self.config().log_topic, 0)), Message(None, encode(payload))
        )

    def config(self, **sections: dict[str, object]) -> Config:
        """The configuration of the worker, with other values."""
        index = {"path": str(self.folder), "memory_mib": 0}
        return load_config(None, {"index": index, "topics": {"input": ["articles"]}} | sections, {})

    def topic(self) -> MemoryLogTopic:
        config = self.config()
        return MemoryLogTopic(self.cluster, Connection(), config.kafka.group, config.log_topic)

    def plan(self, **sections: dict[str, object]) -> RebuildPlan:
        """The plan; the folder is as before."""
        before = tree(self.folder)
        try:
            return plan_rebuild(self.config(**sections), self.topic(), lambda _done, _whole: None)
        finally:
            assert tree(self.folder) == before


@pytest.fixture
def group(tmp_path: Path) -> Group:
    """A group with one index."""
    return Group(tmp_path / "index")


def test_a_plan_has_what_is_deleted_and_what_is_read(group: Group) -> None:
    """Articles and position of the index, and the offsets of the log; a damaged index has no figures."""
    plan = group.plan()
    assert plan.stats is not None
    assert (plan.stats.articles, plan.stats.next_offset, plan.first, plan.end) == (2, 2, 0, 2)
    mark_corrupt(group.folder)
    assert group.plan() == RebuildPlan(None, plan.first, plan.end)


def test_a_plan_is_refused_where_the_rules_differ(group: Group) -> None:
    """The rebuild itself would notice only after the index is emptied."""
    with pytest.raises(RefusedError, match=rf"limit: 5 here, {PROFILES['article'].limit} in the log"):
        group.plan(match={"profile": profile_with(search={"limit": 5})})
    with pytest.raises(RefusedError, match=r"^log .* has scheme .*\(seed 0\)\nthe configuration .*\(seed 7\)\n"):
        group.plan(match={"profile": profile_with(features={"seed": 7})})


def test_a_plan_is_refused_where_the_log_lost_its_history(group: Group) -> None:
    """The index is its last copy: without the topic, and where a new topic has its name."""
    group.cluster.delete_topic(group.config().log_topic)
    with pytest.raises(RefusedError, match="does not exist"):
        group.plan()
    group.cluster.make_topic(group.config().log_topic, has_append_time=True)
    group.append(rules_of(group.config()))
    with pytest.raises(RefusedError, match="is another log and that one is gone"):
        group.plan()


def test_a_plan_needs_an_index(tmp_path: Path, group: Group) -> None:
    """A wrong folder is an error at once, and not made."""
    with pytest.raises(UserError, match="there is none; name its folder with --index"):
        plan_rebuild(group.config(index={"path": str(tmp_path / "other")}), group.topic(), lambda _done, _whole: None)
    assert not (tmp_path / "other").exists()


def test_data_of_which_nothing_can_be_read_are_not_replaced_by_the_log(group: Group, tmp_path: Path) -> None:
    """A program of the Python API made the folder: there is no other copy."""
    with Index(tmp_path / "other") as index:
        index.add("a", 1)
    for table in (tmp_path / "other").rglob("*.sst"):
        table.write_bytes(table.read_bytes()[:-1])
    config = group.config(index={"path": str(tmp_path / "other")})
    with pytest.raises(UserError, match="is the only place of what it holds; name another folder with --index"):
        open_log(config, group.topic(), lambda _done, _whole: None)
    assert list((tmp_path / "other").rglob("*.sst"))
