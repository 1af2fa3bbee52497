"""Articles withdrawn from a log in memory, and listed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from stream_dedup.config.load import load_config
from stream_dedup.core.columns import Texts
from stream_dedup.core.entry import Batch, Payload, Withdrawal
from stream_dedup.core.model import LogOffset, Status, log_position
from stream_dedup.core.reasons import UNKNOWN_SCHEMA
from stream_dedup.kafka import withdrawals
from stream_dedup.kafka.log import WaitingLog
from stream_dedup.kafka.withdrawals import Wanted, withdraw, withdrawn_entries
from tests.logs import OTHER_TOPIC, TOPIC, Entry, delete_of, entries_batch, rules
from tests.memory.world import MemoryWorld

ARTICLE, REJECTED_ENTRY = Entry(7), Entry(0, status=Status.REJECTED)


class Log:
    """A log in memory."""

    def __init__(self) -> None:
        world = MemoryWorld()
        group = world.name("group")
        world.make_log(group)
        config = load_config(None, {"kafka": {"group": group, "broker_wait_s": 5}}, {})
        self.waiting = WaitingLog(world.ports(group, "operator").log, config)
        self.add(rules())

    def add(self, *payloads: Payload) -> list[LogOffset]:
        return [self.waiting.append_now(payload) for payload in payloads]

    def withdraw(self, *ids: str, topic: str | None = None, dry_run: bool = False) -> list[tuple[str, int, int]]:
        """Id, number of articles withdrawn, and of those that were withdrawn before."""
        done = withdraw(self.waiting, Wanted(ids, topic), lambda *_: None, dry_run=dry_run)
        return [(one.id, one.withdrawn, one.before) for one in done]

    def withdrawals(self) -> list[tuple[int, ...]]:
        """The positions of every withdrawal, as log offsets."""
        records = self.waiting.read_all(lambda *_: None)
        payloads = [record.payload for record in records]
        return [tuple(at >> 20 for at in one.positions) for one in payloads if isinstance(one, Withdrawal)]

    def listed(self) -> list[tuple[str, str, int, int]]:
        """Id, topic, source offset, and the log offset of the withdrawal."""
        found = withdrawn_entries(self.waiting, lambda *_: None)
        return [(one.id, one.topic, int(one.coordinates.offset), one.withdrawn_at) for one in found]


@pytest.fixture
def log() -> Log:
    return Log()


def articles(first: int, *ids: str, topic: str = "articles", topic_id: bytes = TOPIC) -> Batch:
    """A batch of articles with these ids."""
    offsets = range(first, first + len(ids))
    return entries_batch(offsets, [ARTICLE._replace(id=one) for one in ids], topic=topic, topic_id=topic_id)


def test_every_article_with_the_id_is_withdrawn(log: Log) -> None:
    """Wherever it is in the log; an unknown id is said."""
    log.add(articles(0, "a", "b", "a"), articles(3, "c", "a"))
    assert log.withdraw("a", "nobody") == [("a", 3, 0), ("nobody", 0, 0)]
    assert log.withdrawals() == [(1, 1, 2)]
    assert log.listed() == [("a", "articles", offset, 3) for offset in (0, 2, 4)]


def test_a_withdrawn_article_is_not_withdrawn_again(log: Log) -> None:
    """Nothing is appended for it. An article of its id that was logged later is a new one."""
    log.add(articles(0, "a"))
    assert log.withdraw("a") == [("a", 1, 0)]
    assert log.withdraw("a") == [("a", 0, 1)]
    assert len(log.withdrawals()) == 1
    log.add(articles(1, "a"))
    assert log.withdraw("a") == [("a", 1, 1)]
    assert log.withdrawals() == [(1,), (3,)]


def test_only_articles_of_one_topic(log: Log) -> None:
    """The others stay, also an archive's."""
    log.add(articles(0, "a"), articles(0, "a", topic="archive", topic_id=OTHER_TOPIC))
    assert log.withdraw("a", topic="archive") == [("a", 1, 0)]
    assert log.listed() == [("a", "archive", 0, 3)]


def test_copies_and_rejected_records_are_no_articles(log: Log) -> None:
    """Of the same coordinates the first entry counts."""
    log.add(articles(0, "a", "b"), articles(0, "a", "b"), entries_batch([5], [REJECTED_ENTRY._replace(id="c")]))
    assert log.withdraw("a", "c") == [("a", 1, 0), ("c", 0, 0)]
    assert log.withdrawals() == [(1,)]


def test_articles_that_come_in_between_are_withdrawn_too(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker logs one between the reading and the withdrawal, twice."""
    log.add(articles(0, "a"))
    coming = [articles(1, "a"), articles(2, "a", "b")]
    append = log.waiting.append_now

    def append_late(payload: Payload) -> LogOffset:
        if coming:
            append(coming.pop(0))
        return append(payload)

    monkeypatch.setattr(log.waiting, "append_now", append_late)
    assert log.withdraw("a") == [("a", 3, 0)]
    assert log.withdrawals() == [(1,), (2,), (4,)]


def test_many_articles_take_several_records(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record has a greatest size."""
    monkeypatch.setattr(withdrawals, "MAX_WITHDRAWN", 2)
    log.add(articles(0, *["a"] * 5))
    assert log.withdraw("a") == [("a", 5, 0)]
    assert [len(one) for one in log.withdrawals()] == [2, 2, 1]


def test_a_dry_run_changes_nothing(log: Log) -> None:
    """It says the same."""
    log.add(articles(0, "a"))
    assert log.withdraw("a", dry_run=True) == [("a", 1, 0)]
    assert log.withdrawals() == []
    assert log.listed() == []


@pytest.mark.parametrize("ids", [["\ud83d"], ["\\ud83d"]])
def test_an_id_is_found_as_the_log_holds_it(log: Log, ids: Sequence[str]) -> None:
    """Half a surrogate is written out in the log."""
    log.add(articles(0, "\ud83d"))
    assert log.withdraw(*ids) == [(ids[0], 1, 0)]


def test_the_list_passes_over_positions_without_an_entry(log: Log) -> None:
    """A withdrawal may name what no batch holds."""
    log.add(articles(0, "a"), Withdrawal((log_position(0, 0), log_position(1, 0), log_position(1, 9))))
    assert log.listed() == [("a", "articles", 0, 2)]


def deletes(first: int, *ids: str, topic: str = "articles", topic_id: bytes = TOPIC) -> Batch:
    """A batch of deletes of these ids."""
    return entries_batch(
        range(first, first + len(ids)), [delete_of(one) for one in ids], topic=topic, topic_id=topic_id
    )


def test_what_a_delete_has_withdrawn_is_not_withdrawn_again(log: Log) -> None:
    """Of any topic, before it, and not by a copy of it; the list names the log offset of the first."""
    log.add(articles(0, "a", "b"), deletes(0, "a", "b", topic="other", topic_id=OTHER_TOPIC), articles(2, "a"))
    log.add(deletes(0, "a", topic="other", topic_id=OTHER_TOPIC))
    assert log.listed() == [("a", "articles", 0, 2), ("b", "articles", 1, 2)]
    assert log.withdraw("a", "b", topic="articles") == [("a", 1, 1), ("b", 0, 1)]
    assert log.withdrawals() == [(3,)]
    log.add(deletes(3, "a"))
    assert log.listed() == [("a", "articles", 0, 2), ("b", "articles", 1, 2), ("a", "articles", 2, 5)]


def test_a_delete_that_comes_in_between(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts as a withdrawal of this call: the article is withdrawn, by whichever came first."""
    log.add(articles(0, "a"))
    append, coming = log.waiting.append_now, [deletes(1, "a")]

    def append_late(payload: Payload) -> LogOffset:
        if coming:
            append(coming.pop(0))
        return append(payload)

    monkeypatch.setattr(log.waiting, "append_now", append_late)
    assert log.withdraw("a") == [("a", 1, 0)]
    assert log.listed() == [("a", "articles", 0, 2)]


def rejected_by_command(offset: int) -> Batch:
    """What `stream-dedup reject` appends; its id is another than that of the article or delete."""
    batch = entries_batch([offset], [REJECTED_ENTRY._replace(id="its-key")])
    return replace(batch, reasons=Texts.of([UNKNOWN_SCHEMA.format(id=9)]))


def test_a_delete_that_was_rejected_first_withdraws_nothing(log: Log) -> None:
    """A worker has learned the schema while the command rejected the record, and logged it second."""
    log.add(articles(0, "a"), rejected_by_command(5), deletes(5, "a"))
    assert log.listed() == []
    assert log.withdraw("a") == [("a", 1, 0)]
    assert log.withdrawals() == [(1,)]


def test_an_article_that_was_rejected_first_is_none(log: Log) -> None:
    """Nor is one that was logged first, and then rejected, any less of one."""
    log.add(rejected_by_command(5), articles(5, "a"), articles(6, "b"), rejected_by_command(6))
    assert log.withdraw("a", "b") == [("a", 0, 0), ("b", 1, 0)]
    assert log.withdrawals() == [(3,)]


def test_what_a_delete_has_withdrawn_is_not_looked_at_again(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """An id that is published and deleted again and again would take ever longer."""
    made, by = [], withdrawals._By

    def counted(offset: LogOffset, time_ms: int) -> object:
        made.append(offset)
        return by(offset, time_ms)

    monkeypatch.setattr(withdrawals, "_By", counted)
    for number in range(10):
        log.add(articles(2 * number, "a"), deletes(2 * number + 1, "a"))
    assert log.withdraw("a") == [("a", 0, 10)]
    assert made == list(range(2, 22, 2))
