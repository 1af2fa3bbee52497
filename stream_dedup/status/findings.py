"""What is wrong with a group, and the remedy for each: a function of one or two snapshots.

A finding is data, a code and its values. The names in braces in the sentences of a code are those of the values. The
pages have the same sentences in other languages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, unique
from typing import NamedTuple

from stream_dedup.core.rules import Rules, rule_changes
from stream_dedup.kafka.rules_log import ABSENT_LOG, EMPTY_LOG, HAS_OFFSETS
from stream_dedup.kafka.topics import FAULT_SENTENCES, TopicFault
from stream_dedup.status.snapshot import PartitionState, Rates, Snapshot


class FindingSentences(NamedTuple):
    """What a finding says, and what to do about it."""

    text: str
    remedy: str


def _of_topic(fault: TopicFault) -> FindingSentences:
    return FindingSentences("topic {topic}: " + FAULT_SENTENCES[fault].reason, FAULT_SENTENCES[fault].remedy)


_RESTORE = "restore the topic, or accept the log without its history: stream-dedup run --new-log"


@unique
class FindingCode(Enum):
    """The code of a finding, with its English sentences; its text is its name in lower case."""

    LOST_LOG_ABSENT = FindingSentences(HAS_OFFSETS + ABSENT_LOG, _RESTORE)
    LOST_LOG_EMPTY = FindingSentences(HAS_OFFSETS + EMPTY_LOG, _RESTORE)
    LOG_ABSENT = FindingSentences("log {topic} does not exist", "start a worker: stream-dedup run")
    LOG_DAMAGED = FindingSentences("no worker can read on in the log: {damage}", "then start the workers")
    LOG_WITHOUT_RULES = FindingSentences(
        "log {topic} has records and no rules, and no worker can read it",
        "begin a new log with another --group and another --index",
    )
    TOPIC_ABSENT = _of_topic(TopicFault.ABSENT)
    TOPIC_SPARE_PARTITIONS = _of_topic(TopicFault.SPARE_PARTITIONS)
    TOPIC_SETTINGS = _of_topic(TopicFault.SETTINGS)._replace(text="topic {topic} is not set as it must be: {settings}")
    """The settings by name and value alone; ``stream-dedup topics check`` has the reason for each."""
    TOPIC_TOO_SMALL = _of_topic(TopicFault.TOO_SMALL)
    TOPIC_UNWRITABLE = _of_topic(TopicFault.UNWRITABLE)
    TOPIC_ONE_COPY = _of_topic(TopicFault.ONE_COPY)
    TOPIC_ONE_DISK = _of_topic(TopicFault.ONE_DISK)
    OUT_OF_SYNC = FindingSentences(
        "{partition}: {in_sync} of {replicas} replicas are in sync", "look at the brokers of the others"
    )
    NO_WORKER = FindingSentences("no worker is in group {group}", "start one: stream-dedup run")
    FOREIGN_MEMBER = FindingSentences(
        "member {member} at {host} is no worker of this group and takes articles from it",
        "stop it, or give it another group",
    )
    REBALANCING = FindingSentences("the group is sharing out its partitions", "look again in some seconds")
    UNREAD = FindingSentences(
        "no worker reads {partitions}", "start the workers with all topics: topics.input (--input)"
    )
    NEW_PARTITIONS = FindingSentences(
        "{partitions}: new, and not read yet", "the group takes new partitions within half a minute by itself"
    )
    NOT_TAKEN = FindingSentences(
        "{partitions}: no worker reads them, though the group reads their topic",
        "if they are not taken within half a minute, restart the workers one after the other: each restart assigns all "
        "partitions again",
    )
    IDLE_WORKERS = FindingSentences(
        "{idle} of {workers} workers have no partition, for the topics have {partitions}",
        "add partitions to the input topics, or stop these workers",
    )
    NO_OFFSET = FindingSentences(
        "{partitions}: no committed offset",
        "start a worker; if it stops because the group's offsets expired: stream-dedup offsets set --to logged",
    )
    DELETED_UNJUDGED = FindingSentences(
        "{partitions}: articles behind the committed offset were deleted before they were judged",
        "go on with those that are left (offsets set --to beginning), and raise the retention of the topic",
    )
    OFFSET_BEYOND = FindingSentences(
        "{partitions}: the topic ends before the committed offset: it lost records",
        "see why; then stream-dedup offsets set --to logged or --to end",
    )
    OFFSET_STALE = FindingSentences(
        "{partitions}: the committed offset belongs to a deleted topic of this name",
        "a worker reads the present topic from its beginning",
    )
    HANGING = FindingSentences(
        "open transactions of workers that ended hold back readers: {transactions}",
        "start a worker, which aborts them; else the brokers do after kafka.transaction_timeout_s",
    )
    SILENT_BROKERS = FindingSentences(
        "open transactions of which these brokers are the coordinators are not shown: {brokers}",
        "start the brokers that are down, or look again",
    )
    OPEN_TRANSACTION = FindingSentences(
        "{partitions}: an open transaction holds back {held:,} offsets",
        "the broker aborts it at its time-out; whose it is: kafka-transactions.sh --bootstrap-server {brokers} "
        "describe-producers --topic {topic} --partition {number}",
    )
    STUCK = FindingSentences(
        "{partitions}: nothing was committed in {seconds:.0f} s, though there are articles",
        "read the log lines of the worker that has it, and its /healthz",
    )
    LAG_GROWS = FindingSentences(
        "the lag of {lag:,} articles grows by {growth:,.0f} a second",
        "start more workers (at most one for each partition), or give them more cores",
    )
    OTHER_SCHEME = FindingSentences(
        "the configuration gives scheme {configured}, the log has {in_force}",
        "a worker with this configuration does not start: configure the log's scheme, or use another --group",
    )
    OTHER_RULES = FindingSentences(
        "the configuration differs from the rules in force: {changes}",
        "a worker with it does not start: configure what is in force, or rules apply",
    )

    def __str__(self) -> str:
        """Return the code."""
        return self.name.lower()


SHOWN_NAMES = 5
"""Most partitions that one finding names."""
STUCK_S = 2.0
"""A worker with articles commits several times a second. One that has committed nothing for so many seconds is stuck;
two snapshots that are closer to each other do not show it."""
LEAST_GROWTH = 1.0
"""Articles a second: by less, the lag of a group that keeps up rises and falls from one snapshot to the next."""
NEW_S = 30.0
"""A group takes partitions that are added within so many seconds: its clients look them up every few seconds
(``kafka.connection.METADATA_MS``), and then share them out."""
FindingValues = Mapping[str, str | int | float]
_REBALANCING = frozenset(("PreparingRebalance", "CompletingRebalance"))


@dataclass(frozen=True, slots=True)
class GroupFinding:
    """One thing that is wrong, or that an operator should know."""

    code: FindingCode
    values: FindingValues = field(default_factory=dict)
    """What the sentences of the code name."""
    is_note: bool = False
    """Whether the group works all the same: a note does not change the exit code."""

    @property
    def text(self) -> str:
        """The finding in English."""
        return self.code.value.text.format(**self.values)

    @property
    def remedy(self) -> str:
        """What to do about it, in English."""
        return self.code.value.remedy.format(**self.values)

    def __str__(self) -> str:
        """Return the finding as one line."""
        return f"{self.text}; {self.remedy}"


def find(now: Snapshot, before: Snapshot | None, configured: Rules | None) -> list[GroupFinding]:
    """Return what is wrong, the gravest first.

    Args:
        now: the present state.
        before: an earlier one; None: nothing is said about progress.
        configured: rules to compare with those in force; None: nothing is said about them.
    """
    return [
        *_log(now),
        *_topics(now),
        *_members(now, before),
        *_offsets(now),
        *_transactions(now),
        *(_held(now, before) if before is not None else ()),
        *(_progress(now, before) if before is not None else ()),
        *(_rules(now, configured) if configured is not None else ()),
    ]


def _log(now: Snapshot) -> Iterator[GroupFinding]:
    log, lost = now.log, now.lost
    if lost is not None:
        code = FindingCode.LOST_LOG_EMPTY if lost.exists else FindingCode.LOST_LOG_ABSENT
        yield GroupFinding(code, {"group": lost.group, "offsets": lost.offsets, "topic": lost.topic})
    elif not log.exists:
        yield GroupFinding(FindingCode.LOG_ABSENT, {"topic": log.topic})
    elif log.damage is not None:
        yield GroupFinding(FindingCode.LOG_DAMAGED, {"damage": log.damage})
    elif log.trims is not None and log.rules is None and log.end > log.first:
        yield GroupFinding(FindingCode.LOG_WITHOUT_RULES, {"topic": log.topic})


def _topics(now: Snapshot) -> Iterator[GroupFinding]:
    for one in now.topic_problems:
        yield GroupFinding(FindingCode[f"TOPIC_{one.fault.name}"], {"topic": one.topic, **one.values}, one.is_warning)
    for partition, (in_sync, replicas) in sorted(now.out_of_sync.items()):
        values: FindingValues = {"partition": str(partition), "in_sync": in_sync, "replicas": replicas}
        yield GroupFinding(FindingCode.OUT_OF_SYNC, values)


def _members(now: Snapshot, before: Snapshot | None) -> Iterator[GroupFinding]:
    if not now.members:
        yield GroupFinding(FindingCode.NO_WORKER, {"group": now.group})
        return
    for member in now.members:
        if not member.client_id.startswith(f"{now.group}-"):
            yield GroupFinding(FindingCode.FOREIGN_MEMBER, {"member": member.client_id, "host": member.host})
    if now.group_state in _REBALANCING:
        yield GroupFinding(FindingCode.REBALANCING, is_note=True)
        return
    unread = [each for each in now.partitions if each.owner is None]
    yield from _unread(now, before, unread)
    idle = sum(not member.partitions for member in now.members)
    if idle and not unread:
        values = {"idle": idle, "workers": len(now.members), "partitions": len(now.partitions)}
        yield GroupFinding(FindingCode.IDLE_WORKERS, values, is_note=True)


def _unread(now: Snapshot, before: Snapshot | None, unread: list[PartitionState]) -> Iterator[GroupFinding]:
    """Say of partitions without a reader whether the group is about to take them, has not, or has no such topic.

    The brokers know no time at which a partition was added: that of its first record stands for it, and an empty one,
    in which nothing waits, is new as long as it is empty.
    """
    subscribed = {topic for member in now.members for topic in member.topics}
    earlier = None if before is None else {each.partition for each in before.partitions}
    found: dict[FindingCode, list[PartitionState]] = {}
    for each in unread:
        is_read = each.partition.topic in subscribed
        is_young = is_read if each.first_ms is None else now.at_ms - each.first_ms < 1_000 * NEW_S
        is_new = is_young or (earlier is not None and each.partition not in earlier)
        code = FindingCode.NEW_PARTITIONS if is_new else FindingCode.NOT_TAKEN if is_read else FindingCode.UNREAD
        found.setdefault(code, []).append(each)
    for code, partitions in found.items():
        yield _of_partitions(code, partitions, is_note=code is FindingCode.NEW_PARTITIONS)


def _offsets(now: Snapshot) -> Iterator[GroupFinding]:
    # Of a partition that no worker of the group has yet, it is said above.
    own = [each for each in now.partitions if each.owner is not None or not now.members]
    present = [each for each in now.partitions if not each.is_stale]
    found = {
        FindingCode.NO_OFFSET: [each for each in own if each.committed is None and each.end > each.first],
        FindingCode.DELETED_UNJUDGED: [
            each for each in present if each.committed is not None and each.committed < each.first
        ],
        FindingCode.OFFSET_BEYOND: [each for each in present if (each.committed or 0) > each.end],
        FindingCode.OFFSET_STALE: [each for each in now.partitions if each.is_stale],
    }
    for code, partitions in found.items():
        if partitions:
            yield _of_partitions(code, partitions, is_note=code is FindingCode.OFFSET_STALE)


def _transactions(now: Snapshot) -> Iterator[GroupFinding]:
    if now.hanging:
        yield GroupFinding(FindingCode.HANGING, {"transactions": ", ".join(now.hanging[:SHOWN_NAMES])})
    if now.silent_brokers:
        values = {"brokers": ", ".join(map(str, now.silent_brokers))}
        yield GroupFinding(FindingCode.SILENT_BROKERS, values, is_note=True)


def _held(now: Snapshot, before: Snapshot) -> Iterator[GroupFinding]:
    """Return the partitions that one open transaction held back at both looks: no fault of the group, but a note."""
    earlier = {each.partition: each.open_from for each in before.partitions}
    held = [each for each in now.partitions if each.is_held and each.open_from == earlier.get(each.partition)]
    if held:
        first = held[0].partition
        yield _of_partitions(
            FindingCode.OPEN_TRANSACTION,
            held,
            is_note=True,
            held=sum(each.end - each.stable for each in held),
            brokers=now.brokers,
            topic=first.topic,
            number=first.number,
        )


def _progress(now: Snapshot, before: Snapshot) -> Iterator[GroupFinding]:
    """Return whether workers that have work do none, or too little. A group that is rebalancing is given time."""
    now, before = _of_workers(now, now), _of_workers(before, now)
    rates = Rates.between(before, now)
    if rates.seconds < STUCK_S or not now.members or now.group_state in _REBALANCING:
        return
    earlier = {each.partition: each for each in before.partitions}
    stuck = [each for each in now.partitions if each.owner is not None and _is_stuck(earlier.get(each.partition), each)]
    if stuck:
        yield _of_partitions(FindingCode.STUCK, stuck, seconds=rates.seconds)
    elif _falls_behind(before, now, rates):
        yield GroupFinding(FindingCode.LAG_GROWS, {"lag": now.readable, "growth": rates.readable})


def _of_workers(snapshot: Snapshot, now: Snapshot) -> Snapshot:
    """Return a snapshot of the partitions alone that workers have now: no number of workers reads the others faster."""
    owned = {each.partition for each in now.partitions if each.owner is not None}
    return replace(snapshot, partitions=tuple(each for each in snapshot.partitions if each.partition in owned))


def _is_stuck(before: PartitionState | None, now: PartitionState) -> bool:
    """Return whether there was something to read at both looks, and nothing was committed between them.

    A worker commits what it has read past as well: markers of transactions and aborted records.
    """
    return before is not None and min(before.readable, now.readable) > 0 and before.committed == now.committed


def _falls_behind(before: Snapshot, now: Snapshot, rates: Rates) -> bool:
    """Return whether more articles come than are judged.

    What is judged within ``STUCK_S`` is under way, however it rises and falls. At both looks more than that must wait,
    so a burst that has just arrived does not count.
    """
    return rates.readable >= LEAST_GROWTH and min(before.readable, now.readable) > rates.articles * STUCK_S


def _rules(now: Snapshot, configured: Rules) -> Iterator[GroupFinding]:
    in_force = now.log.rules
    if in_force is None:
        return
    if in_force.scheme != configured.scheme:
        values = {"configured": configured.scheme.id, "in_force": in_force.scheme.id}
        yield GroupFinding(FindingCode.OTHER_SCHEME, values, is_note=True)
    elif changes := rule_changes(in_force, configured):
        yield GroupFinding(FindingCode.OTHER_RULES, {"changes": "; ".join(changes)}, is_note=True)


def _of_partitions(
    code: FindingCode, partitions: list[PartitionState], *, is_note: bool = False, **values: str | float
) -> GroupFinding:
    """Return a finding that names partitions: the first of them, and how many more there are."""
    names = [str(each.partition) for each in partitions]
    more = [f"+{len(names) - SHOWN_NAMES}"] * (len(names) > SHOWN_NAMES)
    return GroupFinding(code, {"partitions": ", ".join(names[:SHOWN_NAMES] + more), **values}, is_note)
