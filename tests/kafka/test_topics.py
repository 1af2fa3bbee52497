"""Topics on a real broker: made right where missing, refused with the mending command where wrong."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Barrier
from typing import Any, Literal, cast

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from stream_dedup.cli import run
from stream_dedup.config.model import MAX_RECORD_BYTES, Config
from stream_dedup.dev.broker import DevCluster
from stream_dedup.errors import EXIT_FOUND, EXIT_OK, UserError
from stream_dedup.kafka import topics
from stream_dedup.kafka.admin import topic_ids
from stream_dedup.kafka.connection import make_admin
from stream_dedup.kafka.record import HEADER_ALLOWANCE_BYTES, MESSAGE_FRAME_BYTES
from stream_dedup.kafka.topics import (
    DEFAULT_MESSAGE_BYTES,
    MESSAGE_BYTES,
    MIN_IN_SYNC,
    MOST_MESSAGE_BYTES,
    UNCLEAN,
    TopicProblem,
    _replication_problems,
    _State,
    _Wanted,
    check_topics,
    create_topics,
    ensure_topics,
    with_matching_topics,
)
from tests.kafka.operating import delete_topic, follow
from tests.waiting import wait_until

WORKERS = 4
LIMIT_S = 60


def settings_of(admin: KafkaAdminClient, topic: str) -> dict[str, str]:
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    found = admin.describe_configs([resource], config_filter="all")["topic"][topic]
    return {name: data["value"] for name, data in found.items()}


def with_topics(config: Config, **changes: object) -> Config:
    return config.model_copy(update={"topics": config.topics.model_copy(update=changes)})


def test_missing_topics_are_made_with_the_right_settings(
    config: Config, admin: KafkaAdminClient, caplog: pytest.LogCaptureFixture
) -> None:
    """The log keeps everything in broker time and one partition; outputs hold the largest record and more.

    A line names each, once: a wrong name of an input topic is seen there.
    """
    caplog.set_level(logging.INFO, "stream_dedup.kafka.topics")
    for _ in range(2):
        ensure_topics(admin, with_topics(config, partitions=3))
    topics = config.topics
    made = (config.log_topic, *topics.input, topics.unique, topics.duplicate, topics.rejected)
    said = [record.getMessage() for record in caplog.records if record.name == "stream_dedup.kafka.topics"]
    assert sorted(said) == sorted(f"topic {name} did not exist, and was created" for name in made)
    log = settings_of(admin, config.log_topic)
    names = ("message.timestamp.type", "cleanup.policy", "retention.ms", "retention.bytes", UNCLEAN)
    assert [log[name] for name in names] == ["LogAppendTime", "delete", "-1", "-1", "false"]
    assert (
        int(settings_of(admin, config.topics.unique)["max.message.bytes"])
        == DEFAULT_MESSAGE_BYTES + HEADER_ALLOWANCE_BYTES
    )
    described = admin.describe_topics([config.log_topic, config.topics.input[0], config.topics.rejected])
    assert {topic["name"]: len(topic["partitions"]) for topic in described} == {
        config.log_topic: 1,
        config.topics.input[0]: 3,
        config.topics.rejected: 3,
    }
    assert check_topics(admin, config) == []


def test_the_topic_of_groups_is_made_compacted_and_nothing_else(config: Config, admin: KafkaAdminClient) -> None:
    """Where it is set; one that deletes by age as well is refused with the command that mends it."""
    named = with_topics(config, clusters=f"{config.topics.unique}-clusters")
    assert create_topics(admin, named)[-1] == named.topics.clusters
    assert settings_of(admin, named.topics.clusters or "")["cleanup.policy"] == "compact"
    assert check_topics(admin, named) == []
    resource = ConfigResource(
        ConfigResourceType.TOPIC, named.topics.clusters, configs={"cleanup.policy": "compact,delete"}
    )
    admin.alter_configs([resource])
    wait_until(lambda: bool(check_topics(admin, named)), LIMIT_S, "the broker has applied the change")
    problem = str(check_topics(admin, named)[0])
    assert "cleanup.policy is compact,delete" in problem
    assert "cleanup.policy=compact" in problem


def test_several_workers_make_the_topics_at_once(config: Config, admin: KafkaAdminClient) -> None:
    """Each topic is made by one of them, the others find it there, and all are right."""
    together = Barrier(WORKERS)

    def create() -> list[str]:
        with closing(make_admin(config.kafka)) as own:
            together.wait(LIMIT_S)
            return create_topics(own, config)

    with ThreadPoolExecutor(WORKERS) as threads:
        made = [name for future in [threads.submit(create) for _ in range(WORKERS)] for name in future.result()]
    topics = config.topics
    assert sorted(made) == sorted([config.log_topic, *topics.input, topics.unique, topics.duplicate, topics.rejected])
    assert check_topics(admin, config) == []


class Busy:
    """An admin client whose first answer about a topic is an error that passes."""

    def __init__(self, code: int) -> None:
        self.codes = [code, 0, 0]

    def create_topics(self, names: Mapping[str, object], **_options: object) -> dict[str, Any]:
        code = self.codes.pop(0)
        return {"topics": [{"name": name, "error_code": code, "error_message": None} for name in names]}

    def wait_for_topics(self, names: list[str], **_options: object) -> None:
        assert names == ["articles"]


class Validating:
    """Makes topics with so many replicas, and a default of in-sync replicas; notes what they were made with."""

    def __init__(self, replicas: int, default: int) -> None:
        self.replicas, self.default = replicas, default
        self.made: dict[str, str] = {}

    def create_topics(
        self, wanted: Mapping[str, Mapping[str, Any]], *, validate_only: bool, **_options: object
    ) -> dict[str, Any]:
        configs = {MIN_IN_SYNC: {"value": str(self.default)}}
        if not validate_only:
            self.made = dict(wanted["articles"]["configs"])
        one = {"name": "articles", "error_code": 0, "replication_factor": self.replicas, "configs": configs}
        return {"topics": [one]}

    def wait_for_topics(self, names: list[str], **_options: object) -> None:
        assert names == ["articles"]


@pytest.mark.parametrize(("replicas", "default", "made"), [(1, 2, "1"), (2, 3, "1"), (3, 2, None)])
def test_a_topic_is_made_so_that_it_can_be_written(
    config: Config, replicas: int, default: int, made: str | None
) -> None:
    """Where the brokers' default of in-sync replicas is larger than their number, it is given a smaller one."""
    broker = Validating(replicas, default)
    unset = config.model_copy(update={"topics": config.topics.model_copy(update={"replication": None})})
    topics._create(cast("KafkaAdminClient", broker), unset, [_Wanted("articles", 1, "input", ())])
    assert broker.made.get(MIN_IN_SYNC) == made


@pytest.mark.parametrize("code", [7, 89])
def test_a_controller_that_is_busy_is_asked_again(config: Config, code: int) -> None:
    """A request whose time was over, or whose quota, is no fault of the configuration."""
    busy = Busy(code)
    articles = _Wanted("articles", 1, "input", ())
    assert topics._create(cast("KafkaAdminClient", busy), config, [articles]) == ["articles"]
    assert busy.codes == []


def test_making_again_makes_nothing(config: Config, admin: KafkaAdminClient) -> None:
    """Only missing topics are made, and their names returned."""
    assert len(create_topics(admin, config)) == 5
    delete_topic(admin, config.topics.rejected)
    assert create_topics(admin, config) == [config.topics.rejected]
    assert create_topics(admin, config) == []


def test_topics_are_not_made_when_that_is_off(config: Config, admin: KafkaAdminClient) -> None:
    """With ``topics.create`` off the error names every missing topic and the command that makes it; none is made."""
    with pytest.raises(UserError) as told:
        ensure_topics(admin, with_topics(config, create=False))
    commands = [line for line in str(told.value).splitlines() if "kafka-topics.sh" in line and "--create" in line]
    assert len(commands) == 5
    topics = config.topics
    names = [config.log_topic, *topics.input, topics.unique, topics.duplicate, topics.rejected]
    assert topic_ids(admin, names) == {}


def test_everything_wrong_is_refused_at_once(config: Config, admin: KafkaAdminClient) -> None:
    """A compacted, ageing log in client time, and outputs too small, in one message."""
    wrong = {
        UNCLEAN: "true",
        "cleanup.policy": "compact",
        "retention.ms": "1000",
        "retention.bytes": "1",
        "max.message.bytes": "1000",
    }
    admin.create_topics(
        {
            config.log_topic: {"configs": wrong},
            config.topics.unique: {"configs": {"max.message.bytes": "1000"}},
            config.topics.duplicate: {"configs": {"cleanup.policy": "compact", MIN_IN_SYNC: "2"}},
            config.topics.input[0]: {"configs": {"max.message.bytes": "2000000"}},
        },
        wait_for_metadata=True,
    )
    with pytest.raises(UserError) as told:
        ensure_topics(admin, config)
    text = str(told.value)
    for part in (
        "message.timestamp.type is CreateTime",
        "cleanup.policy is compact",
        "retention.ms is 1000",
        "retention.bytes is 1",
        "max.message.bytes is 1000",
        f"topic {config.topics.input[0]} takes records of up to 2000000 bytes, which need 2016384 with",
        "unclean.leader.election.enable is true",
        "min.insync.replicas is 2, but it has 1 replicas",
    ):
        assert part in text
    assert config.topics.rejected not in text
    assert topic_ids(admin, [config.topics.rejected]) == {}  # nothing is made beside wrong topics
    found = settings_of(admin, config.log_topic)
    assert {name: found[name] for name in wrong} == wrong  # a topic that exists is never changed


@pytest.mark.expect_log("it has 2 partitions; the log is partition 0, and the others are ignored; workers go on")
def test_a_partition_that_was_added_to_the_log_is_ignored(config: Config, admin: KafkaAdminClient) -> None:
    """Nobody can take it away, and the remedy for it was another log, without what this one knows."""
    create_topics(admin, config)
    admin.create_partitions({config.log_topic: 2})
    wait_until(lambda: len(admin.describe_topics([config.log_topic])[0]["partitions"]) > 1, LIMIT_S, "it is added")
    ensure_topics(admin, config)
    (problem,) = check_topics(admin, config)
    assert problem.is_warning


def test_outputs_hold_what_the_inputs_take(config: Config, admin: KafkaAdminClient) -> None:
    """Whatever that is: topics that are made fit from the start, and the limit of records is that of the outputs."""
    big = 20_000_000
    admin.create_topics({config.topics.input[0]: {"configs": {MESSAGE_BYTES: str(big)}}}, wait_for_metadata=True)
    checked = ensure_topics(admin, config)
    for name in (config.topics.unique, config.topics.duplicate, config.topics.rejected):
        assert settings_of(admin, name)[MESSAGE_BYTES] == str(big + HEADER_ALLOWANCE_BYTES)
    assert checked.record_bytes == big - MESSAGE_FRAME_BYTES
    assert check_topics(admin, config) == []


def test_an_input_topic_that_is_made_has_the_limit_of_the_broker(config: Config, admin: KafkaAdminClient) -> None:
    """And an input topic without a limit gives outputs without one, the largest number that Kafka takes."""
    free = with_topics(config, input=[*config.topics.input, f"{config.topics.input[0]}-free"])
    no_limit = {free.topics.input[1]: {"configs": {MESSAGE_BYTES: str(MOST_MESSAGE_BYTES)}}}
    admin.create_topics(no_limit, wait_for_metadata=True)
    assert ensure_topics(admin, free).record_bytes == MAX_RECORD_BYTES
    assert settings_of(admin, free.topics.input[0])[MESSAGE_BYTES] == str(DEFAULT_MESSAGE_BYTES)
    assert settings_of(admin, free.topics.unique)[MESSAGE_BYTES] == str(MOST_MESSAGE_BYTES)


def test_the_command_mends_what_is_wrong(config: Config, admin: KafkaAdminClient) -> None:
    """After the changes that the message names, the topics are right."""
    names = {config.log_topic, config.topics.unique, config.topics.duplicate, config.topics.rejected}
    admin.create_topics({name: {"configs": {"max.message.bytes": "1000"}} for name in names}, wait_for_metadata=True)
    admin.create_topics(config.topics.input, wait_for_metadata=True)
    problems = check_topics(admin, config)
    assert {problem.topic for problem in problems} == names
    for problem in problems:
        follow(admin, str(problem))
    # The broker answers before it has applied the change to itself.
    wait_until(lambda: not check_topics(admin, config), 30.0, "the topics are right")


def test_a_replication_that_the_cluster_cannot_give(config: Config, admin: KafkaAdminClient) -> None:
    """``topics.replication`` is asked for as it is set; the broker's refusal is the message."""
    with pytest.raises(UserError, match=r"cannot be made: .*replicas?.* 2"):
        create_topics(admin, with_topics(config, replication=2))


@pytest.mark.expect_log(r"it has one replica on a cluster of 3 brokers")
def test_replication_on_a_cluster(cluster: DevCluster, config: Config) -> None:
    """By default the cluster's own; a log with one replica is a warning, with the command that adds replicas."""
    kafka = config.kafka.model_copy(update={"brokers": cluster.bootstrap})
    config = config.model_copy(update={"kafka": kafka})
    single = with_topics(config, replication=1, partitions=2)
    single = single.model_copy(update={"kafka": kafka.model_copy(update={"group": f"{kafka.group}-single"})})
    with closing(make_admin(kafka)) as admin:
        ensure_topics(admin, config)
        found = admin.describe_topics([config.log_topic])[0]["partitions"][0]
        assert sorted(found["replica_nodes"]) == [1, 2, 3]
        assert check_topics(admin, config) == []
        ensure_topics(admin, single)
    remedy = check_remedy(single, cluster)
    assert '"replicas":[1,2,3]' in remedy


def check_remedy(config: Config, cluster: DevCluster) -> str:
    """The one warning about the log."""
    assert cluster.running()
    with closing(make_admin(config.kafka)) as admin:
        (warning,) = check_topics(admin, config)
    assert warning.is_warning
    return warning.remedy


def test_command(config: Config, flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """``topics check`` finds missing topics, ``topics create`` makes them and prints their names."""
    assert run(["topics", "check", *flags]) == EXIT_FOUND
    assert capsys.readouterr().out.count("it is not there") == 5
    assert run(["topics", "create", *flags]) == EXIT_OK
    assert f"created {config.log_topic}\n" in capsys.readouterr().out
    assert run(["topics", "check", *flags]) == EXIT_OK


def test_topics_that_match_are_checked_and_none_is_made(config: Config, admin: KafkaAdminClient) -> None:
    """Outputs and log are made, and are no input topics, though they match; outputs hold what matching topics do."""
    name = config.topics.input[0]
    outputs = {role: f"{name}-{role}" for role in ("unique", "duplicate", "rejected")}
    named = with_topics(config, input=[f"^{name}"], **outputs)
    assert sorted(create_topics(admin, named)) == sorted([config.log_topic, *outputs.values()])
    assert with_matching_topics(admin, named).topics.input == []
    assert check_topics(admin, named) == []
    admin.create_topics({f"{name}-a": {"configs": {MESSAGE_BYTES: "20000000"}}}, wait_for_metadata=True)
    assert with_matching_topics(admin, named).topics.input == [f"{name}-a"]
    problems = check_topics(admin, named)
    assert [problem.topic for problem in problems] == list(outputs.values())
    assert f"topic {name}-a takes records of up to 20000000 bytes" in str(problems[0])


def replication_problems(
    role: Literal["log", "output"], replicas: int, in_sync: int, brokers: list[int]
) -> list[TopicProblem]:
    """What is wrong with a topic of so many replicas, on a cluster of these brokers."""
    state = _State(partitions=1, replicas=replicas, values={MIN_IN_SYNC: str(in_sync)})
    return _replication_problems(Config(), _Wanted(role, 1, role, ()), state, brokers)


@pytest.mark.parametrize(
    ("replicas", "in_sync", "brokers", "expected"),
    [
        (1, 1, [1], []),
        (1, 1, [1, 2, 3], ["it has one replica on a cluster of 3 brokers"]),
        (2, 1, [1, 2, 3], []),
        (2, 2, [1, 2], []),
        (3, 1, [1, 2, 3], ["min.insync.replicas is 1"]),
        (3, 2, [1, 2, 3], []),
    ],
)
def test_warnings_about_a_log(replicas: int, in_sync: int, brokers: list[int], expected: list[str]) -> None:
    """One disk must not be enough to lose the log, where the cluster has more than one."""
    found = replication_problems("log", replicas, in_sync, brokers)
    assert all(problem.is_warning for problem in found)
    assert [problem.reason.startswith(start) for problem, start in zip(found, expected, strict=True)] == [True] * len(
        expected
    )


@pytest.mark.parametrize(
    ("replicas", "in_sync", "mended"), [(1, 1, None), (3, 3, None), (1, 2, "1"), (2, 3, "1"), (3, 4, "2")]
)
def test_a_topic_that_takes_no_record(replicas: int, in_sync: int, mended: str | None) -> None:
    """More replicas must be in sync than there are: an error, and a setting with which one may be away."""
    found = replication_problems("output", replicas, in_sync, [1, 2, 3])
    assert [problem.is_warning for problem in found] == [False] * (mended is not None)
    assert [problem.remedy.rpartition("min.insync.replicas=")[2] for problem in found] == [mended] * len(found)


def test_the_command_that_adds_replicas() -> None:
    """It names the first three nodes of the cluster."""
    (problem,) = replication_problems("log", 1, 1, [7, 2, 9, 4])
    assert '{"version":1,"partitions":[{"topic":"log","partition":0,"replicas":[2,4,7]}]}' in problem.remedy
