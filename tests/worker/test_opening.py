"""A worker's index folder: which indexes are emptied, and the id that stays in the folder."""

import os
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from stream_dedup.cli import run
from stream_dedup.config.effective import rules_of
from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config
from stream_dedup.core.entry import encode
from stream_dedup.core.rules import Rules
from stream_dedup.errors import CorruptError, RefusedError, UserError
from stream_dedup.index import LogIndex, mark_corrupt
from stream_dedup.kafka.rules_log import KafkaLogTopic, PreparedLog
from stream_dedup.ports import Partition
from stream_dedup.worker import opening
from stream_dedup.worker.committer import worker_id
from tests.index.trees import tree
from tests.memory.broker import Cluster
from tests.memory.log_topic import MemoryLogTopic
from tests.memory.partition import Message
from tests.memory.runtime import Connection
from tests.simulation.scheduler import Scheduler


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """A worker's configuration, its index not there yet."""
    return load_config(overrides={"index": {"path": tmp_path / "index"}}, environment={})


def open_index(config: Config, *, rebuild: bool = False) -> LogIndex:
    """The steps of ``open_log`` that concern the folder alone."""
    steps = opening._Opening(config, KafkaLogTopic(config), rebuild=rebuild, new_log=False)
    try:
        steps.open_index()
        if rebuild or steps.damage is not None:
            steps._empty(steps.damage)
    except BaseException:
        steps.close()
        raise
    return steps.index


def rebuild_index(config: Config) -> LogIndex:
    """The same for ``index rebuild``."""
    return open_index(config, rebuild=True)


@pytest.mark.expect_log("is damaged .* it is rebuilt from the log")
def test_a_damaged_index_is_emptied(config: Config) -> None:
    """It is a cache of the log; files beside it stay."""
    with open_index(config) as index:
        index.begin("8b8d2f6e-0000-4000-8000-000000000000")
    mark_corrupt(config.index.path)
    (config.index.path / "notes").write_text("a stranger's")
    with open_index(config) as index:
        assert index.log_id is None
    assert (config.index.path / "notes").read_text() == "a stranger's"


@pytest.mark.parametrize("damage", ["none", "marked", "pointer lost"])
def test_an_index_of_filter_is_never_emptied(config: Config, tmp_path: Path, damage: str) -> None:
    """Its entries are in no log, so neither a worker nor ``index rebuild`` empties it, damaged or not."""
    path = config.index.path
    (tmp_path / "lines").write_text('{"text":"ferry and bridge"}\n', "utf-8")
    assert run(["filter", "--index", str(path), str(tmp_path / "lines")]) == 0
    if damage == "marked":
        mark_corrupt(path)
    elif damage == "pointer lost":
        (path / "current").unlink()
    before = tree(path / "data-1")
    for call in (rebuild_index, open_index):
        with pytest.raises(UserError, match=r"was made by `stream-dedup filter` or stream_dedup\.Index"):
            call(config)
    assert tree(path / "data-1") == before


def test_a_folder_of_something_else_is_not_emptied(config: Config) -> None:
    """Neither made nor rebuilt there."""
    (config.index.path / "data-2024").mkdir(parents=True)
    (config.index.path / "data-2024" / "a.txt").write_text("a stranger's")
    before = tree(config.index.path)
    for call in (open_index, rebuild_index):
        with pytest.raises(UserError, match="holds other files"):
            call(config)
    assert tree(config.index.path) == before


def test_a_transactional_id_stays_in_the_folder(config: Config) -> None:
    """Made once, also before there is an index, for which it is no obstacle."""
    first = worker_id(config.index.path, config.kafka.group)
    open_index(config).close()
    rebuild_index(config).close()
    assert worker_id(config.index.path, config.kafka.group) == first
    assert first.startswith(config.kafka.group)


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe", b"one\ntwo\n", b"x" * 100_000])
def test_a_damaged_transactional_id_is_damage(config: Config, content: bytes) -> None:
    """An id that another worker may have, or none, would fence the wrong one."""
    config.index.path.mkdir()
    (config.index.path / "worker-id").write_bytes(content)
    with pytest.raises(CorruptError, match="worker-id"):
        worker_id(config.index.path, config.kafka.group)


def test_a_transactional_id_is_not_written_through_a_link(config: Config, tmp_path: Path) -> None:
    """Nor read through one."""
    config.index.path.mkdir()
    (config.index.path / "worker-id").symlink_to(tmp_path / "outside")
    with pytest.raises(CorruptError, match="worker-id is a link"):
        worker_id(config.index.path, config.kafka.group)
    assert not (tmp_path / "outside").exists()


def test_a_transactional_id_is_on_disk_before_it_is_used(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file gets its name when the whole id is on disk, and the name is on disk when the id is returned.

    Otherwise a machine that loses power could start again with another id, or none, while its transaction is open.
    """
    folder, synced = config.index.path, list[tuple[str, str, bool]]()
    sync = os.fsync

    def fsync(handle: int) -> None:
        path = Path(f"/proc/self/fd/{handle}").readlink()
        synced.append((path.name, path.read_text() if path.is_file() else "", (folder / "worker-id").exists()))
        sync(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    made = worker_id(config.index.path, config.kafka.group)
    (name, text, named), *rest = synced
    assert (name, text.split("\n")[1], named) == ("worker-id.new", made, False)
    assert rest == [(folder.name, "", True)]


class BegunMeanwhile(MemoryLogTopic):
    """A log that was not there at the first look; another worker begins it before this one makes it."""

    def __init__(self, cluster: Cluster, config: Config, rules: Rules) -> None:
        super().__init__(cluster, Connection(), config.kafka.group, config.log_topic)
        self._rules = rules

    def prepare(self) -> PreparedLog:
        self._cluster.make_topic(self._topic, has_append_time=True)
        self._cluster.append(self._cluster.partition(Partition(self._topic, 0)), Message(None, encode(self._rules)))
        return super().prepare()


def test_a_log_that_another_worker_begins_meanwhile(config: Config) -> None:
    """Its rules count: they are not written again, and other ones are refused."""
    rules = rules_of(config)
    topic = BegunMeanwhile(Cluster(Scheduler(Random(0))), config, rules)
    opened = opening.open_log(config, topic, lambda _done, _whole: None)
    with closing(opened.log), opened.index as index:
        assert (index.rules, index.next_offset) == (rules, 1)
        assert opened.log.bounds() == (0, 1)
    shutil.rmtree(config.index.path)
    other = BegunMeanwhile(Cluster(Scheduler(Random(0))), config, replace(rules, limit=5))
    with pytest.raises(RefusedError, match="limit"):
        opening.open_log(config, other, lambda _done, _whole: None)


class TrimmedMeanwhile(MemoryLogTopic):
    """A log that another worker trims, to the rules that it restated, after this one has looked for it."""

    def check(self) -> None:
        partition = self._cluster.partition(Partition(self._topic, 0))
        partition.delete_before(partition.end - 1)


def test_a_log_that_another_worker_trims_meanwhile(config: Config) -> None:
    """It is read from where it begins now: nothing was read of it yet that could be lost."""
    cluster = Cluster(Scheduler(Random(0)))
    cluster.make_topic(config.log_topic, has_append_time=True)
    for _ in range(2):
        cluster.append(cluster.partition(Partition(config.log_topic, 0)), Message(None, encode(rules_of(config))))
    topic = TrimmedMeanwhile(cluster, Connection(), config.kafka.group, config.log_topic)
    opened = opening.open_log(config, topic, lambda _done, _whole: None)
    with closing(opened.log), opened.index as index:
        assert (opened.first_offset, index.next_offset) == (1, 2)
