"""The topics: made with the right settings where they are missing, checked where they exist.

Owns which settings a topic must have, and why:

* The log is one partition (Kafka then gives it one total order), its times are set by the broker, and nothing
  in it is deleted by age, size or key, or lost by an unclean election of a leader: every verdict is a function of all
  of it. Partitions that somebody added are ignored as long as they are empty: they cannot be taken away.
* An output topic holds the largest source record and its headers, and deletes nothing by key:
  an article's output must not replace another's.
* The topic of groups is compacted: it has the last record of each group, and none of them is deleted by age.
* An input topic takes no record larger than ``kafka.max_record_bytes``, else outputs could not hold it.

The program never changes a topic that exists: the error for a wrong setting names the command that corrects it.
Replication is ``topics.replication``, or the broker's default (``replication`` owns what is checked). Several workers
may make the topics at once: a topic that another worker made in the meantime is no error.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import kafka.errors as kafka_errors
from kafka import TopicPartition
from kafka.protocol.consumer import OffsetSpec

from stream_dedup.broker.client import HEADER_ALLOWANCE_BYTES
from stream_dedup.broker.record import MESSAGE_FRAME_BYTES
from stream_dedup.broker.replication import (
    MIN_IN_SYNC,
    SAFE_REPLICAS,
    UNCLEAN,
    Replication,
    TopicFault,
    TopicProblem,
    log_warnings,
    mend_command,
    written_problems,
)
from stream_dedup.broker.retry import patiently
from stream_dedup.broker.workarounds import describe_topic_settings
from stream_dedup.errors import UserError

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

    from stream_dedup.config.model import Config

log = logging.getLogger(__name__)

_T = TypeVar("_T")

LOG_MESSAGE_BYTES = 8 << 20
"""Largest record of the log: 10,000 entries, the most that one batch can be set to, of 193 bytes each (with 16 tables),
an id of up to 512 and a reason."""
DESCRIBE = "Describe of the topic"
"""The right to see whether a topic exists."""
READY_MS = 30_000
"""A new topic has leaders within milliseconds; a busy cluster is given half a minute."""


@dataclass(frozen=True, slots=True)
class _Setting:
    """A setting of a topic: the value that it is made with, and a check of the value that it has."""

    name: str
    made: str
    right: Callable[[str], bool]
    reason: str


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A topic as it should be."""

    name: str
    partitions: int
    role: Literal["log", "output", "input", "groups"]
    settings: tuple[_Setting, ...]


def ensure_topics(admin: KafkaAdminClient, config: Config) -> None:
    """Make the missing topics, if ``topics.create`` is on, and check all topics.

    Raises:
        UserError: names every problem.
        UnavailableError: the broker did not make a topic, or did not answer.
    """
    if config.topics.create:
        for name in create_topics(admin, config):
            log.info("topic %s did not exist, and was created", name)
    found = check_topics(admin, config)
    for warning in (problem for problem in found if problem.is_warning):
        log.warning("%s", warning)
    problems = [problem for problem in found if not problem.is_warning]
    if problems:
        raise UserError("\n  ".join(["the topics are not as they must be:", *map(str, problems)]))


def create_topics(admin: KafkaAdminClient, config: Config) -> list[str]:
    """Make the topics that are missing; return the names of those that this call made.

    Raises:
        UnavailableError: the broker did not make a topic, or did not answer.
    """
    wanted = {topic.name: topic for topic in _wanted(config)}
    present = _ask(config, lambda: topic_ids(admin, wanted), DESCRIBE)
    missing = [topic for name, topic in wanted.items() if name not in present]
    if not missing:
        return []
    request = {
        topic.name: {
            "num_partitions": topic.partitions,
            "replication_factor": -1 if config.topics.replication is None else config.topics.replication,
            "configs": _configs(config, topic),
        }
        for topic in missing
    }
    answer = _ask(config, lambda: admin.create_topics(request, raise_errors=False))
    made = [topic["name"] for topic in answer["topics"] if _made(topic)]
    _ask(config, lambda: admin.wait_for_topics([topic.name for topic in missing], timeout_ms=READY_MS))
    return made


def check_topics(admin: KafkaAdminClient, config: Config) -> list[TopicProblem]:
    """Return every problem of the topics as they are."""
    wanted = _wanted(config)
    found = {topic["name"]: topic for topic in _described(admin, config, [topic.name for topic in wanted])}
    present = [topic for topic in wanted if topic.name in found]
    names = [topic.name for topic in present]
    values = _ask(
        config, lambda: describe_topic_settings(admin, names) if names else {}, "DescribeConfigs of the topic"
    )
    brokers = _ask(config, lambda: [int(broker["broker_id"]) for broker in admin.describe_cluster()["brokers"]])
    problems = []
    for topic in wanted:
        if topic.name not in found:
            problems.append(_missing(config, topic))
            continue
        problems += _partition_problems(admin, config, topic, len(found[topic.name]["partitions"]))
        problems += _setting_problems(config, topic, values[topic.name])
        problems += _replication_problems(config, topic, _replication(found[topic.name], values[topic.name], brokers))
    return problems


def topic_ids(admin: KafkaAdminClient, names: Iterable[str]) -> dict[str, bytes]:
    """Return the ids (16 bytes) of those topics that exist.

    Raises what the client raises: a caller that watches goes on, a caller that starts gives up.
    """
    described = admin.describe_topics(list(names))
    return {topic["name"]: _id_bytes(topic["topic_id"]) for topic in described if _exists(topic)}


def topic_of_id(admin: KafkaAdminClient, topic_id: uuid.UUID) -> str | None:
    """Return the name of the topic with this id; None if there is none, or this client may not describe it.

    Raises what the client raises.
    """
    described = admin.describe_topics([topic_id])[0]
    error = kafka_errors.for_code(described["error_code"])
    if error is kafka_errors.UnknownTopicIdError:
        return None
    return str(described["name"]) if _exists(described) else None


def partition_counts(admin: KafkaAdminClient, names: Iterable[str]) -> dict[str, int]:
    """Return the number of partitions of those topics that exist."""
    described = admin.describe_topics(list(names))
    return {topic["name"]: len(topic["partitions"]) for topic in described if _exists(topic)}


def _wanted(config: Config) -> list[_Wanted]:
    """Return every topic of a configuration as it should be."""
    largest = config.kafka.max_record_bytes
    log = _Wanted(config.log_topic, 1, "log", _log_settings())
    outputs = dict.fromkeys((config.topics.unique, config.topics.duplicate, config.topics.rejected))
    output_settings: tuple[_Setting, ...] = (
        _not_compacted("outputs of one key must not replace each other"),
        _at_least(largest + HEADER_ALLOWANCE_BYTES),
    )
    input_settings: tuple[_Setting, ...] = (_at_most(largest + MESSAGE_FRAME_BYTES),)
    partitions = config.topics.partitions
    inputs = [_Wanted(name, partitions, "input", input_settings) for name in dict.fromkeys(config.topics.input)]
    groups = (
        []
        if config.topics.groups is None
        else [_Wanted(config.topics.groups, partitions, "groups", _groups_settings())]
    )
    return [log, *inputs, *(_Wanted(name, partitions, "output", output_settings) for name in outputs), *groups]


def _log_settings() -> tuple[_Setting, ...]:
    return (
        _exactly(
            UNCLEAN, "false", "a leader that is behind loses appends that were acknowledged, and verdicts with them"
        ),
        _exactly("message.timestamp.type", "LogAppendTime", "log times are the broker's, never a worker's"),
        _not_compacted("a compacted log loses records, and with them verdicts"),
        _exactly("retention.ms", "-1", "nothing in the log may be deleted by age"),
        _exactly("retention.bytes", "-1", "nothing in the log may be deleted by size"),
        _at_least(LOG_MESSAGE_BYTES),
    )


def _groups_settings() -> tuple[_Setting, ...]:
    return (_exactly("cleanup.policy", "compact", "the last record of each group must be kept, and no more than that"),)


def _exactly(name: str, value: str, reason: str) -> _Setting:
    return _Setting(name, value, lambda found: found == value, reason)


def _not_compacted(reason: str) -> _Setting:
    return _Setting("cleanup.policy", "delete", lambda found: "compact" not in found, reason)


def _at_least(size: int) -> _Setting:
    reason = f"it must hold {size} bytes, the largest record with its headers"
    return _Setting("max.message.bytes", str(size), lambda found: int(found) >= size, reason)


def _at_most(size: int) -> _Setting:
    record_bytes = size - MESSAGE_FRAME_BYTES
    reason = (
        f"it takes larger records than kafka.max_record_bytes ({record_bytes}), which the output topics are made for: "
        "raise that key, or"
    )
    return _Setting("max.message.bytes", str(size), lambda found: int(found) <= size, reason)


def _missing(config: Config, topic: _Wanted) -> TopicProblem:
    settings = " ".join(f"--config {name}={value}" for name, value in _configs(config, topic).items())
    if config.topics.replication is not None:
        settings = f"--replication-factor {config.topics.replication} {settings}"
    command = (
        f"kafka-topics.sh --bootstrap-server {config.kafka.brokers} --create --topic {topic.name} "
        f"--partitions {topic.partitions} {settings}"
    )
    return TopicProblem(topic.name, TopicFault.ABSENT, {"command": command})


def _partition_problems(admin: KafkaAdminClient, config: Config, topic: _Wanted, found: int) -> list[TopicProblem]:
    """Return what is wrong with the number of partitions of the log: every record of it is in partition 0."""
    if topic.role != "log" or found == topic.partitions:
        return []
    latest = {TopicPartition(topic.name, number): OffsetSpec.LATEST for number in range(1, found)}
    ends = _ask(config, lambda: admin.list_partition_offsets(latest), DESCRIBE)
    if not any(end.offset for end in ends.values()):
        return [TopicProblem(topic.name, TopicFault.SPARE_PARTITIONS, {"found": found}, is_warning=True)]
    command = f"kafka-topics.sh --bootstrap-server {config.kafka.brokers} --delete --topic {topic.name}"
    return [TopicProblem(topic.name, TopicFault.PARTITIONS, {"found": found, "command": command})]


def _setting_problems(config: Config, topic: _Wanted, values: Mapping[str, str]) -> list[TopicProblem]:
    """Return one problem for all wrong settings of a topic: one command corrects them."""
    wrong = [setting for setting in topic.settings if not setting.right(values[setting.name])]
    if not wrong:
        return []
    found = {
        "reasons": "; ".join(f"{setting.name} is {values[setting.name]}, but {setting.reason}" for setting in wrong),
        "settings": ", ".join(f"{setting.name}={values[setting.name]}" for setting in wrong),
        "command": mend_command(config.kafka.brokers, topic.name, {setting.name: setting.made for setting in wrong}),
    }
    return [TopicProblem(topic.name, TopicFault.SETTINGS, found)]


def _configs(config: Config, topic: _Wanted) -> dict[str, str]:
    """Return the settings that a topic is made with."""
    made = {setting.name: setting.made for setting in topic.settings}
    replicas = config.topics.replication
    if replicas == 1:
        made[MIN_IN_SYNC] = "1"  # the brokers' default may be 2, with which nothing could be written
    elif replicas is not None and replicas >= SAFE_REPLICAS and topic.role == "log":
        made[MIN_IN_SYNC] = "2"
    return made


def _replication(topic: Mapping[str, Any], values: Mapping[str, str], brokers: list[int]) -> Replication:
    replicas = min(len(partition["replica_nodes"]) for partition in topic["partitions"])
    return Replication(topic["name"], replicas, int(values[MIN_IN_SYNC]), brokers)


def _replication_problems(config: Config, topic: _Wanted, found: Replication) -> list[TopicProblem]:
    bootstrap = config.kafka.brokers
    problems = [] if topic.role == "input" else written_problems(found, bootstrap)
    return problems + (log_warnings(found, bootstrap) if topic.role == "log" else [])


def _described(admin: KafkaAdminClient, config: Config, names: list[str]) -> list[dict[str, Any]]:
    return _ask(config, lambda: [topic for topic in admin.describe_topics(names) if _exists(topic)], DESCRIBE)


def _exists(topic: Mapping[str, Any]) -> bool:
    """Return whether the described topic exists.

    Raises:
        KafkaError: the broker answered with another error than its absence.
    """
    error = kafka_errors.for_code(topic["error_code"])
    if error is kafka_errors.UnknownTopicOrPartitionError:
        return False
    if error not in (kafka_errors.NoError, kafka_errors.LeaderNotAvailableError):
        msg = f"topic {topic['name']}: {error.__name__}"
        raise error(msg)
    return True


def _made(topic: Mapping[str, Any]) -> bool:
    """Return whether this request made the topic; another worker may have made it at the same time."""
    error = kafka_errors.for_code(topic["error_code"])
    if error is kafka_errors.TopicAlreadyExistsError:
        return False
    if error is not kafka_errors.NoError:
        needed = " (it needs the right Create of the topic)" * issubclass(error, kafka_errors.AuthorizationError)
        msg = f"topic {topic['name']} cannot be made: {topic.get('error_message') or error.__name__}{needed}"
        raise UserError(msg)
    return True


def _id_bytes(topic_id: object) -> bytes:
    return topic_id.bytes if isinstance(topic_id, uuid.UUID) else uuid.UUID(str(topic_id)).bytes


def _ask(config: Config, ask: Callable[[], _T], right: str = "") -> _T:
    return patiently(config.kafka, "topics", ask, right)
