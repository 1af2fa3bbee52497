"""A panic of the native core is an error that names the record, and the index writes nothing after it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pytest

import stream_dedup
from stream_dedup import _native
from stream_dedup.core.entry import encode
from stream_dedup.core.model import ROW_BITS
from stream_dedup.core.query import Query
from stream_dedup.errors import DefectError, RefusedError
from stream_dedup.index import LogIndex
from stream_dedup.index.judge import Judge
from stream_dedup.index.store import Store, WriteBatch
from stream_dedup.index.tables import RowColumn, _Warming
from stream_dedup.kafka.fingerprint_log import LOG_APPEND_TIME, log_records
from tests.index.checks import build, check_verdicts, covered_positions, finish_merges
from tests.index.panics import SAID, PanickingTables, panic, planted_panic
from tests.index.test_check import columns_of
from tests.logs import SCHEME, START_TIME, Entry, LogOfTest, batch, record, repeated, rules

FIRST, SECOND, THIRD = 0x0F0F_0000_FFFF_1234, 0x1234_5678_9ABC_DEF0, 0xFEDC_BA98_7654_3210


def articles_log() -> LogOfTest:
    """Two records; the second begins with an article that is never looked up, for it has no features."""
    log = LogOfTest()
    log.add(rules())
    log.articles(FIRST, SECOND, first=0, partition=3)
    log.articles(0, FIRST, THIRD, SECOND, first=2, partition=3)
    return log


def versions_log() -> LogOfTest:
    """Three articles in one record: one near no other, and two near an earlier one, the last with its article id."""
    log = LogOfTest()
    log.add(rules(recrawl="update"))
    log.entry(Entry(repeated(FIRST), id="a"), Entry(repeated(SECOND), id="b"), first=0)
    log.entry(Entry(repeated(THIRD)), Entry(repeated(FIRST), id="new"), Entry(repeated(SECOND), id="b"), first=2)
    return log


def opened(path: Path, log: LogOfTest) -> LogIndex:
    return build(LogIndex.open(path, scheme=SCHEME), log.records)


def positions(offset: int, rows: int) -> np.ndarray:
    return (offset << ROW_BITS) + np.arange(rows)


def test_the_error_names_the_article_that_was_looked_up(tmp_path: Path) -> None:
    """By topic, partition and offset, its id and its log position: not the first of the batch."""
    named = r"^topic articles, partition 3, offset 4 \(article 'articles-3-4', entry 2 of log record 2\): " + SAID
    index = opened(tmp_path, articles_log())
    with index, planted_panic(THIRD), pytest.raises(DefectError, match=named) as raised:
        index.judge(positions(2, 4))
    assert str(raised.value).endswith("report this message, and start again with another release")


@pytest.mark.parametrize("is_round", [1, 2])
def test_the_error_names_an_article_whose_versions_are_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_round: int
) -> None:
    """Of those that are near another; and in a second round only of those that have more candidates."""
    monkeypatch.setattr(Judge, "_is_version", lambda *_: lambda *_: False)
    when = lambda query: query.own_ids is not None and (query.best > 1) is (is_round == 2)  # noqa: E731
    named = r"^topic articles, partition 0, offset 4 \(article 'b', entry 2 of log record 2\)"
    index = opened(tmp_path, versions_log())
    with index, planted_panic(SECOND, when), pytest.raises(DefectError, match=named):
        index.judge(positions(2, 3))


def test_the_error_names_an_unlogged_article(tmp_path: Path) -> None:
    """By its id: it has no log position."""
    with opened(tmp_path, articles_log()) as index, planted_panic(THIRD):
        asked = columns_of(batch([8, 9], [FIRST, THIRD]), slice(0, 2))
        with pytest.raises(DefectError, match=r"^article 'articles-0-9', which is not logged: " + SAID):
            index.check(asked, START_TIME)


def test_a_panic_while_the_plans_are_made_names_the_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The native core was at no article then: the first and the last are named."""

    def planted(*_: object) -> Query:
        with pytest.raises(_native.PanicError):
            panic(index._applied.tables.native)
        index._applied.tables.native.cold(1)  # raises: they are lost
        raise AssertionError

    with opened(tmp_path, articles_log()) as index:
        monkeypatch.setattr("stream_dedup.index.judge.query_of", planted)
        named = (
            r"^3 articles, the first topic articles, partition 3, offset 3 \(article 'articles-3-3', entry 1 of log "
            r"record 2\), the last topic articles, partition 3, offset 5 \(.*\): a defect in the native core: it stop"
        )
        with pytest.raises(DefectError, match=named):
            index.judge(positions(2, 4))


WRITES: dict[str, Callable[[LogIndex], Any]] = {
    "apply": lambda index: index.apply([record(3, START_TIME, batch([9], [7]))]),
    "flush": LogIndex.flush,
    "merge": finish_merges,
    "commit": LogIndex.commit,
}
LOOKUPS: dict[str, Callable[[LogIndex], Any]] = {
    "judge": lambda index: index.judge(positions(1, 2)),
    "check": lambda index: index.check(columns_of(batch([8], [FIRST]), slice(0, 1)), START_TIME),
    "rows": lambda index: index.rows(np.arange(2)),
    "verify": LogIndex.verify,
    "a call of the Python API": LogIndex.refuse_stopped,
}
STOPPED = r"stopped after an error \(topic articles.*close it and open it again"


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[WriteBatch]:
    """Every write to a store."""
    made, write = list[WriteBatch](), Store.write

    def noted(store: Store, batch: WriteBatch) -> None:
        made.append(batch)
        write(store, batch)

    monkeypatch.setattr(Store, "write", noted)
    return made


def test_after_a_panic_nothing_is_written(tmp_path: Path, writes: list[WriteBatch]) -> None:
    """Every effect and every look-up is refused; opened again the index is as it was, and judges as the reference."""
    log = articles_log()
    with opened(tmp_path, log) as index:
        with planted_panic(THIRD), pytest.raises(DefectError):
            index.judge(positions(2, 4))
        writes.clear()
        for call in (*WRITES.values(), *LOOKUPS.values()):
            with pytest.raises(RefusedError, match=STOPPED):
                call(index)
    assert writes == []
    assert_sound(tmp_path, log)


def assert_sound(path: Path, log: LogOfTest) -> None:
    """The index in a folder is whole, holds this log, and judges as the reference."""
    with LogIndex.open(path, scheme=SCHEME) as index:
        assert index.next_offset == log.next_offset
        assert index.verify() == []
        plain = log.plain()
        check_verdicts(index, plain, covered_positions(plain))


@pytest.mark.parametrize(("given", "named"), [(1, "record 3"), (2, "records 3 to 4")])
def test_a_panic_while_records_are_applied_names_them(
    tmp_path: Path, writes: list[WriteBatch], given: int, named: str
) -> None:
    """Nothing is written after it. What was written before it is whole: opened again the index goes on behind it."""
    log = articles_log()
    with opened(tmp_path, log) as index:
        for first in range(given):
            log.articles(FIRST, SECOND, first=6 + 2 * first, partition=3)
        tables = index._applied.tables
        tables.native, native = cast("_native.BlockTables", PanickingTables(tables.native, "append")), tables.native
        writes.clear()
        with pytest.raises(DefectError, match=f"^applying log {named}: {SAID}"):
            index.apply(log.records[3:])
        tables.native = native
        assert len(writes) == 1  # of the records, before their entries are appended to the tables
        for call in (*WRITES.values(), LOOKUPS["judge"]):
            with pytest.raises(RefusedError, match=rf"stopped after an error \(applying log {named}"):
                call(index)
    assert len(writes) == 1
    assert_sound(tmp_path, log)


def test_a_panic_at_opening_leaves_the_folder_to_the_next_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the index, whose lock is let go."""
    with opened(tmp_path, articles_log()) as index:
        native = index._applied.tables.native

    def planted(*_: object) -> None:
        panic(native)

    with monkeypatch.context() as patch:
        patch.setattr(RowColumn, "_read_tail", planted)
        with pytest.raises(DefectError, match=f"^opening the index {tmp_path}: a defect in the native core"):
            LogIndex.open(tmp_path, scheme=SCHEME)
    assert_sound(tmp_path, articles_log())


def test_a_staged_index_is_not_committed_after_a_panic(tmp_path: Path) -> None:
    """The folder keeps the index that it had."""
    log = articles_log()
    opened(tmp_path, log).close()
    with LogIndex.open(tmp_path, scheme=SCHEME, staged=True) as index, planted_panic(THIRD):
        index.apply([record(3, START_TIME, batch([9], [THIRD]))])
        with pytest.raises(DefectError, match=r"offset 9 \(article 'articles-0-9', entry 0 of log record 3\)"):
            index.judge(positions(3, 1))
        with pytest.raises(RefusedError, match="close it and open it again"):
            index.commit()
    assert_sound(tmp_path, log)


def test_the_warming_of_the_cache_ends_at_tables_that_are_lost(tmp_path: Path) -> None:
    """An exception of its thread would go nowhere: whoever looks up next says what it met."""
    with opened(tmp_path, articles_log()) as index:
        with pytest.raises(_native.PanicError):
            panic(index._applied.tables.native)
        _Warming(index._applied.store, index._applied.tables.native).stop()
        with pytest.raises(DefectError, match="it stopped at a panic before, which standard error names"):
            index.judge(positions(2, 4))


def test_the_python_api_refuses_further_calls_until_it_is_opened_again(tmp_path: Path) -> None:
    """What was added before is there then, and is found."""
    with stream_dedup.Index(tmp_path) as index:
        index.add("a", "a ferry was cancelled because of a storm in the harbour")
        index.add("b", FIRST)
        with planted_panic(THIRD), pytest.raises(DefectError, match=f"^searching the index {tmp_path}: {SAID}"):
            index.search(THIRD)
        for call in (lambda: index.search(FIRST), lambda: index.add("c", SECOND), index.flush, index.__len__):
            with pytest.raises(RefusedError, match="close it and open it again"):
                call()
    with stream_dedup.Index(tmp_path) as index:
        assert len(index) == 2
        assert [found.id for found in index.search(FIRST)] == ["b"]
        assert index.search(THIRD) == []


def test_a_panic_while_records_are_decoded_names_their_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Topic and offsets of the records that the client returned together."""

    def planted(*_: object, **__: object) -> None:
        raise _native.PanicError("a defect in the native core: index out of bounds")

    monkeypatch.setattr(_native, "join_batches", planted)
    raws = [encode(batch([number], [FIRST])) for number in range(4)]
    consumed = [Consumed(40 + number, raw) for number, raw in enumerate(raws)]
    with pytest.raises(DefectError, match=f"^decoding topic a.log, offsets 40 to 43: {SAID}"):
        log_records("a.log", consumed)


class Consumed(NamedTuple):
    """A record of the log as a client returns it."""

    offset: int
    value: bytes
    timestamp: int = START_TIME
    timestamp_type: int = LOG_APPEND_TIME


@pytest.mark.parametrize(("tables", "block_bits", "row_words"), [(0, 16, 8), (17, 16, 8), (4, 18, 8), (4, 16, 7)])
def test_tables_of_a_shape_that_no_index_has_are_refused(tables: int, block_bits: int, row_words: int) -> None:
    """Rather than ended by a panic when the first rows come."""
    shape = f"{tables} tables of blocks of {block_bits} bits, rows of {row_words} words"
    with pytest.raises(ValueError, match=shape):
        _native.BlockTables(
            cast("_native.Storage", None),
            tables=tables,
            block_bits=block_bits,
            row_words=row_words,
            chunk_rows=64,
            first=0,
            after=0,
            tail=b"",
            memory_bytes=0,
            fold_entries=1,
            chunk_entries=1,
            next_run=0,
            run_families=1,
        )
