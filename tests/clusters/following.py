"""A group of output topics in a world of the contract suite, and a follower of them that may crash."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import orjson
from prometheus_client import CollectorRegistry

from stream_dedup.clusters.follow import ClusterFollower, ClusterMetrics
from stream_dedup.clusters.model import cluster_id_of
from stream_dedup.clusters.store import ClusterStore
from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config
from stream_dedup.core.model import Verdict
from stream_dedup.ports import FollowPorts, Output, PassingError, SourceRecord, WorkerPorts
from tests.clusters.outputs import TIME_MS, LoggedArticle, clusters_in_one_pass, headers_of, members_of, random_log
from tests.contract.world import World

OUTPUT_PARTITIONS = 2


class GroupWorld:
    """Output topics with their log, a writer as a worker is, and one store."""

    def __init__(self, world: World, folder: Path, *, publishes: bool = True, keep: str | None = None) -> None:
        name = world.name(f"group-{uuid.uuid4().hex[:6]}")
        self.world = world
        self.folder = folder / "clusters"
        roles = ("unique", "duplicate", "rejected")
        self.begin_ms = world.time_ms() - 60_000
        self._topics = {role: f"{name}-{role}" for role in roles}
        self.clusters_topic = f"{name}-clusters"
        self.config: Config = load_config(
            None,
            {
                "kafka": {"group": name},
                "topics": self._topics | ({"clusters": self.clusters_topic} if publishes else {}),
                "clusters": {} if keep is None else {"keep": keep},
            },
            {},
        )
        world.make_log(name)
        for topic in self._topics.values():
            world.make_topic(topic, OUTPUT_PARTITIONS)
        if publishes:
            world.make_topic(self.clusters_topic, 2)
        self._worker: WorkerPorts = world.ports(name, f"{name}-{uuid.uuid4()}")
        self._worker.sink.renew()
        self.log_id = self._worker.offsets.topic_ids([self.config.log_topic])[self.config.log_topic]

    def dated(self, articles: Sequence[LoggedArticle]) -> list[LoggedArticle]:
        """The same articles, written just now: a broker deletes old records when its retention comes round."""
        shift_ms = self.begin_ms - TIME_MS
        return [replace(article, written_ms=article.written_ms + shift_ms) for article in articles]

    def random_log(self, seed: int, count: int) -> list[LoggedArticle]:
        return self.dated(random_log(random.Random(seed), count))

    def topic(self, verdict: Verdict = Verdict.UNIQUE) -> str:
        return self._topics[str(verdict)]

    def write(self, articles: Sequence[LoggedArticle], *, observed: bool = False) -> None:
        """Write the outputs of these articles in one transaction, as a worker does."""
        sink = self._worker.sink
        sink.begin()
        for article in articles:
            topic = self.topic(Verdict.UNIQUE if observed else article.verdict)
            value = orjson.dumps({"id": article.id, "text": "ferry"})
            sink.send([Output(topic, article.id.encode(), value, headers_of(article), article.written_ms)])
        sink.flush()
        sink.commit()

    def write_records(self, topic: str, values: Mapping[str, bytes]) -> None:
        """Write records that are no outputs."""
        sink = self._worker.sink
        sink.begin()
        now_ms = self.world.time_ms()
        sink.send(Output(topic, key.encode(), value, [], now_ms) for key, value in values.items())
        sink.flush()
        sink.commit()

    def ports(self) -> FollowPorts:
        """The ports of another process."""
        worker = self.world.ports(self.config.kafka.group, f"{self.config.kafka.group}-{uuid.uuid4()}")
        sink = None
        if self.config.topics.clusters is not None:
            group = self.config.kafka.group
            sink = self.world.marked_sink(self.clusters_topic, self.config.mark_group, f"{group}-clusters")
        return FollowPorts(self.world.topic_follower(), self.world.topic_reader(), worker.offsets, sink, worker.clock)

    def open(self) -> Following:
        """Open the store in a new process."""
        return Following(self)

    def published(self) -> list[SourceRecord]:
        """All records of the topic of clusters that a reader of committed records sees."""
        return self.world.committed_records(self.clusters_topic)


class Following:
    """An open store with its follower: what one process has."""

    def __init__(self, group: GroupWorld) -> None:
        self._group = group
        self.ports = group.ports()
        publishes = group.config.topics.clusters is not None
        self.store = ClusterStore.open(group.folder, group.log_id, publishes=publishes)
        self.metrics = ClusterMetrics(CollectorRegistry())
        self.follower = ClusterFollower(group.config, self.store, self.ports, group.log_id, self.metrics)

    def run(self) -> None:
        """Step until everything is read and published."""

        def is_done() -> bool:
            try:
                count = self.follower.step(0.05)
            except PassingError:
                return False
            state = self.follower.state()
            return not count and state.has_caught_up and not state.lag and not state.unpublished

        self._group.world.wait_until(is_done, "everything is followed and published")

    def metric(self, name: str) -> float:
        """The value of a metric of the follower."""
        found = self.metrics.registry.get_sample_value(f"stream_dedup_{name}")
        assert found is not None
        return found

    def close(self) -> None:
        """End the process: its connections are left as they are."""
        self.store.close()


def last_values(records: Sequence[SourceRecord]) -> dict[str, dict[str, object]]:
    """The value of each key after compaction."""
    values: dict[str, dict[str, object]] = {}
    for record in records:
        key = (record.key or b"").decode()
        values.pop(key, None)
        if record.value is not None:
            values[key] = orjson.loads(record.value)
    return values


def refuse_repeated(records: Sequence[SourceRecord]) -> None:
    """Every record is a change: no key has the same value twice in a row."""
    last: dict[bytes | None, bytes | None] = {}
    for record in records:
        assert record.key not in last or last[record.key] != record.value, f"{record.key!r} is published twice"
        last[record.key] = record.value


def published_clusters(log: Sequence[LoggedArticle]) -> dict[str, tuple[str, int, int, int]]:
    """What the topic must say of the clusters of a log: id of the first article, size, first and last time."""
    written = {article.coordinates: article.written_ms for article in log}
    return {
        cluster_id_of(first): (
            f"id of {first.partition}-{first.offset}",
            len(members),
            min(written[member] for member in members),
            max(written[member] for member in members),
        )
        for first, members in members_of(clusters_in_one_pass(log)).items()
    }


def refuse_other_values(group: GroupWorld, log: Sequence[LoggedArticle]) -> None:
    """The topic has one record for each cluster of the log, with its values, and no other."""
    found = last_values(group.published())
    shown = {
        key: (value["first"]["id"], value["size"], value["first_time"], value["last_time"])  # type: ignore[index]
        for key, value in found.items()
    }
    assert shown == published_clusters(log)
    log_id = str(uuid.UUID(bytes=group.log_id))
    for key, value in found.items():
        assert (value["cluster_id"], value["log_id"]) == (key, log_id)
