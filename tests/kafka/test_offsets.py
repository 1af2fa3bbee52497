"""``offsets show|set`` on a real broker."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import KafkaAdminClient, OffsetAndMetadata, TopicPartition
from kafka.errors import CoordinatorLoadInProgressError, KafkaError, UnknownMemberIdError

from stream_dedup.cli import run
from stream_dedup.config.effective import rules_of
from stream_dedup.config.model import Config
from stream_dedup.core.entry import Basis, Forgotten, Trim
from stream_dedup.core.headers import offset_metadata
from stream_dedup.core.model import LogOffset, SourceOffset
from stream_dedup.errors import EXIT_OK, EXIT_REFUSED, EXIT_USER
from stream_dedup.kafka.admin import KafkaOffsets, committed_offsets, last_stable_offsets, topic_ids
from stream_dedup.kafka.clients import connect_log
from stream_dedup.kafka.connection import make_consumer
from stream_dedup.kafka.errors import patiently
from stream_dedup.kafka.offsets import alter_offsets
from stream_dedup.kafka.produce import produce_lines
from stream_dedup.kafka.topics import ensure_topics
from stream_dedup.ports import CommittedOffset, Partition
from tests.kafka.operating import delete_topic
from tests.logs import batch


@pytest.fixture
def source(config: Config, admin: KafkaAdminClient) -> Partition:
    """Ten records, of which the log has the first four."""
    ensure_topics(admin, config)
    name = config.topics.input[0]
    produce_lines(config, name, [b"%d" % number for number in range(10)], None, lambda _count: None)
    logged = batch(range(4), [1, 2, 3, 4], topic_id=topic_ids(admin, [name])[name], topic=name)
    with closing(connect_log(config)) as log:
        log.append_now(rules_of(config))
        log.append_now(logged)
    return Partition(name, 0)


def where(flags: list[str]) -> list[str]:
    return flags[:3]


@pytest.mark.parametrize(("to", "offset"), [("beginning", 0), ("end", 10), ("logged", 4)])
def test_set(
    config: Config, admin: KafkaAdminClient, flags: list[str], source: Partition, to: str, offset: int
) -> None:
    """Offsets are set to where the word says, with the topic's id as their metadata."""
    assert run(["offsets", "set", *where(flags), f"--to={to}"]) == EXIT_OK
    topic_id = topic_ids(admin, [source.topic])[source.topic]
    assert committed_offsets(admin, config.kafka.group) == {source: CommittedOffset(SourceOffset(offset), topic_id)}
    raw = admin.list_group_offsets({config.kafka.group: None})[config.kafka.group]
    assert raw[source].metadata == offset_metadata(topic_id)


@pytest.mark.parametrize("to", ["4", "logged"])
def test_an_offset_that_another_tool_set_with_metadata_of_its_own(
    config: Config,
    admin: KafkaAdminClient,
    flags: list[str],
    source: Partition,
    to: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is one that was set by hand: it is shown, `status` shows its lag, and `offsets set` takes its place."""
    committed = {TopicPartition(*source): OffsetAndMetadata(3, "reset by ops", -1)}
    patiently(config.kafka, "offsets", lambda: admin.alter_group_offsets(config.kafka.group, committed))
    assert run(["offsets", "show", *where(flags)]) == EXIT_OK
    assert re.split(r" {2,}", capsys.readouterr().out.splitlines()[1])[1:] == ["0", "10", "3", "0 to 3"]
    run(["status", *flags, "--interval=0.1"])
    assert re.search(rf"{source.topic}-0 +0 +10 +10 +3 +7\n", capsys.readouterr().out)
    place = [f"--topic={source.topic}", "--partition=0"]
    assert run(["offsets", "set", *where(flags), f"--to={to}", *place]) == EXIT_OK
    topic_id = topic_ids(admin, [source.topic])[source.topic]
    assert committed_offsets(admin, config.kafka.group) == {source: CommittedOffset(SourceOffset(4), topic_id)}


@pytest.mark.parametrize("target", [("beginning", None), ("2", None), ("3", 3), ("logged", 4)])
def test_what_is_forgotten_is_not_judged_again(
    config: Config,
    admin: KafkaAdminClient,
    flags: list[str],
    source: Partition,
    target: tuple[str, int | None],
) -> None:
    """An offset below what a trim forgot is refused, and nothing is set; a trim of other rules does not count."""
    to, offset = target
    topic_id = topic_ids(admin, [source.topic])[source.topic]
    revision = rules_of(config).revision
    with closing(connect_log(config)) as log:
        for listed, under in ((3, revision), (4, revision + 1)):
            forgotten = (Forgotten(topic_id, 0, SourceOffset(listed)),)
            log.append_now(Trim(LogOffset(0), 0, Basis(under, LogOffset(2), forgotten)))
    code = run(["offsets", "set", *where(flags), f"--to={to}", f"--topic={source.topic}", "--partition=0"])
    assert code == (EXIT_USER if offset is None else EXIT_OK)
    assert committed_offsets(admin, config.kafka.group) == (
        {} if offset is None else {source: CommittedOffset(SourceOffset(offset), topic_id)}
    )


def test_logged_is_behind_what_is_forgotten_where_the_log_has_nothing_else(
    config: Config, admin: KafkaAdminClient, flags: list[str], source: Partition
) -> None:
    """A partition of which only a trim knows is not read from its beginning."""
    topic_id = topic_ids(admin, [source.topic])[source.topic]
    with closing(connect_log(config)) as log:
        forgotten = (Forgotten(topic_id, 0, SourceOffset(7)),)
        log.append_now(Trim(LogOffset(0), 0, Basis(rules_of(config).revision, LogOffset(2), forgotten)))
    assert run(["offsets", "set", *where(flags), "--to=logged"]) == EXIT_OK
    assert committed_offsets(admin, config.kafka.group) == {source: CommittedOffset(SourceOffset(7), topic_id)}


def test_set_one_partition(
    config: Config,
    admin: KafkaAdminClient,
    flags: list[str],
    source: Partition,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A number goes with one partition, and lies inside of it."""
    one = [f"--topic={source.topic}", "--partition=0"]
    assert run(["offsets", "set", *where(flags), "--to=7", *one]) == EXIT_OK
    assert committed_offsets(admin, config.kafka.group)[source].offset == 7
    for wrong, message in (
        (["--to=7"], "--partition"),
        (["--to=11", *one], "lies outside"),
        (["--to=end", "--partition=5"], "no partition 5"),
        (["--to=somewhere"], "neither an offset nor one of beginning"),
    ):
        assert run(["offsets", "set", *where(flags), *wrong]) == EXIT_USER
        assert message in capsys.readouterr().err
    assert committed_offsets(admin, config.kafka.group)[source].offset == 7


def test_a_dry_run_sets_nothing(
    config: Config,
    admin: KafkaAdminClient,
    flags: list[str],
    source: Partition,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It writes the old and the new offset and what becomes of those between; an offset outside is refused as ever."""
    name = f"{source.topic}-0"
    assert run(["offsets", "set", *where(flags), "--to=logged", "--dry-run"]) == EXIT_OK
    assert capsys.readouterr().out.splitlines() == [f"{name}: none -> 4", "dry run: nothing was set"]
    assert committed_offsets(admin, config.kafka.group) == {}
    assert run(["offsets", "set", *where(flags), "--to=logged"]) == EXIT_OK
    capsys.readouterr()
    for to, effect in (("beginning", "0 (4 offsets read again)"), ("end", "10 (6 offsets skipped)"), ("logged", "4")):
        assert run(["offsets", "set", *where(flags), f"--to={to}", "--dry-run"]) == EXIT_OK
        assert capsys.readouterr().out.splitlines()[0] == f"{name}: 4 -> {effect}"
    one = [f"--topic={source.topic}", "--partition=0", "--to=11"]
    assert run(["offsets", "set", *where(flags), *one, "--dry-run"]) == EXIT_USER
    assert committed_offsets(admin, config.kafka.group)[source].offset == 4


def test_set_is_refused_while_a_worker_runs(
    config: Config, flags: list[str], source: Partition, capsys: pytest.CaptureFixture[str]
) -> None:
    """A group with members keeps its offsets; the message says to stop them."""
    with closing(make_consumer(config.kafka, group_id=config.kafka.group, auto_offset_reset="earliest")) as member:
        member.subscribe([source.topic])
        assert member.poll(timeout_ms=30_000)
        assert run(["offsets", "set", *where(flags), "--to=beginning"]) == EXIT_REFUSED
    assert "stop all workers" in capsys.readouterr().err


def test_show(flags: list[str], source: Partition, capsys: pytest.CaptureFixture[str]) -> None:
    """The table shows committed and logged offsets, and ``none`` where no offset is committed."""
    assert run(["offsets", "show", *where(flags)]) == EXIT_OK
    table = capsys.readouterr().out.splitlines()
    assert table[1].split() == [f"{source.topic}-0", "0", "10", "none", "0", "to", "3"]
    run(["offsets", "set", *where(flags), "--to=logged"])
    capsys.readouterr()
    assert run(["offsets", "show", *where(flags), "--json"]) == EXIT_OK
    row = json.loads(capsys.readouterr().out)[0]
    assert (row["committed"], row["logged_last"], row["committed_topic_id"]) == (4, 3, row["topic_id"])


def test_show_after_the_topic_was_recreated(
    config: Config,
    admin: KafkaAdminClient,
    flags: list[str],
    source: Partition,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An offset of the deleted topic is marked, and the log has no article of the new topic."""
    old = offset_metadata(topic_ids(admin, [source.topic])[source.topic])
    delete_topic(admin, source.topic)
    ensure_topics(admin, config)
    committed = {TopicPartition(*source): OffsetAndMetadata(4, old, -1)}
    patiently(config.kafka, "offsets", lambda: admin.alter_group_offsets(config.kafka.group, committed))
    assert run(["offsets", "show", *where(flags)]) == EXIT_OK
    row = capsys.readouterr().out.splitlines()[1]
    assert re.split(r" {2,}", row)[1:] == ["0", "0", "4 (of another topic)", "nothing"]


def test_the_commands_take_the_topics_that_match(
    flags: list[str],
    source: Partition,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`offsets` and `status` show them; `produce` asks for a name."""
    by_pattern = [*where(flags)[:2], f"--input=^{source.topic[:-1]}", *flags[3:]]
    assert run(["offsets", "show", *by_pattern[:3], "--json"]) == EXIT_OK
    assert [row["topic"] for row in json.loads(capsys.readouterr().out)] == [source.topic]
    run(["status", *by_pattern, "--interval=0.1"])
    assert re.search(rf"{source.topic}-0 +0 +10 ", capsys.readouterr().out)
    monkeypatch.setenv("STREAM_DEDUP_TOPICS__INPUT", f"^{source.topic[:-1]}")
    assert run(["produce", by_pattern[0]]) == EXIT_USER
    assert "name the topic with --topic" in capsys.readouterr().err
    assert run(["offsets", "show", *by_pattern[:2], "--input=^nothing-has-this-name"]) == EXIT_USER
    assert "there is none of the topics ^nothing-has-this-name" in capsys.readouterr().err


def test_threads_share_an_admin_client(config: Config, source: Partition) -> None:
    """Those of a worker ask for offsets, topics and ends at one time, and no request fails."""
    threads, rounds = 8, 20
    with closing(KafkaOffsets(config.kafka)) as offsets, ThreadPoolExecutor(threads) as pool:

        def ask(_thread: int) -> list[int]:
            ends = []
            for _ in range(rounds):
                offsets.committed()
                assert set(offsets.topic_ids([source.topic])) == {source.topic}
                ends.append(last_stable_offsets(offsets.client(), [source])[source])
            return ends

        assert [end for ends in pool.map(ask, range(threads)) for end in ends] == [10] * (threads * rounds)


@pytest.mark.parametrize("error", [CoordinatorLoadInProgressError, UnknownMemberIdError])
def test_offsets_that_are_not_set_for_the_moment(error: type[KafkaError]) -> None:
    """An error that passes is raised, so that it is tried again; one that does not is the answer."""
    at = TopicPartition("t", 0)
    admin: Any = SimpleNamespace(alter_group_offsets=lambda _group, _offsets: {at: error})
    if error is UnknownMemberIdError:
        assert alter_offsets(admin, "group", {}) == {at: error}
    else:
        with pytest.raises(error):
            alter_offsets(admin, "group", {})
