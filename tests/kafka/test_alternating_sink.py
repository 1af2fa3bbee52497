"""A sink of two transactional ids in turn; what a broker makes of it stands in tests/contract/test_sink.py."""

from __future__ import annotations

from typing import Any

import pytest

from stream_dedup.kafka.clients import AlternatingSink
from stream_dedup.ports import Output, PassingError

OUTPUT = Output("unique", None, b"article", [], 0)


class NotingSink:
    """One of the two: notes its calls, with its name, in the list of both."""

    def __init__(self, name: str, calls: list[str]) -> None:
        self._name, self._calls = name, calls
        self.fails: set[str] = set()

    def __getattr__(self, call: str) -> Any:  # noqa: ANN401 - of any call
        def note(*_: object) -> list[str]:
            self._calls.append(f"{self._name}.{call}")
            if call in self.fails:
                raise PassingError(call)
            return []

        return note


@pytest.fixture
def calls() -> list[str]:
    return []


@pytest.fixture
def one(calls: list[str]) -> NotingSink:
    return NotingSink("1", calls)


@pytest.fixture
def other(calls: list[str]) -> NotingSink:
    return NotingSink("2", calls)


@pytest.fixture
def sink(one: Any, other: Any) -> AlternatingSink:  # noqa: ANN401 - two sinks in place
    return AlternatingSink(one, other)


def transact(sink: AlternatingSink, end: str = "commit") -> None:
    """One whole transaction."""
    membership: Any = None
    sink.begin()
    sink.send([OUTPUT])
    sink.send_offsets({}, membership)
    sink.flush()
    getattr(sink, end)()


def of(name: str, end: str = "commit") -> list[str]:
    return [f"{name}.{call}" for call in ("begin", "send", "send_offsets", "flush", end)]


def test_transactions_alternate(sink: AlternatingSink, calls: list[str]) -> None:
    """Each is of one id from its beginning to its end, whether it is committed or aborted."""
    for end in ("commit", "abort", "commit"):
        transact(sink, end)
    assert calls == [*of("1"), *of("2", "abort"), *of("1")]


def test_both_are_renewed_before_either_is_used(sink: AlternatingSink, calls: list[str]) -> None:
    """Whichever transaction was open, by this process or an earlier one, is settled."""
    transact(sink)
    calls.clear()
    sink.renew()
    transact(sink)
    assert calls == ["1.renew", "2.renew", *of("1")]


def test_a_renew_that_fails_leaves_the_other_for_the_next_try(
    sink: AlternatingSink, other: NotingSink, calls: list[str]
) -> None:
    other.fails = {"renew"}
    with pytest.raises(PassingError):
        sink.renew()
    other.fails = set()
    sink.renew()
    assert calls == ["1.renew", "2.renew"] * 2


def test_both_are_closed(sink: AlternatingSink, calls: list[str]) -> None:
    sink.close()
    assert calls == ["1.close", "2.close"]


def test_hanging_transactions_of_both_ids_are_looked_for_once(sink: AlternatingSink, calls: list[str]) -> None:
    assert sink.abort_hanging() == []
    assert calls == ["1.abort_hanging"]
