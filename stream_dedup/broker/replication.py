"""Whether a topic is replicated as it must be, and the errors and warnings that say how to correct it.

An error is a setting by which records that were acknowledged are lost, or by which no record can be acknowledged:

* ``unclean.leader.election.enable`` of the log: a replica that is behind may become its leader, and the appends that it
  has not got are gone. Their articles have left, their source offsets are committed, and later articles that they match
  become unique.
* ``min.insync.replicas`` above the number of replicas, of the log and the outputs: every write is refused, for ever.

A warning is a setting by which the loss of one disk is enough, or partitions that somebody added to the log, which
nothing is written to. It may be meant (a cluster for development, a topic that
is restored from elsewhere), a group that has worked with it for years goes on, and no promise is broken yet:

* one replica of the log, although the cluster has more brokers;
* ``min.insync.replicas`` of 1 with three replicas or more of the log: while the others are away, an append is
  acknowledged that is on one disk only. With two replicas 1 is right: 2 would stop every append while one is away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

UNCLEAN = "unclean.leader.election.enable"
MIN_IN_SYNC = "min.insync.replicas"
MESSAGE_BYTES = "max.message.bytes"
SAFE_REPLICAS = 3
"""Replicas from which on two of them can be required without stopping when one is away."""


class TopicFault(StrEnum):
    """What is wrong with a topic."""

    ABSENT = "absent"
    PARTITIONS = "partitions"
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
    TopicFault.PARTITIONS: FaultSentences(
        "it has {found} partitions, and one order needs exactly one",
        "partitions cannot be taken away: begin a new log with another --group, or, if no article was logged yet: "
        "{command}",
    ),
    TopicFault.SPARE_PARTITIONS: FaultSentences(
        "it has {found} partitions; the log is partition 0, and the others are empty",
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
        """One line to be read by a person."""
        return f"topic {self.topic}: {self.reason}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class Replication:
    """How a topic is replicated."""

    topic: str
    replicas: int
    """The least number of replicas of a partition."""
    in_sync: int
    """Its ``min.insync.replicas``."""
    brokers: Sequence[int]
    """Node ids of the cluster."""


def log_warnings(found: Replication, bootstrap: str) -> list[TopicProblem]:
    """Return the warnings about the replication of the log."""
    problems = []
    if found.replicas == 1 and len(found.brokers) > 1:
        values: FaultValues = {"brokers": len(found.brokers), "command": _reassign_command(bootstrap, found)}
        problems.append(TopicProblem(found.topic, TopicFault.ONE_COPY, values, is_warning=True))
    if found.replicas >= SAFE_REPLICAS and found.in_sync == 1:
        command = mend_command(bootstrap, found.topic, {MIN_IN_SYNC: "2"})
        problems.append(TopicProblem(found.topic, TopicFault.ONE_DISK, {"command": command}, is_warning=True))
    return problems


def written_problems(found: Replication, bootstrap: str) -> list[TopicProblem]:
    """Return why no record can be written to a topic at all."""
    if found.in_sync <= found.replicas:
        return []
    command = mend_command(bootstrap, found.topic, {MIN_IN_SYNC: str(max(1, found.replicas - 1))})
    values: FaultValues = {"found": found.in_sync, "replicas": found.replicas, "command": command}
    return [TopicProblem(found.topic, TopicFault.UNWRITABLE, values)]


def mend_command(bootstrap: str, topic: str, changes: Mapping[str, str]) -> str:
    """Return the command that changes settings of a topic."""
    pairs = ",".join(f"{name}={value}" for name, value in changes.items())
    return (
        f"kafka-configs.sh --bootstrap-server {bootstrap} --alter --entity-type topics "
        f"--entity-name {topic} --add-config {pairs}"
    )


def _reassign_command(bootstrap: str, found: Replication) -> str:
    replicas = ",".join(map(str, sorted(found.brokers)[:SAFE_REPLICAS]))
    return (
        f"kafka-reassign-partitions.sh --bootstrap-server {bootstrap} --execute "
        '--reassignment-json-file FILE, with {"version":1,"partitions":[{"topic":'
        f'"{found.topic}","partition":0,"replicas":[{replicas}]}}]}} in FILE'
    )
