"""Which missing outputs the retention of their topics excuses."""

from __future__ import annotations

import pytest

from stream_dedup.ports import Partition
from tests.audit.comparing import (
    FAR,
    SOURCE_0,
    A,
    counts,
    outputs_of,
    report,
    scope,
    three_articles,
    with_values,
)
from tests.logs import REJECTED, TOPIC, LogOfTest, batch, rules


def test_not_kept() -> None:
    """Retention excuses no more articles than it removed records, and only those of the topic that it removed from."""
    log = three_articles().plain()
    begins = {Partition("unique", 0): 1}
    found = report(log, [], scope(begins=begins))
    assert counts(found) == {"not kept": 1, "missing": 2}
    begins |= {Partition("duplicate", 3): 9, Partition("rejected", 1): 1}
    assert counts(report(log, [], scope(begins=begins))) == {"not kept": 3}


def test_a_removed_rejected_record_excuses_no_unique_one() -> None:
    """One old rejected record was removed by retention, and 20 unique outputs were lost: 20 are missing."""
    made = LogOfTest()
    made.add(rules())
    made.add(with_values(batch(range(21), [REJECTED, *(0x1234_5678_9ABC_DEF1 * n % 2**64 for n in range(1, 21))])))
    log = made.plain()
    found = report(log, [], scope(committed={SOURCE_0: 21}, begins={Partition("rejected", 0): 1}))
    assert counts(found) == {"not kept": 1, "missing": 20}


def test_retention_excuses_no_more_than_it_deleted() -> None:
    """Of three lost unique outputs, a partition that lost two records excuses two: those that were logged first."""
    made = LogOfTest()
    made.add(rules())
    made.articles(A, FAR, FAR << 1 & 2**64 - 1, first=0)
    log = made.plain()
    found = report(log, [], scope(begins={Partition("unique", 0): 2}))
    assert counts(found) == {"not kept": 2, "missing": 1}
    assert found.examples["missing"] == ["articles-0-2: in the log at offset 1, but in no output topic"]


def test_retention_excuses_by_the_recomputed_verdict() -> None:
    """Deleted duplicates excuse a lost duplicate; a lost unique output only where its verdict was not recomputed."""
    log = three_articles().plain()
    rejected = outputs_of(log)[2:]
    asked = scope(begins={Partition("duplicate", 0): 5})
    assert counts(report(log, rejected, asked)) == {"not kept": 1, "missing": 1}
    assert counts(report(log, [], asked, sample=0)) == {"not kept": 2, "missing": 1}


@pytest.mark.parametrize(("later_s", "found"), [(-600, {"not kept": 1}), (0, {"missing": 1})])
def test_retention_where_the_clock_of_the_log_was_ahead(later_s: int, found: dict[str, int]) -> None:
    """An article was logged before those that come after it in the log, whatever its log time says.

    The time of an output is of its worker's clock. One that is behind shows nothing of the kind.
    """
    made = LogOfTest()
    made.add(rules())
    for partition, (fingerprint, seconds) in enumerate([(A, 1000), (FAR, later_s)]):
        made.add(with_values(batch([0], [fingerprint], partition=partition)), seconds=seconds)
    log = made.plain()
    output = outputs_of(log)[1]._replace(offset=1, timestamp=500_000)
    committed = {(TOPIC, 0): 1, (TOPIC, 1): 1}
    assert counts(report(log, [output], scope(committed=committed, begins={Partition("unique", 0): 1}))) == found


@pytest.mark.parametrize(
    ("read_s", "kept", "found"), [(900, 1, {"not kept": 1}), (900, 0, {"missing": 1}), (2100, 1, {"missing": 1})]
)
def test_retention_where_the_clock_of_the_log_is_ahead(read_s: int, kept: int, found: dict[str, int]) -> None:
    """A log time in the future counts for nothing: an article was logged before a later one had its output.

    The output of an earlier one shows nothing of the kind; neither does a worker's clock that is behind, where the
    log time is in the past.
    """
    made = LogOfTest()
    made.add(rules())
    for partition, fingerprint in enumerate([A, FAR]):
        made.add(with_values(batch([0], [fingerprint], partition=partition)), seconds=1000)
    log = made.plain()
    output = outputs_of(log)[kept]._replace(offset=1, timestamp=500_000)
    committed = {(TOPIC, 0): 1, (TOPIC, 1): 1}
    begins = {Partition("unique", 0): 1}
    asked = scope(committed=committed, begins=begins, read_ms=log.first_time + read_s * 1000)
    assert counts(report(log, [output], asked)) == found


def test_retention_where_offsets_were_set_back() -> None:
    """A kept output of an earlier article proves nothing where it may be a repeat."""
    log = three_articles().plain()
    first = outputs_of(log)[0]._replace(topic="duplicate")
    for allow_repeats, found in ((False, "missing"), (True, "not kept")):
        asked = scope(committed={SOURCE_0: 2}, begins={Partition("duplicate", 0): 5}, allow_repeats=allow_repeats)
        assert counts(report(log, [first], asked)) == {"wrong": 1, found: 1, "pending": 1}
