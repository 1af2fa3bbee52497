"""The follower in memory and on a broker: what it reads, where it begins again, and what it says is missing."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stream_dedup.clusters.model import JudgedOutput, MissingOutputs, OutputReading, Window
from stream_dedup.clusters.publish import PUBLISHED_AT_ONCE
from stream_dedup.core.model import Verdict
from stream_dedup.errors import RefusedError, UnavailableError
from stream_dedup.ports import Partition, PassingError, SourceRecord, UnreadableError
from tests.clusters.checking import refuse_other_clusters, totals_of
from tests.clusters.following import Following, GroupWorld, refuse_other_values, refuse_repeated
from tests.clusters.outputs import LoggedArticle, at, size_of
from tests.contract.conftest import ONE_CLIENT
from tests.contract.world import World
from tests.memory.runtime import Phase
from tests.waiting import wait_until


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the topics, and publish, in every step."""
    monkeypatch.setattr("stream_dedup.clusters.follow.TOPICS_LOOK_S", 0.0)
    monkeypatch.setattr("stream_dedup.clusters.follow.PUBLISH_S", 0.0)


@ONE_CLIENT
def test_the_clusters_of_the_outputs_are_stored_and_published(group: GroupWorld) -> None:
    """Verdicts of all topics, before the start and after it, by several processes; a cluster once for each change."""
    log = group.random_log(1, 120)
    group.write(log[:50])
    for part in (log[50:80], log[80:], []):
        with closing(group.open()) as process:
            process.run()
            group.write(part)
            process.run()
    with closing(group.open()) as process:
        refuse_other_clusters(process.store, log)
        assert process.store.totals(Window.DAY, group.world.time_ms() + 60_000) == totals_of(log)
    refuse_other_values(group, log)
    refuse_repeated(group.published())


def test_a_change_is_one_record(group: GroupWorld) -> None:
    """A cluster that did not change is not written again; one that became part of another one is a tombstone."""
    first, second, third = LoggedArticle(at(0)), *(
        LoggedArticle(at(n), at(n - 1), Verdict.DUPLICATE) for n in (1, 2)
    )  # fmt: skip
    with closing(group.open()) as process:
        for article in (third, second, first):
            group.write(group.dated([article]))
            process.run()
    keys = [(record.key or b"").decode() for record in group.published()]
    sizes = [record.value is None for record in group.published()]
    assert sorted(zip(keys, sizes, strict=True)) == sorted(
        [(str(at(1)), False), (str(at(1)), True), (str(at(0)), False), (str(at(0)), False)]
    )


def test_outputs_wait_for_the_schema_registry(group: GroupWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was polled while it did not answer is read again: no output is lost, and the follower goes on."""
    log = group.random_log(3, 60)
    group.write(log)
    read, calls = OutputReading.read, 0

    def answered_later(self: OutputReading, records: Iterable[SourceRecord]) -> list[JudgedOutput]:
        nonlocal calls
        calls += 1
        if calls in {1, 2, 4}:
            raise UnavailableError("the schema registry does not answer")
        return read(self, records)

    monkeypatch.setattr(OutputReading, "read", answered_later)
    with closing(group.open()) as process:
        process.run()
        refuse_other_clusters(process.store, log)
    assert calls > 4


def test_under_observe_the_headers_say_the_verdict(world: World, tmp_path: Path) -> None:
    """Everything is in the topic of unique records."""
    group = GroupWorld(world, tmp_path, publishes=False)
    log = group.random_log(2, 60)
    group.write(log, observed=True)
    with closing(group.open()) as process:
        process.run()
        refuse_other_clusters(process.store, log)
        assert process.store.totals(Window.DAY, group.world.time_ms() + 60_000) == totals_of(log)
        assert {one.output.topic for one in process.store.latest(60)} == {group.topic()}


def test_outputs_of_an_open_transaction_wait(group: GroupWorld, world: World) -> None:
    """Nothing behind it is read, and nothing is published before it has ended: clusters may still grow together."""
    open_one = [world.open_transaction(Partition(group.topic(), number), [b"not an output"]) for number in range(2)]
    copy = LoggedArticle(at(1), at(0), Verdict.DUPLICATE)
    group.write(group.dated([LoggedArticle(at(0)), copy]))
    with closing(group.open()) as process:
        world.wait_until(lambda: process.follower.step(0.05) == 1, "the duplicate is read")
        for _ in range(10):
            assert process.follower.step(0.05) == 0
        assert not process.follower.state().has_caught_up
        assert (size_of(process.store), group.published()) == ((1, 1), [])
        for transaction in open_one:
            transaction.abort()
        process.run()
        assert size_of(process.store) == (2, 1)


@pytest.mark.expect_log("records that are no outputs")
def test_records_of_another_program_are_left_out(group: GroupWorld, world: World) -> None:
    """The first one of a topic is a warning."""
    world.write(Partition(group.topic(), 0), [b"mine", b"mine"])
    group.write(group.dated([LoggedArticle(at(0))]))
    with closing(group.open()) as process:
        process.run()
        assert size_of(process.store) == (1, 1)


@pytest.mark.expect_log("were deleted before they were read")
@ONE_CLIENT
def test_outputs_that_retention_deleted_are_named(group: GroupWorld, world: World) -> None:
    """Those before the first start, and those between two; what is left is read."""
    partitions = [Partition(group.topic(), number) for number in range(2)]
    log = group.dated([LoggedArticle(at(number)) for number in range(40)])

    def cut(outputs: int) -> list[MissingOutputs]:
        """Delete everything but the last output of each partition, once so many outputs can be read."""
        wait_until(lambda: len(world.committed_records(group.topic())) == outputs, 30, f"{outputs} outputs")
        records = world.committed_records(group.topic())
        last = {at: max(one.offset for one in records if one.partition == at.number) for at in partitions}
        with closing(world.topic_reader()) as reader:
            first = {at: begin for at, (begin, _) in reader.bounds(partitions).items()}
        for partition, offset in last.items():
            world.delete_records(partition, offset)
        return [MissingOutputs(at, first[at], last[at]) for at in partitions]

    group.write(log[:20])
    missing = cut(20)
    with closing(group.open()) as process:
        process.run()
        assert process.store.missing() == missing
        assert size_of(process.store)[0] == 2
        positions = {at: int(offset.offset) for at, offset in process.store.positions().items()}
    group.write(log[20:])
    missing += [MissingOutputs(one.partition, positions[one.partition], one.end) for one in cut(2 + 20)]
    with closing(group.open()) as process:
        process.run()
        assert process.store.missing() == sorted(missing, key=lambda one: (one.partition, one.first))
        assert size_of(process.store)[0] == 4


@pytest.mark.expect_log("were deleted before they were read")
def test_outputs_deleted_while_others_are_gathered(
    memory_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the other partition, which were read and not stored yet, are read again."""
    group = GroupWorld(memory_world, tmp_path)
    group.write(group.dated([LoggedArticle(at(number)) for number in range(30)]))
    partitions = [Partition(group.topic(), number) for number in range(2)]
    ends = {at: end for at, (_, end) in memory_world.topic_reader().bounds(partitions).items()}
    gone = partitions[1]
    with closing(group.open()) as process:
        poll, polls = process.ports.follower.poll, [0]

        def delete_before(wait_s: float) -> Mapping[Partition, Sequence[SourceRecord]]:
            polls[0] += 1
            if polls[0] == 1:
                memory_world.delete_records(gone, ends[gone] - 1)
            return poll(wait_s)

        monkeypatch.setattr(process.ports.follower, "poll", delete_before)
        with pytest.raises(PassingError, match="are gone"):
            process.follower.step()
        assert (polls[0], size_of(process.store)) == (2, (0, 0))
        process.run()
        left = sum(record.partition == 0 for record in memory_world.committed_records(group.topic()))
        assert left > 0
        assert process.store.missing() == [MissingOutputs(gone, 0, ends[gone] - 1)]
        assert size_of(process.store)[0] == left


@pytest.mark.expect_log("was recreated")
@ONE_CLIENT
def test_an_output_topic_that_is_recreated_is_read_from_its_beginning(group: GroupWorld, world: World) -> None:
    """While the follower runs, and shorter or longer than it was; what was read of the other one stays."""
    log = group.dated([LoggedArticle(at(number)) for number in range(30)])
    group.write(log[:10])
    with closing(group.open()) as process:
        process.run()
        for part in (log[10:13], log[13:]):
            world.delete_topic(group.topic())
            world.make_topic(group.topic(), 2)
            group.write(part)
            process.run()
        assert size_of(process.store)[0] == len(log)
        assert process.store.missing() == []


def test_an_offset_that_is_read_again_changes_nothing(group: GroupWorld) -> None:
    """All outputs, by a process whose store has lost its positions; nothing is published again either."""
    log = group.random_log(3, 60)
    group.write(log)
    with closing(group.open()) as process:
        process.run()
        published = len(group.published())
        process.store.writer.execute("DELETE FROM position")
    with closing(group.open()) as process:
        process.run()
        refuse_other_clusters(process.store, log)
    assert len(group.published()) == published


def test_a_log_that_is_recreated_ends_the_follower(group: GroupWorld, world: World) -> None:
    """Its clusters would be mixed with those of the log before."""
    group.write(group.dated([LoggedArticle(at(0))]))
    with closing(group.open()) as process:
        process.run()
        world.delete_topic(group.config.log_topic)
        process.run()  # it may come back
        world.make_log(group.config.kafka.group)
        with pytest.raises(RefusedError, match="was recreated"):
            process.run()


@pytest.mark.expect_log("there is no topic")
def test_a_topic_of_clusters_that_comes_later_gets_every_cluster(group: GroupWorld, world: World) -> None:
    """It was not made yet, or was recreated: clusters are stored meanwhile, and all are published then."""
    log = group.random_log(4, 80)
    world.delete_topic(group.clusters_topic)
    group.write(log[:40])
    with closing(group.open()) as process:
        for _ in range(10):
            process.follower.step(0.05)
        assert size_of(process.store)[0] == 40
        world.make_topic(group.clusters_topic, 2)
        process.run()
        refuse_other_values(group, log[:40])
        group.write(log[40:])
        process.run()
        world.delete_topic(group.clusters_topic)
        world.make_topic(group.clusters_topic, 2)
        process.run()
        refuse_other_values(group, log)
    assert len(group.published()) < PUBLISHED_AT_ONCE


@pytest.mark.parametrize("seed", range(10))
def test_calls_that_fail_now_and_then(memory_world: World, tmp_path: Path, seed: int) -> None:
    """Before their effect, or with their answer lost: the next step goes on, and each change is published once."""
    rng = random.Random(seed)
    group = GroupWorld(memory_world, tmp_path)
    log = group.random_log(seed, 100)

    def fail(_call: str, _phase: Phase) -> None:
        if rng.random() < 0.05:
            raise PassingError("the broker is away")

    with closing(group.open()) as process:
        for port in (process.ports.follower, process.ports.reader, process.ports.offsets, process.ports.sink):
            port.connection.hook = fail  # type: ignore[union-attr]
        for begin in range(0, len(log), 10):
            group.write(log[begin : begin + 10])
            process.run()
        refuse_other_clusters(process.store, log)
    refuse_other_values(group, log)
    refuse_repeated(group.published())


def test_the_metrics_say_how_far_it_is(memory_world: World, tmp_path: Path) -> None:
    """Outputs that were read, clusters of two or more articles, records that were published; nothing is left."""
    group = GroupWorld(memory_world, tmp_path)
    articles = [LoggedArticle(at(0)), LoggedArticle(at(1), at(0), Verdict.DUPLICATE), LoggedArticle(at(2))]
    group.write(group.dated(articles))
    with closing(group.open()) as process:
        process.run()
        assert process.metric("clusters_outputs_total") == len(articles)
        assert process.metric("clusters") == 1
        assert process.metric("clusters_published_total") == len(group.published()) == 2
        assert process.metric("clusters_lag") == process.metric("clusters_unpublished") == 0


def test_the_metrics_show_what_is_left(memory_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs that were there at the last look, and clusters of the store, as long as they wait."""
    monkeypatch.setattr("stream_dedup.clusters.publish.PUBLISHED_AT_ONCE", 1)
    group = GroupWorld(memory_world, tmp_path)
    group.write(group.dated([LoggedArticle(at(n)) for n in range(3)]))
    with closing(group.open()) as process:
        with monkeypatch.context() as nothing_comes:
            nothing_comes.setattr(process.ports.follower, "poll", lambda _wait_s: {})
            process.follower.step(0)
        assert process.metric("clusters_lag") >= 3
        unpublished = []
        for _ in range(20):
            process.follower.step(0.05)
            unpublished.append(process.metric("clusters_unpublished"))
        assert (max(unpublished), unpublished[-1]) == (2, 0)
        assert process.metric("clusters_lag") == 0


def test_outputs_that_cannot_be_decoded_end_it(
    memory_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what the port says: the broker refuses nothing."""
    group = GroupWorld(memory_world, tmp_path)

    def fail(_wait_s: float) -> None:
        raise UnreadableError(Partition("unique", 0), 0, "a wrong checksum", "Mend it")

    with closing(group.open()) as process:
        monkeypatch.setattr(process.ports.follower, "poll", fail)
        with pytest.raises(UnreadableError, match=r"topic unique, partition 0: .*a wrong checksum.*Mend it"):
            process.follower.step(0)


@pytest.mark.expect_log("clusters wait for the broker", "clusters are not followed any more")
def test_the_thread_waits_and_ends(memory_world: World, tmp_path: Path) -> None:
    """While calls fail it tries again and says so once; an error that does not pass is kept; a stop ends it."""
    group = GroupWorld(memory_world, tmp_path)
    group.write(group.dated([LoggedArticle(at(0))]))
    with closing(group.open()) as process:
        offsets: Any = process.ports.offsets
        works = offsets.connection.hook

        def fail(_call: str, _phase: Phase) -> None:
            raise PassingError("no broker")

        offsets.connection.hook = fail
        process.follower.start()
        memory_world.wait_until(lambda: process.follower._is_waiting, "it waits")
        assert error_of(process) is None
        assert process.metric("clusters_following") == 0
        assert process.metric("clusters_failures_total") > 0
        offsets.connection.hook = works
        memory_world.wait_until(lambda: size_of(process.store) == (1, 1), "it goes on")
        memory_world.wait_until(lambda: process.metric("clusters_following") == 1, "the metrics show it")
        offsets.connection.hook = fail
        memory_world.wait_until(lambda: process.metric("clusters_following") == 0, "the metrics show it")
        offsets.connection.hook = works
        memory_world.wait_until(lambda: process.metric("clusters_following") == 1, "the metrics show it")
        failures = process.metric("clusters_failures_total")
        memory_world.delete_topic(group.config.log_topic)
        memory_world.make_log(group.config.kafka.group)
        memory_world.wait_until(lambda: isinstance(error_of(process), RefusedError), "it ends")
        memory_world.wait_until(lambda: process.metric("clusters_following") == 0, "the metrics show it")
        assert process.metric("clusters_failures_total") == failures + 1
    with closing(GroupWorld(memory_world, tmp_path / "other").open()) as process:
        process.follower.start()
        memory_world.wait_until(lambda: process.follower.state().has_caught_up, "it follows")
        process.follower.stop(5.0)
        assert error_of(process) is None
        assert process.follower._thread is not None
        assert not process.follower._thread.is_alive()


def error_of(process: Following) -> BaseException | None:
    return process.follower.error
