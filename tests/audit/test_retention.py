"""Retention excuses missing outputs exactly as far as it can have deleted them."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.audit.reference import SourcePartition
from stream_dedup.audit.retention import Choice, Retention, most_deleted
from stream_dedup.core.model import SourceOffset
from stream_dedup.ports import Partition
from tests.audit.comparing import FAR, SOURCE_0, A, asked_of, counts, outputs_of, report, three_articles, with_values
from tests.logs import REJECTED, TOPIC, LogOfTest, batch, rules

UNIQUE = frozenset(["unique"])
FIRST, SECOND = Partition("unique", 0), Partition("unique", 1)
SOURCES: list[SourcePartition] = [(TOPIC, 0), (TOPIC, 1)]
ALLOWANCE_MS = 50


class Written(NamedTuple):
    """An article and its output."""

    source: SourcePartition
    offset: SourceOffset
    logged: int
    topic: str
    partition: Partition
    written: int


def history(rng: random.Random) -> list[Written]:
    """Articles of two source partitions, in the order in which their outputs were appended.

    The worker of each source partition has a clock of its own, which is wrong by up to half the allowance, and a record
    is appended up to half the allowance after its time was taken.
    """
    now, found, offsets = 1000, [], Counter[SourcePartition]()
    wrong = {source: rng.randint(-ALLOWANCE_MS // 2, ALLOWANCE_MS // 2) for source in SOURCES}
    for _ in range(rng.randint(1, 30)):
        now += rng.randint(0, 40)
        source = rng.choice(SOURCES)
        topic = rng.choice(["unique", "unique", "duplicate"])
        partition = Partition(topic, rng.randrange(2))
        waited, sending = rng.choice([0, 0, 5, 300]), rng.randint(0, ALLOWANCE_MS // 2)
        logged, stamped = now - sending - waited, now - sending + wrong[source]
        found.append(Written(source, SourceOffset(offsets[source]), logged, topic, partition, stamped))
        offsets[source] += rng.randint(1, 2)
    return found


def excused(retention: Retention, articles: Sequence[Written], topics: Mapping[str, frozenset[str]]) -> int:
    """How many of these articles without an output retention excuses."""
    choices = (retention.may_have_deleted(topics[one.topic], one.logged, one.source, one.offset) for one in articles)
    wanted = Counter(choice for choice in choices if choice)
    return sum(most_deleted(wanted, retention.room).values())


def after_retention(outputs: Sequence[Written], deleted: Mapping[Partition, int]) -> tuple[Retention, list[Written]]:
    """What the audit learns where the first records of each partition were deleted; and the deleted ones."""
    retention = Retention(deleted, ALLOWANCE_MS, ordered=True)
    gone, seen = [], Counter[Partition]()
    for one in outputs:
        seen[one.partition] += 1
        if seen[one.partition] <= deleted[one.partition]:
            gone.append(one)
        else:
            retention.add(one.partition, one.written, one.source, one.offset)
    return retention, gone


def deletions(rng: random.Random, outputs: Sequence[Written]) -> dict[Partition, int]:
    """The number of first records that retention deletes of each partition: often none, sometimes all."""
    sizes = Counter(one.partition for one in outputs)
    everywhere = [Partition(topic, number) for topic in ("unique", "duplicate") for number in range(2)]
    return {at: rng.choice([0, rng.randint(0, sizes[at]), sizes[at]]) for at in everywhere}


KNOWN = {"unique": UNIQUE, "duplicate": frozenset(["duplicate"])}
SAMPLED = dict.fromkeys(KNOWN, UNIQUE | {"duplicate"})


@pytest.mark.parametrize("seed", range(60))
def test_what_retention_deleted_is_never_missing(seed: int) -> None:
    """Whatever retention deletes, it excuses all of it: whether the topic of a missing output is known or not."""
    rng = random.Random(seed)
    outputs = history(rng)
    retention, gone = after_retention(outputs, deletions(rng, outputs))
    assert [excused(retention, gone, topics) for topics in (KNOWN, SAMPLED)] == [len(gone), len(gone)]


@pytest.mark.parametrize("seed", range(60))
def test_a_lost_output_is_missing_unless_retention_can_have_deleted_it(seed: int) -> None:
    """The number of excused outputs is the largest that the four rules allow, by trial of every assignment."""
    rng = random.Random(seed)
    outputs = history(rng)
    kept = [one for one in outputs if rng.random() > 0.15]
    lost = [one for one in outputs if one not in kept][:5]
    retention, gone = after_retention(kept, deletions(rng, kept))
    missing = [*lost, *gone[: 6 - len(lost)]]
    choices = [retention.may_have_deleted(KNOWN[one.topic], one.logged, one.source, one.offset) for one in missing]
    assert excused(retention, missing, KNOWN) == by_trial(choices, retention.room)


def by_trial(choices: Sequence[Choice], room: Mapping[Partition, int]) -> int:
    """The most articles that can have a place each."""
    most = 0
    for places in product(*([None, *sorted(choice)] for choice in choices)):
        used = Counter(place for place in places if place is not None)
        if all(count <= room[place] for place, count in used.items()):
            most = max(most, used.total())
    return most


@given(st.lists(st.frozensets(st.integers(0, 3)), max_size=6), st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_most_deleted(choices: list[frozenset[int]], sizes: list[int]) -> None:
    """The flow is a maximum one."""
    room = {Partition("unique", number): size for number, size in enumerate(sizes)}
    wanted = [frozenset(Partition("unique", number) for number in choice) for choice in choices]
    deleted = most_deleted(Counter(wanted), room)
    assert sum(deleted.values()) == by_trial(wanted, room)
    assert all(deleted[choice] <= count for choice, count in Counter(wanted).items())


def test_many_partitions() -> None:
    """A cluster of many partitions, most of whose missing outputs have no room, takes no time to speak of."""
    rng, numbers = random.Random(1), range(32)
    parts = [Partition(topic, number) for topic in ("unique", "duplicate") for number in numbers]
    retention = Retention(dict.fromkeys(parts, 20), 1000, ordered=True)
    for partition, number in product(parts, numbers):
        retention.add(partition, 1000, (TOPIC, number), SourceOffset(rng.randrange(50, 150)))
    wanted: Counter[Choice] = Counter()
    for number, offset in product(numbers, map(SourceOffset, range(150))):
        wanted[retention.may_have_deleted(UNIQUE | {"duplicate"}, 0, (TOPIC, number), offset)] += 1
    started = time.process_time()
    assert sum(most_deleted(wanted, retention.room).values()) == 20 * len(parts)
    assert time.process_time() - started < 2


def test_equal_choices_are_held_once() -> None:
    """A choice is a set of some kilobytes, and there may be millions of missing outputs: equal ones are one object."""
    retention = Retention({FIRST: 3, SECOND: 3}, ALLOWANCE_MS, ordered=True)
    choices = [retention.may_have_deleted(UNIQUE, 1000, SOURCES[0], SourceOffset(offset)) for offset in range(5)]
    assert len({id(choice) for choice in choices}) == 1


def test_begin() -> None:
    """A partition from which nothing was deleted excuses nothing."""
    retention = Retention({FIRST: 0, SECOND: 3, Partition("rejected", 0): 5}, ALLOWANCE_MS, ordered=True)
    assert retention.may_have_deleted(UNIQUE, 1000, SOURCES[0], SourceOffset(5)) == {SECOND}


def test_order() -> None:
    """A kept output of an earlier article of the same source partition proves that a later one was not deleted."""
    retention = Retention({FIRST: 3, SECOND: 3}, ALLOWANCE_MS, ordered=True)
    retention.add(FIRST, 2000, SOURCES[0], SourceOffset(5))
    assert [retention.may_have_deleted(UNIQUE, 1000, SOURCES[0], SourceOffset(offset)) for offset in (4, 6)] == [
        {FIRST, SECOND},
        {SECOND},
    ]
    assert retention.may_have_deleted(UNIQUE, 1000, SOURCES[1], SourceOffset(6)) == {FIRST, SECOND}


def test_order_where_offsets_were_set_back() -> None:
    """A repeat of an earlier article proves nothing."""
    retention = Retention({FIRST: 3}, ALLOWANCE_MS, ordered=False)
    retention.add(FIRST, 2000, SOURCES[0], SourceOffset(5))
    assert retention.may_have_deleted(UNIQUE, 1000, SOURCES[0], SourceOffset(6)) == {FIRST}


def test_time() -> None:
    """What was logged after a kept record was written, allowance included, was not deleted."""
    retention = Retention({FIRST: 3}, ALLOWANCE_MS, ordered=True)
    retention.add(FIRST, 2000, SOURCES[1], SourceOffset(5))
    found = [retention.may_have_deleted(UNIQUE, time, SOURCES[0], SourceOffset(6)) for time in (2050, 2051)]
    assert found == [{FIRST}, frozenset()]


def test_not_kept() -> None:
    """Retention excuses no more articles than it removed records, and only those of the topic that it removed from."""
    log = three_articles().plain()
    begins = {Partition("unique", 0): 1}
    found = report(log, [], asked_of(begins=begins))
    assert counts(found) == {"not kept": 1, "missing": 2}
    begins |= {Partition("duplicate", 3): 9, Partition("rejected", 1): 1}
    assert counts(report(log, [], asked_of(begins=begins))) == {"not kept": 3}


def test_a_removed_rejected_record_excuses_no_unique_one() -> None:
    """One old rejected record was removed by retention, and 20 unique outputs were lost: 20 are missing."""
    made = LogOfTest()
    made.add(rules())
    made.add(with_values(batch(range(21), [REJECTED, *(0x1234_5678_9ABC_DEF1 * n % 2**64 for n in range(1, 21))])))
    log = made.plain()
    found = report(log, [], asked_of(committed={SOURCE_0: 21}, begins={Partition("rejected", 0): 1}))
    assert counts(found) == {"not kept": 1, "missing": 20}


def test_retention_excuses_no_more_than_it_deleted() -> None:
    """Of three lost unique outputs, a partition that lost two records excuses two: those that were logged first."""
    made = LogOfTest()
    made.add(rules())
    made.articles(A, FAR, FAR << 1 & 2**64 - 1, first=0)
    log = made.plain()
    found = report(log, [], asked_of(begins={Partition("unique", 0): 2}))
    assert counts(found) == {"not kept": 2, "missing": 1}
    assert found.examples["missing"] == ["articles-0-2: in the log at offset 1, but in no output topic"]


def test_retention_excuses_by_the_recomputed_verdict() -> None:
    """Deleted duplicates excuse a lost duplicate; a lost unique output only where its verdict was not recomputed."""
    log = three_articles().plain()
    rejected = outputs_of(log)[2:]
    asked = asked_of(begins={Partition("duplicate", 0): 5})
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
    assert counts(report(log, [output], asked_of(committed=committed, begins={Partition("unique", 0): 1}))) == found


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
    asked = asked_of(committed=committed, begins=begins, read_ms=log.first_time + read_s * 1000)
    assert counts(report(log, [output], asked)) == found


def test_retention_where_offsets_were_set_back() -> None:
    """A kept output of an earlier article proves nothing where it may be a repeat."""
    log = three_articles().plain()
    first = outputs_of(log)[0]._replace(topic="duplicate")
    for allow_repeats, found in ((False, "missing"), (True, "not kept")):
        asked = asked_of(committed={SOURCE_0: 2}, begins={Partition("duplicate", 0): 5}, allow_repeats=allow_repeats)
        assert counts(report(log, [first], asked)) == {"wrong": 1, found: 1, "pending": 1}
