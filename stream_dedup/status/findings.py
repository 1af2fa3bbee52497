"""What is wrong with a group, and the remedy for each: a function of one or two snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stream_dedup.core.rules import Rules
from stream_dedup.core.rules_text import rule_changes
from stream_dedup.status.snapshot import PartitionState, Rates, Snapshot

SHOWN_NAMES = 5
"""Most partitions that one finding names."""
STUCK_S = 2.0
"""A worker with articles commits several times a second. One that has committed nothing for so many seconds is stuck;
two snapshots that are closer to each other do not show it."""
_REBALANCING = frozenset(("PreparingRebalance", "CompletingRebalance"))


@dataclass(frozen=True, slots=True)
class GroupFinding:
    """One thing that is wrong, or that an operator should know."""

    text: str
    remedy: str
    is_note: bool = False
    """Whether the group works all the same: a note does not change the exit code."""

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
        *(GroupFinding(f"topic {one.topic}: {one.reason}", one.remedy, one.is_warning) for one in now.topic_problems),
        *_replicas(now),
        *_members(now),
        *_offsets(now),
        *_transactions(now),
        *(_progress(now, before) if before is not None else ()),
        *(_rules(now, configured) if configured is not None else ()),
    ]


def _log(now: Snapshot) -> Iterator[GroupFinding]:
    if now.lost is not None:
        yield GroupFinding(
            now.lost,
            "restore the topic, or accept the log without its history: stream-dedup run --new-log",
        )
    elif not now.log.exists:
        yield GroupFinding(f"log {now.log.topic} does not exist", "start a worker: stream-dedup run")
    elif now.log.damage is not None:
        text = f"a record of the log cannot be read, and no worker can read on: {now.log.damage}"
        yield GroupFinding(text, "use the release that wrote it, or begin a new log with another --group and --index")
    elif now.log.trims is not None and now.log.rules is None and now.log.end > now.log.first:
        text = f"log {now.log.topic} has records and no rules, and no worker can read it"
        yield GroupFinding(text, "begin a new log with another --group and another --index")


def _replicas(now: Snapshot) -> Iterator[GroupFinding]:
    for partition, (in_sync, replicas) in sorted(now.out_of_sync.items()):
        yield GroupFinding(
            f"{partition}: {in_sync} of {replicas} replicas are in sync", "look at the brokers of the others"
        )


def _members(now: Snapshot) -> Iterator[GroupFinding]:
    if not now.members:
        yield GroupFinding(f"no worker is in group {now.group}", "start one: stream-dedup run")
        return
    for member in now.members:
        if not member.client_id.startswith(f"{now.group}-"):
            yield GroupFinding(
                f"member {member.client_id} at {member.host} is no worker of this group and takes articles from it",
                "stop it, or give it another group",
            )
    if now.group_state in _REBALANCING:
        yield GroupFinding("the group is sharing out its partitions", "look again in some seconds", is_note=True)
        return
    unread = [each for each in now.partitions if each.owner is None]
    if unread:
        yield GroupFinding(
            f"no worker reads {_names(unread)}", "start the workers with all topics: topics.input (--input)"
        )
    idle = sum(not member.partitions for member in now.members)
    if idle and not unread:
        text = f"{idle} of {len(now.members)} workers have no partition, for the topics have {len(now.partitions)}"
        yield GroupFinding(text, "add partitions to the input topics, or stop these workers", is_note=True)


def _offsets(now: Snapshot) -> Iterator[GroupFinding]:
    missing = [each for each in now.partitions if each.committed is None and each.end > each.first]
    if missing:
        yield GroupFinding(
            f"{_names(missing)}: no committed offset",
            "start a worker; if it stops because the group's offsets expired: stream-dedup offsets set --to logged",
        )
    deleted = [each for each in now.partitions if not each.is_stale and (each.committed or each.first) < each.first]
    if deleted:
        yield GroupFinding(
            f"{_names(deleted)}: articles behind the committed offset were deleted before they were judged",
            "go on with those that are left (offsets set --to beginning), and raise the retention of the topic",
        )
    beyond = [each for each in now.partitions if not each.is_stale and (each.committed or 0) > each.end]
    if beyond:
        yield GroupFinding(
            f"{_names(beyond)}: the topic ends before the committed offset: it lost records",
            "see why; then stream-dedup offsets set --to logged or --to end",
        )
    stale = [each for each in now.partitions if each.is_stale]
    if stale:
        text = f"{_names(stale)}: the committed offset belongs to a deleted topic of this name"
        yield GroupFinding(text, "a worker reads the present topic from its beginning", is_note=True)


def _transactions(now: Snapshot) -> Iterator[GroupFinding]:
    if now.hanging:
        yield GroupFinding(
            f"open transactions of workers that ended hold back readers: {', '.join(now.hanging[:SHOWN_NAMES])}",
            "start a worker, which aborts them; else the brokers do after kafka.transaction_timeout_s",
        )


def _progress(now: Snapshot, before: Snapshot) -> Iterator[GroupFinding]:
    """Return whether workers that have work do none, or too little. A group that is rebalancing is given time."""
    rates = Rates.between(before, now)
    if rates.seconds < STUCK_S or not now.members or now.group_state in _REBALANCING:
        return
    earlier = {each.partition: each for each in before.partitions}
    still = [each for each in now.partitions if each.owner is not None and _is_stuck(earlier.get(each.partition), each)]
    stuck = [each for each in still if each.lag > 1]
    if last := [each for each in still if each.lag == 1]:
        yield GroupFinding(
            f"{_names(last)}: one offset is not committed",
            "if the topic's producer is transactional, this is its last marker; else an article waits",
            is_note=True,
        )
    if stuck:
        yield GroupFinding(
            f"{_names(stuck)}: nothing was committed in {rates.seconds:.0f} s, though there are articles",
            "read the log lines of the worker that has it, and its /healthz",
        )
    elif rates.lag > 0:
        yield GroupFinding(
            f"the lag of {now.lag:,} articles grows by {rates.lag:,.0f} a second",
            "start more workers (at most one for each partition), or give them more processes",
        )


def _is_stuck(before: PartitionState | None, now: PartitionState) -> bool:
    return before is not None and before.lag > 0 and now.lag > 0 and before.committed == now.committed


def _rules(now: Snapshot, configured: Rules) -> Iterator[GroupFinding]:
    in_force = now.log.rules
    if in_force is None:
        return
    if in_force.scheme != configured.scheme:
        text = f"the configuration gives scheme {configured.scheme.id}, the log has {in_force.scheme.id}"
        remedy = "a worker with this configuration does not start: configure the log's scheme, or use another --group"
        yield GroupFinding(text, remedy, is_note=True)
    elif changes := rule_changes(in_force, configured):
        text = f"the configuration differs from the rules in force: {'; '.join(changes)}"
        yield GroupFinding(
            text, "a worker with it does not start: configure what is in force, or rules apply", is_note=True
        )


def _names(partitions: list[PartitionState]) -> str:
    names = [str(each.partition) for each in partitions]
    more = [f"{len(names) - SHOWN_NAMES} more"] * (len(names) > SHOWN_NAMES)
    return ", ".join(names[:SHOWN_NAMES] + more)
