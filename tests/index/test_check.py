"""A check of an unlogged article: the verdict that it has if it is logged next."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from stream_dedup.core.columns import COLUMNS, Columns
from stream_dedup.core.entry import Batch, LogRecord
from stream_dedup.core.model import Judgement, Verdict, log_position
from stream_dedup.core.rules import COPIES_LIMIT, Rules
from stream_dedup.errors import RefusedError
from stream_dedup.index import UNLOGGED, IndexSettings, IndexStats, LogIndex
from stream_dedup.index.judge import CheckedArticle
from tests.amount import FULL
from tests.logs import SCHEME, START_TIME, batch, record, rules
from tests.random_logs import random_log

SEEDS = 100 if FULL else 20
STEP = 20
"""Seeds of one test."""


def kept(index: LogIndex) -> IndexStats:
    """Return the figures of an index, but for RocksDB's own cache: it reads for itself at any time."""
    return replace(index.stats(), bytes_block_cache=0)


def columns_of(batch: Batch, rows: slice) -> Columns:
    """The columns of some entries, as they are before they are logged."""
    columns = batch.rows(rows)
    return Columns(**{name: getattr(columns, name) for name in COLUMNS})


def is_unlogged(index: LogIndex, batch: Batch) -> bool:
    """Whether the first entry of a batch is no copy of a logged one, and its source offset not forgotten."""
    positions = index.logged_positions(batch.topic_id, batch.partition, batch.offsets[:1])
    return bool((positions == UNLOGGED).all())


def compared(index: LogIndex, one: LogRecord) -> tuple[CheckedArticle, Judgement] | None:
    """Check the first article of a record, apply the record, and judge it; None of no new article.

    Where a trim has forgotten the coordinates of an article, but not yet its entry, the article may be logged again; it
    is no match of itself then. An unlogged article has no coordinates to know itself by.
    """
    batch = one.payload
    if not isinstance(batch, Batch) or index.rules is None or not is_unlogged(index, batch):
        index.apply([one])
        return None
    time_ms = int(np.atleast_1d(one.time)[0])
    (checked,) = index.check(columns_of(batch, slice(0, 1)), time_ms, COPIES_LIMIT)
    index.apply([one])
    (judged,) = index.judge(np.array([log_position(one.offset, 0)], np.int64))
    is_itself = any(match.coordinates == batch.coordinates(0) for match in checked.nearest)
    return None if is_itself else (checked, judged)


@cache
def compared_in(seed: int) -> list[tuple[CheckedArticle, Judgement]]:
    """Every new first article of a batch of a random log, checked and then judged."""
    records = random_log(seed)
    scheme = records[0].payload.scheme if isinstance(records[0].payload, Rules) else SCHEME
    settings = IndexSettings(fold_entries=random.Random(seed).choice([1, 30, 100_000]), memory_mib=1_000 * (seed % 2))
    with TemporaryDirectory() as folder, LogIndex.open(Path(folder), scheme=scheme, settings=settings) as index:
        index.begin("log")
        return [pair for one in records if (pair := compared(index, one)) is not None]


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SEEDS, STEP))
def test_a_check_is_the_verdict_of_the_article_logged_next(first: int) -> None:
    """In random logs with trims, withdrawals, changes of rules, bounds, copies and versions of one id."""
    pairs = [pair for seed in range(first, first + STEP) for pair in compared_in(seed)]
    assert {judged.verdict for _, judged in pairs} == set(Verdict)
    assert [checked.judgement for checked, _ in pairs] == [judged for _, judged in pairs]


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SEEDS, STEP))
def test_the_nearest_entries_are_those_that_the_verdict_counts(first: int) -> None:
    """Nearest first, as many as there are copies; the match is the first, unless it is an earlier version."""
    checked = [one for seed in range(first, first + STEP) for one, _ in compared_in(seed)]
    assert any(len(one.nearest) > 1 for one in checked)
    for judgement, nearest in checked:
        assert len(nearest) == judgement.copies
        assert [match.distance for match in nearest] == sorted(match.distance for match in nearest)
        assert len({match.position for match in nearest}) == len(nearest)
        if judgement.verdict is Verdict.DUPLICATE:
            assert judgement.match == nearest[0]


def test_a_check_returns_as_many_entries_as_asked_for(tmp_path: Path) -> None:
    """None, one or all; the verdict does not depend on it."""
    with LogIndex.open(tmp_path / "index", scheme=SCHEME) as index:
        index.begin("log")
        index.apply([record(0, START_TIME, rules()), record(1, START_TIME, batch(range(4), [7, 7, 6, 1 << 40]))])
        asked = columns_of(batch([9], [7]), slice(0, 1))
        found = [index.check(asked, START_TIME, most)[0] for most in (0, 1, 2, 9)]
    assert [len(one.nearest) for one in found] == [0, 1, 2, 3]
    assert len({one.judgement for one in found}) == 1
    assert [match.distance for match in found[-1].nearest] == [0, 0, 1]


def test_a_check_changes_nothing(tmp_path: Path) -> None:
    """The same article twice is unique twice."""
    with LogIndex.open(tmp_path / "index", scheme=SCHEME) as index:
        index.begin("log")
        index.apply([record(0, START_TIME, rules())])
        before = kept(index)
        asked = columns_of(batch([9, 10], [7, 7]), slice(0, 2))
        for _ in range(2):
            assert [one.judgement.verdict for one in index.check(asked, START_TIME)] == [Verdict.UNIQUE] * 2
        assert kept(index) == before


def test_entries_of_another_scheme_are_refused(tmp_path: Path) -> None:
    """Other widths, or a log without rules: the columns cannot be compared."""
    asked = columns_of(batch([9], [7]), slice(0, 1))
    wider = replace(asked, sketches=np.zeros((1, 8), np.uint8))
    with LogIndex.open(tmp_path / "index", scheme=SCHEME) as index:
        index.begin("log")
        with pytest.raises(RefusedError, match="the log has no rules"):
            index.check(asked, START_TIME)
        index.apply([record(0, START_TIME, rules())])
        with pytest.raises(RefusedError, match="sketches of 8 bytes cannot be checked: the log has 4 tables"):
            index.check(wider, START_TIME)
