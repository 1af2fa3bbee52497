"""A sink of two transactional ids in turn; what a broker makes of it stands in tests/contract/test_sink.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from stream_dedup.config.model import Config
from stream_dedup.core.model import SourceOffset
from stream_dedup.kafka.sink import TransactionalSink
from stream_dedup.ports import CommittedOffset, Membership, Output, Partition, PassingError, PortError

MEMBERSHIP = Membership(frozenset(), 1, None)


class NotingProducer:
    """Notes its calls, with its id, in the list of all."""

    def __init__(self, own: str, calls: list[str]) -> None:
        self._own, self._calls = own, calls

    def begin_transaction(self) -> None:
        self.note("begin")

    def commit_transaction(self) -> None:
        self.note("commit")

    def abort_transaction(self) -> None:
        self.note("abort")

    def note(self, call: str) -> None:
        self._calls.append(f"{self._own}.{call}")


class NotingSink(TransactionalSink[NotingProducer]):
    """A sink of which each call stands in a list."""

    client_exceptions = (OSError,)

    def __init__(self) -> None:
        super().__init__(Config(), "1", "2")
        self.calls: list[str] = []
        self.fails: set[str] = set()

    def send(self, outputs: Iterable[Output]) -> None:
        raise NotImplementedError

    def flush(self) -> None:
        raise NotImplementedError

    def _connect(self, transactional_id: str) -> NotingProducer:
        return NotingProducer(transactional_id, self.calls)

    def _initialise(self) -> None:
        self._connected().note("renew")
        if self.calls[-1] in self.fails:
            raise OSError

    def _send_offsets(self, _offsets: Mapping[Partition, CommittedOffset], _membership: Membership) -> None:
        self._connected().note("send_offsets")

    def _drop(self, producer: NotingProducer) -> None:
        producer.note("drop")

    def _causes(self, error: Exception) -> list[PortError]:
        return [PassingError(str(error))]


@pytest.fixture
def sink() -> NotingSink:
    """One that is renewed."""
    made = NotingSink()
    made.renew()
    made.calls.clear()
    return made


def transact(sink: NotingSink, end: str = "commit") -> None:
    """One whole transaction."""
    sink.begin()
    sink.send_offsets({Partition("articles", 0): CommittedOffset(SourceOffset(1), None)}, MEMBERSHIP)
    getattr(sink, end)()


def of(own: str, end: str = "commit") -> list[str]:
    return [f"{own}.{call}" for call in ("begin", "send_offsets", end)]


def test_transactions_alternate(sink: NotingSink) -> None:
    """Each is of one id from its beginning to its end, whether it is committed or aborted."""
    for end in ("commit", "abort", "commit"):
        transact(sink, end)
    assert sink.calls == [*of("1"), *of("2", "abort"), *of("1")]


def test_both_are_renewed_before_either_is_used(sink: NotingSink) -> None:
    """Whichever transaction was open, by this process or an earlier one, is settled."""
    transact(sink)
    sink.calls.clear()
    sink.renew()
    transact(sink)
    assert sink.calls == ["2.drop", "1.drop", "1.renew", "2.renew", *of("1")]


def test_a_renew_that_fails_is_begun_again(sink: NotingSink) -> None:
    """Of neither id a producer is left that could be used, or that could fence the next one."""
    sink.fails = {"2.renew"}
    with pytest.raises(PassingError):
        sink.renew()
    sink.fails = set()
    sink.calls.clear()
    with pytest.raises(PassingError, match="not started"):
        sink.begin()
    sink.renew()
    transact(sink)
    assert sink.calls == ["1.renew", "2.renew", *of("1")]


def test_both_are_closed(sink: NotingSink) -> None:
    sink.close()
    assert sorted(sink.calls) == ["1.drop", "2.drop"]
