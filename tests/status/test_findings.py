"""What is wrong with a group: one finding for each harm, with its remedy, and none for a group that works."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stream_dedup.core.model import LogOffset
from stream_dedup.core.rules import Rules
from stream_dedup.kafka.admin import Member
from stream_dedup.kafka.rules_log import LostLog
from stream_dedup.kafka.topics import TopicFault, TopicProblem
from stream_dedup.ports import Partition
from stream_dedup.status.findings import FindingCode, find
from stream_dedup.status.snapshot import LogState, PartitionState, Rates, Snapshot
from stream_dedup.status.text import lines_of, values_of
from tests.logs import SCHEME

RULES = Rules(SCHEME, distance=3)
ONE, TWO = Partition("articles", 0), Partition("articles", 1)
WORKER = Member("news-1", "10.0.0.1", (ONE, TWO))
FIRST, SECOND = PartitionState(ONE, 0, 100, 90, owner="news-1"), PartitionState(TWO, 0, 50, 50, owner="news-1")
LOG = LogState("news.fingerprints", exists=True, end=LogOffset(7), last_record_ms=0, trims=0, rules=RULES)
WELL = Snapshot(0.0, 3000, "news", "Stable", (WORKER,), (FIRST, SECOND), LOG, {}, (), (), None)


def later(**changes: Any) -> Snapshot:  # noqa: ANN401 - fields of Snapshot
    """The group two seconds later, when 10 more articles of the first partition are committed."""
    moved = replace(FIRST, committed=100)
    return replace(WELL, at_s=2.0, partitions=(moved, SECOND), **changes)


def told(now: Snapshot, before: Snapshot | None = None, configured: Rules | None = RULES) -> list[str]:
    return [str(finding) for finding in find(now, before, configured)]


def test_nothing_is_said_of_a_group_that_works() -> None:
    """Neither of one look nor of two."""
    assert told(WELL) == []
    assert told(later(), WELL) == []
    assert lines_of(WELL, None, [])[-1] == "nothing is wrong"


def test_transactions_that_follow_one_another_hold_nothing_back() -> None:
    """One that is open at both looks does; of a busy producer, each look sees another one."""
    held = replace(FIRST, committed=100, end=105, open_from=100)
    before = replace(WELL, partitions=(held, SECOND))
    moved = replace(held, committed=110, end=115, open_from=110)
    assert told(replace(before, at_s=2.0, partitions=(moved, SECOND)), before) == []
    (said,) = told(replace(before, at_s=2.0), before)
    assert "an open transaction holds back 5 offsets" in said


HARMS: list[tuple[dict[str, Any], str, str]] = [
    ({"members": (), "group_state": "Empty"}, "no worker is in group news", "stream-dedup run"),
    ({"log": LogState("l", exists=False)}, "log l does not exist", "start a worker"),
    (
        {"log": replace(LOG, damage="topic l, offset 5: bytes")},
        "no worker can read on in the log: topic l, offset 5",
        "then start the workers",
    ),
    ({"log": replace(LOG, rules=None)}, "has records and no rules", "another --group"),
    ({"lost": LostLog("news", "a-0: 5", "l", exists=False)}, "offsets (a-0: 5), but its log l does not", "--new-log"),
    ({"lost": LostLog("news", "a-0: 5", "l", exists=True)}, "but its log l has no records", "run --new-log"),
    ({"members": (WORKER, Member("other", "h", ()))}, "member other at h is no worker", "another group"),
    ({"partitions": (replace(FIRST, owner=None),)}, "no worker reads articles-0", "--input"),
    ({"partitions": (replace(FIRST, committed=None),)}, "articles-0: no committed offset", "--to logged"),
    ({"partitions": (replace(FIRST, first=95),)}, "deleted before they were judged", "--to beginning"),
    ({"partitions": (replace(FIRST, first=95, committed=0),)}, "articles-0: articles behind", "--to beginning"),
    ({"partitions": (replace(FIRST, committed=101),)}, "it lost records", "--to end"),
    ({"hanging": ("news-9",)}, "hold back readers: news-9", "transaction_timeout_s"),
    ({"out_of_sync": {ONE: (1, 3)}}, "articles-0: 1 of 3 replicas are in sync", "brokers"),
    (
        {"topic_problems": (TopicProblem("unique", TopicFault.ABSENT, {"command": "c"}),)},
        "topic unique: it is",
        "topics create, or c",
    ),
]


@pytest.mark.parametrize(("harm", "text", "remedy"), HARMS, ids=[text for _, text, _ in HARMS])
def test_each_harm_is_named_with_its_remedy(harm: dict[str, Any], text: str, remedy: str) -> None:
    """It is the only finding that is no note: the exit code tells it."""
    (finding,) = (finding for finding in find(replace(WELL, **harm), None, RULES) if not finding.is_note)
    assert text in finding.text
    assert remedy in finding.remedy


@pytest.mark.parametrize(
    ("topics", "age_s", "told_of"),
    [
        (("articles",), None, "note: articles-2: new, and not read yet; the group takes"),
        (("articles",), 29.0, "note: articles-2: new, and not read yet; the group takes"),
        (
            ("articles",),
            30.0,
            "wrong: articles-2: no worker reads them, though the group reads their topic; if they are not",
        ),
        ((), 29.0, "note: articles-2: new"),  # a client leaves out topics that were not there
        ((), 30.0, "wrong: no worker reads articles-2; start the workers with all topics"),
        ((), None, "wrong: no worker reads articles-2; start the workers with all topics"),
    ],
)
def test_a_partition_that_is_added(topics: tuple[str, ...], age_s: float | None, told_of: str) -> None:
    """The group takes it by itself: nobody starts a worker, or sets an offset, for it. If it does not, that is wrong.

    Its age is that of its first record; its articles, of which more and more wait, are no matter of more workers.
    """
    first_ms = None if age_s is None else WELL.at_ms - int(1_000 * age_s)
    worker = WORKER._replace(topics=topics)
    added = PartitionState(Partition("articles", 2), 0, 0 if age_s is None else 5_000, None, first_ms=first_ms)
    before = replace(WELL, at_s=-3.0, members=(worker,), partitions=(FIRST, SECOND, replace(added, end=0)))
    now = replace(WELL, members=(worker,), partitions=(replace(FIRST, committed=100), SECOND, added))
    (finding,) = find(now, before, RULES)
    assert f"{'note' if finding.is_note else 'wrong'}: {finding}".startswith(told_of)


def test_a_partition_that_was_not_there_at_the_look_before_is_new() -> None:
    """Whatever the times of its records say: articles may bring their own."""
    added = PartitionState(Partition("articles", 2), 0, 5, None, first_ms=0)
    (finding,) = find(replace(later(), partitions=(*later().partitions, added)), WELL, RULES)
    assert finding.code is FindingCode.NEW_PARTITIONS


def test_progress_is_judged_by_two_looks() -> None:
    """A partition with articles of which none was committed is stuck; a lag that grows is told with its growth."""
    still = replace(WELL, at_s=2.0)
    assert told(still, WELL) == [
        (
            "articles-0: nothing was committed in 2 s, though there are articles; read the log lines of the worker "
            "that has it, and its /healthz"
        )
    ]
    assert not told(replace(WELL, at_s=1.0), WELL), "looks that are close to each other say nothing"
    grown = replace(later(), partitions=(replace(FIRST, committed=95, end=125), SECOND))
    assert told(grown, WELL)[0].startswith("the lag of 30 articles grows by 10 a second; start more workers")
    assert told(replace(still, group_state="PreparingRebalance"), WELL)[0].startswith("the group is sharing out")


@pytest.mark.parametrize(
    ("waiting", "judged", "arrived", "grows_by"),
    [
        (30, 5, 5, None),  # as many as come
        (30, 5, 6, None),  # half an article a second more
        (30, 5, 7, "1"),  # one a second
        (30, 5, 25, "10"),
        (30, 5, 20_005, "10,000"),
        (30, 5, 4, None),  # fewer come than are judged
        (30, 5, 0, None),
        (5, 5, 25, None),  # what waited was under way
        (6, 5, 26, "10"),
        (0, 0, 100, None),  # a burst that has just arrived
        (1000, 1000, 1900, None),  # a second of work waits
        (1001, 1000, 1900, "450"),
    ],
)
def test_a_lag_that_grows(waiting: int, judged: int, arrived: int, grows_by: str | None) -> None:
    """It is wrong where more comes than is judged: by an article a second, of more than is under way.

    ``judged`` and ``arrived`` are articles of the two seconds between the looks, before which ``waiting`` waited.
    """
    end = 10_000
    before = replace(WELL, partitions=(replace(FIRST, end=end, committed=end - waiting), SECOND))
    moved = replace(FIRST, end=end + arrived, committed=end - waiting + judged)
    found = told(replace(before, at_s=2.0, partitions=(moved, SECOND)), before)
    lag = f"the lag of {waiting + arrived - judged:,} articles grows by {grows_by} a second"
    assert [text.partition(";")[0] for text in found] == [lag] * (grows_by is not None)


@pytest.mark.parametrize("seconds", [2.0, 3.0, 7.0, 60.0])
@pytest.mark.parametrize("growth", [10.0**exponent for exponent in range(-4, 6)])
def test_no_growth_is_told_as_none(growth: float, seconds: float) -> None:
    """Whatever is told of a growing lag names at least one article a second."""
    before = replace(WELL, partitions=(replace(FIRST, end=10_000, committed=0), SECOND))
    end = 10_000 + round(growth * seconds)
    moved = replace(FIRST, end=end + 1, committed=1)
    found = find(replace(before, at_s=seconds, partitions=(moved, SECOND)), before, RULES)
    assert [one.code for one in found] == [FindingCode.LAG_GROWS] * (growth >= 1)
    assert all(float(one.values["growth"]) >= 1 for one in found)


def test_notes_do_not_count() -> None:
    """A worker without a partition, a recreated topic, a silent broker, other rules configured: the group works."""
    idle = replace(WELL, members=(WORKER, Member("news-2", "h", ())))
    stale = replace(WELL, partitions=(replace(FIRST, is_stale=True),))
    silent = replace(WELL, silent_brokers=(2,))
    for now, configured in ((idle, RULES), (stale, RULES), (silent, RULES), (WELL, replace(RULES, distance=5))):
        (finding,) = find(now, None, configured)
        assert finding.is_note
    assert told(WELL, None, replace(RULES, distance=5))[0].startswith(
        "the configuration differs from the rules in force: distance: 3 -> 5; "
    )


def test_rates_are_changes_a_second() -> None:
    """Committed source offsets and log records; an offset that was set back counts for nothing."""
    now = later(log=replace(LOG, end=LogOffset(17)))
    assert Rates.between(WELL, now) == Rates(articles=5.0, log_records=5.0, readable=-5.0, seconds=2.0)
    assert Rates.between(now, replace(WELL, at_s=4.0)).articles == 0


def test_lag_counts_what_is_there() -> None:
    """Without an offset, or with one of another topic, from the first record on; deleted records do not count."""
    assert FIRST.lag == 10
    assert replace(FIRST, committed=None, first=20).lag == 80
    assert replace(FIRST, is_stale=True).lag == 100
    assert replace(FIRST, first=95).lag == 5
    assert replace(FIRST, committed=101).lag == 0


def test_a_snapshot_as_text_and_as_values() -> None:
    """Both have workers, partitions, log and findings; foreign text has no control characters."""
    now = later(members=(replace_host("h\x1b[2J"),), hanging=("news-9",))
    findings = find(now, WELL, RULES)
    rates = Rates.between(WELL, now)
    text = "\n".join(lines_of(now, rates, findings))
    for part in ("1 worker,", "5.0 articles a second", "news-1", "articles-1", "offsets 0 to 7", "last record 3 s ago"):
        assert part in text
    assert "\x1b" not in text
    values = values_of(now, rates, findings)
    assert (values["lag"], values["partitions"][0]["committed"], values["log"]["end"]) == (0, 100, 7)
    assert [one["is_note"] for one in values["findings"]] == [False]


def replace_host(host: str) -> Member:
    return WORKER._replace(host=host)
