"""What is published on the topic of clusters: each change once, whatever crashes where."""

from __future__ import annotations

import random
import shutil
import uuid
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from kafka import OffsetAndMetadata

from stream_dedup.clusters.model import parse_cluster_id
from stream_dedup.core.model import SourceOffset
from stream_dedup.errors import RefusedError
from stream_dedup.kafka.kafka_python.sink import _mark_of
from stream_dedup.ports import CommittedOffset, FencedError, Output, Partition, PassingError, PublishedMark
from tests.clusters.checking import refuse_other_clusters
from tests.clusters.crashes import (
    WORLDS,
    Crash,
    Patch,
    after_apply,
    after_dropping,
    after_the_transaction,
    before_the_transaction,
    crashing_after,
    lone_articles,
    run_until_crash,
)
from tests.clusters.following import Following, GroupWorld, refuse_other_values, refuse_repeated
from tests.clusters.outputs import LoggedArticle, at
from tests.contract.conftest import ONE_CLIENT
from tests.contract.world import World
from tests.memory.following import MemoryMarkedSink
from tests.memory.runtime import Phase

pytestmark = pytest.mark.usefixtures("few_at_once")


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("patch", [after_apply, before_the_transaction, after_the_transaction, after_dropping])
def test_a_crash_between_two_steps(group: GroupWorld, patch: Patch, times: int) -> None:
    """Of the first clusters, and of later ones: the next process publishes what is left, and nothing twice."""
    log = group.random_log(5, 90)
    group.write(log[:30])
    with closing(group.open()) as process:
        process.run()
    left = [*lone_articles(group), *log[30:]]
    whole = [*log[:30], *left]
    assert run_until_crash(group, left, patch, times)
    group.write(left)
    with closing(group.open()) as process:
        process.run()
        refuse_other_clusters(process.store, whole)
    refuse_other_values(group, whole)
    refuse_repeated(group.published())


@pytest.mark.parametrize("stepwise", WORLDS, indirect=True)
@pytest.mark.parametrize("commits", range(1, 9))
def test_a_crash_while_the_topic_is_begun_anew(
    stepwise: GroupWorld, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    """The store was rebuilt: after each of the steps a to c and between the keys the next process begins anew."""
    log = stepwise.random_log(6, 50)
    stepwise.write(log)
    with closing(stepwise.open()) as process:
        process.run()
    shutil.rmtree(stepwise.folder)
    with crashing_after(commits, monkeypatch), suppress(Crash), closing(stepwise.open()) as process:
        process.run()
    with closing(stepwise.open()) as process:
        process.run()
    refuse_other_values(stepwise, log)


@pytest.mark.parametrize("seed", range(25))
def test_crashes_at_random_calls(memory_world: World, tmp_path: Path, seed: int) -> None:
    """At both ends of the calls that make up a transaction, again and again: each change is published once."""
    rng = random.Random(seed)
    group = GroupWorld(memory_world, tmp_path)
    log = group.random_log(seed, 120)
    for part in range(0, len(log), 20):
        group.write(log[part : part + 20])
        for _ in range(rng.randrange(4)):
            with closing(group.open()) as process, suppress(Crash):
                crash_at(process, rng.randrange(1, 40))
                process.run()
        with closing(group.open()) as process:
            process.run()
    refuse_other_values(group, log)
    refuse_repeated(group.published())


def crash_at(process: Following, calls: int) -> None:
    """Crash at the n-th end of a call of the sink; what was sent before stays."""
    sink = process.ports.sink
    assert isinstance(sink, MemoryMarkedSink)
    left = calls

    def hook(_call: str, _phase: Phase) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Crash

    sink.connection.hook = hook


def test_a_commit_without_an_answer(group: GroupWorld, world: World) -> None:
    """The broker carried it out: the same process goes on, and publishes nothing twice."""
    log = group.random_log(7, 60)
    group.write(log[:40])
    with closing(group.open()) as process:
        sink: Any = process.ports.sink
        publishes, lost = sink.publish, [2]

        def unheard(outputs: list[Output], mark: Any) -> None:  # noqa: ANN401 - as of the method
            lost[0] -= 1
            if lost[0]:
                publishes(outputs, mark)
                return
            sink.publish = publishes
            world.publish_without_answer(sink, outputs, mark)

        sink.publish = unheard
        process.run()
        assert lost == [0]
        group.write(log[40:])
        process.run()
    refuse_other_values(group, log)
    refuse_repeated(group.published())


def test_a_mark_that_the_broker_forgot_repeats_nothing(group: GroupWorld, world: World) -> None:
    """After a week without a change; a mark that a person has set by hand is no mark either."""
    log = group.random_log(10, 60)
    group.write(log[:30])
    with closing(group.open()) as process:
        process.run()
    by_hand = CommittedOffset(SourceOffset(0), None)
    world.set_offset(group.config.mark_group, Partition(group.clusters_topic, 0), by_hand)
    group.write(log[30:])
    with closing(group.open()) as process:
        process.run()
    refuse_other_values(group, log)
    refuse_repeated(group.published())


def test_a_mark_of_another_format_is_none() -> None:
    """The publisher begins anew: it publishes every cluster, and takes back what is none."""
    metadata = f"store_id={uuid.UUID(int=7)}"
    marks = [_mark_of(OffsetAndMetadata(7, f"{before}{metadata}", -1)) for before in ("", "format=2;", "format=1;")]
    assert marks == [None, None, PublishedMark(uuid.UUID(int=7).bytes, 7)]


def test_what_others_wrote_on_the_topic_is_left_alone(group: GroupWorld, world: World) -> None:
    """Records without a key or a value of ours, and clusters of another log: no tombstone for them."""
    other_log = orjson.dumps({"log_id": "of another log", "cluster_id": str(at(5))})
    world.write(Partition(group.clusters_topic, 0), [b"text"])
    group.write_records(group.clusters_topic, {str(at(5)): other_log, "a key": b"[1]", str(at(6)): b"no JSON"})
    foreign = {(record.key, record.value) for record in group.published()}
    log = group.dated([LoggedArticle(at(number)) for number in range(100, 120)])
    group.write(log)
    with closing(group.open()) as process:
        process.run()
    found = {(record.key, record.value) for record in group.published()}
    assert len(foreign) == 4
    assert found >= foreign
    assert {key for key, _ in found - foreign} == {str(article.coordinates).encode() for article in log}


@ONE_CLIENT
def test_two_publishers_of_one_group_are_named(group: GroupWorld, tmp_path: Path) -> None:
    """Each fences the other: one of them ends with an error that says so."""
    group.write(group.dated([LoggedArticle(at(0))]))
    with closing(group.open()) as one:
        one.run()
        here, group.folder = group.folder, tmp_path / "other"
        with closing(group.open()) as other:  # noqa: SIM117 - one statement in the block that raises
            with pytest.raises(RefusedError, match="another process publishes the clusters"):
                publish_by_turns(group, [one, other])
        group.folder = here


def publish_by_turns(group: GroupWorld, processes: list[Following]) -> None:
    """Let each process publish what the others cannot know."""
    for number in range(1, 30):
        group.write(group.dated([LoggedArticle(at(number))]))
        for process in processes:
            with suppress(PassingError):
                process.follower.step(0.2)


def test_a_publisher_is_fenced_by_the_next_one(group: GroupWorld) -> None:
    """A process that was thought dead cannot write over its successor."""
    group.write(group.dated([LoggedArticle(at(0))]))
    with closing(group.open()) as process:
        process.run()
        successor = group.ports().sink
        assert successor is not None
        assert successor.renew() is not None
        group.write(group.dated([LoggedArticle(at(1))]))
        publisher = process.follower._publisher
        assert publisher is not None
        process.follower._read(1.0)
        with pytest.raises(FencedError):
            publisher.publish()


def test_the_page_shows_a_record_as_it_is(group: GroupWorld) -> None:
    """``docs/clusters.md``: the fields of the example, their types, and the form of the id."""
    page = (Path(__file__).parents[2] / "docs" / "clusters.md").read_text("utf-8")
    shown = orjson.loads(page.partition("```json\n")[2].partition("```")[0])
    group.write(group.dated([LoggedArticle(at(0))]))
    with closing(group.open()) as process:
        process.run()
    found = orjson.loads(group.published()[0].value or b"")

    def form(value: dict[str, Any]) -> dict[str, Any]:
        return {key: form(one) if isinstance(one, dict) else type(one) for key, one in value.items()}

    assert form(shown) == form(found)
    assert parse_cluster_id(shown["cluster_id"]) is not None
    assert shown["cluster_id"] in page.partition("```json")[0]
