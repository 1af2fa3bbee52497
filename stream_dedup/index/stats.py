"""The figures of an index, for `stream-dedup index stats` and the worker's metrics."""

from __future__ import annotations

from dataclasses import dataclass

from stream_dedup.core.model import LogOffset
from stream_dedup.index import layout
from stream_dedup.index.applying import Applied


@dataclass(frozen=True, slots=True)
class IndexStats:
    """Figures of an index at one moment. The names are those of `stream-dedup index stats --json`."""

    log_id: str | None
    next_offset: LogOffset
    articles: int
    trimmed_before: LogOffset
    log_span_ms: int
    """Log time from the oldest entries that are not trimmed to the newest, to 1/16 of the window."""
    numbers_used: float
    partitions: int
    withdrawn: int
    tables: int
    entries_in_memory: int
    runs: int
    list_bytes: int
    memory_bytes: int
    bytes_on_disk: int
    bytes_unwritten: int
    bytes_block_cache: int
    lookups: int
    lists: int
    candidates: int
    folds: int


def stats_of(applied: Applied) -> IndexStats:
    """Return the figures of an index."""
    state, tables, store = applied.state, applied.tables, applied.store
    counters = tables.counters
    return IndexStats(
        log_id=state.log_id,
        next_offset=state.next_offset,
        articles=state.articles,
        trimmed_before=state.low_watermark,
        log_span_ms=_span_ms(applied),
        numbers_used=state.next_doc_number / layout.MAX_DOC_NUMBERS,
        partitions=len(applied.coverage.partitions),
        withdrawn=len(applied.withdrawn),
        tables=tables.count,
        entries_in_memory=tables.entries_in_memory,
        runs=tables.most_runs,
        list_bytes=tables.list_bytes,
        memory_bytes=tables.memory_bytes,
        bytes_on_disk=store.bytes_on_disk,
        bytes_unwritten=store.bytes_unwritten,
        bytes_block_cache=store.bytes_cached,
        lookups=counters.lookups,
        lists=counters.lists,
        candidates=counters.candidates,
        folds=counters.folds,
    )


def _span_ms(applied: Applied) -> int:
    """Return the time from the first rules record that has entries before it to the newest entry."""
    newest = applied.state.newest
    before = next((mark.before for mark in applied.history.marks if mark.before is not None), None)
    return 0 if newest is None or before is None else max(0, newest - before)
