"""The look-up of schemas: what is there, unknown or not answered, and when it is asked again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from stream_dedup.errors import UserError
from stream_dedup.registry.values import Schemas
from stream_dedup.worker.decoding import AWAY_RETRY_S, UNKNOWN_RETRY_S, SchemaWatch
from tests.registry.fake import FakeRegistry
from tests.registry.records import AVRO, registry_config
from tests.worker.clocks import ManualClock


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    made.register("a", {"schema": AVRO})
    made.register("a", {"schema": AVRO})
    yield made
    made.stop()


class Watched:
    """A watch whose look-ups the test makes, and how often it woke the engine."""

    def __init__(self, url: str) -> None:
        self.wakes = 0
        clock: Any = ManualClock()
        self.watch = SchemaWatch(Schemas(registry_config(url)), clock, self._wake)

    def _wake(self) -> None:
        self.wakes += 1

    def problem(self) -> str:
        return self.watch.problem or ""

    def look_up(self, *ids: int) -> float:
        self.watch.want(frozenset(ids))
        return self.watch._look_up()


def test_what_the_registry_has_is_there(fake: FakeRegistry) -> None:
    """The engine is woken for it; it is not asked for again, nor is what nobody wants any more."""
    made = Watched(fake.url)
    assert made.look_up(1) == UNKNOWN_RETRY_S
    assert (1 in made.watch, made.watch.is_unknown(1), made.wakes, made.watch.changes) == (True, False, 1, 1)
    made.look_up(1)
    made.look_up(2)
    made.look_up()
    assert fake.asked == ["/schemas/ids/1", "/schemas/ids/2"]
    assert made.watch.changes == 2


def test_an_unknown_schema_may_come(fake: FakeRegistry) -> None:
    """It is asked for again and again; the others are there meanwhile."""
    fake.hidden = {2}
    made = Watched(fake.url)
    made.look_up(1, 2)
    assert (1 in made.watch, 2 in made.watch, made.watch.is_unknown(2)) == (True, False, True)
    changes = made.watch.changes
    made.look_up(1, 2)
    assert made.watch.changes == changes, "nothing new is known"
    fake.hidden = set()
    made.look_up(1, 2)
    assert (2 in made.watch, made.watch.is_unknown(2)) == (True, False)
    assert made.watch.changes > changes


@pytest.mark.expect_log("does not answer.*articles wait until it does")
def test_a_registry_that_is_away(fake: FakeRegistry, caplog: pytest.LogCaptureFixture) -> None:
    """It is asked more often, reported once, and unknown is what it said last."""
    fake.hidden = {2}
    made = Watched(fake.url)
    made.look_up(2)
    assert not made.problem()
    fake.stop()
    assert [made.look_up(1, 2), made.look_up(1, 2)] == [AWAY_RETRY_S] * 2
    assert made.problem()
    assert made.watch.is_unknown(2)
    assert len([line for line in caplog.messages if "does not answer" in line]) == 1
    fake.start()
    made.look_up(1, 2)
    assert (made.problem(), 1 in made.watch) == ("", True)


@pytest.mark.expect_log("does not answer")
def test_an_answer_that_a_schema_is_unknown_is_an_answer(fake: FakeRegistry) -> None:
    """The worker is ready again, though the schema is not there."""
    made = Watched(fake.url)
    fake.stop()
    made.look_up(9)
    fake.start()
    made.look_up(9)
    assert made.watch.problem is None


def test_its_thread_ends(fake: FakeRegistry) -> None:
    """By ``stop``, and with the error of a registry that refuses it."""
    made = Watched(fake.url)
    thread = threading.Thread(target=made.watch.run)
    thread.start()
    made.watch.want(frozenset({1}))
    made.watch.stop()
    thread.join(60)
    assert not thread.is_alive()
    fake.authorization = "Bearer x"
    made = Watched(fake.url)
    made.watch.want(frozenset({1}))
    with pytest.raises(UserError, match=r"refuses this client \(401\)"):
        made.watch.run()
