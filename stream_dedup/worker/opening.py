"""Opens the log and its index together, before anything is judged.

In order:

    1  read the group's committed offsets, then look for its log
    2  refuse to begin a log where offsets show that there was one
    3  check the topics and their settings; let the broker check those that are missing
    4  compare the scheme of the log's first rules with the configuration's
    5  open the index and read its newest rows
    6  refuse to begin a log where the index shows that there was one
    7  refuse an index that is the last copy of a history, or of a part of it; empty one that is only a cache and does
       not agree with the log
    8  read the log to its end
    9  compare the rules in force with the configuration's: if they differ, stop and name the difference
    10 make the missing topics
    11 begin an empty log with the configuration's rules

Steps 7 to 9 need a log: where there is none, they come after step 10. Nothing is made in Kafka before step 10, and no
index before step 5: a start that is refused has made no topic, and no index but a cache of a log that was read.

Steps 2, 6 and 7 refuse what would lose the history (``kafka.rules_log``). With ``new_log`` they accept
the log as it is:

    a  the index is kept aside (``index.folder``)
    b  an empty index becomes current in its place

and step 10 makes the topic, 7 binds the index to it, 11 begins it. The group's committed offsets stay. If the process
ends between any two of these, the group's offsets still show a history, and the same call goes on; a second index is
not kept, because an empty one is the last copy of nothing.
"""

from __future__ import annotations

import logging
import shlex
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stream_dedup.config.effective import index_settings_of, rules_of
from stream_dedup.core.model import LogOffset
from stream_dedup.core.progress import ReportProgress
from stream_dedup.core.rules import Rules
from stream_dedup.errors import CorruptError, UnavailableError, UserError
from stream_dedup.index import LogIndex, keep_aside, only_copy_in, refuse_unknown
from stream_dedup.kafka.log import WaitingLog
from stream_dedup.kafka.rules_log import (
    FoundLog,
    LostLog,
    RulesHistory,
    lost_log_error,
    offsets_without_log,
    read_rules_on,
    refuse_other_rules,
    refuse_other_scheme,
)
from stream_dedup.worker.agreement import Disagreement, disagreement_of, is_last_copy

if TYPE_CHECKING:
    from pathlib import Path

    from stream_dedup.config.model import Config
    from stream_dedup.index import IndexStats
    from stream_dedup.ports import FingerprintLog
    from stream_dedup.worker.log_topic import LogTopic, PreparedLog

log = logging.getLogger(__name__)


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
    """What a rebuild would delete and read."""

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
    history that offsets or index show. The log is left at the offset after the last record applied; the caller closes
    index and log.

    Raises:
        UserError: wrong topics, or the index belongs to another process.
        RefusedError: the rules in force are not the configuration's, or the log lost its history.
        UnavailableError: the broker did not answer in time.
    """
    opening = _Opening(config, topic, rebuild=rebuild, new_log=new_log)
    try:
        # 1
        found = topic.find()
        # 2
        opening.refuse_offsets_without_log(found)
        # 3
        topic.check()
        # 4
        if found.log_id is not None:
            opening.connect()
            opening.check_scheme()
        # 5
        opening.open_index()
        # 6
        opening.refuse_without_log(found)
        # 7, 8, 9
        if found.log_id is not None:
            first = opening.follow(found.log_id, progress)
        # 10
        prepared = opening.prepare(found)
        if found.log_id is None:
            # 7, 8, 9: another worker may have begun it meanwhile.
            opening.connect()
            first = opening.follow(prepared.log_id, progress)
        # 11
        if opening.index.rules is None:
            opening.begin_log()
            opening.check_rules(opening.index.rules)
    except BaseException:
        opening.close()
        raise
    return OpenedLog(opening.index, opening.log, prepared.log_id, first, opening.rules.scheme.id, prepared.record_bytes)


def plan_rebuild(config: Config, topic: LogTopic, progress: ReportProgress) -> RebuildPlan:
    """Return what ``open_log`` with ``rebuild`` would do; nothing is made or changed.

    It reads the log once for its rules, and refuses what a rebuild would refuse after the index is emptied.

    Raises:
        UserError: there is no index, it is no cache, another process uses it, or the log has another scheme.
        RefusedError: the rules in force are not the configuration's, or the log lost its history.
        UnavailableError: the broker did not answer in time.
    """
    opening = _Opening(config, topic, rebuild=True, new_log=False)
    try:
        found = topic.find()
        opening.refuse_offsets_without_log(found)
        opening.read_index()
        opening.refuse_without_log(found)
        if found.log_id is None:
            return RebuildPlan(opening.stats(), found.first, found.end)
        opening.connect()
        opening.refuse_lost(found.log_id)
        history = RulesHistory(*opening.waiting.bounds())
        read_rules_on(opening.waiting, history, history.first, progress)
        if history.in_force is not None:
            opening.check_rules(history.in_force)
        return RebuildPlan(opening.stats(), history.first, history.end)
    finally:
        opening.close()


class _Opening:
    """The steps of ``open_log``, and what they have opened so far."""

    def __init__(self, config: Config, topic: LogTopic, *, rebuild: bool, new_log: bool) -> None:
        self._config = config
        self._topic = topic
        self.rules = rules_of(config)
        self._rebuild = rebuild
        self._new_log = new_log
        self._index: LogIndex | None = None
        self._log: FingerprintLog | None = None
        self._waiting: WaitingLog | None = None
        self._damage: str | None = None
        """Why the index could not be opened."""

    @property
    def index(self) -> LogIndex:
        """The index, from step 5 on if it is not damaged, else from step 7 on."""
        assert self._index is not None  # noqa: S101 - an order of our own, for the type checker
        return self._index

    @property
    def log(self) -> FingerprintLog:
        """The log, from step 4 on if there is one, else from step 10 on."""
        assert self._log is not None  # noqa: S101 - as above
        return self._log

    @property
    def waiting(self) -> WaitingLog:
        """The log, with the errors that end a start; as ``log``."""
        assert self._waiting is not None  # noqa: S101 - as above
        return self._waiting

    def close(self) -> None:
        """Close what is open."""
        if self._index is not None:
            self._index.close()
        if self._log is not None:
            self._log.close()

    def open_index(self) -> None:
        """Open the index, or keep the reason why it cannot be read (step 5)."""
        path, settings = self._config.index.path, index_settings_of(self._config)
        if only_copy_in(path):
            raise _files_index(path)
        # An index of another scheme is refused, except where it is emptied anyhow.
        scheme = None if self._rebuild else self.rules.scheme
        try:
            self._index = LogIndex.open(path, scheme=scheme, settings=settings)
        except CorruptError as error:
            refuse_unknown(path)
            self._damage = str(error)

    def read_index(self) -> None:
        """Open the index for reading only, or keep the reason why it cannot be read."""
        if only_copy_in(self._config.index.path):
            raise _files_index(self._config.index.path)
        try:
            self._index = LogIndex.read(self._config.index.path, scheme=None)
        except CorruptError as error:
            self._damage = str(error)

    def stats(self) -> IndexStats | None:
        """Return the figures of the index; None if it is damaged."""
        return None if self._index is None else self._index.stats()

    def refuse_offsets_without_log(self, found: FoundLog) -> None:
        """Refuse to begin a log if the group's offsets show that there was one (step 2)."""
        reason = offsets_without_log(self._config, found)
        if reason is not None and not self._new_log:
            raise lost_log_error(reason)

    def check_scheme(self) -> None:
        """Refuse a log of another scheme, by its first record, which is a rules record (step 4)."""
        first, end = self.waiting.bounds()  # as they are now: another worker may have trimmed the log since step 1
        for records in self.waiting.read(first, min(end, LogOffset(first + 1))):
            for record in records:
                if isinstance(record.payload, Rules):
                    refuse_other_scheme(self._config, record.payload)

    def refuse_without_log(self, found: FoundLog) -> None:
        """Refuse to begin a log if the index shows that there was one (step 6)."""
        if found.absence is None:
            return
        reason = offsets_without_log(self._config, found)
        if self._damage is not None:
            self._lose(reason or f"{self._damage}, and {found.absence}")
        elif is_last_copy(self.index, found.log_id, self._topic):
            self._lose(reason or f"{self._read_so_far()}, but {found.absence}")

    def connect(self) -> None:
        """Connect to the log."""
        self._log = self._topic.connect()
        self._waiting = WaitingLog(self._log, self._config)

    def refuse_lost(self, log_id: bytes) -> None:
        """Refuse a log that lost what the index has read of it; nothing is known of a damaged index."""
        found = None if self._damage is not None else self._disagreement(log_id)
        if found is not None and found.lost:
            self._lose(f"{self._read_so_far()}, but {found.reason}")

    def follow(self, log_id: bytes, progress: ReportProgress) -> LogOffset:
        """Read a log to its end, and refuse other rules than the configuration's; return its first offset."""
        # 7
        self.agree(log_id)
        # 8
        first = self.read_to_end(progress)
        # 9
        if self.index.rules is not None:
            self.check_rules(self.index.rules)
        return first

    def agree(self, log_id: bytes) -> None:
        """Make the index one of this log (step 7)."""
        if self._damage is not None:
            self._empty(None if self._rebuild else self._damage)
        elif (found := self._disagreement(log_id)) is not None and found.lost:
            self._lose(f"{self._read_so_far()}, but {found.reason}")
        elif found is not None and not self._rebuild:
            self._empty(f"index {self._config.index.path}: {found.reason}")
        elif self._rebuild:
            self._empty(None)
        if self.index.log_id is None:
            self.index.begin(str(uuid.UUID(bytes=log_id)))

    def read_to_end(self, progress: ReportProgress) -> LogOffset:
        """Apply the log up to its end (step 8); return its first offset."""
        first, end = self.waiting.bounds()
        start = max(self.index.next_offset, first)
        for records in self.waiting.read(start, end):
            if records:
                self.index.apply(records)
                progress(records[-1].offset + 1 - start, end - start)
        self.log.seek(max(self.index.next_offset, first))
        return first

    def prepare(self, found: FoundLog) -> PreparedLog:
        """Make the missing topics (step 10)."""
        prepared = self._topic.prepare()
        if found.log_id not in {None, prepared.log_id}:
            msg = f"topic {self._config.log_topic} was deleted and recreated while it was read; start again"
            raise UnavailableError(msg)
        return prepared

    def begin_log(self) -> None:
        """Append the first rules to an empty log (step 11); if two workers do so at once, the first record wins."""
        offset = self.waiting.append_now(replace(self.rules, revision=1))
        for records in self.waiting.read(self.index.next_offset, LogOffset(offset + 1)):
            self.index.apply(records)
        if self.index.rules is None:
            msg = f"topic {self._config.log_topic}: the rules appended at offset {offset} cannot be read back"
            raise UnavailableError(msg)
        self.log.seek(self.index.next_offset)

    def check_rules(self, in_force: Rules | None) -> None:
        """Refuse a configuration that differs from the rules in force (step 9)."""
        refuse_other_rules(self._config, in_force)

    def _disagreement(self, log_id: bytes) -> Disagreement | None:
        return disagreement_of(self.index, log_id, self.waiting, self._topic, self._config.log_topic)

    def _read_so_far(self) -> str:
        return (
            f"index {self._config.index.path} belongs to log {self.index.log_id} and has read it up to offset "
            f"{self.index.next_offset}"
        )

    def _lose(self, reason: LostLog | str) -> None:
        """Refuse to go on without a history; with ``new_log`` keep the index aside and go on with an empty one."""
        if not self._new_log:
            raise lost_log_error(reason)
        path = self._config.index.path
        # a
        self._close_index()
        kept = keep_aside(path)
        command = f"stream-dedup index stats --index {shlex.quote(str(kept))}"
        where = "" if kept is None else f"; the index is kept in {kept} ({command})"
        log.warning("%s; the log is accepted as it is%s", reason, where)
        # b
        self._damage = None
        self._empty(None)

    def _empty(self, reason: str | None) -> None:
        """Replace the index by an empty one; log the reason."""
        self._close_index()
        if reason is not None:
            log.warning("%s; it is rebuilt from the log", reason)
        path, settings = self._config.index.path, index_settings_of(self._config)
        self._index = LogIndex.open(path, scheme=self.rules.scheme, settings=settings, emptied=True)

    def _close_index(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None


def _files_index(path: Path) -> UserError:
    return UserError(
        f"index {path} was made by `stream-dedup filter` or stream_dedup.Index and is the only place of what it holds; "
        "name another folder with --index"
    )
