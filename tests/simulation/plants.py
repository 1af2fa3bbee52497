"""Planted defects: each breaks one rule of the program, and the simulation must notice.

A plant patches the program (or, where the rule is the adapter's, the memory adapter) while a schedule runs. The command
``python -m tests.simulation --plants`` looks for the first seed that finds each, and writes docs/simulation.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np

from stream_dedup.config.effective import with_input_topics
from stream_dedup.config.model import Config
from stream_dedup.core.arrays import I64
from stream_dedup.core.entry import Batch, LogRecord, Trim
from stream_dedup.core.model import Judgement, LogOffset, ReportProgress, SourceOffset, Status, Verdict
from stream_dedup.core.query import Near, Query
from stream_dedup.index import applying
from stream_dedup.index.applying import Applied
from stream_dedup.index.judge import Accept, Judge, _JudgedArticles
from stream_dedup.index.layout import RowArray, SourceKey
from stream_dedup.index.records import StoredRecord, Withdrawn
from stream_dedup.index.store import Store
from stream_dedup.index.tables import Tables
from stream_dedup.index.trims import Coverage, TrimEffect, Trims
from stream_dedup.ports import CommittedOffset, Output, Partition, PassingError, PortError
from stream_dedup.worker import decoding, opening, watches
from stream_dedup.worker.assignments import Assignment, AssignmentOwner, JudgedBatch, PolledBatch
from stream_dedup.worker.committer import Committer
from stream_dedup.worker.decoding import HeldBatches
from stream_dedup.worker.engine import Engine
from stream_dedup.worker.source import BatchSource
from stream_dedup.worker.trimmer import Trimmer
from stream_dedup.worker.watches import TopicWatch
from tests.memory.group import Group
from tests.memory.sink import MemorySink
from tests.memory.source import MemorySource
from tests.memory.transactions import Transaction, TransactionalId, Transactions
from tests.simulation import world
from tests.simulation.memory_store import Change, MemoryStore
from tests.simulation.scheduler import VirtualClock

MOST_SEEDS = 3_000
"""A plant must be found within so many seeds."""


@dataclass(frozen=True, slots=True)
class Plant:
    """A defect, what it breaks, and how it is planted."""

    name: str
    claim: str
    make: Callable[[], AbstractContextManager[object]]


def _patched(*patches: tuple[object, str, Any]) -> Callable[[], AbstractContextManager[object]]:
    def make() -> AbstractContextManager[object]:
        stack = ExitStack()
        for owner, name, replacement in patches:
            stack.enter_context(patch.object(owner, name, replacement))
        return stack

    return make


# The worker.


def _end_at_once(self: AssignmentOwner, assignment: Assignment, _reason: str) -> None:
    """End an assignment without waiting for its batches."""
    if not assignment.ended:
        assignment.ended = True
        self.current = None


def _forget_ended(self: Engine) -> None:
    """Drop the batches of ended assignments without releasing them."""
    for pending in list(self._pending):
        if not self.assignments.is_working(pending.polled.assignment):
            self._pending.remove(pending)


_failed = Committer._failed


def _send_again(self: Committer, assignment: Assignment, batches: list[JudgedBatch], error: Exception) -> None:
    """Take an unknown outcome for a failure: send the same batches in another transaction."""
    if not isinstance(error, PassingError):
        _failed(self, assignment, batches, error)
        return
    self._renew()
    self._queue.extendleft(reversed(batches))


def _take_for_committed(self: Committer, assignment: Assignment, batches: list[JudgedBatch], error: Exception) -> None:
    """Take an unknown outcome for a success."""
    if not isinstance(error, PortError):
        _failed(self, assignment, batches, error)
        return
    self._renew()
    self._done(batches)


def _skip_to_end(self: opening._Opening, progress: ReportProgress) -> LogOffset:
    """Join the group without reading what was logged while the worker did not run."""
    first, end = self.log.bounds()
    if self.index.rules is None:
        found: LogOffset = _read_to_end(self, progress)
        return found
    self.log.seek(end)
    return LogOffset(first)


_read_to_end = opening._Opening.read_to_end
_step = Engine.step


def _newest_first(self: Engine) -> list[JudgedBatch]:
    """Hand over judged batches in the wrong order."""
    return list(reversed(_step(self)))


def _owing_nothing(self: Trimmer) -> int:
    """Trim as if every logged article had left."""
    return (self.index.state.newest or 0) - int(self.config.worker.clock_allowance_s * 1000)


_committed = MemorySource.committed


def _committed_of_any_topic(self: MemorySource, partition: Partition) -> CommittedOffset | None:
    found = _committed(self, partition)
    return None if found is None else found._replace(topic_id=None)


# The index.


def _load_without_forgotten(self: Coverage) -> None:
    """Keep nothing of the source offsets that a trim drops, but that there were some."""
    _load(self)
    vars(self)["known"] = vars(self).get("known", {}) | self.forgotten | self.last
    self.forgotten = {}


def _known(self: Coverage) -> dict[SourceKey, SourceOffset]:
    known: dict[SourceKey, SourceOffset] = vars(self)["known"] | self.last
    return known


def _covered(self: Coverage) -> dict[SourceKey, SourceOffset]:
    """Know only the partitions of which something is not trimmed."""
    return self.last


def _effect_anywhere(self: Trims, trim: Trim) -> TrimEffect:
    """Obey a trim whatever came between what it was computed from and its place in the log."""
    if trim.before < max(self.state.low_watermark, self.state.start or 0):
        return TrimEffect.VALID
    return TrimEffect.VALID if self._may_name(trim) else TrimEffect.VOID


_load = Coverage.load
_added_by = Withdrawn.added_by
_match = TopicWatch._match
_deleted_by = Applied._deleted_by
_outputs = Committer._outputs
_apply_batch = Applied._apply_batch


def _hidden_from_all(self: Withdrawn, found: Iterable[tuple[int, int, int]]) -> I64:
    """Hide what is withdrawn from the articles logged before, too, where they are judged later."""
    return _added_by(self, ((doc_number, 0, log_offset) for doc_number, _, log_offset in found))


def _matched_once(self: TopicWatch, now: float) -> None:
    """Look which topics match before the first answer only."""
    if not self.topics:
        _match(self, now)


def _with_an_output(config: Config, known: Callable[[], Iterable[str]]) -> Config:
    """Let patterns match the topic of duplicates, too."""
    found = with_input_topics(config, known)
    names = [*found.topics.input, *([config.topics.duplicate] if config.topics.patterns else [])]
    return found.model_copy(update={"topics": found.topics.model_copy(update={"input": names})})


def _deletes_and_copies(records: Sequence[StoredRecord]) -> Iterator[tuple[StoredRecord, int]]:
    """Take the copies of deletes for deletes."""
    for record in records:
        for row in np.flatnonzero(record.batch.statuses == Status.DELETE).tolist():
            yield record, row


def _delete_sent(self: Committer, batch: JudgedBatch) -> Iterator[Output]:
    """Send an output for a delete, as of a unique article."""
    judged = [Judgement(Verdict.UNIQUE) if one.verdict is Verdict.DELETE else one for one in batch.judgements]
    return _outputs(self, replace(batch, judgements=judged))


def _deleted_before(self: Applied, stored: Sequence[StoredRecord], rows: RowArray) -> Iterator[tuple[int, int, int]]:
    """Withdraw nothing that is in the same write as the delete."""
    return _deleted_by(self, stored, rows[:0])


def _withdrawn_of_nothing(self: Withdrawn, _store: Store) -> None:
    self.entries = np.empty((0, 3), np.int64)


def _apply_unseeded(self: Applied, record: LogRecord, batch: Batch) -> None:
    """Pass over what was seeded."""
    if not batch.seeded:
        _apply_batch(self, record, batch)
        return
    self._advance(record)
    self._write()


_receive = HeldBatches.receive
_divided = decoding.divided


def _received_past_held(self: HeldBatches, polled: Iterable[PolledBatch], now: float) -> list[PolledBatch]:
    """Let the later batches of a partition go on where the first one is held."""
    batches = list(polled)
    past = [batch for batch in batches if batch.partition in self._held and self._first_lacking(batch) is None]
    return past + _receive(self, [batch for batch in batches if batch not in past], now)


def _divided_behind_all(batch: PolledBatch, row: int) -> tuple[PolledBatch, PolledBatch]:
    """Commit the end of a batch with the part before the record that is held."""
    head, rest = _divided(batch, row)
    return replace(head, next=batch.next), rest


# The adapter and the store.


def _renew_unfenced(self: Transactions, name: str, _timeout_s: float) -> TransactionalId:
    """Start a producer without a new epoch, and leave the open transaction open."""
    return self._ids.setdefault(name, TransactionalId(name))


def _settled_or_not(self: Group, partition: Partition) -> CommittedOffset | None:
    return self.committed.get(partition)


def _kept_torn(self: MemoryStore, rng: Random) -> list[list[Change]]:
    """Lose one change of the last batch of writes that is kept."""
    kept = _kept(self, rng)
    if kept:
        lost = rng.randrange(len(kept[-1]))
        kept[-1] = kept[-1][:lost] + kept[-1][lost + 1 :]
    return kept


_kept = MemoryStore._kept


def _nothing(*_: object, **__: object) -> None:
    """Do nothing."""


def _no(*_: object, **__: object) -> bool:
    return False


def _none(*_: object, **__: object) -> list[JudgedBatch]:
    return []


def _end_in_any_order(self: Group, transaction: Transaction, *, committed: bool) -> None:
    """Commit or drop the offsets, whatever was committed since they were written."""
    offsets = self._pending.pop(transaction)
    if committed:
        self.committed.update({partition: offset for partition, (_, offset) in offsets.items()})


def _far_ahead(_: VirtualClock) -> int:
    """Return a time after every other: the newest log time is then the least."""
    return 1 << 50


def _yes(*_: object, **__: object) -> bool:
    return True


_near = Tables.near
_nearest = Judge._nearest


def _stored_first(self: Tables, query: Query) -> Near:
    """Check the entries of stored runs first, and what is in memory alone only where they are fewer than the bound."""
    stored = max((before for _, number, _, before in self.native.runs if number is not None), default=0)
    parts = [_near_stored_first(self, query.part(np.array([at])), stored) for at in range(len(query))]
    articles = np.repeat(np.arange(len(parts)), [len(part.queries) for part in parts])
    doc_numbers = np.concatenate([np.empty(0, np.int64), *(part.doc_numbers for part in parts)])
    distances = np.concatenate([np.empty(0, np.uint16), *(part.distances for part in parts)])
    compared = sum(part.candidates for part in parts)
    return Near(articles, doc_numbers, distances, compared)


def _near_stored_first(tables: Tables, article: Query, stored: int) -> Near:
    before = np.minimum(article.articles.before, stored)
    older = _near(tables, replace(article, articles=replace(article.articles, before=before)))
    bound = article.rules.candidates
    is_enough = bound is not None and older.candidates >= bound
    return older if is_enough else _near(tables, article)


def _one_copy(self: Judge, query: Query, own: _JudgedArticles, accept: Accept | None, *_: int) -> Any:  # noqa: ANN401
    return _nearest(self, query, own, accept, 1)


PLANTS = (
    Plant(
        "begin before the end",
        "a new assignment begins while a transaction of the one before is open",
        _patched((AssignmentOwner, "end", _end_at_once), (Committer, "_stop_if_ended", _nothing)),
    ),
    Plant(
        "room not given back",
        "batches of an ended assignment keep their room in flight",
        _patched((Engine, "_drop_ended_batches", _forget_ended)),
    ),
    Plant(
        "commit before the last acknowledgement",
        "a transaction is committed though a record of it may have been given up",
        _patched((MemorySink, "flush", _nothing)),
    ),
    Plant(
        "judged before the log was read to its end",
        "a worker joins before it has read what was logged meanwhile",
        _patched((opening._Opening, "read_to_end", _skip_to_end)),
    ),
    Plant(
        "append without a look at the topic's id",
        "articles of a topic that was recreated are logged under the id of the one before",
        _patched((Engine, "_is_of_its_topic", _yes)),
    ),
    Plant(
        "second start unfenced",
        "a second producer with the same transactional id goes on in the open transaction of the first",
        _patched((Transactions, "renew", _renew_unfenced)),
    ),
    Plant(
        "offsets by their markers",
        "of two transactions whose markers are late the group keeps the offsets of the first",
        _patched((Group, "end_pending", _end_in_any_order)),
    ),
    Plant(
        "offsets read while a transaction is open",
        "a partition begins at a committed offset that an open transaction is about to move",
        _patched((Group, "settled", _settled_or_not)),
    ),
    Plant(
        "unknown outcome sent again",
        "the articles of a transaction whose answer was lost are sent in another one",
        _patched((Committer, "_failed", _send_again)),
    ),
    Plant(
        "unknown outcome taken for a commit",
        "the articles of a transaction that failed are never sent again",
        _patched((Committer, "_failed", _take_for_committed)),
    ),
    Plant(
        "offsets without a proof of membership",
        "a worker that fell out of its group commits offsets of partitions that belong to another",
        _patched((Group, "check", _nothing)),
    ),
    Plant(
        "beginning not committed",
        "a worker that dies before its first commit makes its successor believe that the group lost its offsets",
        _patched((MemorySource, "commit_start", _nothing)),
    ),
    Plant(
        "position before what is in flight",
        "a position behind aborted records is committed while articles before it have not left",
        _patched((AssignmentOwner, "has_in_flight", _no)),
    ),
    Plant(
        "position not committed",
        "articles seem to wait where only markers and aborted records are left",
        _patched((BatchSource, "passed", _none)),
    ),
    Plant(
        "offset of another topic",
        "a topic that was recreated begins at the offset of the one before",
        _patched((MemorySource, "committed", _committed_of_any_topic)),
    ),
    Plant(
        "newest first",
        "batches of one partition leave in another order than they were polled in",
        _patched((Engine, "step", _newest_first)),
    ),
    Plant(
        "trim of what is owed",
        "a trim removes entries that an article may match which is logged and has not left",
        _patched((Trimmer, "_earliest_time", _owing_nothing)),
    ),
    Plant(
        "forgotten articles logged anew",
        "a worker that was held up logs articles that others have logged and a trim has forgotten",
        _patched((Coverage, "load", _load_without_forgotten), (Coverage, "partitions", property(_known))),
    ),
    Plant(
        "trim of another window",
        "a trim that was computed under other rules, or before others were logged, is obeyed",
        _patched((Trims, "effect_of", _effect_anywhere)),
    ),
    Plant(
        "trimmed partition begun silently",
        "a partition whose entries are all trimmed and whose offsets are lost begins at its beginning",
        _patched((Coverage, "partitions", property(_covered))),
    ),
    Plant(
        "trim by a clock that runs ahead",
        "a broker's clock that jumps forward makes a trim drop what is young",
        _patched((Trimmer, "_clock_of_the_log_is_ahead", _no), (VirtualClock, "time_ms", _far_ahead)),
    ),
    Plant(
        "withdrawn from all",
        "a withdrawal hides an entry from articles that were logged before it and are judged later",
        _patched((Withdrawn, "added_by", _hidden_from_all)),
    ),
    Plant(
        "withdrawal lost by a restart",
        "a worker that was started again matches what was withdrawn",
        _patched((Withdrawn, "__init__", _withdrawn_of_nothing), (Applied, "_check_state", _nothing)),
    ),
    Plant(
        "patterns matched once",
        "a topic that is made later is never read",
        _patched((TopicWatch, "_match", _matched_once)),
    ),
    Plant(
        "an output matches",
        "a pattern takes an output topic for one of articles",
        # What matches is judged again and again: it would take minutes to wait for the end of that.
        _patched((watches, "with_input_topics", _with_an_output), (world, "QUIET_S", 10.0)),
    ),
    Plant(
        "deleted again by a copy",
        "a delete that two workers logged withdraws what was logged between the two",
        lambda: patch.object(applying, "deletes_of", _deletes_and_copies),
    ),
    Plant(
        "only what was written before is deleted",
        "whether a delete withdraws an article depends on which records share a write",
        _patched((applying.Applied, "_deleted_by", _deleted_before)),
    ),
    Plant(
        "deletes have outputs",
        "a delete leaves as an article does",
        _patched((Committer, "_outputs", _delete_sent)),
    ),
    Plant(
        "unknown schema rejected",
        "a record whose schema is not there is decoded, and rejected by nobody's will",
        _patched((HeldBatches, "_first_lacking", _nothing)),
    ),
    Plant(
        "held records passed",
        "what comes behind a record that waits for its schema leaves before it",
        _patched((HeldBatches, "receive", _received_past_held)),
    ),
    Plant(
        "held records committed",
        "a worker that dies while records wait for their schema loses them",
        lambda: patch.object(decoding, "divided", _divided_behind_all),
    ),
    Plant(
        "seeded articles passed over",
        "an index does not hold what was seeded",
        _patched((Applied, "_apply_batch", _apply_unseeded)),
    ),
    Plant(
        "oldest candidates first",
        "the candidates within the bound depend on where a worker's index holds them",
        _patched((Tables, "near", _stored_first)),
    ),
    Plant(
        "one copy counted",
        "an article that is near several others is unique where the rules ask for several",
        _patched((Judge, "_nearest", _one_copy)),
    ),
    Plant(
        "torn write",
        "a killed process leaves part of a batch of writes in the index",
        _patched((MemoryStore, "_kept", _kept_torn)),
    ),
)
