"""Source offsets that a trim forgets never become articles again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stream_dedup.audit.reference import plain_log
from stream_dedup.core.entry import Basis, Forgotten, LogRecord, Trim
from stream_dedup.core.model import LogOffset, SourceOffset, Verdict, log_position
from stream_dedup.index import FORGOTTEN
from tests.index.checks import build, check_standing, check_verdicts, covered_positions, often_folding
from tests.logs import START_TIME, TOPICS, batch_record, record, rules_record, trim_record

pytestmark = pytest.mark.usefixtures("small_limits")


def test_a_forgotten_article_that_comes_again_is_new_but_not_its_own_duplicate(tmp_path: Path) -> None:
    """Its old entry stays for others; it never matches its own coordinates, however often it came."""
    records = [rules_record(0, window_ms=10), batch_record(1, START_TIME, [1 << 60], [7])]
    records += [rules_record(2, window_ms=10)]
    at = 3
    for _ in range(10):
        records.append(batch_record(at, START_TIME + 5, [3], [0]))
        records.append(trim_record(at + 1, START_TIME + 5, 2, START_TIME + 5))
        at += 2
    records += [batch_record(at, START_TIME + 6, [3], [0]), batch_record(at + 1, START_TIME + 6, [3], [1])]
    index = build(often_folding(tmp_path), records)
    judged = index.judge(np.array([log_position(at, 0), log_position(at + 1, 0)]))
    assert judged[0].verdict is Verdict.UNIQUE
    assert judged[1].match is not None
    assert judged[1].match.position == log_position(3, 0)
    index.close()


FAR = [0x9E3779B97F4A7C15 * number % 2**64 for number in range(1, 11)]
"""Fingerprints that are not near each other."""


def frozen_worker(*, rules_between: bool = False, read_to: int = 6) -> list[LogRecord]:
    """A log in which a trim forgets offsets 0 to 3, and a worker that was held up logs 0 to 5 after it.

    The late batch repeats offsets 0 and 1, of which entries were dropped, and 2 and 3, of which only coordinates were.
    """
    basis = Basis(1, LogOffset(read_to), (Forgotten(TOPICS[0], 0, SourceOffset(4)),))
    return [
        rules_record(0, window_ms=100),
        batch_record(1, START_TIME, FAR[:2], [0, 1]),
        rules_record(2, START_TIME, window_ms=100),
        batch_record(3, START_TIME + 50, FAR[2:4], [2, 3]),
        batch_record(4, START_TIME + 250, FAR[9:10], [9]),
        rules_record(5, START_TIME + 250, revision=1 + rules_between, window_ms=100 + 900 * rules_between),
        record(6, START_TIME + 251, Trim(LogOffset(2), START_TIME + 100, basis)),
        batch_record(7, START_TIME + 252, FAR[:6], [0, 1, 2, 3, 4, 5]),
        rules_record(8, START_TIME + 252, revision=1 + rules_between, window_ms=100 + 900 * rules_between),
        batch_record(9, START_TIME + 253, [FAR[0], FAR[4]], [10, 11]),
    ]


def test_a_late_batch_makes_no_article_of_what_is_forgotten(tmp_path: Path) -> None:
    """What others judged while its worker was held up has no second entry: a re-post matches only what it should."""
    records = frozen_worker()
    index, plain = build(often_folding(tmp_path), records), plain_log(records)
    check_standing(index, plain)
    positions = index.logged_positions(TOPICS[0], 0, np.arange(6)).tolist()
    assert positions == [FORGOTTEN] * 4 + [log_position(7, 4), log_position(7, 5)]
    assert index.stats().articles == len(plain.entries) - 2 == 2 + 1 + 2 + 2
    repost, near_late = index.judge(np.array([log_position(9, 0), log_position(9, 1)]))
    assert repost.verdict is Verdict.UNIQUE
    assert near_late.match is not None
    assert near_late.match.position == log_position(7, 4)
    check_verdicts(index, plain, [log_position(9, 0), log_position(9, 1)])
    assert index.verify() == []
    index.close()


def test_an_offered_trim_lists_all_that_is_forgotten(tmp_path: Path) -> None:
    """Partitions of which it drops nothing are among it: an index of the log cut there knows only this trim."""
    records = [rules_record(0, window_ms=100), batch_record(1, START_TIME, FAR[:2], [0, 1], partition=1)]
    records += [rules_record(2, START_TIME, window_ms=100), batch_record(3, START_TIME + 200, FAR[2:3], [0])]
    index = build(often_folding(tmp_path / "whole"), records)
    first = index.trims.offered(START_TIME + 101)
    assert first is not None
    records += [record(4, START_TIME + 201, first), rules_record(5, START_TIME + 201, window_ms=100)]
    records += [batch_record(6, START_TIME + 600, FAR[3:4], [1])]
    index.apply(records[4:])
    second = index.trims.offered(START_TIME + 600)
    assert second is not None
    assert second.basis is not None
    forgotten = (Forgotten(TOPICS[0], 0, SourceOffset(1)), Forgotten(TOPICS[0], 1, SourceOffset(2)))
    assert (second.before, second.basis.forgotten) == (5, forgotten)
    records.append(record(7, START_TIME + 601, second))
    index.apply(records[7:])
    assert index.low_watermark == 5
    cut = build(often_folding(tmp_path / "cut"), records[5:])
    check_standing(cut, plain_log(records))
    index.close()
    cut.close()


def test_no_trim_names_rules_between_the_last_complete_trim_and_a_late_batch(tmp_path: Path) -> None:
    """An index of the log cut there would take the late entries for articles: it has not seen what is forgotten."""
    records = frozen_worker()[:8]
    records.insert(7, rules_record(7, START_TIME + 251, window_ms=100))
    records[8:] = [late._replace(offset=LogOffset(late.offset + 1)) for late in records[8:]]
    index = build(often_folding(tmp_path), records)
    basis = Basis(1, LogOffset(9), (Forgotten(TOPICS[0], 0, SourceOffset(4)),))
    named = record(9, START_TIME + 400, Trim(LogOffset(7), START_TIME + 100, basis))
    index.apply([named])
    plain = plain_log([*records, named])
    assert index.low_watermark == plain.low_watermark == 2
    index.close()


def test_a_trim_of_other_rules_has_no_effect(tmp_path: Path) -> None:
    """Another change of rules came before it: it drops and forgets nothing, and bars no later trim."""
    records = frozen_worker(rules_between=True)
    index, plain = build(often_folding(tmp_path), records), plain_log(records)
    assert (index.low_watermark, index.forgotten_before(TOPICS[0], 0)) == (plain.low_watermark, 0) == (0, 0)
    check_standing(index, plain)
    check_verdicts(index, plain, covered_positions(plain))
    assert plain.void_trims_before == 0
    index.close()


@pytest.mark.parametrize("read_to", [1, 3])
def test_a_trim_that_drops_what_its_author_had_not_read_is_void(tmp_path: Path, read_to: int) -> None:
    """The author could not know whether those articles are owed."""
    records = frozen_worker(read_to=read_to)
    index, plain = build(often_folding(tmp_path), records), plain_log(records)
    assert (index.low_watermark, plain.low_watermark) == (0, 0)
    assert index.forgotten_before(TOPICS[0], 0) == 0
    check_standing(index, plain)
    index.close()
