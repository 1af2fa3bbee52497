"""The trimmer: when it trims, and what it owes, on an index and a log in memory and a clock that the test sets."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from stream_dedup.config.load import load_config
from stream_dedup.core.entry import LogRecord, Payload, Trim, encode
from stream_dedup.core.model import LogOffset, SourceOffset
from stream_dedup.index import LogIndex
from stream_dedup.metrics.metrics import Metrics
from stream_dedup.ports import CommittedOffset, Partition
from stream_dedup.worker.trimmer import ROUNDS_A_WINDOW, Trimmer
from tests.logs import OTHER_TOPIC, REJECTED, SCHEME, START_TIME, TOPIC, batch, record, rules
from tests.worker.clocks import ManualClock

HOUR = 3_600_000
ALLOWANCE_S = 60
THIRD_TOPIC = b"\x0b" * 16
AT = Partition("articles", 0)


class World:
    """A trimmer whose appends are applied at once; the log's time and this machine's move apart where a test says."""

    def __init__(self, folder: Path) -> None:
        self.index = LogIndex.open(folder, scheme=SCHEME)
        self.index.begin("a log")
        self.clock = ManualClock(START_TIME / 1000)
        self.committed: dict[Partition, CommittedOffset] = {}
        self.log_is_ahead = 0
        self.is_named = True
        self.appended: list[Payload] = []
        self.cut: list[int] = []
        self.registry = CollectorRegistry()
        config = load_config(
            None, {"topics": {"input": ["articles"]}, "worker": {"clock_allowance_s": ALLOWANCE_S}}, {}
        )
        parts: dict[str, Any] = {
            "index": self.index,
            "log": SimpleNamespace(append=self.append, cut=self.cut.append),
            "offsets": SimpleNamespace(
                committed=lambda: self.committed,
                topic_ids=lambda names: dict.fromkeys(names, TOPIC) if self.is_named else {},
            ),
            "clock": self.clock,
            "metrics": Metrics(self.registry),
            "on_step": lambda _: None,
        }
        self.append(rules(window_ms=HOUR))
        self.trimmer = Trimmer(config=config, cut_to=LogOffset(0), **parts)

    def append(self, payload: Payload) -> SimpleNamespace:
        self.appended.append(payload)
        time = self.clock.time_ms() + self.log_is_ahead
        self.index.apply([LogRecord(self.index.next_offset, time, payload, encode(payload))])
        return SimpleNamespace()

    def article(self, offset: int, *, committed: bool = True) -> None:
        """Log an article, and then do a round of the trimmer a sixteenth of the window later."""
        self.append(batch([offset], [0x9E3779B97F4A7C15 * (offset + 1) % 2**64]))
        if committed:
            self.committed[AT] = CommittedOffset(SourceOffset(offset + 1), TOPIC)
        self.clock.sleep(HOUR / 1000 / ROUNDS_A_WINDOW)
        self.trimmer.step(self.clock.monotonic())

    @property
    def trims(self) -> list[Trim]:
        return [payload for payload in self.appended if isinstance(payload, Trim)]

    def ahead_seconds(self) -> float | None:
        return self.registry.get_sample_value("stream_dedup_log_clock_ahead_seconds")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.index.close()


def test_a_trim_forgets_what_is_committed_and_behind_the_window(world: World) -> None:
    """It says under which rules it was computed and which source offsets are forgotten; then the log is cut."""
    for offset in range(20):
        world.article(offset)
    newest = world.trims[-1]
    assert newest.basis is not None
    assert newest.basis.revision == 1
    (forgotten,) = newest.basis.forgotten
    assert forgotten[:2] == (TOPIC, 0)
    assert 0 < forgotten.before <= world.committed[AT].offset
    assert world.index.forgotten_before(TOPIC, 0) == forgotten.before
    assert world.cut[-1] == newest.before


def test_what_is_not_committed_is_not_forgotten(world: World) -> None:
    """An article whose output is still to come holds back every trim that would reach it, however old it is."""
    for offset in range(60):
        world.article(offset, committed=offset < 30)
    assert 0 < world.index.forgotten_before(TOPIC, 0) <= 30
    assert (world.index.logged_positions(TOPIC, 0, np.arange(30, 60)) >= 0).all()


def test_an_offset_of_the_topic_before_it_was_recreated_commits_nothing(world: World) -> None:
    """Whatever it is: no output of the new topic's articles is committed, so none of them is forgotten."""
    world.committed[AT] = CommittedOffset(SourceOffset(1_000), OTHER_TOPIC)
    for offset in range(60):
        world.article(offset, committed=False)
    assert world.trims == []
    assert (world.index.logged_positions(TOPIC, 0, np.arange(60)) >= 0).all()


def test_an_input_topic_that_the_broker_does_not_name_is_owed_all_the_same(world: World) -> None:
    """A broker that has just started may leave out a topic that exists."""
    for offset in range(30):
        world.article(offset)
    world.is_named = False
    for offset in range(30, 90):
        world.article(offset, committed=False)
    assert 0 < world.index.forgotten_before(TOPIC, 0) <= 30


def test_seeded_articles_hold_no_trim_up(world: World) -> None:
    """Of an archive, or a topic that the group does not consume, nothing is owed: trims forget it with its window."""
    archive = replace(batch([0, 1], [1 << 40, 1 << 50], topic_id=OTHER_TOPIC), read_to=LogOffset(1), seeded=True)
    world.append(archive)
    for offset in range(40):
        world.article(offset)
    assert world.index.forgotten_before(OTHER_TOPIC, 0) == 2
    assert world.cut[-1] > 2


def test_appends_are_kept_for_the_engine(world: World) -> None:
    """Which sees the ones that fail, and drops those that are in the log."""
    for offset in range(20):
        world.article(offset)
    assert len(world.trimmer.appends) == len(world.appended) - 21 > 1


def test_what_a_worker_with_other_input_topics_owes_is_not_forgotten(world: World) -> None:
    """While an input topic is added to one worker after the other, each trims only what none of them owes."""
    other = Partition("comments", 3)
    world.committed[other] = CommittedOffset(SourceOffset(1), OTHER_TOPIC)
    world.append(batch([0, 1], [REJECTED, REJECTED], topic_id=OTHER_TOPIC, partition=3, topic="comments"))
    for offset in range(60):
        world.article(offset)
    assert world.index.logged_positions(OTHER_TOPIC, 3, np.array([1])) >= 0
    world.committed[other] = CommittedOffset(SourceOffset(2), OTHER_TOPIC)
    for offset in range(60, 120):
        world.article(offset)
    assert world.index.forgotten_before(OTHER_TOPIC, 3) == 2


def test_an_offset_set_by_hand_is_owed_though_the_broker_does_not_name_its_topic(world: World) -> None:
    """An offset that names no topic id may belong to any topic that is not named; what others name is theirs."""
    other, third = Partition("comments", 3), Partition("reviews", 3)
    world.committed[other] = CommittedOffset(SourceOffset(1), None)
    world.committed[third] = CommittedOffset(SourceOffset(2), THIRD_TOPIC)
    for topic_id, topic in (OTHER_TOPIC, "comments"), (THIRD_TOPIC, "reviews"):
        world.append(batch([0, 1], [REJECTED, REJECTED], topic_id=topic_id, partition=3, topic=topic))
    for offset in range(60):
        world.article(offset)
    assert world.index.logged_positions(OTHER_TOPIC, 3, np.array([1])) >= 0
    world.committed[other] = CommittedOffset(SourceOffset(2), None)
    world.is_named = False
    for offset in range(60, 120):
        world.committed[AT] = CommittedOffset(SourceOffset(60), None)
        world.article(offset, committed=False)
    assert world.index.forgotten_before(OTHER_TOPIC, 3) == world.index.forgotten_before(THIRD_TOPIC, 3) == 2
    assert 0 < world.index.forgotten_before(TOPIC, 0) <= 60


@pytest.mark.expect_log("ahead of this machine's clock")
def test_a_log_that_is_ahead_of_this_machine_is_not_trimmed(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A broker's clock jumps ahead for one record: nothing young is forgotten, one warning, and the gauge shows it."""
    caplog.set_level(logging.INFO)
    for offset in range(10):
        world.article(offset)
    world.log_is_ahead = 365 * 24 * HOUR
    world.article(10)
    world.log_is_ahead = 0
    for offset in range(11, 40):
        world.article(offset)
    assert world.trims == []
    warnings = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "ahead of this machine's clock" in warnings[0].getMessage()
    assert world.ahead_seconds() == pytest.approx(365 * 24 * 3600 - 30 * 3600 / ROUNDS_A_WINDOW)
    world.clock.sleep(365 * 24 * 3600)
    world.article(40)
    assert world.ahead_seconds() == 0
    assert len(world.trims) == 1


def test_articles_are_owed_by_this_machines_clock_where_the_log_is_ahead(world: World) -> None:
    """Within the allowance, too, the time from which articles are owed is not later than this clock allows."""
    world.article(0)
    world.log_is_ahead = ALLOWANCE_S * 1000
    world.append(batch([1], [1 << 60]))
    world.committed[AT] = CommittedOffset(SourceOffset(2), TOPIC)
    assert world.trimmer._earliest_time() == world.clock.time_ms() - ALLOWANCE_S * 1000


def test_a_trim_of_other_rules_is_without_effect(world: World) -> None:
    """A trim that is appended after the window was made longer, and was computed before, forgets nothing."""
    for offset in range(20):
        world.article(offset)
    before, forgotten = world.index.low_watermark, world.index.forgotten_before(TOPIC, 0)
    late = world.index.trims.offered(world.clock.time_ms() + HOUR)
    assert late is not None
    assert late.before > before
    world.append(rules(2, window_ms=100 * HOUR))
    world.append(late)
    assert (world.index.low_watermark, world.index.forgotten_before(TOPIC, 0)) == (before, forgotten)
    assert record(0, 0, late).payload == late
