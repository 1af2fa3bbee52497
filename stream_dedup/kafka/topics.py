"""The topics: made with the right settings where they are missing, checked where they exist.

Owns which settings a topic must have, and why:

* The log is one partition (Kafka then gives it one total order), its times are set by the broker, and nothing
  in it is deleted by age, size or key, or lost by an unclean election of a leader: every verdict is a function of all
  of it. Other partitions are ignored: they cannot be taken away.
* An output topic deletes nothing by key: an article's output must not replace another's.
* An output topic takes the largest record of the input topics with our headers. The size is derived from
  ``max.message.bytes`` of the input topics, and topics that are made here have it.
* The topic of clusters is compacted: it has the last record of each cluster, and none of them is deleted by age.

The program never changes a topic that exists: the error for a wrong setting names the command that corrects it.
Replication is ``topics.replication``, or the broker's default. Several workers may make the topics at once: a topic
that another worker made in the meantime is no error.

An error is a setting by which records that were acknowledged are lost, or by which no record can be acknowledged:

* ``unclean.leader.election.enable`` of the log: a replica that is behind may become its leader, and the appends that it
  has not got are gone. Their articles have left, their source offsets are committed, and later articles that they match
  become unique.
* ``min.insync.replicas`` above the number of replicas, of the log and the outputs: every write is refused, for ever.

A warning is a setting by which the loss of one disk is enough, or partitions that somebody added to the log, which
nothing is written to. It may be meant (a cluster for development, a topic that is restored from elsewhere), a group
that has worked with it for years goes on, and no promise is broken yet:

* one replica of the log, although the cluster has more brokers;
* ``min.insync.replicas`` of 1 with three replicas or more of the log: while the others are away, an append is
  acknowledged that is on one disk only. With two replicas 1 is right: 2 would stop every append while one is away.

``create_topics``, in order:

    1  read the topics that exist, and refuse everything that is wrong with them
    2  make the input topics that are missing, and do 1 again: the size of the outputs is derived from theirs
    3  make the others that are missing, and do 1 again: what another program made meanwhile may be wrong

Nothing is made beside a wrong topic. Commands that check more than the topics call ``refuse_wrong_topics`` (1) first,
then check the rest, and make the topics then.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import kafka.errors as kafka_errors

from stream_dedup.config.effective import with_input_topics
from stream_dedup.config.model import MAX_RECORD_BYTES
from stream_dedup.errors import UnavailableError, UserError
from stream_dedup.kafka.admin import topic_exists, topic_ids
from stream_dedup.kafka.client_workarounds import describe_topic_settings
from stream_dedup.kafka.errors import patiently
from stream_dedup.kafka.record import HEADER_ALLOWANCE_BYTES, LOG_MESSAGE_BYTES, MESSAGE_FRAME_BYTES

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

    from stream_dedup.config.model import Config

log = logging.getLogger(__name__)

_T = TypeVar("_T")

UNCLEAN = "unclean.leader.election.enable"

MIN_IN_SYNC = "min.insync.replicas"

MESSAGE_BYTES = "max.message.bytes"

SAFE_REPLICAS = 3
"""Replicas from which on two of them can be required without stopping when one is away."""


class TopicFault(StrEnum):
    """What is wrong with a topic."""

    ABSENT = "absent"
    SPARE_PARTITIONS = "spare_partitions"
    SETTINGS = "settings"
    TOO_SMALL = "too_small"
    UNWRITABLE = "unwritable"
    ONE_COPY = "one_copy"
    ONE_DISK = "one_disk"


FaultValues = Mapping[str, str | int]


class FaultSentences(NamedTuple):
    """A fault and its remedy in English, with the names of their values in braces."""

    reason: str
    remedy: str


_MEND = "mend it: {command}"

FAULT_SENTENCES: Mapping[TopicFault, FaultSentences] = {
    TopicFault.ABSENT: FaultSentences("it is not there", "make it: stream-dedup topics create, or {command}"),
    TopicFault.SPARE_PARTITIONS: FaultSentences(
        "it has {found} partitions; the log is partition 0, and the others are ignored",
        "workers go on, and nothing is lost; let no other program write to it",
    ),
    TopicFault.SETTINGS: FaultSentences("{reasons}", _MEND),
    TopicFault.TOO_SMALL: FaultSentences(
        f"{MESSAGE_BYTES} is {{found}}, but topic {{source}} takes records of up to {{largest}} bytes, which need "
        "{needed} with the headers of an output",
        "raise it, then start the workers again: {command}",
    ),
    TopicFault.UNWRITABLE: FaultSentences(
        f"{MIN_IN_SYNC} is {{found}}, but it has {{replicas}} replicas: every write is refused", _MEND
    ),
    TopicFault.ONE_COPY: FaultSentences(
        "it has one replica on a cluster of {brokers} brokers: its disk is the only copy", "add replicas: {command}"
    ),
    TopicFault.ONE_DISK: FaultSentences(
        f"{MIN_IN_SYNC} is 1: an append may be acknowledged that is on one disk only", _MEND
    ),
}


@dataclass(frozen=True, slots=True)
class TopicProblem:
    """What is wrong with a topic, and the command that corrects it."""

    topic: str
    fault: TopicFault
    values: FaultValues
    """The values of the sentences of the fault, ``command`` among them."""
    is_warning: bool = False
    """Whether a worker goes on with it."""

    @property
    def reason(self) -> str:
        """The fault in English."""
        return FAULT_SENTENCES[self.fault].reason.format(**self.values)

    @property
    def remedy(self) -> str:
        """What corrects it, in English."""
        return FAULT_SENTENCES[self.fault].remedy.format(**self.values)

    def __str__(self) -> str:
        return f"topic {self.topic}: {self.reason}; {self.remedy}"


def mend_command(bootstrap: str, topic: str, changes: Mapping[str, str]) -> str:
    """Return the command that changes settings of a topic."""
    pairs = ",".join(f"{name}={value}" for name, value in changes.items())
    return (
        f"kafka-configs.sh --bootstrap-server {bootstrap} --alter --entity-type topics "
        f"--entity-name {topic} --add-config {pairs}"
    )


DEFAULT_MESSAGE_BYTES = (1 << 20) + MESSAGE_FRAME_BYTES
"""Kafka's default of ``max.message.bytes``: what an input topic is taken to have that is not there."""
MOST_MESSAGE_BYTES = (1 << 31) - 1
"""Largest value of ``max.message.bytes``."""
DESCRIBE = "Describe of the topic"
"""The right to see whether a topic exists."""
DESCRIBE_CONFIGS = "DescribeConfigs of the topic"
"""The right to read the settings of a topic."""
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
    role: Literal["log", "output", "input", "clusters"]
    settings: tuple[_Setting, ...]


@dataclass(frozen=True, slots=True)
class _State:
    """A topic as it is."""

    partitions: int
    replicas: int
    """The least number of replicas of a partition."""
    values: Mapping[str, str]
    """Its settings, defaults included."""

    @property
    def message_bytes(self) -> int:
        return int(self.values[MESSAGE_BYTES])


@dataclass(frozen=True, slots=True)
class CheckedTopics:
    """Topics without a fault that stops a worker."""

    missing: Mapping[str, _Wanted]
    """Those that are to be made."""
    warnings: tuple[TopicProblem, ...]
    record_bytes: int
    """Largest record that every output topic takes with our headers, as ``record.record_bytes`` counts it."""


def ensure_topics(admin: KafkaAdminClient, config: Config) -> CheckedTopics:
    """Check all topics, and make the missing ones, if ``topics.create`` is on; log what was made, and warnings.

    Of an input pattern those that it matches are checked, and none is made.

    Raises:
        UserError: names every problem; or the broker refuses to make a topic: those before it were made.
        UnavailableError: the broker did not make a topic, or did not answer.
    """
    made, checked = _make(admin, config)
    for name in made:
        log.info("topic %s did not exist, and was created", name)
    return checked


def create_topics(admin: KafkaAdminClient, config: Config) -> list[str]:
    """Check all topics and make the missing ones; return the names of those that this call made. Raises as above."""
    made, _ = _make(admin, config.model_copy(update={"topics": config.topics.model_copy(update={"create": True})}))
    return made


def refuse_wrong_topics(admin: KafkaAdminClient, config: Config) -> CheckedTopics:
    """Do the checks of ``ensure_topics``; nothing is made. Raises as ``ensure_topics``."""
    config = with_matching_topics(admin, config)
    states = _present(admin, config)
    wanted = _wanted(config, states)
    problems = _problems(admin, config, states)
    if config.topics.create:
        problems = [problem for problem in problems if problem.fault is not TopicFault.ABSENT]
    wrong = [problem for problem in problems if not problem.is_warning]
    if wrong:
        raise UserError("\n  ".join(["the topics are not as they must be:", *map(str, wrong)]))
    made_bytes = _output_bytes(_largest_input(config, states)[1])
    outputs = [topic.name for topic in wanted if topic.role == "output"]
    least = min(states[name].message_bytes if name in states else made_bytes for name in outputs)
    return CheckedTopics(
        missing={topic.name: topic for topic in wanted if topic.name not in states},
        warnings=tuple(problems),
        record_bytes=min(least - HEADER_ALLOWANCE_BYTES - MESSAGE_FRAME_BYTES, MAX_RECORD_BYTES),
    )


def check_topics(admin: KafkaAdminClient, config: Config) -> list[TopicProblem]:
    """Return every problem of the topics as they are."""
    config = with_matching_topics(admin, config)
    return _problems(admin, config, _present(admin, config))


def _make(admin: KafkaAdminClient, config: Config) -> tuple[list[str], CheckedTopics]:
    """Return the names of the topics that this call made, and all topics as they are then."""
    # 1
    checked = refuse_wrong_topics(admin, config)
    made: list[str] = []
    deadline = time.monotonic() + config.kafka.broker_wait_s
    # 2, 3; again for one that another broker does not know yet
    while missing := list(checked.missing.values()):
        if time.monotonic() > deadline:
            raise UnavailableError(f"topic {missing[0].name} was made, and no broker shows it; start again")
        inputs = [topic for topic in missing if topic.role == "input"]
        made += _create(admin, config, inputs or missing)
        checked = refuse_wrong_topics(admin, config)
    for warning in checked.warnings:
        log.warning("%s", warning)
    return made, checked


def _present(admin: KafkaAdminClient, config: Config) -> dict[str, _State]:
    """Return the topics of the configuration that exist."""
    wanted = [topic.name for topic in _wanted(config, {})]
    described = _ask(config, lambda: [one for one in admin.describe_topics(wanted) if topic_exists(one)], DESCRIBE)
    names = [topic["name"] for topic in described]
    values = _ask(config, lambda: describe_topic_settings(admin, names) if names else {}, DESCRIBE_CONFIGS)
    return {
        topic["name"]: _State(
            partitions=len(topic["partitions"]),
            replicas=min(len(partition["replica_nodes"]) for partition in topic["partitions"]),
            values=values[topic["name"]],
        )
        for topic in described
    }


def _create(admin: KafkaAdminClient, config: Config, topics: Sequence[_Wanted]) -> list[str]:
    """Make topics, and wait for their leaders; return the names of those that this call made."""
    replication = -1 if config.topics.replication is None else config.topics.replication
    request: dict[str, dict[str, Any]] = {
        topic.name: {
            "num_partitions": topic.partitions,
            "replication_factor": replication,
            "configs": _configs(config, topic),
        }
        for topic in topics
    }

    def create(*, validate_only: bool = False) -> list[dict[str, Any]]:
        answer = list(admin.create_topics(request, validate_only=validate_only, raise_errors=False)["topics"])
        for topic in answer:
            error = kafka_errors.for_code(topic["error_code"])
            if issubclass(error, kafka_errors.RetriableError):
                raise error(f"topic {topic['name']}: {topic.get('error_message') or error.__name__}")
        return answer

    for topic in _ask(config, partial(create, validate_only=True)):
        made = (topic.get("configs") or {}).get(MIN_IN_SYNC)
        if made is not None and int(made["value"]) > topic["replication_factor"]:
            # The brokers' default, with which nothing could be written.
            request[topic["name"]]["configs"][MIN_IN_SYNC] = str(max(1, topic["replication_factor"] - 1))
    created = [topic["name"] for topic in _ask(config, create) if _made(topic)]
    _ask(config, lambda: admin.wait_for_topics(list(request), timeout_ms=READY_MS))
    return created


def _problems(admin: KafkaAdminClient, config: Config, states: Mapping[str, _State]) -> list[TopicProblem]:
    """Return every problem of these topics; a topic without a state is missing."""
    problems = []
    brokers = _ask(config, lambda: [int(broker["broker_id"]) for broker in admin.describe_cluster()["brokers"]])
    source, largest = _largest_input(config, states)
    for topic in _wanted(config, states):
        state = states.get(topic.name)
        if state is None:
            problems.append(_missing(config, topic))
            continue
        if topic.role == "log" and state.partitions > 1:
            values = {"found": state.partitions}
            problems.append(TopicProblem(topic.name, TopicFault.SPARE_PARTITIONS, values, is_warning=True))
        problems += _setting_problems(config, topic, state.values)
        if topic.role == "output" and state.message_bytes < _output_bytes(largest):
            problems.append(_too_small(config, topic.name, state.message_bytes, source, largest))
        problems += _replication_problems(config, topic, state, brokers)
    return problems


def with_matching_topics(admin: KafkaAdminClient, config: Config) -> Config:
    """Return the configuration with the topics that its patterns match in their place.

    Raises:
        UserError, UnavailableError: as ``ensure_topics``.
    """
    return with_input_topics(config, lambda: _ask(config, lambda: topic_ids(admin, None), DESCRIBE))


def _wanted(config: Config, states: Mapping[str, _State]) -> list[_Wanted]:
    """Return every topic of a configuration as it should be; ``states`` are those that are known."""
    topics, partitions = config.topics, config.topics.partitions
    _, largest = _largest_input(config, states)
    output_settings = (
        _not_compacted("outputs of one key must not replace each other"),
        # Whether it is large enough is a fault of its own: ``TOO_SMALL``.
        _Setting(MESSAGE_BYTES, str(_output_bytes(largest)), lambda _found: True, ""),
    )
    outputs = dict.fromkeys((topics.unique, topics.duplicate, topics.rejected))
    compacted = _exactly(
        "cleanup.policy", "compact", "the last record of each cluster must be kept, and no more than that"
    )
    clusters = [] if topics.clusters is None else [_Wanted(topics.clusters, partitions, "clusters", (compacted,))]
    return [
        _Wanted(config.log_topic, 1, "log", _log_settings()),
        *(_Wanted(name, partitions, "input", ()) for name in dict.fromkeys(topics.input)),
        *(_Wanted(name, partitions, "output", output_settings) for name in outputs),
        *clusters,
    ]


def _largest_input(config: Config, states: Mapping[str, _State]) -> tuple[str, int]:
    """Return the input topic that takes the largest records, and its ``max.message.bytes``."""
    sizes = {
        name: states[name].message_bytes if name in states else DEFAULT_MESSAGE_BYTES for name in config.topics.input
    }
    return max(sizes.items(), key=lambda item: item[1], default=("", DEFAULT_MESSAGE_BYTES))


def _output_bytes(largest_input: int) -> int:
    """Return the least ``max.message.bytes`` of an output topic."""
    return min(largest_input + HEADER_ALLOWANCE_BYTES, MOST_MESSAGE_BYTES)


def _log_settings() -> tuple[_Setting, ...]:
    return (
        _exactly(
            UNCLEAN, "false", "a leader that is behind loses appends that were acknowledged, and verdicts with them"
        ),
        _exactly("message.timestamp.type", "LogAppendTime", "log times are the broker's, never a worker's"),
        _not_compacted("a compacted log loses records, and with them verdicts"),
        _exactly("retention.ms", "-1", "nothing in the log may be deleted by age"),
        _exactly("retention.bytes", "-1", "nothing in the log may be deleted by size"),
        _Setting(
            MESSAGE_BYTES,
            str(LOG_MESSAGE_BYTES),
            lambda found: int(found) >= LOG_MESSAGE_BYTES,
            f"it must hold {LOG_MESSAGE_BYTES} bytes, the largest record of the log",
        ),
    )


def _exactly(name: str, value: str, reason: str) -> _Setting:
    return _Setting(name, value, lambda found: found == value, reason)


def _not_compacted(reason: str) -> _Setting:
    return _Setting("cleanup.policy", "delete", lambda found: "compact" not in found, reason)


def _missing(config: Config, topic: _Wanted) -> TopicProblem:
    settings = " ".join(f"--config {name}={value}" for name, value in _configs(config, topic).items())
    if config.topics.replication is not None:
        settings = f"--replication-factor {config.topics.replication} {settings}"
    command = (
        f"kafka-topics.sh --bootstrap-server {config.kafka.brokers} --create --topic {topic.name} "
        f"--partitions {topic.partitions} {settings}"
    )
    return TopicProblem(topic.name, TopicFault.ABSENT, {"command": command})


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


def _too_small(config: Config, topic: str, found: int, source: str, largest: int) -> TopicProblem:
    needed = _output_bytes(largest)
    values: FaultValues = {
        "found": found,
        "source": source,
        "largest": largest,
        "needed": needed,
        "command": mend_command(config.kafka.brokers, topic, {MESSAGE_BYTES: str(needed)}),
    }
    return TopicProblem(topic, TopicFault.TOO_SMALL, values)


def _configs(config: Config, topic: _Wanted) -> dict[str, str]:
    """Return the settings that a topic is made with."""
    made = {setting.name: setting.made for setting in topic.settings}
    replicas = config.topics.replication
    if replicas == 1:
        made[MIN_IN_SYNC] = "1"  # the brokers' default may be 2, with which nothing could be written
    elif replicas is not None and replicas >= SAFE_REPLICAS and topic.role == "log":
        made[MIN_IN_SYNC] = "2"
    return made


def _replication_problems(config: Config, topic: _Wanted, state: _State, brokers: Sequence[int]) -> list[TopicProblem]:
    """Return why no record can be written to a topic; of the log, how the loss of one disk may lose records, too."""
    bootstrap, name, replicas = config.kafka.brokers, topic.name, state.replicas
    in_sync = int(state.values[MIN_IN_SYNC])
    problems = []
    if topic.role != "input" and in_sync > replicas:
        command = mend_command(bootstrap, name, {MIN_IN_SYNC: str(max(1, replicas - 1))})
        values: FaultValues = {"found": in_sync, "replicas": replicas, "command": command}
        problems.append(TopicProblem(name, TopicFault.UNWRITABLE, values))
    if topic.role == "log" and replicas == 1 and len(brokers) > 1:
        values = {"brokers": len(brokers), "command": _reassign_command(bootstrap, name, brokers)}
        problems.append(TopicProblem(name, TopicFault.ONE_COPY, values, is_warning=True))
    if topic.role == "log" and replicas >= SAFE_REPLICAS and in_sync == 1:
        command = mend_command(bootstrap, name, {MIN_IN_SYNC: "2"})
        problems.append(TopicProblem(name, TopicFault.ONE_DISK, {"command": command}, is_warning=True))
    return problems


def _reassign_command(bootstrap: str, topic: str, brokers: Sequence[int]) -> str:
    replicas = ",".join(map(str, sorted(brokers)[:SAFE_REPLICAS]))
    return (
        f"kafka-reassign-partitions.sh --bootstrap-server {bootstrap} --execute "
        '--reassignment-json-file FILE, with {"version":1,"partitions":[{"topic":'
        f'"{topic}","partition":0,"replicas":[{replicas}]}}]}} in FILE'
    )


def _made(topic: Mapping[str, Any]) -> bool:
    """Return whether this request made the topic; another worker may have made it at the same time."""
    error = kafka_errors.for_code(topic["error_code"])
    if error is kafka_errors.TopicAlreadyExistsError:
        return False
    if error is not kafka_errors.NoError:
        needed = " (it needs the right Create of the topic)" * issubclass(error, kafka_errors.AuthorizationError)
        raise UserError(f"topic {topic['name']} cannot be made: {topic.get('error_message') or error.__name__}{needed}")
    return True


def _ask(config: Config, ask: Callable[[], _T], right: str = "") -> _T:
    return patiently(config.kafka, "topics", ask, right)
