"""The findings about a group by their codes, and the English sentences of each.

The names in braces are those of the values of a finding. The pages have the same sentences in other languages.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from stream_dedup.broker.lost_log import ABSENT_LOG, EMPTY_LOG, HAS_OFFSETS
from stream_dedup.broker.replication import FAULT_SENTENCES, TopicFault


class FindingCode(StrEnum):
    """What a finding says."""

    LOST_LOG_ABSENT = "lost_log_absent"
    LOST_LOG_EMPTY = "lost_log_empty"
    LOG_ABSENT = "log_absent"
    LOG_DAMAGED = "log_damaged"
    LOG_WITHOUT_RULES = "log_without_rules"
    TOPIC_ABSENT = "topic_absent"
    TOPIC_PARTITIONS = "topic_partitions"
    TOPIC_SPARE_PARTITIONS = "topic_spare_partitions"
    TOPIC_SETTINGS = "topic_settings"
    TOPIC_TOO_SMALL = "topic_too_small"
    TOPIC_UNWRITABLE = "topic_unwritable"
    TOPIC_ONE_COPY = "topic_one_copy"
    TOPIC_ONE_DISK = "topic_one_disk"
    OUT_OF_SYNC = "out_of_sync"
    NO_WORKER = "no_worker"
    FOREIGN_MEMBER = "foreign_member"
    REBALANCING = "rebalancing"
    UNREAD = "unread"
    NEW_PARTITIONS = "new_partitions"
    NOT_TAKEN = "not_taken"
    IDLE_WORKERS = "idle_workers"
    NO_OFFSET = "no_offset"
    DELETED_UNJUDGED = "deleted_unjudged"
    OFFSET_BEYOND = "offset_beyond"
    OFFSET_STALE = "offset_stale"
    HANGING = "hanging"
    SILENT_BROKERS = "silent_brokers"
    OPEN_TRANSACTION = "open_transaction"
    UNSEEN_TRANSACTION = "unseen_transaction"
    LOST_TRANSACTION = "lost_transaction"
    STUCK = "stuck"
    LAG_GROWS = "lag_grows"
    OTHER_SCHEME = "other_scheme"
    OTHER_RULES = "other_rules"


class FindingSentences(NamedTuple):
    """What a finding says, and what to do about it."""

    text: str
    remedy: str


def topic_code(fault: TopicFault) -> FindingCode:
    """Return the code of a fault of a topic."""
    return FindingCode(f"topic_{fault}")


_RESTORE = "restore the topic, or accept the log without its history: stream-dedup run --new-log"
_TOPIC_SENTENCES = {
    topic_code(fault): FindingSentences("topic {topic}: " + one.reason, one.remedy)
    for fault, one in FAULT_SENTENCES.items()
} | {
    # The settings by name and value alone; `stream-dedup topics check` has the reason for each.
    FindingCode.TOPIC_SETTINGS: FindingSentences(
        "topic {topic} is not set as it must be: {settings}", FAULT_SENTENCES[TopicFault.SETTINGS].remedy
    )
}
FINDING_SENTENCES: Mapping[FindingCode, FindingSentences] = _TOPIC_SENTENCES | {
    FindingCode.LOST_LOG_ABSENT: FindingSentences(HAS_OFFSETS + ABSENT_LOG, _RESTORE),
    FindingCode.LOST_LOG_EMPTY: FindingSentences(HAS_OFFSETS + EMPTY_LOG, _RESTORE),
    FindingCode.LOG_ABSENT: FindingSentences("log {topic} does not exist", "start a worker: stream-dedup run"),
    FindingCode.LOG_DAMAGED: FindingSentences("no worker can read on in the log: {damage}", "then start the workers"),
    FindingCode.LOG_WITHOUT_RULES: FindingSentences(
        "log {topic} has records and no rules, and no worker can read it",
        "begin a new log with another --group and another --index",
    ),
    FindingCode.OUT_OF_SYNC: FindingSentences(
        "{partition}: {in_sync} of {replicas} replicas are in sync", "look at the brokers of the others"
    ),
    FindingCode.NO_WORKER: FindingSentences("no worker is in group {group}", "start one: stream-dedup run"),
    FindingCode.FOREIGN_MEMBER: FindingSentences(
        "member {member} at {host} is no worker of this group and takes articles from it",
        "stop it, or give it another group",
    ),
    FindingCode.REBALANCING: FindingSentences("the group is sharing out its partitions", "look again in some seconds"),
    FindingCode.UNREAD: FindingSentences(
        "no worker reads {partitions}", "start the workers with all topics: topics.input (--input)"
    ),
    FindingCode.NEW_PARTITIONS: FindingSentences(
        "{partitions}: new, and not read yet", "the group takes new partitions within half a minute by itself"
    ),
    FindingCode.NOT_TAKEN: FindingSentences(
        "{partitions}: no worker reads them, though the group reads their topic",
        "if they are not taken within half a minute, restart the workers one after the other: each restart assigns all "
        "partitions again",
    ),
    FindingCode.IDLE_WORKERS: FindingSentences(
        "{idle} of {workers} workers have no partition, for the topics have {partitions}",
        "add partitions to the input topics, or stop these workers",
    ),
    FindingCode.NO_OFFSET: FindingSentences(
        "{partitions}: no committed offset",
        "start a worker; if it stops because the group's offsets expired: stream-dedup offsets set --to logged",
    ),
    FindingCode.DELETED_UNJUDGED: FindingSentences(
        "{partitions}: articles behind the committed offset were deleted before they were judged",
        "go on with those that are left (offsets set --to beginning), and raise the retention of the topic",
    ),
    FindingCode.OFFSET_BEYOND: FindingSentences(
        "{partitions}: the topic ends before the committed offset: it lost records",
        "see why; then stream-dedup offsets set --to logged or --to end",
    ),
    FindingCode.OFFSET_STALE: FindingSentences(
        "{partitions}: the committed offset belongs to a deleted topic of this name",
        "a worker reads the present topic from its beginning",
    ),
    FindingCode.HANGING: FindingSentences(
        "open transactions of workers that ended hold back readers: {transactions}",
        "start a worker, which aborts them; else the brokers do after kafka.transaction_timeout_s",
    ),
    FindingCode.SILENT_BROKERS: FindingSentences(
        "open transactions of which these brokers are the coordinators are not shown: {brokers}",
        "start the brokers that are down, or look again",
    ),
    FindingCode.OPEN_TRANSACTION: FindingSentences(
        "{partitions}: an open transaction of {transaction} (producer id {producer}) since {since} holds back "
        "{held:,} offsets",
        "if its program has ended, start it again, which aborts the transaction; the broker aborts it at {until}",
    ),
    FindingCode.UNSEEN_TRANSACTION: FindingSentences(
        "{partitions}: an open transaction holds back {held:,} offsets; this client may not see whose it is",
        "grant it Read of the topic and Describe of the producers' transactional ids; the broker aborts the "
        "transaction at its time-out",
    ),
    FindingCode.LOST_TRANSACTION: FindingSentences(
        "{partitions}: a transaction that no coordinator knows, of producer id {producer} since {since}, holds back "
        "{held:,} offsets",
        "if a user who may describe every transactional id is told the same, abort it: kafka-transactions.sh "
        "--bootstrap-server {brokers} abort --topic {topic} --partition {number} --start-offset {first}",
    ),
    FindingCode.STUCK: FindingSentences(
        "{partitions}: nothing was committed in {seconds:.0f} s, though there are articles",
        "read the log lines of the worker that has it, and its /healthz",
    ),
    FindingCode.LAG_GROWS: FindingSentences(
        "the lag of {lag:,} articles grows by {growth:,.0f} a second",
        "start more workers (at most one for each partition), or give them more cores",
    ),
    FindingCode.OTHER_SCHEME: FindingSentences(
        "the configuration gives scheme {configured}, the log has {in_force}",
        "a worker with this configuration does not start: configure the log's scheme, or use another --group",
    ),
    FindingCode.OTHER_RULES: FindingSentences(
        "the configuration differs from the rules in force: {changes}",
        "a worker with it does not start: configure what is in force, or rules apply",
    ),
}
