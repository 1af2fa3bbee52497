"""The committer's reaction to each outcome of each step of a transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from stream_dedup.config.load import load_config
from stream_dedup.core.model import Judgement, SourceOffset, Verdict
from stream_dedup.errors import RefusedError, StreamDedupError, UnavailableError, UserError
from stream_dedup.metrics.metrics import Metrics
from stream_dedup.ports import (
    CommittedOffset,
    FencedError,
    Membership,
    NotAMemberError,
    Output,
    Partition,
    PassingError,
    PortError,
    RecordTooLargeError,
    RefusedByBrokerError,
)
from stream_dedup.worker import Step
from stream_dedup.worker.assignments import AssignmentOwner, JudgedBatch, PolledBatch
from stream_dedup.worker.committer import BATCH_WAIT_S, MOST_FAILURES, MOST_FENCINGS, Committer
from stream_dedup.worker.health import Watchdog
from tests.worker.clocks import ManualClock

AT, TOPIC_ID = Partition("articles", 0), b"t" * 16
UNIQUE, DELETE = Judgement(Verdict.UNIQUE), Judgement(Verdict.DELETE)


class Sink:
    """A sink that raises what it is told to, at each call of that name, and keeps what was committed."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.errors: dict[str, PortError] = {}
        self.during: Callable[[], None] = lambda: None
        """Called in each commit."""
        self.committed: list[tuple[str, bytes | None, bytes]] = []
        self.offsets: dict[Partition, CommittedOffset] = {}
        self._open: list[Output] = []
        self._offsets: dict[Partition, CommittedOffset] = {}

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if name in self.errors:
            raise self.errors[name]

    def begin(self) -> None:
        self._open, self._offsets = [], {}
        self._call("begin")

    def send(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            self._call("send")
            self._open.append(output)

    def send_offsets(self, offsets: Mapping[Partition, CommittedOffset], membership: Membership) -> None:
        assert membership.generation >= 0
        self._call("send_offsets")
        self._offsets = dict(offsets)

    def flush(self) -> None:
        self._call("flush")

    def commit(self) -> None:
        self._call("commit")
        self.during()
        self.committed += [(sent.topic, sent.value, dict(sent.headers)["dedup.verdict"]) for sent in self._open]
        self.offsets |= self._offsets

    def abort(self) -> None:
        self._call("abort")

    def renew(self) -> None:
        self._call("renew")

    def abort_hanging(self) -> list[str]:
        return []

    def close(self) -> None:
        self._call("close")


class World:
    """A committer with a sink, an assignment, and a hook at each of its steps."""

    def __init__(self) -> None:
        self.sink = Sink()
        self.clock = ManualClock()
        self.membership: Membership | None = Membership(frozenset({AT}), 1, "proof")
        self.owner = AssignmentOwner(lambda: self.membership, 10, 1 << 20)
        self.assignment = self.owner.begin(self.membership)
        self.at: Step | None = None
        self.committer = Committer(
            config=load_config(None, {}, {}),
            record_bytes=1024,
            sink=self.sink,
            clock=self.clock,
            assignments=self.owner,
            transactional_id="g-1",
            scheme_id="s",
            watchdog=Watchdog(self.clock, self.owner, 60, lambda: True),
            metrics=Metrics(CollectorRegistry()),
            on_step=self._on_step,
        )
        self.sink.calls.clear()

    def _on_step(self, step: Step) -> None:
        if step is self.at:
            self.owner.end(self.assignment, "for this test")

    def polled(self, *values: bytes) -> PolledBatch:
        """Return a batch that is in flight."""
        records: Any = [
            SimpleNamespace(offset=offset, timestamp=0, leader_epoch=5, key=None, value=value, headers=[])
            for offset, value in enumerate(values)
        ]
        offsets = np.arange(len(values), dtype=np.int64)
        behind = CommittedOffset(SourceOffset(len(values)), TOPIC_ID, 5)
        polled = PolledBatch(self.assignment, AT, TOPIC_ID, records, offsets, 2, 0.0, behind)
        assert self.owner.reserve(polled)
        return polled

    def hand_in(self, polled: PolledBatch) -> None:
        """Submit a batch, every article of it unique."""
        count = len(polled.records)
        self.committer.submit([JudgedBatch(polled, [Judgement(Verdict.UNIQUE)] * count, [1] * count, [False] * count)])

    def submit(
        self, *values: bytes, judgements: list[Judgement] | None = None, observed: list[bool] | None = None
    ) -> None:
        polled, count = self.polled(*values), len(values)
        judged = judgements or [Judgement(Verdict.UNIQUE)] * count
        self.committer.submit([JudgedBatch(polled, judged, [1] * count, observed or [False] * count)])

    @property
    def over(self) -> bool:
        """Whether the assignment has ended and let go of everything."""
        return self.owner.current is None


@pytest.fixture
def world() -> World:
    return World()


def test_a_batch_leaves_with_its_offsets(world: World) -> None:
    """Records, then offsets, then the acknowledgements are waited for, then the commit; the batch is released."""
    world.submit(b"one", b"two")
    world.committer.step()
    assert world.sink.calls == ["begin", "send", "send", "send_offsets", "flush", "commit"]
    assert world.sink.committed == [("unique", b"one", b"unique"), ("unique", b"two", b"unique")]
    assert world.sink.offsets == {AT: CommittedOffset(2, TOPIC_ID, 5)}  # type: ignore[arg-type] # an offset
    assert (world.owner.batches, world.owner.is_working(world.assignment)) == (0, True)


def test_a_position_leaves_without_a_record(world: World) -> None:
    """In a transaction, under the membership, and counted as no article; one of an ended assignment does not leave."""
    world.hand_in(world.polled())
    world.committer.step()
    assert world.sink.calls == ["begin", "send_offsets", "flush", "commit"]
    assert (world.sink.committed, world.owner.batches) == ([], 0)
    world.hand_in(world.polled())
    world.membership = None
    world.committer.step()
    assert (len(world.sink.calls), world.over) == (4, True)


def test_a_delete_leaves_no_output(world: World) -> None:
    """Its offset is committed with those of the articles beside it, or alone; no verdict counts it."""
    world.submit(b"one", b"", b"two", judgements=[UNIQUE, DELETE, UNIQUE])
    world.committer.step()
    assert [value for _, value, _ in world.sink.committed] == [b"one", b"two"]
    world.submit(b"", judgements=[DELETE], observed=[True])
    world.committer.step()
    assert world.sink.calls[-4:] == ["begin", "send_offsets", "flush", "commit"]
    assert world.sink.offsets == {AT: CommittedOffset(1, TOPIC_ID, 5)}  # type: ignore[arg-type] # an offset
    assert (len(world.sink.committed), world.owner.batches) == (2, 0)


def test_a_judged_text_is_never_left_out(world: World) -> None:
    """A record that another worker had room for stops this one; a rejected one leaves as where it is."""
    large = bytes(2_000)
    world.submit(large, judgements=[Judgement(Verdict.REJECTED, reason="record too large: 2 bytes")])
    world.committer.step()
    assert [value for _, value, _ in world.sink.committed] == [b""]
    world.submit(large)
    with pytest.raises(RefusedError, match=r"articles-0-0: this record of 2058 bytes is unique.* of 18454 or more"):
        world.committer.step()
    assert world.sink.calls.count("commit") == 1


def test_the_headers_of_a_record_leave_before_ours(world: World) -> None:
    """In order, an empty value in place of none; those that have names of ours do not leave."""
    polled = world.polled(b"one")
    vars(polled.records[0])["headers"] = [("a", None), ("dedup.verdict", b"x"), ("a", b"2")]
    world.hand_in(polled)
    world.committer.step()
    assert world.sink._open[0].headers[:3] == [("a", b""), ("a", b"2"), ("dedup.verdict", b"unique")]


def test_batches_that_arrive_in_a_transaction_leave_in_the_next_one_together(world: World) -> None:
    """The first leaves without them: nothing waits for what may come."""
    others = [world.polled(b"two"), world.polled(b"three")]
    world.submit(b"one")

    def arrive() -> None:
        while others:
            world.hand_in(others.pop(0))

    world.sink.during = arrive
    world.committer.step()
    assert world.sink.calls == ["begin", "send", "send_offsets", "flush", "commit"]
    world.committer.step()
    assert world.sink.calls[5:] == ["begin", "send", "send", "send_offsets", "flush", "commit"]


def test_a_step_waits_for_the_first_batch_and_for_no_other(world: World) -> None:
    """One wait of half a second where nothing is there, none where something is."""
    waits: list[float] = []
    arrived: Any = world.committer._arrived
    vars(arrived)["wait"] = waits.append
    world.committer.step()
    assert waits == [BATCH_WAIT_S]
    world.polled(b"to come")
    world.submit(b"one")
    world.committer.step()
    assert waits == [BATCH_WAIT_S]


@pytest.mark.parametrize("values", [(b"one",), ()])
@pytest.mark.parametrize(
    ("step", "last"), [(Step.SENT, "abort"), (Step.OFFSETS_SENT, "abort"), (Step.COMMITTED, "commit")]
)
def test_an_assignment_that_ends_in_a_transaction(
    world: World, step: Step, last: str, values: tuple[bytes, ...]
) -> None:
    """Before the commit the transaction is aborted; after it, it counts. The end waits for either."""
    world.submit(*values)
    world.at = step
    world.committer.step()
    assert world.sink.calls[-1] == last
    assert world.over


@pytest.mark.expect_log("outcome of a transaction is unknown")
@pytest.mark.parametrize(
    ("call", "values"),
    [(call, (b"one",)) for call in ("begin", "send", "send_offsets", "flush", "commit")]
    + [(call, ()) for call in ("begin", "send_offsets", "flush", "commit")],
)
@pytest.mark.parametrize("error", [PassingError("away"), FencedError("fenced")])
def test_an_unknown_outcome_is_settled_before_anything_else(
    world: World, call: str, values: tuple[bytes, ...], error: PortError
) -> None:
    """Nothing further is sent: the sink is renewed, and only then the assignment is over and another may begin."""
    world.submit(*values)
    world.sink.errors = {call: error}
    world.committer.step()
    assert world.sink.calls[-2:] == [call, "renew"]
    assert (world.sink.committed, world.over) == ([], True)


@pytest.mark.expect_log("outcome of a transaction is unknown")
def test_the_end_waits_until_the_outcome_is_settled(world: World) -> None:
    """While the sink cannot be renewed, the assignment does not let go of its batches."""
    world.submit(b"one")
    world.sink.errors = {"commit": PassingError("away"), "renew": PassingError("away")}
    with pytest.raises(UnavailableError, match="cannot start within"):
        world.committer.step()
    assert not world.over


def test_a_lost_membership_aborts(world: World) -> None:
    """Refused offsets are no unknown outcome: the transaction is aborted, the sink goes on."""
    world.submit(b"one")
    world.sink.errors = {"send_offsets": NotAMemberError("generation 1")}
    world.committer.step()
    assert world.sink.calls[-2:] == ["send_offsets", "abort"]
    assert (world.sink.committed, world.over) == ([], True)


@pytest.mark.expect_log("outcome of a transaction is unknown")
def test_an_abort_without_an_answer_is_settled(world: World) -> None:
    """The sink is renewed, which aborts what is open."""
    world.submit(b"one")
    world.sink.errors = {"send_offsets": NotAMemberError("generation 1"), "abort": PassingError("away")}
    world.committer.step()
    assert world.sink.calls[-2:] == ["abort", "renew"]
    assert world.over


def test_batches_of_an_ended_assignment_are_dropped(world: World) -> None:
    """They are in the queue when it ends: nothing is sent, and they are released."""
    world.submit(b"one")
    world.submit(b"two")
    world.membership = None
    world.committer.step()
    assert (world.sink.calls, world.over) == ([], True)


@pytest.mark.parametrize(
    ("call", "error", "raised", "message"),
    [
        ("flush", RecordTooLargeError("1 of 2 bytes"), RefusedError, "max.message.bytes"),
        ("send", RecordTooLargeError("1 of 2 bytes"), RefusedError, "max.message.bytes"),
        ("commit", RefusedByBrokerError("no right to write"), UserError, "g-1: no right to write"),
    ],
)
def test_what_another_try_cannot_mend_ends_the_worker(
    world: World, call: str, error: PortError, raised: type[StreamDedupError], message: str
) -> None:
    """With an error that names what the broker said."""
    world.submit(b"one")
    world.sink.errors = {call: error}
    with pytest.raises(raised, match=message):
        world.committer.step()
    assert world.sink.committed == []


@pytest.mark.parametrize(
    ("error", "most", "raised"),
    [(FencedError("fenced"), MOST_FENCINGS, RefusedError), (PassingError("away"), MOST_FAILURES + 1, UnavailableError)],
)
@pytest.mark.expect_log("outcome of a transaction is unknown")
def test_failures_in_a_row_end_the_worker(
    world: World, error: PortError, most: int, raised: type[StreamDedupError]
) -> None:
    """A few may pass; as many as this have a lasting cause."""
    world.sink.errors = {"commit": error}
    for number in range(most):
        world.submit(b"one")
        if number == most - 1:
            with pytest.raises(raised):
                world.committer.step()
            return
        world.committer.step()
        assert world.membership is not None
        world.assignment = world.owner.begin(world.membership)


def test_a_refused_start_ends_at_once(world: World) -> None:
    """A transaction time-out beyond the broker's limit, say: there is no second try."""
    world.sink.errors = {"renew": RefusedByBrokerError("time-out of 900 s, 600 s are allowed")}
    with pytest.raises(UserError, match="refuses the transactions of g-1: time-out of 900 s, 600 s are allowed"):
        replace(world.committer)
    assert world.sink.calls == ["renew"]


def test_where_rules_observe_every_verdict_goes_to_unique(world: World) -> None:
    """Rejected records too, with their bytes; only the value of a record too large for a topic is left out."""
    rejected = Judgement(Verdict.REJECTED, reason="unreadable")
    world.submit(
        b"one",
        b"{broken",
        b"x" * 2048,
        b"{broken too",
        judgements=[Judgement(Verdict.DUPLICATE), rejected, rejected, rejected],
        observed=[True, True, True, False],
    )
    world.committer.step()
    assert world.sink.committed == [
        ("unique", b"one", b"duplicate"),
        ("unique", b"{broken", b"rejected"),
        ("unique", b"", b"rejected"),
        ("rejected", b"{broken too", b"rejected"),
    ]
