"""Finds the record that ends a process, and rejects it and no other.

    records together    columns             done
                        the process ended   each record by itself
    a record by itself  columns             done
                        late                rejected
                        killed              once more; rejected the second time

So a task costs at most ``1 + MOST_KILLS`` processes for each record in it, and a process that somebody killed by
accident costs no article.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

from stream_dedup.article_limit import LateError
from stream_dedup.core.columns import Columns
from stream_dedup.core.text.decode import RawRecord
from stream_dedup.pool.recipe import Recipe

if TYPE_CHECKING:
    from stream_dedup.metrics.metrics import PoisonCode, RestartCause

MOST_KILLS = 2
"""A record whose process is killed so often while it works on this record alone is rejected."""


class KilledError(Exception):
    """The process ended while it worked on records, and not by the limit of time."""


class PoolObserver(Protocol):
    """Counts what happens in a pool. Any thread."""

    def count_restart(self, cause: RestartCause) -> None:
        """Count a process that ended and is replaced."""

    def count_poisoned(self, code: PoisonCode) -> None:
        """Count an article that was rejected for what it did to its process."""

    def count_work(self, seconds: float) -> None:
        """Count the time that a task took, whatever came of it."""


Make = Callable[[Sequence[RawRecord]], Columns]
"""Makes columns; raises ``LateError`` or ``KilledError``, and is ready for the next call."""


@dataclass(frozen=True, slots=True)
class Isolation:
    """Finds and rejects the records that end their process."""

    recipe: Recipe
    observer: PoolObserver

    def columns(self, make: Make, records: Sequence[RawRecord]) -> Columns:
        """Return the columns of these records; blocks. Any other exception of ``make`` is passed on."""
        return self.counted(partial(self._columns, make), records)

    def counted(self, make: Make, records: Sequence[RawRecord]) -> Columns:
        """Return the columns that ``make`` makes of these records, and count the time; raises what it raises."""
        begun = perf_counter()
        try:
            return make(records)
        finally:
            self.observer.count_work(perf_counter() - begun)

    def _columns(self, make: Make, records: Sequence[RawRecord]) -> Columns:
        if len(records) == 1:
            return self._columns_of_one(make, records[0])
        try:
            return make(records)
        except (LateError, KilledError):
            return Columns.concat([self._columns_of_one(make, record) for record in records])

    def _columns_of_one(self, make: Make, record: RawRecord) -> Columns:
        for _ in range(MOST_KILLS):
            try:
                return make([record])
            except LateError:
                self.observer.count_poisoned("late")
                return self.recipe.rejected_for_time(record)
            except KilledError:
                continue
        self.observer.count_poisoned("killed")
        return self.recipe.rejected_for_kills(record)
