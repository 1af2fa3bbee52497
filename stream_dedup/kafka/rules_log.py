"""The rules of a log: reading their history, changing them on purpose, and when a log may begin with its first ones.

A change is appended like any record and takes force at its log position. Of two changes made at the same time the
first one wins: so a change is read back before it counts as done.

Every verdict is a function of the log. If its topic was deleted, or emptied, a new log would begin: every article that
was seen before would be unique again, and nothing would tell. So nothing begins a log, neither a worker nor
``rules apply`` nor ``topics create``, while the group has committed offsets: a worker commits offsets only after the
log has its first rules. A worker looks at its index, too (``worker.opening``).

The committed offsets are read before the log. Otherwise a worker that starts together with the first worker of a new
group could see no log yet, and then the offsets that the other worker has committed since.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from stream_dedup.config.effective import rules_of
from stream_dedup.config.model import Config
from stream_dedup.core.logged_scheme import scheme_mismatch
from stream_dedup.core.model import LogOffset, ReportProgress
from stream_dedup.core.rules import Rules
from stream_dedup.errors import RefusedError, UnavailableError
from stream_dedup.kafka.admin import committed_offsets, offset_bounds, topic_ids, topic_of_id
from stream_dedup.kafka.clients import connect_log
from stream_dedup.kafka.connection import make_admin
from stream_dedup.kafka.errors import patiently
from stream_dedup.kafka.fingerprint_log import KafkaLog
from stream_dedup.kafka.log import WaitingLog
from stream_dedup.kafka.topics import DESCRIBE, ensure_topics, refuse_wrong_topics
from stream_dedup.ports import CommittedOffset, Partition

if TYPE_CHECKING:
    import uuid

    from kafka import KafkaAdminClient

    from stream_dedup.ports import FingerprintLog


def _untold(_done: int, _all: int) -> None:
    """Report no progress."""


class Effect(StrEnum):
    """What a rules record did at its log position."""

    TOOK_FORCE = "took force"
    RESTATED = "restated"
    VOID = "void"


@dataclass(frozen=True, slots=True)
class RulesRecord:
    """One rules record of the log."""

    offset: LogOffset
    time: int
    rules: Rules
    effect: Effect


@dataclass(slots=True)
class RulesHistory:
    """Every rules record of a log up to ``end``, and the rules in force there."""

    first: LogOffset
    end: LogOffset
    in_force: Rules | None = None
    records: list[RulesRecord] = field(default_factory=list)

    @property
    def since(self) -> RulesRecord | None:
        """The record by which the rules in force took force."""
        return next((record for record in reversed(self.records) if record.effect is Effect.TOOK_FORCE), None)

    def append(self, offset: LogOffset, time: int, rules: Rules) -> None:
        """Append the next rules record of the log."""
        if rules.takes_force_after(self.in_force):
            effect, self.in_force = Effect.TOOK_FORCE, rules
        elif rules == self.in_force:
            effect = Effect.RESTATED
        else:
            effect = Effect.VOID
        self.records.append(RulesRecord(offset, time, rules, effect))


@dataclass(frozen=True, slots=True)
class Change:
    """What ``apply_rules`` did or would do: the rules before, those after, and the record that was appended, if any."""

    before: Rules | None
    now: Rules
    record: RulesRecord | None

    @property
    def is_none(self) -> bool:
        """Whether the rules in force are already the configuration's."""
        return self.before == self.now


def read_rules(config: Config, progress: ReportProgress = _untold) -> RulesHistory:
    """Read the whole log for its rules.

    Raises:
        UserError: the log's topic is not there.
        UnavailableError: the broker did not answer in time.
    """
    with closing(connect_log(config, "name its --group, or begin one: stream-dedup rules apply")) as log:
        first, end = log.bounds()
        history = RulesHistory(first, first)
        read_rules_on(log, history, end, progress)
    return history


def apply_rules(config: Config, progress: ReportProgress = _untold) -> Change:
    """Put the configuration's rules in force in the log; does nothing if they already are.

    Missing topics are made, so that a new log can begin with its rules.

    Raises:
        RefusedError: the scheme differs, another change was made at the same time, or the log lost its history.
        UserError: a topic has a wrong setting, or cannot be made.
    """
    # 1  check the topics, and read the rules in force
    history = _checked_rules(config, progress)
    _next(config, history.in_force)
    # 2  make missing topics
    with closing(make_admin(config.kafka)) as admin:
        ensure_topics(admin, config)
    with closing(connect_log(config)) as log:
        # 3  read on: another program may have begun the log
        read_rules_on(log, history, log.bounds()[1])
        before = history.in_force
        change = _next(config, before)
        if change == before:
            return Change(before, change, None)
        # 4  append the change
        offset = log.append_now(change)
        # 5  read it back, with everything that was appended in between
        read_rules_on(log, history, LogOffset(offset + 1))
    record = history.records[-1]
    if record.effect is Effect.VOID or history.in_force != change:
        raise RefusedError(
            f"{config.log_topic}: another change of rules was made at the same time and comes before this one, "
            f"which is void (log offset {offset}). Look with: stream-dedup rules show, then apply again"
        )
    return Change(before, change, record)


def begin_with_rules(config: Config, log: WaitingLog, history: RulesHistory) -> None:
    """Begin a log without rules with those of the configuration; of two such records the first one counts."""
    if history.in_force is None:
        offset = log.append_now(replace(rules_of(config), revision=1))
        read_rules_on(log, history, LogOffset(offset + 1))


def refuse_other_rules(config: Config, in_force: Rules | None) -> None:
    """Refuse a configuration that differs from the rules in force.

    Raises:
        RefusedError: they differ; the message names each difference.
    """
    wanted = rules_of(config)
    if in_force is not None:
        refuse_other_scheme(config, in_force)
    differences = ["the log has no rules"] if in_force is None else wanted.differences(in_force)
    if differences:
        raise RefusedError(
            f"the rules in force in {config.log_topic} are not the configuration's: "
            f"{'; '.join(differences)}. Either configure what is in force, or make the change on purpose: "
            "stream-dedup rules apply"
        )


def plan_rules(config: Config, progress: ReportProgress = _untold) -> Change:
    """Return what ``apply_rules`` would do. No topic is made and nothing is appended; raises as ``apply_rules``."""
    before = _checked_rules(config, progress).in_force
    return Change(before, _next(config, before), None)


def _checked_rules(config: Config, progress: ReportProgress) -> RulesHistory:
    """Check the topics, and read the rules of the log; without a log the history is empty."""
    with closing(make_admin(config.kafka)) as admin:
        refuse_lost_log(admin, config)
        checked = refuse_wrong_topics(admin, config)
    if config.log_topic in checked.missing:
        return RulesHistory(LogOffset(0), LogOffset(0))
    return read_rules(config, progress)


def _next(config: Config, current: Rules | None) -> Rules:
    """Return the rules to append: the configuration's, as the revision after ``current``; ``current`` if they agree."""
    wanted = rules_of(config)
    if current is None:
        return replace(wanted, revision=1)
    refuse_other_scheme(config, current)
    return wanted.next_revision(current) if wanted.differences(current) else current


def refuse_other_scheme(config: Config, current: Rules) -> None:
    """Refuse a configuration with another scheme than the log's.

    Raises:
        RefusedError: the message names the difference.
    """
    wanted = rules_of(config)
    if wanted.scheme != current.scheme:
        remedy = "configure the log's scheme, or begin a new log with another --group and another --index"
        raise RefusedError(scheme_mismatch(current.scheme, wanted.scheme, f"log {config.log_topic}", remedy))


def read_rules_on(log: WaitingLog, history: RulesHistory, end: LogOffset, progress: ReportProgress = _untold) -> None:
    """Append the rules records of the log from the end of the history to ``end``, which is its end then."""
    for record in log.follow(history.end, end, lambda _stage, done, of: progress(done, of)):
        if isinstance(record.payload, Rules):
            history.append(record.offset, int(record.time), record.payload)
    history.end = end


SHOWN_OFFSETS = 3
"""Most committed offsets that the message names."""

ABSENT_LOG = "its log {topic} does not exist"

EMPTY_LOG = "its log {topic} has no records"

HAS_OFFSETS = "group {group} has committed offsets ({offsets}), but "


@dataclass(frozen=True, slots=True)
class LostLog:
    """The contradiction between the committed offsets of a group and its log."""

    group: str
    offsets: str
    """The first of them."""
    topic: str
    exists: bool
    """Whether the log's topic exists; then it has no records."""

    def __str__(self) -> str:
        sentence = HAS_OFFSETS + (EMPTY_LOG if self.exists else ABSENT_LOG)
        return sentence.format(group=self.group, offsets=self.offsets, topic=self.topic)


@dataclass(frozen=True, slots=True)
class FoundLog:
    """The log's topic as it was found, before anything is made."""

    topic: str
    log_id: bytes | None
    """None: there is no topic."""
    first: LogOffset
    end: LogOffset
    committed: Mapping[Partition, CommittedOffset]
    """The group's offsets; they were read before the topic."""

    @property
    def absence(self) -> str | None:
        """Why there is no log to read; None if it has records."""
        if self.log_id is None:
            return ABSENT_LOG.format(topic=self.topic)
        return EMPTY_LOG.format(topic=self.topic) if self.first == self.end else None


def find_log(admin: KafkaAdminClient, config: Config) -> FoundLog:
    """Look for the group's offsets and its log.

    Raises:
        UnavailableError: the broker did not answer.
    """
    kafka, topic = config.kafka, config.log_topic
    committed = patiently(
        kafka, "committed offsets", lambda: committed_offsets(admin, kafka.group), "Describe of the group"
    )
    log_id = patiently(kafka, topic, lambda: topic_ids(admin, [topic]), DESCRIBE).get(topic)
    first = end = LogOffset(0)
    if log_id is not None:
        partition = Partition(topic, 0)
        bounds = patiently(kafka, topic, lambda: offset_bounds(admin, [partition]), DESCRIBE)[partition]
        first, end = map(LogOffset, bounds)
    return FoundLog(topic, log_id, first, end, committed)


def refuse_lost_log(admin: KafkaAdminClient, config: Config) -> None:
    """Refuse to begin a log for a group that has committed offsets.

    Raises:
        RefusedError: there is no log to read, and the group has committed offsets.
    """
    lost = offsets_without_log(config, find_log(admin, config))
    if lost is not None:
        raise lost_log_error(lost)


def offsets_without_log(config: Config, found: FoundLog) -> LostLog | None:
    """Return the contradiction between the group's offsets and its log; None if there is none."""
    if found.absence is None or not found.committed:
        return None
    offsets = [f"{at}: {known.offset}" for at, known in sorted(found.committed.items())]
    shown = ", ".join(offsets[:SHOWN_OFFSETS]) + (", ..." if len(offsets) > SHOWN_OFFSETS else "")
    return LostLog(config.kafka.group, shown, found.topic, exists=found.log_id is not None)


def lost_log_error(reason: LostLog | str) -> RefusedError:
    """Return the error for a log that lost its history."""
    return RefusedError(
        f"{reason}. Verdicts depend on the whole log, so nothing was changed. Restore the topic; or, if its history is "
        "lost, accept the log as it is, in which earlier articles are missing: stream-dedup run --new-log (it keeps "
        "the index aside), or begin with another --group and another --index"
    )


@dataclass(frozen=True, slots=True)
class PreparedLog:
    """The log's topic, once all topics of the group exist."""

    log_id: bytes
    record_bytes: int
    """Largest record that every output topic takes with our headers."""


class KafkaLogTopic:
    """Implements ``worker.opening.LogTopic``; each call connects and closes its connection."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def find(self) -> FoundLog:
        """Return the group's offsets, and which records the log has."""
        with closing(make_admin(self._config.kafka)) as admin:
            return find_log(admin, self._config)

    def check(self) -> None:
        """Check the topics; nothing is created."""
        with closing(make_admin(self._config.kafka)) as admin:
            refuse_wrong_topics(admin, self._config)

    def prepare(self) -> PreparedLog:
        """Check the topics, and create the missing ones."""
        kafka, topic = self._config.kafka, self._config.log_topic
        with closing(make_admin(kafka)) as admin:
            record_bytes = ensure_topics(admin, self._config).record_bytes
            ids = patiently(kafka, topic, lambda: topic_ids(admin, [topic]))
        if topic not in ids:
            raise UnavailableError(f"topic {topic} was deleted a moment ago; start again")
        return PreparedLog(ids[topic], record_bytes)

    def exists(self, topic_id: uuid.UUID) -> bool:
        """Return whether a topic of this id exists."""
        with closing(make_admin(self._config.kafka)) as admin:
            return patiently(self._config.kafka, f"topic {topic_id}", lambda: topic_of_id(admin, topic_id)) is not None

    def connect(self) -> FingerprintLog:
        """Return the log."""
        return KafkaLog(self._config.kafka, self._config.log_topic)
