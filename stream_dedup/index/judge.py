"""Verdicts of articles, each as of its own log position.

``scan`` defines near and returns the near entries of each article, nearest first, then earliest. This file makes the
query of each article from the rules at its log position, sorts out the article itself and its earlier
versions, and derives the verdict.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from stream_dedup.core import verdict
from stream_dedup.core.arrays import I64
from stream_dedup.core.fingerprint.simhash import similarity
from stream_dedup.core.model import (
    FINGERPRINT_BITS,
    MAX_ROWS,
    ROW_BITS,
    SIGNATURE_BITS,
    Judgement,
    LogOffset,
    LogPosition,
    Match,
    Status,
    Verdict,
    log_offset_of,
    row_of,
    signed,
)
from stream_dedup.core.rules import COPIES_LIMIT, UPDATE, Rules
from stream_dedup.errors import RefusedError
from stream_dedup.index.applying import Applied
from stream_dedup.index.query import BEST, Articles, Near, Query, query_of
from stream_dedup.index.records import StoredRecord, id_hash

_REST_BITS = SIGNATURE_BITS - FINGERPRINT_BITS
"""Bits of a signature behind the fingerprint."""

_UNIQUE = Judgement(Verdict.UNIQUE)

Accept = Callable[[int, LogPosition], bool]
"""Given the number of a query and the log position of a near entry, returns whether the entry may be the match."""


class _Found(NamedTuple):
    """The entry chosen for a query."""

    position: LogPosition
    distance: int
    copies: int
    """Acceptable near entries that the query has."""


@dataclass(frozen=True, slots=True, eq=False)
class _Own:
    """The articles to judge."""

    positions: I64
    articles: Articles

    def position(self, number: int) -> LogPosition:
        """Return the log position of one of them."""
        return LogPosition(int(self.positions[number]))

    def of(self, chosen: I64) -> _Own:
        """Return some of them."""
        return _Own(self.positions[chosen], self.articles.of(chosen))


class Judge:
    """Judges articles."""

    def __init__(self, applied: Applied) -> None:
        self._applied = applied

    def judge(self, positions: I64, rules_at: Callable[[LogOffset], Rules]) -> list[Judgement]:
        """Return one judgement for each log position; ``rules_at`` returns the rules at a log offset."""
        if not len(positions):
            return []
        own = self._own(positions)
        judged: list[Judgement] = [_UNIQUE] * len(positions)
        for rules, here in _by_rules(positions >> ROW_BITS, rules_at):
            for at in here[~signed(own.articles.statuses[here])].tolist():
                judged[at] = self._without_signature(rules, own.position(at), Status(own.articles.statuses[at]))
            signed_here = here[signed(own.articles.statuses[here])]
            if len(signed_here):
                for number, judgement in self._judge_signed(rules, own.of(signed_here)):
                    judged[int(signed_here[number])] = judgement
        return judged

    def _without_signature(self, rules: Rules, position: LogPosition, status: Status) -> Judgement:
        reason = self._row(position).batch.reason(row_of(position))
        return verdict.judge(status, rules, None, reason)

    def _judge_signed(self, rules: Rules, own: _Own) -> Iterator[tuple[int, Judgement]]:
        """Yield the judgement of each article that is near another, by its number."""
        query = query_of(own.articles, rules, self._applied.tables.low_watermark, self._applied.withdrawn.entries)
        found = self._nearest(query, self._is_other(own), COPIES_LIMIT)
        again = self._versions(query, own, found) if rules.recrawl == UPDATE else {}
        for number, nearest in found.items():
            version = again.get(number)
            match = self._match(own.position(number), version or nearest)
            near = verdict.NearEntries(match, nearest.copies, update=version is not None)
            yield number, verdict.judge(Status(own.articles.statuses[number]), rules, near, "")

    def _nearest(self, query: Query, accept: Accept | None, most: int) -> dict[int, _Found]:
        """Return the first acceptable near entry of each query, however many are not acceptable.

        Counts the acceptable ones, up to ``most``.
        """
        query = replace(query, best=most)
        found: dict[int, _Found] = {}
        waiting = np.arange(len(query))
        while len(waiting):
            near = self._applied.tables.near(query)
            again = []
            for number, candidates in self._candidates(near, first_only=accept is None):
                article = int(waiting[number])
                if accept is None:
                    found[article] = candidates[0]
                    continue
                acceptable = [one for one in candidates if accept(article, one.position)]
                if acceptable:
                    found[article] = acceptable[0]._replace(copies=min(len(acceptable), most))
                if len(acceptable) < most and len(candidates) == query.best:
                    again.append(number)
            waiting, query = waiting[again], replace(query.part(np.array(again, np.int64)), best=query.best * BEST)
        return found

    def _candidates(self, near: Near, *, first_only: bool) -> Iterator[tuple[int, list[_Found]]]:
        """Yield the near entries of each query that has any; with ``first_only`` the first one of each."""
        firsts = np.flatnonzero(np.diff(near.queries, prepend=-1))
        counts = np.diff(firsts, append=len(near.queries)).tolist()
        wanted = firsts if first_only else np.arange(len(near.queries))
        positions = self._applied.tables.rows.rows_of(near.doc_numbers[wanted])["position"].tolist()
        columns = zip(positions, near.distances[wanted].tolist(), strict=True)
        for number, count in zip(near.queries[firsts].tolist(), counts, strict=True):
            yield number, [_Found(*one, count) for one in islice(columns, 1 if first_only else count)]

    def _versions(self, query: Query, own: _Own, found: dict[int, _Found]) -> dict[int, _Found]:
        """Return, for articles that are near another, the nearest entry of the same article id."""
        numbers = np.array(list(found), np.int64)
        if not len(numbers):
            return {}
        near = own.of(numbers)
        ids = np.array([id_hash(self._id(position)) for position in near.positions.tolist()], np.uint64)
        versions = self._nearest(replace(query.part(numbers), own_ids=ids), self._is_version(near), 1)
        return {int(numbers[at]): version for at, version in versions.items()}

    def _is_other(self, own: _Own) -> Accept | None:
        """Return a check that an entry is not the article itself, which only a trim of coordinates makes possible."""
        if self._applied.state.horizon is None:
            return None
        return lambda query, position: not self._is_itself(own.position(query), position)

    def _is_itself(self, own: LogPosition, position: LogPosition) -> bool:
        return self._row(own).batch.coordinates(row_of(own)) == self._listed(position).batch.coordinates(
            row_of(position)
        )

    def _is_version(self, own: _Own) -> Accept:
        """Return a check that an entry has the article's id: equal hashes of ids are not enough."""
        is_other = self._is_other(own)

        def accept(query: int, position: LogPosition) -> bool:
            same = self._id(own.position(query)) == self._id(position)
            return same and (is_other is None or is_other(query, position))

        return accept

    def _id(self, position: LogPosition) -> str:
        return self._listed(position).batch.id(row_of(position))

    def _match(self, own_position: LogPosition, found: _Found) -> Match:
        own = self._row(own_position).batch.signatures[row_of(own_position)]
        row, at = self._listed(found.position), row_of(found.position)
        differing = int.from_bytes((own ^ row.batch.signatures[at]).tobytes())
        bits = differing.bit_count()
        if found.distance not in {bits, (differing >> _REST_BITS).bit_count()}:
            reason = f"the row of entry {at} of log record {row.offset} is not the one of the log"
            raise self._applied.store.corrupt(reason)
        return Match(
            position=found.position,
            id=row.batch.id(at),
            topic=row.batch.topic,
            coordinates=row.batch.coordinates(at),
            time=row.head.time_of(at),
            distance=found.distance,
            similarity=similarity(bits),
        )

    def _row(self, position: LogPosition) -> StoredRecord:
        return self._applied.rows.get(log_offset_of(position))

    def _listed(self, position: LogPosition) -> StoredRecord:
        """Return the record of an entry that was found; a missing record is damage."""
        row = None
        if position >= 0:
            with contextlib.suppress(RefusedError):
                row = self._row(position)
        if row is None or row_of(position) >= len(row.batch):
            reason = f"a row names log position {position}, where no log record has an entry"
            raise self._applied.store.corrupt(reason)
        return row

    def _own(self, positions: I64) -> _Own:
        offsets = positions >> ROW_BITS
        distinct, inverse = np.unique(offsets, return_inverse=True)
        if len(distinct) == 1:
            return _Own(positions, self._articles(LogOffset(int(distinct[0])), positions))
        order = np.argsort(inverse, kind="stable")
        parts = np.split(positions[order], np.cumsum(np.bincount(inverse))[:-1])
        each = [self._articles(offset, part) for offset, part in zip(distinct.tolist(), parts, strict=True)]
        columns = (np.concatenate([getattr(one, name) for one in each]) for name in Articles.__slots__)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return _Own(positions, Articles(*columns).of(back))

    def _articles(self, offset: LogOffset, positions: I64) -> Articles:
        row = self._applied.rows.get(offset)
        at = _rows_of(row, positions)
        batch = row.batch
        return Articles(
            statuses=batch.statuses[at],
            groups=batch.groups[at],
            signatures=batch.signatures[at],
            margins=batch.margins[at],
            sketches=batch.sketches[at],
            before=row.doc_numbers[at],
            times=row.head.times_of(at),
        )


def _rows_of(row: StoredRecord, positions: I64) -> I64:
    rows = positions & (MAX_ROWS - 1)
    if rows.max() >= len(row.batch):
        msg = (
            f"log position {int(positions[rows.argmax()])} does not exist: its log record has {len(row.batch)} entries"
        )
        raise RefusedError(msg)
    return rows


def _by_rules(offsets: I64, rules_at: Callable[[LogOffset], Rules]) -> Iterator[tuple[Rules, I64]]:
    """Yield each rules in force with the numbers of its log positions."""
    by_rules: dict[Rules, list[int]] = {}
    for offset in np.unique(offsets).tolist():
        by_rules.setdefault(rules_at(offset), []).append(offset)
    for rules, chosen in by_rules.items():
        yield rules, np.flatnonzero(np.isin(offsets, chosen)) if len(by_rules) > 1 else np.arange(len(offsets))
