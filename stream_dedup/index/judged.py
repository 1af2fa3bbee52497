"""Articles that are judged: logged ones, each as of its log position, and unlogged ones, as of the end of the log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np

from stream_dedup.core.arrays import I64
from stream_dedup.core.columns import Columns
from stream_dedup.core.model import (
    MAX_ROWS,
    ROW_BITS,
    Coordinates,
    DocNumber,
    LogOffset,
    LogPosition,
    log_offset_of,
    row_of,
)
from stream_dedup.errors import RefusedError
from stream_dedup.index.query import Articles
from stream_dedup.index.records import StoredRecord

ReadRecord = Callable[[LogOffset], StoredRecord]
"""Returns the log record at a log offset; RefusedError where the index does not hold it."""


class JudgedArticles(Protocol):
    """Articles as columns, and what few of them are asked for, by their numbers."""

    @property
    def articles(self) -> Articles:
        """What a query takes of them."""

    def of(self, chosen: I64) -> Self:
        """Return some of them."""

    def id(self, number: int) -> str:
        """Return the article id of one."""

    def reason(self, number: int) -> str:
        """Return why one was rejected; empty if it was not."""

    def coordinates(self, number: int) -> Coordinates | None:
        """Return the coordinates of one; None of an unlogged article."""

    def name(self, number: int) -> str:
        """Return what an operator calls one: where it comes from, and where it is logged."""


@dataclass(frozen=True, slots=True, eq=False)
class ArticlesAsLogged:
    """Articles at log positions."""

    positions: I64
    articles: Articles
    read: ReadRecord
    of_files: bool
    """Whether their topics are files, and their source offsets numbers of lines."""

    def of(self, chosen: I64) -> ArticlesAsLogged:
        """Return some of them."""
        return replace(self, positions=self.positions[chosen], articles=self.articles.of(chosen))

    def id(self, number: int) -> str:
        """Return the article id of one."""
        row, at = self._row(number)
        return row.batch.id(at)

    def reason(self, number: int) -> str:
        """Return why one was rejected."""
        row, at = self._row(number)
        return row.batch.reason(at)

    def coordinates(self, number: int) -> Coordinates:
        """Return the coordinates of one."""
        row, at = self._row(number)
        return row.batch.coordinates(at)

    def name(self, number: int) -> str:
        """Return topic, partition and offset, or file and line; and the article id and the log position."""
        row, at = self._row(number)
        batch, offset = row.batch, row.batch.offset(at)
        if self.of_files:
            where = f"input {batch.topic}, line {offset}"
        else:
            where = f"topic {batch.topic}, partition {batch.partition}, offset {offset}"
        return f"{where} (article {batch.id(at)!r}, entry {at} of log record {row.offset})"

    def _row(self, number: int) -> tuple[StoredRecord, int]:
        position = LogPosition(int(self.positions[number]))
        return self.read(log_offset_of(position)), row_of(position)


@dataclass(frozen=True, slots=True, eq=False)
class ArticlesToLog:
    """Articles that are in no log, as if they were logged next."""

    columns: Columns
    articles: Articles

    def of(self, chosen: I64) -> ArticlesToLog:
        """Return some of them."""
        return ArticlesToLog(self.columns.rows(chosen), self.articles.of(chosen))

    def id(self, number: int) -> str:
        """Return the article id of one."""
        return self.columns.ids[number]

    def reason(self, number: int) -> str:
        """Return why one was rejected."""
        return self.columns.reasons[number]

    def coordinates(self, number: int) -> None:
        """Return None: it comes from no source partition."""

    def name(self, number: int) -> str:
        """Return the article id."""
        return f"article {self.columns.ids[number]!r}, which is not logged"


def logged_articles(positions: I64, read: ReadRecord, *, of_files: bool) -> ArticlesAsLogged:
    """Return the articles at these log positions; ``of_files``: of a log that `filter` wrote.

    Raises:
        RefusedError: a log position is not held, or does not exist.
    """
    offsets = positions >> ROW_BITS
    distinct, inverse = np.unique(offsets, return_inverse=True)
    if len(distinct) == 1:
        return ArticlesAsLogged(positions, _articles(read(LogOffset(int(distinct[0]))), positions), read, of_files)
    order = np.argsort(inverse, kind="stable")
    parts = np.split(positions[order], np.cumsum(np.bincount(inverse))[:-1])
    each = [_articles(read(LogOffset(offset)), part) for offset, part in zip(distinct.tolist(), parts, strict=True)]
    columns = (np.concatenate([getattr(one, name) for one in each]) for name in Articles.__slots__)
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return ArticlesAsLogged(positions, Articles(*columns).of(back), read, of_files)


def unlogged_articles(columns: Columns, before: DocNumber, time_ms: int) -> ArticlesToLog:
    """Return articles as if they were logged next, with document number ``before`` and log time ``time_ms``."""
    n = len(columns)
    articles = Articles(
        statuses=columns.statuses,
        groups=columns.groups,
        signatures=columns.signatures,
        margins=columns.margins,
        sketches=columns.sketches,
        before=np.full(n, before, np.int64),
        times=np.full(n, time_ms, np.int64),
    )
    return ArticlesToLog(columns, articles)


def _articles(row: StoredRecord, positions: I64) -> Articles:
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
