"""The topic watch: how often it looks up."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, cast

import pytest

from stream_dedup.config.load import load_config
from stream_dedup.kafka.clients import SystemClock
from stream_dedup.ports import PassingError
from stream_dedup.worker import watches
from stream_dedup.worker.watches import TopicWatch
from tests.worker.clocks import ManualClock

if TYPE_CHECKING:
    from stream_dedup.ports import GroupOffsets

LOG_ID = b"l" * 16
LONG_S = 60.0
"""An interval that no look-up of a test waits for."""


class Asked:
    """Answers look-ups, and does something during each."""

    def __init__(self, during: Callable[[int], None]) -> None:
        self.times = 0
        self._during = during

    def topic_ids(self, names: Iterable[str] | None) -> dict[str, bytes]:
        self.times += 1
        self._during(self.times)
        return dict.fromkeys(names or (), LOG_ID)


def made(during: Callable[[int], None]) -> tuple[TopicWatch, Asked]:
    asked = Asked(during)
    config = load_config(None, {"topics": {"input": ["articles"]}}, {})
    return TopicWatch(SystemClock(), config, cast("GroupOffsets", asked), LOG_ID, lambda: None), asked


def test_what_is_asked_while_a_look_up_is_under_way_takes_no_second_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """One for a moment before it began; another for a later moment, which its answer may not know of."""
    monkeypatch.setattr(watches, "LOOK_UP_INTERVAL_S", 0.05)
    clock, before = SystemClock(), SystemClock().monotonic()
    found = []

    def during(times: int) -> None:
        found.append(watch.ids_since(before))
        if times == 2:
            watch.stop()

    watch, asked = made(during)
    begun = clock.monotonic()
    watch.run()
    assert (asked.times, found[0]) == (2, None)
    assert clock.monotonic() - begun >= 0.05, "the second look-up was not that of the interval"
    assert watch.ids_since(before) is not None
    monkeypatch.setattr(watches, "LOOK_UP_INTERVAL_S", LONG_S)

    def later(times: int) -> None:
        if times == 1:
            assert watch.ids_since(clock.monotonic()) is None
        else:
            watch.stop()

    watch, asked = made(later)
    begun = clock.monotonic()
    watch.run()
    assert asked.times == 2
    assert clock.monotonic() - begun < LONG_S / 2, "nobody had asked for the second look-up"


@pytest.mark.expect_log("no Kafka broker answers")
def test_a_look_up_that_fails_is_made_again_for_what_was_asked_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "LOOK_UP_INTERVAL_S", LONG_S)
    monkeypatch.setattr(watches, "LOOK_UP_RETRY_S", 0.01)
    clock, before = SystemClock(), SystemClock().monotonic()

    def during(times: int) -> None:
        assert watch.ids_since(before) is None
        if times == 1:
            raise PassingError("away")
        watch.stop()

    watch, asked = made(during)
    watch.run()
    assert asked.times == 2
    assert clock.monotonic() - before < LONG_S / 2, "nobody had asked for the second look-up"
    assert watch.ids_since(before) is not None


class Cluster:
    """Topics that come and go."""

    def __init__(self, *topics: str) -> None:
        self.topics = list(topics)
        self.listed = 0

    def topic_ids(self, names: Iterable[str] | None) -> dict[str, bytes]:
        self.listed += names is None
        return {name: LOG_ID for name in self.topics if names is None or name in names}


def test_patterns_match_now_and_then() -> None:
    """Every ten seconds, however often ids are looked up: a new topic is known in time, a deleted one is dropped.

    A topic that is named is kept, whether it exists or not, and never is one of the program's own.
    """
    cluster = Cluster("a1", "b", "unique", "duplicate", "rejected", "group.fingerprints", "other.fingerprints", "__own")
    config = load_config(None, {"kafka": {"group": "group"}, "topics": {"input": ["named", "^a", "^"]}}, {})
    clock = ManualClock()
    watch = TopicWatch(clock, config, cast("GroupOffsets", cluster), LOG_ID, lambda: None)
    assert not watch.topics
    for _ in range(5):
        watch._look_up()
    assert list(watch.topics) == ["named", "a1", "b"]
    assert set(watch.latest_ids) == {"a1", "b", "group.fingerprints"}
    cluster.topics.append("a0")
    cluster.topics.remove("b")
    watch._look_up()
    assert (list(watch.topics), cluster.listed) == (["named", "a1", "b"], 1)
    clock.sleep(watches.MATCH_INTERVAL_S)
    watch._look_up()
    assert (list(watch.topics), cluster.listed) == (["named", "a0", "a1"], 2)
    assert watches.MATCH_INTERVAL_S + 2 * watches.LOOK_UP_INTERVAL_S < 30


def test_without_patterns_no_topics_are_listed() -> None:
    """The names are known from the beginning, as they are given."""
    cluster = Cluster("a1")
    config = load_config(None, {"topics": {"input": ["b", "a1"]}}, {})
    watch = TopicWatch(ManualClock(), config, cast("GroupOffsets", cluster), LOG_ID, lambda: None)
    assert watch.topics == ("b", "a1")
    watch._look_up()
    assert (watch.latest_ids, cluster.listed) == ({"a1": LOG_ID}, 0)
