"""Enters archives into a log: each article once, whatever ended an earlier call.

    1  Read the log to its end: what it has of these sources, and its rules. An empty log begins with the
       configuration's rules; other rules are refused.
    2  Read the articles. Those that the log has are skipped; one that the log has with another checksum is refused.
    3  Fingerprint the others.
    4  Append them, as seeded batches: no output is owed for them. Reading, fingerprinting and appending overlap.
    5  Wait until every batch is acknowledged.
    6  See that the log is still the one that was read.

Nothing else is kept: the log says how far an earlier call has come. If an append is not acknowledged, the call ends; it
may be in the log, or come into it later, after another call has appended the same articles. Both are harmless, as are
two calls at the same time: of the same coordinates logged twice, the first entry counts.

A log that was recreated meanwhile has other articles, and no rules before these batches. Kafka would append to it all
the same. So step 4 checks now and then, too, that the log is still the one that was read.

What the log has of a source partition are offsets and checksums (``LoggedArticles``). A batch covers every offset from
its first to its last. An offset between them without an entry, a blank line for example, had no article when the batch
was logged, and an article that came there later would never be one: it counts as changed, as does an article with
another checksum.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.config.model import Config
from stream_dedup.core.arrays import I64, U64
from stream_dedup.core.columns import Columns
from stream_dedup.core.decode import RawRecord
from stream_dedup.core.entry import Batch, Payload, make_batch
from stream_dedup.core.model import LogOffset, ReportStage, SourceOffset, Status
from stream_dedup.core.rules import Rules
from stream_dedup.errors import RefusedError
from stream_dedup.files.inputs import Progress, in_order
from stream_dedup.kafka.log import ForgottenOffsets, WaitingLog
from stream_dedup.kafka.rules_log import RulesHistory, begin_with_rules, refuse_other_rules
from stream_dedup.seed.archives import Archive, SeedBatch, SeedSource
from stream_dedup.threads import FingerprintThreads

_SourceId = tuple[bytes, int]
"""Topic id and partition."""


class _FoundOffsets(NamedTuple):
    """For each of some offsets: whether the log has it or has forgotten it, whether with another checksum."""

    logged: NDArray[np.bool_]
    changed: NDArray[np.bool_]
    unchecked: NDArray[np.bool_]
    """Forgotten: it was logged, but its checksum is not known."""


@dataclass(frozen=True, slots=True)
class _LoggedPartition:
    """What is logged of one source partition, by rising offset; of several copies the first."""

    offsets: I64
    checksums: U64
    gaps: I64
    """Offsets without an entry inside a batch, as rows of the first one and the one after the last."""
    forgotten_before: SourceOffset
    """Everything at a lower offset was logged and is forgotten: its checksum is not known."""

    def find(self, offsets: I64, checksums: U64) -> _FoundOffsets:
        """Look up articles by their offsets."""
        forgotten = offsets < self.forgotten_before
        if not len(self.offsets):
            return _FoundOffsets(forgotten, np.zeros(len(offsets), np.bool_), forgotten)
        at = np.minimum(np.searchsorted(self.offsets, offsets), len(self.offsets) - 1)
        known = self.offsets[at] == offsets
        came_later = ~known & ~forgotten & self._in_gap(offsets)
        changed = came_later | (known & (self.checksums[at] != checksums))
        return _FoundOffsets(known | forgotten, changed, forgotten & ~known)

    def _in_gap(self, offsets: I64) -> NDArray[np.bool_]:
        if not len(self.gaps):
            return np.zeros(len(offsets), np.bool_)
        # Gaps may overlap: an offset is in one if one of those that begin at or before it ends behind it.
        ends = np.maximum.accumulate(self.gaps[:, 1])
        before = np.searchsorted(self.gaps[:, 0], offsets, "right") - 1
        return np.asarray((before >= 0) & (ends[before] > offsets), np.bool_)


class LoggedArticles:
    """Follows a log from its first record on, and then what is appended to it; 16 bytes for each article."""

    def __init__(self, wanted: Collection[_SourceId]) -> None:
        """Keep what is logged of these source partitions."""
        self._wanted = frozenset(wanted)
        self._parts: dict[_SourceId, list[tuple[I64, U64]]] = defaultdict(list)
        self._gaps: dict[_SourceId, list[I64]] = defaultdict(list)
        self._forgotten = ForgottenOffsets()

    def follow(self, payload: Payload) -> None:
        """Take note of the next record of the log."""
        self._forgotten.follow(payload)
        if isinstance(payload, Batch) and (payload.topic_id, payload.partition) in self._wanted:
            source = (payload.topic_id, payload.partition)
            self.add(source, payload.offsets, payload.checksums)
            if payload.offsets[-1] - payload.offsets[0] >= len(payload):
                at = np.flatnonzero(np.diff(payload.offsets) > 1)
                self._gaps[source].append(np.stack((payload.offsets[at] + 1, payload.offsets[at + 1]), axis=1))

    def add(self, source: _SourceId, offsets: I64, checksums: U64) -> None:
        """Take note of articles that are being appended."""
        self._parts[source].append((offsets, checksums))

    def of(self, source: _SourceId) -> _LoggedPartition:
        """Return what is known of a source partition now."""
        parts = self._parts[source] or [(np.zeros(0, np.int64), np.zeros(0, np.uint64))]
        offsets, first = np.unique(np.concatenate([part[0] for part in parts]), return_index=True)
        checksums = np.concatenate([part[1] for part in parts])[first]
        self._parts[source] = [(offsets, checksums)]
        gaps = np.concatenate([np.zeros((0, 2), np.int64), *self._gaps[source]])
        gaps = gaps[np.argsort(gaps[:, 0])]
        return _LoggedPartition(offsets, checksums, gaps, self._forgotten.below(*source))


SHOWN_REJECTED = 5
"""Rejected articles that are named with their reason; all of them are counted."""


@dataclass(slots=True)
class SeedTally:
    """What a call has done so far."""

    entered: int = 0
    present: int = 0
    """In the log already."""
    rejected: int = 0
    """Unreadable: logged as rejected, with the reason."""
    examples: list[str] = field(default_factory=list)
    """The first rejected articles: where they are, and why."""
    unchecked: int = 0
    """Of ``present`` those that a trim has forgotten: whether they are the same articles is not known."""
    progress: Progress = field(default_factory=Progress)
    """In bytes of the files, or in offsets of the topic."""


class _MissingArticles(NamedTuple):
    """Rows of a batch that the log does not have."""

    archive: Archive
    batch: SeedBatch
    rows: I64


@dataclass(frozen=True, slots=True)
class ReadLog:
    """A log that was read to its end."""

    log: WaitingLog
    logged: LoggedArticles
    end: LogOffset


LOG_ID_CHECK_S = 1.0
"""Seconds between two requests for the id of the log's topic: a request takes some milliseconds."""


class SameLog:
    """Whether the log is still the one that was read: a recreated topic has another id."""

    def __init__(self, topic: str, read_id: Callable[[], bytes | None]) -> None:
        """Read the id; ``read_id`` returns None where there is no such topic."""
        self._topic = topic
        self._read_id = read_id
        self._id = read_id()
        self._read_at = time.monotonic()

    def check(self) -> None:
        """Compare the id, at most once in ``LOG_ID_CHECK_S``; raises as ``check_now``."""
        if time.monotonic() - self._read_at >= LOG_ID_CHECK_S:
            self.check_now()

    def check_now(self) -> None:
        """Compare the id.

        Raises:
            RefusedError: it is another one, or gone.
            UnavailableError: the broker did not answer in time.
        """
        if self._read_id() != self._id:
            raise RefusedError(
                f"the log {self._topic} was deleted or recreated while articles were entered; some may be in the new "
                "one before its rules: delete it again, then start the command again"
            )
        self._read_at = time.monotonic()


def read_log(config: Config, log: WaitingLog, wanted: Collection[tuple[bytes, int]], progress: ReportStage) -> ReadLog:
    """Read the log, and begin an empty one (step 1).

    Raises:
        RefusedError: the rules in force are not the configuration's.
        UnavailableError: the broker did not answer in time.
        CorruptError: a record cannot be read.
    """
    logged = LoggedArticles(wanted)
    first, end = log.bounds()
    history = RulesHistory(first, end)
    for records in log.read(first, end):
        for record in records:
            logged.follow(record.payload)
            if isinstance(record.payload, Rules):
                history.append(record.offset, int(record.time), record.payload)
        if records:
            progress("log records read", records[-1].offset + 1 - first, end - first)
    begin_with_rules(config, log, history)
    refuse_other_rules(config, history.in_force)
    return ReadLog(log, logged, end)


class Seeding:
    """Steps 2 to 5."""

    def __init__(
        self,
        read: ReadLog,
        same_log: SameLog,
        fingerprinter: FingerprintThreads[RawRecord],
        most_submitted: int,
        tally: SeedTally,
    ) -> None:
        """At most ``most_submitted`` batches are fingerprinted, or wait to be, at a time."""
        self._read = read
        self._same_log = same_log
        self._fingerprinter = fingerprinter
        self._ahead = most_submitted
        self._tally = tally

    def enter(self, archives: Iterable[Archive], report: Callable[[], None]) -> None:
        """Enter every article of these archives; ``report`` is called after each batch.

        Raises:
            RefusedError: the log has another article with the same coordinates, or was recreated.
            UserError: an archive cannot be read, or the broker refuses appends.
            UnavailableError: the broker did not acknowledge an append; the same call goes on.
        """
        missing = self._missing(archives, report)
        # 3, 4
        for done in in_order(missing, lambda new: new.batch.columns(new.rows, self._fingerprinter), self._ahead):
            if done is not None:
                self._append(*done)
            report()
        # 5
        self._read.log.wait_for_appends()
        # 6
        self._same_log.check_now()

    def _missing(self, archives: Iterable[Archive], report: Callable[[], None]) -> Iterator[_MissingArticles | None]:
        """Yield what the log does not have (step 2), and ``None`` where an archive has no articles at present."""
        for archive in archives:
            known: dict[SeedSource, _LoggedPartition] = {}
            for batch in archive.batches():
                if batch is None:
                    yield None
                    continue
                source = batch.source
                if source not in known:
                    known[source] = self._read.logged.of(source[:2])
                checksums = batch.checksums
                found = known[source].find(batch.offsets, checksums)
                if found.changed.any():
                    raise _changed(archive, batch, int(np.flatnonzero(found.changed)[0]))
                rows = np.flatnonzero(~found.logged)
                self._tally.present += len(batch.offsets) - len(rows)
                self._tally.unchecked += int(found.unchecked.sum())
                if len(rows):
                    self._read.logged.add(source[:2], batch.offsets[rows], checksums[rows])
                    yield _MissingArticles(archive, batch, rows)
                else:
                    report()

    def _append(self, new: _MissingArticles, columns: Columns) -> None:
        """Append articles that are fingerprinted."""
        source, reasons = new.batch.source, new.batch.rejected
        columns = columns.rejected({at: reasons[row] for at, row in enumerate(new.rows.tolist()) if row in reasons})
        offsets = new.batch.offsets[new.rows]
        entries = make_batch(columns, source.topic_id, source.topic, source.partition, offsets, read_to=self._read.end)
        self._same_log.check()
        self._read.log.append_soon(replace(entries, seeded=True))
        rejected = np.flatnonzero(columns.statuses == Status.REJECTED)
        self._tally.entered += len(columns) - len(rejected)
        self._tally.rejected += len(rejected)
        for row in rejected.tolist()[: SHOWN_REJECTED - len(self._tally.examples)]:
            location = new.archive.location(source, SourceOffset(int(offsets[row])))
            self._tally.examples.append(f"{location}: {columns.reasons[row]}")


def _changed(archive: Archive, batch: SeedBatch, row: int) -> RefusedError:
    location = archive.location(batch.source, SourceOffset(int(batch.offsets[row])))
    return RefusedError(
        f"{location}: the log has another article, or none, with these coordinates: {archive.remedy}. "
        "Neither this article nor any after it was entered"
    )
