"""The interfaces of worker, audit and groups to Kafka, time and threads: protocols with their contracts.

Two adapters exist: one on kafka-python (``broker.adapter``), one in memory (``tests.memory``). One contract suite
(``tests/contract``) runs on both; where the broker does something else, the memory adapter is wrong.

Rules for every port:

* A call whose docstring does not say that it may block returns at once. A call that may block names its limit.
* A call raises the errors of ``ports.errors`` that its docstring names, and no error of a Kafka client.
* After a ``PassingError`` of a call that changes something, the change may or may not have happened, and may still
  happen later. What settles the doubt stands at the call.
* A port may be called from one thread at a time, if its docstring does not say "any thread".
"""

from __future__ import annotations

from dataclasses import dataclass

from stream_dedup.ports.clock import Clock, Event, Thread
from stream_dedup.ports.errors import (
    FencedError,
    NotAMemberError,
    OffsetGoneError,
    PassingError,
    PortError,
    RecordTooLargeError,
    RefusedByBrokerError,
    SourceChangedError,
    UnreadableError,
)
from stream_dedup.ports.fingerprint_log import Append, FingerprintLog
from stream_dedup.ports.following import FollowPorts, MarkedSink, PublishedMark, TopicFollower
from stream_dedup.ports.records import CommittedOffset, Partition, SourceRecord
from stream_dedup.ports.sink import Output, VerdictSink
from stream_dedup.ports.source import ArticleSource, Membership
from stream_dedup.ports.topics import GroupOffsets, TopicReader

__all__ = [
    "Append",
    "ArticleSource",
    "AuditPorts",
    "Clock",
    "CommittedOffset",
    "Event",
    "FencedError",
    "FingerprintLog",
    "FollowPorts",
    "GroupOffsets",
    "MarkedSink",
    "Membership",
    "NotAMemberError",
    "OffsetGoneError",
    "Output",
    "Partition",
    "PassingError",
    "PortError",
    "PublishedMark",
    "RecordTooLargeError",
    "RefusedByBrokerError",
    "SourceChangedError",
    "SourceRecord",
    "Thread",
    "TopicFollower",
    "TopicReader",
    "UnreadableError",
    "VerdictSink",
    "WorkerPorts",
]


@dataclass(frozen=True, slots=True)
class WorkerPorts:
    """All ports of one worker."""

    source: ArticleSource
    log: FingerprintLog
    sink: VerdictSink
    offsets: GroupOffsets
    watch_offsets: GroupOffsets
    """A second one, for the thread that watches topic ids."""
    clock: Clock


@dataclass(frozen=True, slots=True)
class AuditPorts:
    """All ports of an audit, which only reads: of the log it calls neither ``append`` nor ``cut``."""

    log: FingerprintLog
    offsets: GroupOffsets
    reader: TopicReader
    clock: Clock
