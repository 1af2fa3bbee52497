"""Opens the log and its index together, before anything is judged.

In order:

    1  check the topics and their settings; make the missing ones
    2  open the index and load its image; empty it if it belongs to another log or does not agree with this one: the
       index is only a cache of the log
    3  read the log to its end
    4  begin an empty log with the configuration's rules
    5  compare the rules in force with the configuration's: if they differ, stop and name the difference
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import xxhash

from stream_dedup.broker.client import make_admin
from stream_dedup.broker.log import LogAppender, LogReader
from stream_dedup.broker.retry import patiently
from stream_dedup.broker.topics import ensure_topics, topic_ids
from stream_dedup.config.effective import index_settings_of, rules_of
from stream_dedup.core.model import LogOffset, is_only_in_index
from stream_dedup.core.progress import ReportProgress
from stream_dedup.errors import CorruptError, RefusedError, UnavailableError, UserError
from stream_dedup.index import LogIndex, only_copy_in
from stream_dedup.index.folder import ID_FILE
from stream_dedup.index.small_files import read_text, replace_text

if TYPE_CHECKING:
    from pathlib import Path

    from stream_dedup.config.model import Config
    from stream_dedup.core.rules import Rules

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """A log that was read to its end, and its index."""

    index: LogIndex
    reader: LogReader
    log_id: bytes
    first_offset: LogOffset
    scheme_id: str


def open_log(
    config: Config, progress: ReportProgress, *, image: ReportProgress | None = None, rebuild: bool = False
) -> OpenedLog:
    """Open index and log; calls ``progress`` with log offsets done and to do, ``image`` with parts of the image.

    Raises:
        UserError: wrong topics, or the index belongs to another process.
        RefusedError: the rules in force are not the configuration's.
    """
    rules = rules_of(config)
    # 1
    log_id = _ensure(config)
    reader = LogReader(config.kafka, config.log_topic)
    # 2
    first, end = reader.bounds(config.kafka.broker_wait_s)
    index = _emptied(config, rules) if rebuild else _open_index(config, rules, image)
    try:
        if not rebuild and (reason := _mismatch(config, index, reader, log_id, first, end)):
            index.close()
            index = _emptied(config, rules, f"index {config.index.path}: {reason}")
        if index.log_id is None:
            index.begin(str(uuid.UUID(bytes=log_id)))
        # 3
        _read_to_end(config, index, reader, progress, first)
        # 4
        if index.rules is None:
            _begin_log(config, index, reader, rules)
        # 5
        _check_rules(config, index, rules)
    except BaseException:
        index.close()
        reader.close()
        raise
    return OpenedLog(index, reader, log_id, first, rules.scheme.id)


def worker_id(config: Config) -> str:
    """Return the transactional id of the index folder; it stays the same over restarts.

    Raises:
        CorruptError: its file cannot be read, or holds no id.
    """
    path: Path = config.index.path / ID_FILE
    text = read_text(path)
    if text is None:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = f"{config.kafka.group}-{uuid.uuid4()}"
        replace_text(path, fresh + "\n")
        return fresh
    if not text.strip().isprintable() or not text.strip():
        msg = (
            f"{path} holds no transactional id: put it back from a copy, or delete it once no worker has had this "
            "index folder for the transaction time-out"
        )
        raise CorruptError(msg)
    return text.strip()


def _ensure(config: Config) -> bytes:
    admin = make_admin(config.kafka)
    try:
        ensure_topics(admin, config)
        ids = patiently(config.kafka, config.log_topic, lambda: topic_ids(admin, [config.log_topic]))
        if config.log_topic not in ids:
            msg = f"topic {config.log_topic} was there a moment ago and is gone; start again"
            raise UnavailableError(msg)
        return ids[config.log_topic]
    finally:
        admin.close()


def _open_index(config: Config, rules: Rules, image: ReportProgress | None) -> LogIndex:
    settings = index_settings_of(config)
    try:
        return LogIndex.open(config.index.path, scheme=rules.scheme, settings=settings, progress=image)
    except CorruptError as error:
        return _emptied(config, rules, str(error))


def _emptied(config: Config, rules: Rules, reason: str | None = None) -> LogIndex:
    """Replace the index by an empty one; log the reason."""
    path = config.index.path
    if only_copy_in(path):
        raise _files_index(path)
    if reason is not None:
        log.warning("%s; it is rebuilt from the log", reason)
    return LogIndex.open(path, scheme=rules.scheme, settings=index_settings_of(config), emptied=True)


def _files_index(path: Path) -> UserError:
    return UserError(
        f"index {path} was made by `stream-dedup filter` or stream_dedup.Index and is the only place of what it holds; "
        "name another folder with --index"
    )


def _mismatch(  # noqa: PLR0911 - one argument and one answer for each thing that must agree
    config: Config, index: LogIndex, reader: LogReader, log_id: bytes, first: int, end: int
) -> str | None:
    """Return why the index does not belong to this log, or None."""
    if index.log_id is None:
        return None
    if is_only_in_index(index.log_id):
        raise _files_index(config.index.path)
    if index.log_id != str(uuid.UUID(bytes=log_id)):
        return f"it belongs to another log ({index.log_id})"
    if index.next_offset > end:
        return f"it has read up to log offset {index.next_offset}, but the log ends at {end}"
    if index.next_offset < first:
        return f"it has read up to log offset {index.next_offset}, but the log now begins at {first}"
    if index.last_checksum is None or index.next_offset == first:
        return None
    last = index.next_offset - 1
    for records in reader.read(last, last + 1, config.kafka.broker_wait_s):
        if xxhash.xxh3_64_intdigest(records[0].raw) == index.last_checksum:
            return None
    return f"the log has another record at offset {last}"


def _read_to_end(config: Config, index: LogIndex, reader: LogReader, progress: ReportProgress, first: int) -> None:
    start = max(index.next_offset, first)
    _, end = reader.bounds(config.kafka.broker_wait_s)
    for records in reader.read(start, end, config.kafka.broker_wait_s):
        if records:
            index.apply(records)
            progress(records[-1].offset + 1 - start, end - start)
    reader.seek(max(index.next_offset, first))


def _begin_log(config: Config, index: LogIndex, reader: LogReader, rules: Rules) -> None:
    """Append the first rules; if two workers begin a log at the same time, the first record wins."""
    appender = LogAppender(config.kafka, config.log_topic)
    try:
        offset = appender.append_now(replace(rules, revision=1))
    finally:
        appender.close()
    start = index.next_offset
    for records in reader.read(start, offset + 1, config.kafka.broker_wait_s):
        index.apply(records)
    if index.rules is None:
        msg = f"topic {config.log_topic}: the rules appended at offset {offset} cannot be read back"
        raise UnavailableError(msg)
    reader.seek(index.next_offset)


def _check_rules(config: Config, index: LogIndex, rules: Rules) -> None:
    in_force = index.rules
    differences = rules.differences(in_force) if in_force is not None else ["the log has no rules"]
    if differences:
        msg = (
            f"the rules in force in {config.log_topic} are not the configuration's: {'; '.join(differences)}. "
            "Either configure what is in force, or make the change on purpose: stream-dedup rules apply "
            "(a new scheme needs a new log: another --group)"
        )
        raise RefusedError(msg)
