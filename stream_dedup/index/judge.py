"""Verdicts of articles, each as of its own log position, or as of the end of the log.

``core.query`` defines near, and ``tables`` returns the near entries of each article, nearest first, then earliest. This
file makes the query of each article from the rules at its log position, sorts out the article itself and its earlier
versions, and derives the verdict. An article that is not logged takes the same way, in the record that would be next.

A panic of the native core becomes an error that names the article that was looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np

from stream_dedup.core.arrays import I64
from stream_dedup.core.columns import Columns
from stream_dedup.core.entry import make_batch
from stream_dedup.core.model import (
    FILES_LOG_PREFIX,
    FINGERPRINT_BITS,
    ROW_BITS,
    SIGNATURE_BITS,
    UNIQUE_JUDGEMENT,
    Coordinates,
    Judgement,
    LogOffset,
    LogPosition,
    Match,
    Status,
    log_offset_of,
    log_position,
    row_of,
    signed,
    similarity,
)
from stream_dedup.core.query import BEST, Articles, Near, Query, query_of
from stream_dedup.core.rules import COPIES_LIMIT, UPDATE, NearEntries, Rules, judgement_of
from stream_dedup.errors import RefusedError
from stream_dedup.index.applying import Applied
from stream_dedup.index.layout import Head
from stream_dedup.index.records import StoredRecord, by_record, id_hash

_REST_BITS = SIGNATURE_BITS - FINGERPRINT_BITS
"""Bits of a signature behind the fingerprint."""

_STATUSES = tuple(Status)
"""By their numbers: a status is looked up in a fifth of the time that its class takes."""

Accept = Callable[[int, LogPosition], bool]
"""Given the number of a query and the log position of a near entry, returns whether the entry may be the match."""


class CheckedArticle(NamedTuple):
    """The verdict on an article if it were logged next, and the nearest entries, nearest first."""

    judgement: Judgement
    nearest: tuple[Match, ...] = ()


class _NearEntry(NamedTuple):
    position: LogPosition
    distance: int


class _Found(NamedTuple):
    """The near entries of an article: the first of them, at least one, and how many there are."""

    entries: list[_NearEntry]
    copies: int


@dataclass(frozen=True, slots=True, eq=False)
class _JudgedArticles:
    """Articles at log positions."""

    positions: I64
    articles: Articles
    record_at: Callable[[LogOffset], StoredRecord]
    of_files: bool
    """Whether their topics are files, and their source offsets numbers of lines."""

    @classmethod
    def at(
        cls, positions: I64, record_at: Callable[[LogOffset], StoredRecord], *, of_files: bool = False
    ) -> _JudgedArticles:
        """Read them; RefusedError where a log position is not held, or does not exist."""
        parts = list(by_record(positions))
        read = [_articles_of(record_at(offset), rows) for offset, _, rows in parts]
        if len(read) == 1:
            return cls(positions, read[0], record_at, of_files)
        columns = (np.concatenate([getattr(one, name) for one in read]) for name in Articles.__slots__)
        order = np.concatenate([numbers for _, numbers, _ in parts])
        return cls(positions, Articles(*columns).of(np.argsort(order)), record_at, of_files)

    def of(self, chosen: I64) -> _JudgedArticles:
        return replace(self, positions=self.positions[chosen], articles=self.articles.of(chosen))

    def entry(self, number: int) -> tuple[StoredRecord, int]:
        """Return the record and the row of one."""
        position = LogPosition(int(self.positions[number]))
        return self.record_at(log_offset_of(position)), row_of(position)

    def name(self, number: int) -> str:
        """Return what an operator calls one: where it comes from, and where it is logged."""
        record, row = self.entry(number)
        batch, offset = record.batch, record.batch.offset(row)
        if not batch.topic:
            return f"article {batch.id(row)!r}, which is not logged"
        if self.of_files:
            where = f"input {batch.topic}, line {offset}"
        else:
            where = f"topic {batch.topic}, partition {batch.partition}, offset {offset}"
        return f"{where} (article {batch.id(row)!r}, entry {row} of log record {record.offset})"


def _articles_of(record: StoredRecord, rows: I64) -> Articles:
    batch = record.batch
    if rows.max() >= len(batch):
        position = log_position(record.offset, int(rows.max()))
        raise RefusedError(f"log position {position} does not exist: its log record has {len(batch)} entries")
    return Articles(
        statuses=batch.statuses[rows],
        scope_hashes=batch.scope_hashes[rows],
        signatures=batch.signatures[rows],
        margins=batch.margins[rows],
        sketches=batch.sketches[rows],
        before=record.doc_numbers[rows],
        times=record.head.times_of(rows),
    )


class Judge:
    """Judges articles."""

    def __init__(self, applied: Applied) -> None:
        self._applied = applied

    def judge(self, positions: I64, rules_at: Callable[[LogOffset], Rules]) -> list[Judgement]:
        """Return one judgement for each log position; ``rules_at`` returns the rules at a log offset."""
        if not len(positions):
            return []
        of_files = (self._applied.state.log_id or "").startswith(FILES_LOG_PREFIX)
        own = _JudgedArticles.at(positions, self._applied.rows.get, of_files=of_files)
        judged: list[Judgement] = [UNIQUE_JUDGEMENT] * len(positions)
        for rules, here in _by_rules(positions >> ROW_BITS, rules_at):
            for number, one in self._judge_all(rules, own, here, 1):
                judged[number] = one.judgement
        return judged

    def check(self, columns: Columns, time_ms: int, rules: Rules | None, most: int) -> list[CheckedArticle]:
        """Return the verdict of each unlogged article as if it were logged next, under these rules.

        Args:
            columns: the articles.
            time_ms: the log time that they would have.
            rules: the rules in force at the end of the log.
            most: near entries that are returned of each, at most ``COPIES_LIMIT``.

        Raises:
            RefusedError: the log has no rules yet, or its entries have other widths.
        """
        if rules is None or columns.widths != rules.scheme.widths:
            widths = "no rules" if rules is None else rules.scheme.widths
            raise RefusedError(f"articles of {columns.widths} cannot be checked: the log has {widths}")
        n, state = len(columns), self._applied.state
        checked = [CheckedArticle(UNIQUE_JUDGEMENT)] * n
        if n:
            # The record that would be next, of no source partition. The entries of the tables end before its numbers.
            head = Head(n, time_ms, first=state.next_doc_number)
            record = StoredRecord(state.next_offset, make_batch(columns, b"", "", 0, np.arange(n)), head, b"")
            own = _JudgedArticles.at((state.next_offset << ROW_BITS) + np.arange(n), lambda _: record)
            for number, one in self._judge_all(rules, own, np.arange(n), most):
                checked[number] = one
        return checked

    def _judge_all(
        self, rules: Rules, own: _JudgedArticles, here: I64, most: int
    ) -> Iterator[tuple[int, CheckedArticle]]:
        """Yield the judgement of each of the articles ``here`` but those that are unique without a copy."""
        has_signature = signed(own.articles.statuses[here])
        for at in here[~has_signature].tolist():
            status = Status(own.articles.statuses[at])
            record, row = own.entry(at)
            yield at, CheckedArticle(judgement_of(status, rules, None, record.batch.reason(row)))
        signed_here = here[has_signature]
        if len(signed_here):
            for number, one in self._judge_signed(rules, own.of(signed_here), most):
                yield int(signed_here[number]), one

    def _judge_signed(self, rules: Rules, own: _JudgedArticles, most: int) -> Iterator[tuple[int, CheckedArticle]]:
        """Yield the judgement of each article that is near another, by its number."""
        with self._applied.naming_defects(partial(_name, own, np.arange(len(own.articles.statuses)))):
            query = query_of(own.articles, rules, self._applied.withdrawn.hidden)
        found = self._nearest(query, own, self._is_other(own), COPIES_LIMIT, max(most, 1))
        again = self._versions(query, own, found) if rules.recrawl == UPDATE else {}
        statuses, signatures = own.articles.statuses.tolist(), own.articles.signatures
        for number, nearest in found.items():
            version = again.get(number)
            signature = int.from_bytes(signatures[number])
            match = self._match(signature, (version or nearest).entries[0])
            near = NearEntries(match, nearest.copies, update=version is not None)
            judgement = judgement_of(_STATUSES[statuses[number]], rules, near, "")
            others = nearest.entries[1:] if version is None else nearest.entries[:most]
            shown = [match] * (version is None and most > 0) + [self._match(signature, one) for one in others]
            yield number, CheckedArticle(judgement, tuple(shown))

    def _nearest(
        self, query: Query, own: _JudgedArticles, accept: Accept | None, most: int, shown: int = 1
    ) -> dict[int, _Found]:
        """Return the first ``shown`` acceptable near entries of each article, however many are not acceptable.

        Counts the acceptable ones, up to ``most``.
        """
        query = replace(query, best=most)
        found: dict[int, _Found] = {}
        waiting = np.arange(len(query))
        while len(waiting):
            with self._applied.naming_defects(partial(_name, own, waiting)):
                near = self._applied.tables.near(query)
                nearest = list(self._candidates(near, shown if accept is None else query.best))
            again = []
            for number, candidates, count in nearest:
                article = int(waiting[number])
                if accept is None:
                    found[article] = _Found(candidates, count)
                    continue
                acceptable = [one for one in candidates if accept(article, one.position)]
                if acceptable:
                    found[article] = _Found(acceptable[:shown], min(len(acceptable), most))
                if len(acceptable) < most and count == query.best:
                    again.append(number)
            waiting, query = waiting[again], replace(query.part(np.array(again, np.int64)), best=query.best * BEST)
        return found

    def _candidates(self, near: Near, most: int) -> Iterator[tuple[int, list[_NearEntry], int]]:
        """Yield the first near entries of each query that has any, up to ``most``, and how many it has."""
        firsts = np.flatnonzero(np.diff(near.queries, prepend=-1))
        counts = np.diff(firsts, append=len(near.queries))
        wanted = firsts if most == 1 else np.flatnonzero(np.arange(len(near.queries)) - firsts.repeat(counts) < most)
        positions = self._applied.tables.rows_of(near.doc_numbers[wanted])["position"].tolist()
        columns = zip(positions, near.distances[wanted].tolist(), strict=True)
        for number, count in zip(near.queries[firsts].tolist(), counts.tolist(), strict=True):
            yield number, [_NearEntry(*one) for one in islice(columns, min(count, most))], count

    def _versions(self, query: Query, own: _JudgedArticles, found: dict[int, _Found]) -> dict[int, _Found]:
        """Return, for articles that are near another, the nearest entry of the same article id."""
        numbers = np.array(list(found), np.int64)
        if not len(numbers):
            return {}
        near = own.of(numbers)
        ids = np.array([id_hash(_id_of(near.entry(number))) for number in range(len(numbers))], np.uint64)
        versions = self._nearest(replace(query.part(numbers), own_ids=ids), near, self._is_version(near), 1)
        return {int(numbers[at]): version for at, version in versions.items()}

    def _is_other(self, own: _JudgedArticles) -> Accept | None:
        """Return a check that an entry is not the article itself, which only a trim of coordinates makes possible."""
        if self._applied.state.horizon is None:
            return None
        return lambda query, position: _coordinates_of(own.entry(query)) != _coordinates_of(self.entry(position))

    def _is_version(self, own: _JudgedArticles) -> Accept:
        """Return a check that an entry has the article's id: equal hashes of ids are not enough."""
        is_other = self._is_other(own)

        def accept(query: int, position: LogPosition) -> bool:
            same = _id_of(own.entry(query)) == _id_of(self.entry(position))
            return same and (is_other is None or is_other(query, position))

        return accept

    def _match(self, signature: int, found: _NearEntry) -> Match:
        row, at = self.entry(found.position)
        differing = signature ^ int.from_bytes(row.batch.signatures[at])
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

    def entry(self, position: LogPosition) -> tuple[StoredRecord, int]:
        """Return the record and the row of an entry that was found; CorruptError where the log has none there."""
        try:
            record = self._applied.rows.get(log_offset_of(position)) if position >= 0 else None
        except RefusedError:
            record = None
        if record is None or row_of(position) >= len(record.batch):
            reason = f"a row names log position {position}, where no log record has an entry"
            raise self._applied.store.corrupt(reason)
        return record, row_of(position)


def _id_of(entry: tuple[StoredRecord, int]) -> str:
    record, row = entry
    return record.batch.id(row)


def _coordinates_of(entry: tuple[StoredRecord, int]) -> Coordinates:
    record, row = entry
    return record.batch.coordinates(row)


def _name(own: _JudgedArticles, numbers: I64, at: int | None) -> str:
    """Return what an operator calls one of some articles that are looked up, or all of them where it is not known."""
    if at is not None:
        return own.name(int(numbers[at]))
    first, last = own.name(int(numbers[0])), own.name(int(numbers[-1]))
    return first if len(numbers) == 1 else f"{len(numbers)} articles, the first {first}, the last {last}"


def _by_rules(offsets: I64, rules_at: Callable[[LogOffset], Rules]) -> Iterator[tuple[Rules, I64]]:
    """Yield each rules in force with the numbers of its log positions."""
    by_rules: dict[Rules, list[int]] = {}
    for offset in sorted(set(offsets.tolist())):  # np.unique would load numpy.ma, 6 ms of a start
        by_rules.setdefault(rules_at(offset), []).append(offset)
    for rules, chosen in by_rules.items():
        yield rules, np.flatnonzero(np.isin(offsets, chosen)) if len(by_rules) > 1 else np.arange(len(offsets))
