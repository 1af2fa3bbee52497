"""Opens the log and its index together, before anything is judged.

In order:

    1  read the group's committed offsets, then look for its log
    2  refuse to begin a log if offsets show that there was one
    3  check the topics that exist, and their settings
    4  compare the scheme of the log's first rules with the configuration's
    5  open the index and read its newest rows
    6  refuse to begin a log if the index shows that there was one
    7  refuse an index that is the last copy of a history, or of a part of it; empty an index that is only a cache and
       does not agree with the log
    8  read the log to its end
    9  compare the rules in force with the configuration's: if they differ, stop and name the difference
    10 make the missing topics
    11 begin an empty log with the configuration's rules

Steps 7 to 9 need a log: if there is none, they follow step 10. Nothing is created in Kafka before step 10, and no index
before step 5: a start that is refused before step 10 has created no topic, and no index but a cache of a log that was
read.

An index that does not agree with its log is rebuilt from it. An index with a history that the log lacks is not a cache
but the last copy. Steps 2, 6 and 7 refuse what would lose the history (``kafka.rules_log``). With ``new_log`` they
accept the log as it is:

    a  the index is moved aside (``index.folder``)
    b  an empty index takes its place

and step 10 creates the topic, 7 binds the index to it, 11 begins it. The group's committed offsets stay. If the process
ends between any two of these, the group's offsets still show a history, and the same call continues; a second index is
not moved aside, because an empty index is not the last copy of anything.
"""

from __future__ import annotations

import logging
import shlex
import uuid
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import xxhash

from stream_dedup.config.effective import index_settings_of, rules_of
from stream_dedup.core.entry import Trim
from stream_dedup.core.model import LogOffset, ReportProgress
from stream_dedup.core.rules import Rules
from stream_dedup.errors import CorruptError, UnavailableError, UserError
from stream_dedup.index import LogIndex, keep_aside, only_copy_in
from stream_dedup.kafka.log import WaitingLog
from stream_dedup.kafka.rules_log import (
    FoundLog,
    PreparedLog,
    RulesHistory,
    lost_log_error,
    offsets_without_log,
    read_rules_on,
    refuse_other_rules,
    refuse_other_scheme,
)

if TYPE_CHECKING:
    from stream_dedup.config.model import Config
    from stream_dedup.index import IndexStats
    from stream_dedup.ports import FingerprintLog

log = logging.getLogger(__name__)


class LogTopic(Protocol):
    """The topic of a group's log, while nothing of it has been read. May block, and raises ``UnavailableError``."""

    def find(self) -> FoundLog:
        """Return the group's offsets, and which records the log has."""

    def check(self) -> None:
        """Check the topics that exist; UserError for what is wrong."""

    def prepare(self) -> PreparedLog:
        """Do as ``check``, and create the missing topics."""

    def exists(self, topic_id: uuid.UUID) -> bool:
        """Return whether a topic of this id exists, under any name."""

    def connect(self) -> FingerprintLog:
        """Return the log; the caller closes it."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Why an index does not agree with its log."""

    reason: str
    lost: bool
    """Whether the index has a history that the log lacks: then it is not a cache, but the last copy."""


def disagreement_of(index: LogIndex, log_id: bytes, log: WaitingLog, topic: LogTopic, name: str) -> Disagreement | None:
    """Return why the index does not agree with the log of this id and name; None if it does. May block.

    Raises:
        UnavailableError: the broker did not answer in time.
    """
    if index.log_id is None:
        return None
    if index.log_id != str(uuid.UUID(bytes=log_id)):
        lost = is_last_copy(index, log_id, topic)
        return Disagreement(f"{name} is another log{' and that one is gone' * lost}", lost)
    first, end = log.bounds()
    if index.next_offset > end:
        return Disagreement(f"the log ends at {end}", lost=True)
    if index.next_offset < first:
        return _behind_trims(log, first, end, last_copy=is_last_copy(index, log_id, topic))
    if index.state.last_checksum is None or index.next_offset == first or _has_last_record(index, log):
        return None
    return Disagreement(f"the log has another record at offset {index.next_offset - 1}", lost=True)


def is_last_copy(index: LogIndex, log_id: bytes | None, topic: LogTopic) -> bool:
    """Return whether the index has articles of a log that cannot be read any more; ``log_id`` is the present log."""
    if index.log_id is None or not (index.partitions() or index.low_watermark):
        return False
    its_log = uuid.UUID(index.log_id)
    return its_log.bytes == log_id or not topic.exists(its_log)


def _behind_trims(log: WaitingLog, first: LogOffset, end: LogOffset, *, last_copy: bool) -> Disagreement:
    """Return whether a log that begins behind what the index has read was trimmed, or lost its history.

    A trim that names the log's first offset follows within the part that the log still has.
    """
    trimmed = any(
        isinstance(record.payload, Trim) and record.payload.before == first
        for records in log.read(first, end)
        for record in records
    )
    if trimmed or not last_copy:
        return Disagreement(f"the log begins at {first} now", lost=False)
    reason = f"the log begins at {first} now, and none of its trims permits that: something else deleted records"
    return Disagreement(reason, lost=True)


def _has_last_record(index: LogIndex, log: WaitingLog) -> bool:
    end = index.next_offset
    read = [record.raw for records in log.read(LogOffset(end - 1), end) for record in records]
    return [xxhash.xxh3_64_intdigest(raw) for raw in read] == [index.state.last_checksum]


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """A log that was read to its end, and its index."""

    index: LogIndex
    log: FingerprintLog
    log_id: bytes
    first_offset: LogOffset
    scheme_id: str
    record_bytes: int
    """Largest record that every output topic takes with our headers."""


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """The index that a rebuild would delete, and the part of the log that it would read."""

    stats: IndexStats | None
    """Of the index that would be emptied; None if it is damaged."""
    first: LogOffset
    end: LogOffset


def open_log(
    config: Config,
    topic: LogTopic,
    progress: ReportProgress,
    *,
    rebuild: bool = False,
    new_log: bool = False,
) -> OpenedLog:
    """Open index and log; calls ``progress`` with log offsets done and to do.

    With ``rebuild`` the index is emptied first, if it is a cache. With ``new_log`` the log is accepted without the
    history that offsets or index show. The log's next record is the one after the last that was applied; the caller
    closes index and log.

    Raises:
        UserError: wrong topics, or the index belongs to another process.
        RefusedError: the rules in force are not the configuration's, or the log lost its history.
        UnavailableError: the broker did not answer in time.
    """
    opening = _Opening(config, topic, rebuild=rebuild, new_log=new_log)
    try:
        return opening.run(progress)
    except BaseException:
        opening.close()
        raise


def plan_rebuild(config: Config, topic: LogTopic, progress: ReportProgress) -> RebuildPlan:
    """Return what ``open_log`` with ``rebuild`` would do; nothing is created or changed.

    It reads the log once for its rules, and refuses what a rebuild would refuse after the index is emptied.

    Raises:
        UserError: there is no index, it is not a cache, another process uses it, or the log has another scheme.
        RefusedError: the rules in force are not the configuration's, or the log lost its history.
        UnavailableError: the broker did not answer in time.
    """
    with closing(_Opening(config, topic, rebuild=True, new_log=False)) as opening:
        found = topic.find()
        opening.refuse_offsets_without_log(found)
        opening.open_index(reads=True)
        opening.refuse_without_log(found)
        stats = None if opening.damage is not None else opening.index.stats()
        if found.log_id is None:
            return RebuildPlan(stats, found.first, found.end)
        opening.connect()
        opening.reason_to_rebuild(found.log_id)
        first, end = opening.log.bounds()
        history = RulesHistory(first, first)
        read_rules_on(opening.log, history, end, progress)
        if history.in_force is not None:
            refuse_other_rules(config, history.in_force)
        return RebuildPlan(stats, history.first, history.end)


class _Opening:
    """The steps of ``open_log``; ``close`` closes what they have opened."""

    def __init__(self, config: Config, topic: LogTopic, *, rebuild: bool, new_log: bool) -> None:
        self._config = config
        self._topic = topic
        self.rules = rules_of(config)
        self._rebuild = rebuild
        self._new_log = new_log
        self._opened = ExitStack()
        self.close = self._opened.close
        self.index: LogIndex
        """From step 5 on if it is not damaged, else from step 6 or 7 on."""
        self.port: FingerprintLog
        self.log: WaitingLog
        """From step 4 on if there is a log, else from step 10 on."""
        self.damage: str | None = None
        """Why the index could not be opened."""

    def run(self, progress: ReportProgress) -> OpenedLog:
        """Do all steps."""
        # 1
        found = self._topic.find()
        # 2
        self.refuse_offsets_without_log(found)
        # 3
        self._topic.check()
        # 4
        if found.log_id is not None:
            self.connect()
            self.check_scheme()
        # 5
        self.open_index()
        # 6
        self.refuse_without_log(found)
        # 7, 8, 9
        if found.log_id is not None:
            first = self.follow(found.log_id, progress)
        # 10
        prepared = self.prepare(found)
        if found.log_id is None:
            # 7, 8, 9: another worker may have begun it meanwhile.
            self.connect()
            first = self.follow(prepared.log_id, progress)
        # 11
        if self.index.rules is None:
            self.begin_log()
            refuse_other_rules(self._config, self.index.rules)
        return OpenedLog(self.index, self.port, prepared.log_id, first, self.rules.scheme.id, prepared.record_bytes)

    def open_index(self, *, reads: bool = False) -> None:
        """Open the index (step 5), with ``reads`` for reading only; or note why it cannot be read."""
        path, settings = self._config.index.path, index_settings_of(self._config)
        if only_copy_in(path):
            raise UserError(
                f"index {path} was made by `stream-dedup filter` or stream_dedup.Index and is the only place of what "
                "it holds; name another folder with --index"
            )
        # An index of another scheme is refused, unless it is emptied anyway.
        scheme = None if self._rebuild else self.rules.scheme
        try:
            index = (LogIndex.read if reads else LogIndex.open)(path, scheme=scheme, settings=settings)
        except CorruptError as error:
            self.damage = str(error)
        else:
            self.index = self._opened.enter_context(index)

    def refuse_offsets_without_log(self, found: FoundLog) -> None:
        """Refuse to begin a log if the group's offsets show that there was one (step 2)."""
        reason = offsets_without_log(self._config, found)
        if reason is not None and not self._new_log:
            raise lost_log_error(reason)

    def check_scheme(self) -> None:
        """Refuse a log of another scheme, by its first record, which is a rules record (step 4)."""
        first, end = self.log.bounds()  # as they are now: another worker may have trimmed the log since step 1
        for records in self.log.read(first, min(end, LogOffset(first + 1))):
            for record in records:
                if isinstance(record.payload, Rules):
                    refuse_other_scheme(self._config, record.payload)

    def refuse_without_log(self, found: FoundLog) -> None:
        """Refuse to begin a log if the index shows that there was one (step 6)."""
        if found.absence is None:
            return
        if self.damage is not None:
            self._lose(f"{self.damage}, and {found.absence}")
        elif is_last_copy(self.index, found.log_id, self._topic):
            self._lose(f"{self._read_so_far()}, but {found.absence}")

    def connect(self) -> None:
        """Connect to the log."""
        self.port = self._opened.enter_context(closing(self._topic.connect()))
        self.log = WaitingLog(self.port, self._config)

    def reason_to_rebuild(self, log_id: bytes) -> str | None:
        """Return why the index has to be rebuilt from the log; None if it agrees with it.

        Refuses a log that lost what the index has read of it; with ``new_log`` the index is empty then, and agrees.
        """
        if self.damage is not None:
            return self.damage
        found = disagreement_of(self.index, log_id, self.log, self._topic, self._config.log_topic)
        if found is None:
            return None
        if found.lost:
            self._lose(f"{self._read_so_far()}, but {found.reason}")
            return None
        return f"index {self._config.index.path}: {found.reason}"

    def follow(self, log_id: bytes, progress: ReportProgress) -> LogOffset:
        """Read a log to its end, and refuse other rules than the configuration's; return its first offset."""
        # 7
        self.agree(log_id)
        # 8
        first = self.read_to_end(progress)
        # 9
        if self.index.rules is not None:
            refuse_other_rules(self._config, self.index.rules)
        return first

    def agree(self, log_id: bytes) -> None:
        """Let the index agree with this log (step 7)."""
        reason = self.reason_to_rebuild(log_id)
        if self._rebuild or reason is not None:
            self._empty(None if self._rebuild else reason)
        if self.index.log_id is None:
            self.index.begin(str(uuid.UUID(bytes=log_id)))

    def read_to_end(self, progress: ReportProgress) -> LogOffset:
        """Apply the log up to its end (step 8); return its first offset."""
        first, end = self.log.bounds()
        start = max(self.index.next_offset, first)
        for records in self.log.read(start, end):
            if records:
                self.index.apply(records)
                progress(records[-1].offset + 1 - start, end - start)
        self.log.seek(max(self.index.next_offset, first))
        return first

    def prepare(self, found: FoundLog) -> PreparedLog:
        """Create the missing topics (step 10)."""
        prepared = self._topic.prepare()
        if found.log_id not in {None, prepared.log_id}:
            raise UnavailableError(
                f"topic {self._config.log_topic} was deleted and recreated while it was read; start again"
            )
        return prepared

    def begin_log(self) -> None:
        """Append the first rules to an empty log (step 11); if two workers do so at once, the first record wins."""
        offset = self.log.append_now(replace(self.rules, revision=1))
        for records in self.log.read(self.index.next_offset, LogOffset(offset + 1)):
            self.index.apply(records)
        if self.index.rules is None:
            raise UnavailableError(
                f"topic {self._config.log_topic}: the rules appended at offset {offset} cannot be read back"
            )
        self.log.seek(self.index.next_offset)

    def _read_so_far(self) -> str:
        return (
            f"index {self._config.index.path} belongs to log {self.index.log_id} and has read it up to offset "
            f"{self.index.next_offset}"
        )

    def _lose(self, reason: str) -> None:
        """Refuse to continue without a history; with ``new_log`` move the index aside, continue with an empty one."""
        if not self._new_log:
            raise lost_log_error(reason)
        path = self._config.index.path
        # a
        if self.damage is None:
            self.index.close()
        kept = keep_aside(path)
        command = f"stream-dedup index stats --index {shlex.quote(str(kept))}"
        where = "" if kept is None else f"; the index is kept in {kept} ({command})"
        log.warning("%s; the log is accepted as it is%s", reason, where)
        # b
        self._empty(None)

    def _empty(self, reason: str | None) -> None:
        """Replace the index by an empty one; log the reason."""
        if self.damage is None:
            self.index.close()
        if reason is not None:
            log.warning("%s; it is rebuilt from the log", reason)
        path, settings = self._config.index.path, index_settings_of(self._config)
        emptied = LogIndex.open(path, scheme=self.rules.scheme, settings=settings, emptied=True)
        self.index, self.damage = self._opened.enter_context(emptied), None
