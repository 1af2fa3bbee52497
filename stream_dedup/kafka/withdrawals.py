"""Withdraws articles from a log, and lists what was withdrawn, by this command or by deletes of the source.

    1  Read the log: the articles with these ids, and which of them were withdrawn already.
    2  Append the others as withdrawals.
    3  Read the log up to the last withdrawal. If articles with these ids came in between, go on at step 2.

So every article with one of the ids that is before the last withdrawal is withdrawn. One that is logged later is a new
article and matches again: that is how a withdrawal is undone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stream_dedup.core.columns import as_stored
from stream_dedup.core.entry import MAX_WITHDRAWN, Batch, LogRecord, Withdrawal
from stream_dedup.core.model import Coordinates, LogOffset, LogPosition, Status, log_offset_of, log_position, row_of
from stream_dedup.core.reasons import UNKNOWN_SCHEMA, code_of
from stream_dedup.kafka.clients import connect_log
from stream_dedup.kafka.log import ForgottenOffsets

if TYPE_CHECKING:
    from stream_dedup.config.model import Config
    from stream_dedup.core.model import ReportStage
    from stream_dedup.kafka.log import WaitingLog

_BY_COMMAND = code_of(UNKNOWN_SCHEMA.format(id=0))
"""Code of a rejection that only the command logs."""


_ABSENT = "name the group whose articles are meant with --group"
"""What to do where there is no log."""


class Wanted(NamedTuple):
    """The articles that are to be withdrawn: by their ids, of one source topic or of all."""

    ids: Sequence[str]
    topic: str | None = None


@dataclass(frozen=True, slots=True)
class WithdrawnId:
    """What was done about one id: numbers of articles."""

    id: str
    withdrawn: int
    before: int
    """Withdrawn by an earlier call."""

    @property
    def is_known(self) -> bool:
        """Whether the log has an article with this id."""
        return bool(self.withdrawn or self.before)


class WithdrawnEntry(NamedTuple):
    """An article that was withdrawn."""

    id: str
    topic: str
    coordinates: Coordinates
    position: LogPosition
    withdrawn_at: LogOffset
    """The log record that withdrew it first, and its log time in ms."""
    withdrawn_ms: int


class _By(NamedTuple):
    """The first log record that withdraws an article: its log offset and its log time in ms."""

    offset: LogOffset
    time_ms: int


@dataclass(slots=True)
class _ArticlesWithIds:
    """The articles with the wanted ids, as far as the log was read."""

    wanted: Wanted
    positions: dict[str, set[LogPosition]] = field(init=False)
    withdrawn: dict[LogPosition, _By] = field(default_factory=dict)
    _ids: dict[str, str] = field(init=False)
    _since_delete: defaultdict[str, list[LogPosition]] = field(default_factory=lambda: defaultdict(list))
    """By their ids as they are in the log: those before the last delete are withdrawn."""
    _seen: set[Coordinates] = field(default_factory=set)
    _forgotten: ForgottenOffsets = field(default_factory=ForgottenOffsets)

    def __post_init__(self) -> None:
        self._ids = {as_stored(one): one for one in self.wanted.ids}
        self.positions = {one: set() for one in self.wanted.ids}

    def follow_all(self, records: Iterable[LogRecord]) -> None:
        """Take note of the next records of the log."""
        for record in records:
            self.follow(record)

    def follow(self, record: LogRecord) -> None:
        """Take note of the next record of the log."""
        self._forgotten.follow(record.payload)
        if isinstance(record.payload, Withdrawal):
            self._withdraw(record.payload.positions, record)
        elif isinstance(record.payload, Batch):
            self._add(record, record.payload)

    def _add(self, record: LogRecord, batch: Batch) -> None:
        """Add the articles of a batch; a copy of coordinates that were logged before is no article, and no delete.

        Before a copy with another id there may only be a rejection by the command (``rejections``).
        """
        for row in np.flatnonzero(batch.statuses == Status.REJECTED).tolist():
            if code_of(batch.reason(row)) == _BY_COMMAND:
                self._seen.add(batch.coordinates(row))
        forgotten_before = self._forgotten.below(batch.topic_id, batch.partition)
        for row, one in enumerate(batch.ids):
            if one not in self._ids or batch.statuses[row] == Status.REJECTED:
                continue
            coordinates = batch.coordinates(row)
            if coordinates in self._seen or coordinates.offset < forgotten_before:
                continue
            self._seen.add(coordinates)
            if batch.statuses[row] == Status.DELETE:
                self._withdraw(self._since_delete.pop(one, ()), record)
            elif self.wanted.topic in {None, batch.topic}:
                position = log_position(record.offset, row)
                self.positions[self._ids[one]].add(position)
                self._since_delete[one].append(position)

    def _withdraw(self, positions: Iterable[LogPosition], record: LogRecord) -> None:
        for position in positions:
            self.withdrawn.setdefault(position, _By(record.offset, int(np.max(record.time))))

    def left(self) -> list[LogPosition]:
        """Return the log positions that are not withdrawn, in order."""
        return sorted(set().union(*self.positions.values()) - self.withdrawn.keys())


def withdraw(log: WaitingLog, wanted: Wanted, progress: ReportStage, *, dry_run: bool = False) -> list[WithdrawnId]:
    """Withdraw every article that has one of these ids; say for each id what was done, or would be.

    Raises:
        UserError: this client has no right to read the log, or to append.
        UnavailableError: the broker did not answer in time; the same call goes on.
        CorruptError: a record cannot be read.
    """
    found = _ArticlesWithIds(wanted)
    # 1
    start, end = log.bounds()
    found.follow_all(log.follow(start, end, progress))
    before = set(found.withdrawn)
    while not dry_run and (left := found.left()):
        # 2
        parts = [tuple(left[at : at + MAX_WITHDRAWN]) for at in range(0, len(left), MAX_WITHDRAWN)]
        start, end = end, LogOffset(max(log.append_now(Withdrawal(part)) for part in parts) + 1)
        # 3
        found.follow_all(log.follow(start, end, progress))
    return [
        WithdrawnId(one, len(positions - before), len(positions & before)) for one, positions in found.positions.items()
    ]


def withdrawn_entries(log: WaitingLog, progress: ReportStage) -> list[WithdrawnEntry]:
    """Return every article of the log that is withdrawn, by log position; raises as ``withdraw``."""
    found, deleted = _ArticlesWithIds(Wanted(())), set[str]()
    for record in log.read_all(progress):
        found.follow(record)
        if isinstance(record.payload, Batch):
            deletes = np.flatnonzero(record.payload.statuses == Status.DELETE)
            deleted.update(record.payload.id(row) for row in deletes.tolist())
    if deleted:
        found = _ArticlesWithIds(Wanted(sorted(deleted)))
        found.follow_all(log.read_all(progress))
    withdrawals = found.withdrawn
    first, _ = log.bounds()
    rows: dict[LogOffset, list[LogPosition]] = defaultdict(list)
    for position in sorted(withdrawals):
        if log_offset_of(position) >= first:
            rows[log_offset_of(position)].append(position)
    if not rows:
        return []
    again = log.follow(min(rows), LogOffset(max(rows) + 1), progress, "log records read again")
    return [one for record in again if record.offset in rows for one in _entries(record, rows, withdrawals)]


def connected_withdraw(
    config: Config, wanted: Wanted, progress: ReportStage, *, dry_run: bool = False
) -> list[WithdrawnId]:
    """Withdraw from the log of the configuration's group; raises as ``withdraw``."""
    with closing(connect_log(config, _ABSENT)) as log:
        return withdraw(log, wanted, progress, dry_run=dry_run)


def connected_list(config: Config, progress: ReportStage) -> list[WithdrawnEntry]:
    """List from the log of the configuration's group; raises as ``withdraw``."""
    with closing(connect_log(config, _ABSENT)) as log:
        return withdrawn_entries(log, progress)


def _entries(
    record: LogRecord, rows: dict[LogOffset, list[LogPosition]], withdrawals: dict[LogPosition, _By]
) -> Iterator[WithdrawnEntry]:
    batch = record.payload
    if not isinstance(batch, Batch):
        return
    for position in rows[record.offset]:
        row = row_of(position)
        if row < len(batch):
            yield WithdrawnEntry(batch.id(row), batch.topic, batch.coordinates(row), position, *withdrawals[position])
