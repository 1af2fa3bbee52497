"""What is published on the topic of groups: each change once, whatever crashes where."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
import pytest

from stream_dedup.core.model import SourceOffset, Verdict
from stream_dedup.errors import RefusedError
from stream_dedup.groups import parse_group_id, publish
from stream_dedup.groups.schema import transaction
from stream_dedup.ports import CommittedOffset, FencedError, Output, Partition, PassingError
from tests.contract.world import World
from tests.groups.checking import refuse_other_groups
from tests.groups.following import Following, GroupWorld, last_values, refuse_other_values, refuse_repeated
from tests.groups.outputs import LoggedArticle, at
from tests.memory.following import MemoryMarkedSink
from tests.memory.runtime import Phase


class Crash(BaseException):
    """Stands for the end of the process."""


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the topics, and publish a few groups, in every step."""
    monkeypatch.setattr("stream_dedup.groups.follow.TOPICS_LOOK_S", 0.0)
    monkeypatch.setattr("stream_dedup.groups.follow.PUBLISH_S", 0.0)
    for module in ("publish", "follow"):
        monkeypatch.setattr(f"stream_dedup.groups.{module}.PUBLISHED_AT_ONCE", 7)
    monkeypatch.setattr("stream_dedup.groups.publish.KEYS_AT_ONCE", 5)


@pytest.fixture
def group(world: World, tmp_path: Path) -> GroupWorld:
    return GroupWorld(world, tmp_path)


Patch = Callable[[Following, Callable[[], None]], None]
"""Lets a function be called at one place of a process."""


def after_apply(process: Following, crash: Callable[[], None]) -> None:
    apply = process.store.apply

    def applied(*arguments: Any) -> None:  # noqa: ANN401 - as of the method
        apply(*arguments)
        if arguments[0]:
            crash()

    process.store.apply = applied  # type: ignore[method-assign,assignment]


def before_the_transaction(process: Following, crash: Callable[[], None]) -> None:
    sink: Any = process.ports.sink
    publishes = sink.publish

    def published(*arguments: object) -> None:
        crash()
        publishes(*arguments)

    sink.publish = published


def after_the_transaction(process: Following, crash: Callable[[], None]) -> None:
    sink: Any = process.ports.sink
    publishes = sink.publish

    def published(*arguments: object) -> None:
        publishes(*arguments)
        crash()

    sink.publish = published


def after_dropping(process: Following, crash: Callable[[], None]) -> None:
    publisher: Any = process.follower._publisher
    drop = publisher._drop_published

    def dropped(sequence: int) -> None:
        drop(sequence)
        crash()

    publisher._drop_published = dropped


def run_until_crash(group: GroupWorld, articles: list[LoggedArticle], patch: Patch, times: int) -> bool:
    """Write articles one by one, until the place is reached for the n-th time; whether it was.

    Those that are not written then are left in ``articles``.
    """
    left = times

    def crash() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Crash

    with closing(group.open()) as process, suppress(Crash):
        patch(process, crash)
        while articles:
            group.write([articles.pop(0)])
            process.run()
    return left == 0


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("patch", [after_apply, before_the_transaction, after_the_transaction, after_dropping])
def test_a_crash_between_two_steps(group: GroupWorld, patch: Patch, times: int) -> None:
    """Of the first groups, and of later ones: the next process publishes what is left, and nothing twice."""
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
        refuse_other_groups(process.store, whole)
    refuse_other_values(group, whole)
    refuse_repeated(group.published())


def lone_articles(group: GroupWorld, count: int = 3) -> list[LoggedArticle]:
    """Articles whose groups change no more: what is lost of them is not made good later."""
    return group.dated([LoggedArticle(at(1_000 + number)) for number in range(count)])


@contextmanager
def crashing_after(commits: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Crash after the n-th transaction of the publisher on its store; yields how many there were."""
    counted = [0]

    @contextmanager
    def counting(connection: Any) -> Iterator[None]:  # noqa: ANN401 - as of the function
        with transaction(connection):
            yield
        counted[0] += 1
        if counted[0] == commits:
            raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(publish, "transaction", counting)
        yield counted


WORLDS = ["memory_world", pytest.param("kafka_world", marks=[pytest.mark.broker, pytest.mark.full])]
"""Where the steps are those of the store alone, the broker has no part in what a crash leaves."""


@pytest.fixture
def stepwise(request: pytest.FixtureRequest, tmp_path: Path) -> GroupWorld:
    return GroupWorld(request.getfixturevalue(request.param), tmp_path)


@pytest.mark.parametrize("stepwise", WORLDS, indirect=True)
@pytest.mark.parametrize("commits", range(1, 9))
def test_a_crash_while_the_topic_is_begun_anew(
    stepwise: GroupWorld, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    """The store was made again: after each of the steps a to c and between the keys the next process begins anew."""
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
    sink._sink.connection.hook = hook


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


@pytest.mark.expect_log("were deleted before they were read")
def test_a_store_that_was_made_again_publishes_its_groups_and_removes_the_others(group: GroupWorld) -> None:
    """A group that is on the topic alone, since its outputs are gone, becomes a tombstone."""
    log = group.random_log(8, 60)
    gone = group.dated([LoggedArticle(at(1_000 + number)) for number in range(9)])
    group.write([*log, *gone])
    with closing(group.open()) as process:
        process.run()
        assert len(last_values(group.published())) > len(gone)
    shutil.rmtree(group.folder)
    delete_outputs(group, Verdict.UNIQUE)
    with closing(group.open()) as process:
        process.run()
        left = {article.coordinates for article in process.store.latest(100)}
    assert not left & {article.coordinates for article in gone}
    refuse_other_values(group, [article for article in log if article.coordinates in left])


def delete_outputs(group: GroupWorld, verdict: Verdict) -> None:
    """Delete all outputs of a topic."""
    records = group.world.committed_records(group.topic(verdict))
    for number in {record.partition for record in records}:
        end = max(record.offset for record in records if record.partition == number) + 1
        group.world.delete_records(Partition(group.topic(verdict), number), end)


def test_a_store_that_was_put_back_publishes_everything_again(group: GroupWorld) -> None:
    """An older copy has other numbers for its changes than the mark means."""
    log = group.random_log(9, 90)
    group.write(log[:30])
    with closing(group.open()) as process:
        process.run()
    copy = group.folder.with_name("copy")
    shutil.copytree(group.folder, copy)
    group.write(log[30:60])
    with closing(group.open()) as process:
        process.run()
    put_back(group, copy)
    group.write(log[60:])
    with closing(group.open()) as process:
        process.run()
    refuse_other_values(group, log)


def put_back(group: GroupWorld, copy: Path) -> None:
    shutil.rmtree(group.folder)
    shutil.move(copy, group.folder)


def test_changes_of_a_store_that_was_put_back_are_not_those_that_were_published(group: GroupWorld) -> None:
    """It has given numbers up to the mark a second time when it ends before it publishes."""
    log = group.random_log(12, 80)
    group.write(log[:20])
    with closing(group.open()) as process:
        process.run()
    copy = Path(shutil.copytree(group.folder, group.folder.with_name("copy")))
    group.write(log[20:50])
    with closing(group.open()) as process:
        process.run()
    put_back(group, copy)
    left = log[50:]
    assert run_until_crash(group, left, after_apply, 1)
    group.write(left)
    with closing(group.open()) as process:
        process.run()
    refuse_other_values(group, log)


@pytest.mark.expect_log("were deleted before they were read")
@pytest.mark.parametrize("stepwise", WORLDS, indirect=True)
@pytest.mark.parametrize("commits", range(1, 7))
def test_a_crash_while_a_store_that_was_put_back_begins_anew(
    stepwise: GroupWorld, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    """The outputs since the copy are gone: the topic is as the store, whose groups are smaller or not there."""
    log = stepwise.random_log(13, 60)
    stepwise.write(log[:30])
    with closing(stepwise.open()) as process:
        process.run()
    copy = Path(shutil.copytree(stepwise.folder, stepwise.folder.with_name("copy")))
    stepwise.write(log[30:])
    with closing(stepwise.open()) as process:
        process.run()
    put_back(stepwise, copy)
    for verdict in Verdict:
        delete_outputs(stepwise, verdict)
    with crashing_after(commits, monkeypatch), suppress(Crash), closing(stepwise.open()) as process:
        process.run()
    with closing(stepwise.open()) as process:
        process.run()
    refuse_other_values(stepwise, log[:30])


def test_a_store_after_another_one_has_published(group: GroupWorld, tmp_path: Path) -> None:
    """The mark of another store says nothing of the changes of this one, even where its number is higher."""
    log = group.random_log(14, 60)
    group.write(log[:30])
    with closing(group.open()) as process:
        process.run()
    lone = lone_articles(group, 3 * publish.PUBLISHED_AT_ONCE)
    group.write(lone)
    left = log[30:]
    assert run_until_crash(group, left, after_apply, 1)
    own, group.folder = group.folder, tmp_path / "other"
    assert run_until_crash(group, left, after_the_transaction, 1)
    group.folder = own
    group.write(left)
    with closing(group.open()) as process:
        process.run()
    refuse_other_values(group, [*log[:30], *lone, *log[30:]])


def test_a_mark_that_the_broker_forgot_repeats_nothing(group: GroupWorld, world: World) -> None:
    """After a week without a change; a mark that a person has set by hand is no mark either."""
    log = group.random_log(10, 60)
    group.write(log[:30])
    with closing(group.open()) as process:
        process.run()
    by_hand = CommittedOffset(SourceOffset(0), None)
    world.set_offset(group.config.mark_group, Partition(group.groups_topic, 0), by_hand)
    group.write(log[30:])
    with closing(group.open()) as process:
        process.run()
    refuse_other_values(group, log)
    refuse_repeated(group.published())


def test_what_others_wrote_on_the_topic_is_left_alone(group: GroupWorld, world: World) -> None:
    """Records without a key or a value of ours, and groups of another log: no tombstone for them."""
    other_log = orjson.dumps({"log_id": "of another log", "group_id": str(at(5))})
    world.write(Partition(group.groups_topic, 0), [b"text"])
    group.write_records(group.groups_topic, {str(at(5)): other_log, "a key": b"[1]", str(at(6)): b"no JSON"})
    foreign = {(record.key, record.value) for record in group.published()}
    log = group.dated([LoggedArticle(at(number)) for number in range(100, 120)])
    group.write(log)
    with closing(group.open()) as process:
        process.run()
    found = {(record.key, record.value) for record in group.published()}
    assert len(foreign) == 4
    assert found >= foreign
    assert {key for key, _ in found - foreign} == {str(article.coordinates).encode() for article in log}


def test_two_publishers_of_one_group_are_named(group: GroupWorld, tmp_path: Path) -> None:
    """Each fences the other: one of them ends with an error that says so."""
    group.write(group.dated([LoggedArticle(at(0))]))
    with closing(group.open()) as one:
        one.run()
        here, group.folder = group.folder, tmp_path / "other"
        with closing(group.open()) as other:  # noqa: SIM117 - one statement in the block that raises
            with pytest.raises(RefusedError, match="another process publishes the groups"):
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
    """``docs/groups.md``: the fields of the example, their types, and the form of the id."""
    page = (Path(__file__).parents[2] / "docs" / "groups.md").read_text("utf-8")
    shown = orjson.loads(page.partition("```json\n")[2].partition("```")[0])
    group.write(group.dated([LoggedArticle(at(0))]))
    with closing(group.open()) as process:
        process.run()
    found = orjson.loads(group.published()[0].value or b"")

    def form(value: dict[str, Any]) -> dict[str, Any]:
        return {key: form(one) if isinstance(one, dict) else type(one) for key, one in value.items()}

    assert form(shown) == form(found)
    assert parse_group_id(shown["group_id"]) is not None
    assert shown["group_id"] in page.partition("```json")[0]
