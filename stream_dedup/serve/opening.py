"""Opens the log of a group and the index of the service together. Nothing is written to Kafka.

In order:

    1  look for the log until it is there and has records
    2  open the index, and connect to the log
    3  empty an index that is damaged or of another log; keep one aside that is, or may be, the last copy of a history
    4  read the log to its end

It is what a worker does when it starts (``worker.opening``), except that no log is begun, no topic is made, the rules
of the configuration do not count, and a log that lost its history is no reason to stop: the service promises no
verdict, and follows what the workers follow.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stream_dedup.broker.log import WaitingLog
from stream_dedup.config.effective import index_settings_of
from stream_dedup.config.sections import SERVED_INDEX
from stream_dedup.errors import CorruptError, UserError
from stream_dedup.index import LogIndex, is_unknown, keep_aside, only_copy_in
from stream_dedup.serve.position import OPENING, Activity
from stream_dedup.worker.agreement import Disagreement, disagreement_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stream_dedup.config.model import Config
    from stream_dedup.ports import FingerprintLog
    from stream_dedup.worker.log_topic import LogTopic

log = logging.getLogger(__name__)

Say = Callable[[Activity], None]
"""Takes what is being done, for those who wait. May raise, to end the opening."""


@dataclass(frozen=True, slots=True)
class ServedLog:
    """A log that was read to its end, with the index of the service."""

    index: LogIndex
    log: FingerprintLog
    log_id: str


@contextmanager
def opened_log(config: Config, topic: LogTopic, log_id: bytes, say: Say) -> Iterator[ServedLog]:
    """Do steps 2 to 4, and close both at the end.

    Raises:
        UserError: the index belongs to another process, or its folder holds other things.
        RefusedError: the log was cut while it was read.
        UnavailableError: the broker did not answer in time.
        CorruptError: a log record cannot be read.
    """
    with ExitStack() as stack:
        # 2
        say(OPENING)
        folder = _ServedIndex(config.serve.data_dir / SERVED_INDEX, config)
        stack.callback(folder.close)
        folder.open()
        port = topic.connect()
        stack.callback(port.close)
        waiting = WaitingLog(port, config)
        # 3
        folder.agree(lambda index: disagreement_of(index, log_id, waiting, topic, config.log_topic))
        index = folder.index
        if index.log_id is None:
            index.begin(str(uuid.UUID(bytes=log_id)))
        # 4
        first, end = waiting.bounds()
        start = max(index.next_offset, first)
        for records in waiting.read(start, end):
            for record in records:
                index.apply([record])
                say(Activity.reading(record.offset + 1 - start, end - start))
        port.seek(max(index.next_offset, first))
        yield ServedLog(index, port, str(index.log_id))


class _ServedIndex:
    """The index folder of the service, and the index that is open in it."""

    def __init__(self, path: Path, config: Config) -> None:
        self._path = path
        self._settings = index_settings_of(config)
        self._index: LogIndex | None = None
        self._damage: str | None = None

    @property
    def index(self) -> LogIndex:
        """The open index."""
        assert self._index is not None  # noqa: S101 - an order of our own, for the type checker
        return self._index

    def open(self) -> None:
        """Open the index, or keep the reason why it is damaged."""
        if only_copy_in(self._path):
            msg = (
                f"serve.data_dir: {self._path} was made by `stream-dedup filter` or stream_dedup.Index and is the only "
                "place of what it holds; name another folder with --data-dir"
            )
            raise UserError(msg)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._index = LogIndex.open(self._path, scheme=None, settings=self._settings)
        except CorruptError as error:
            self._damage = str(error)

    def agree(self, disagreement: Callable[[LogIndex], Disagreement | None]) -> None:
        """Make the index one of the log: an empty one, if it is damaged or does not agree with it."""
        found = None if self._damage is not None else disagreement(self.index)
        reason = self._damage if found is None else f"index {self._path}: {found.reason}"
        if reason is None:
            return
        self.close()
        where = ""
        may_be_last = is_unknown(self._path) if found is None else found.lost
        if may_be_last and (kept := keep_aside(self._path)) is not None:
            where = f"; what it had is kept in {kept}"
        log.warning("%s; it is built from the log again%s", reason, where)
        self._index = LogIndex.open(self._path, scheme=None, settings=self._settings, emptied=True)

    def close(self) -> None:
        """Close the index, if it is open."""
        if self._index is not None:
            self._index.close()
            self._index = None
