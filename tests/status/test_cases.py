"""The table of cases: what ``status``, the lag of the metrics and readiness say of a partition, side by side.

docs/operations.md has the same table for operators. A worker runs in virtual time on a cluster in memory; ``status``
sees the cluster as its brokers would describe it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from stream_dedup.kafka.admin import Member
from stream_dedup.metrics.metrics import Metrics
from stream_dedup.ports import Partition
from stream_dedup.status.findings import find
from stream_dedup.status.snapshot import LogState, PartitionState, Snapshot
from tests.memory.partition import Message, PartitionLog
from tests.memory.transactions import Session
from tests.simulation import worker_process
from tests.simulation.fake_threads import value_of
from tests.simulation.plan import Plan, plan_of
from tests.simulation.run import stores_in_memory
from tests.simulation.world import GROUP, SimulatedWorld

LOOKS_S = 3.0
"""Virtual seconds between the two looks of ``status``."""
LONG_S = 5.0
"""Virtual seconds in which a worker begins, or does what there is to do."""
TIMEOUT_S = 60.0
"""Time-out of the transactions of the topic's producer."""


def plan() -> Plan:
    """One worker of one partition, which does everything at once, and nothing that happens by itself."""
    return replace(
        plan_of(1),
        workers=1,
        topics=(1,),
        nodes=1,
        window_s=None,
        rules={"profile": "simhash"},
        worker={"batch_records": 1, "max_inflight_batches": 4},
        slow=0.0,
        marker_s=0.0,
        delivery_s=0.0,
        real_store=False,
        writes=(),
        events=(),
    )


@dataclass
class Scene:
    """A worker, its partition, and a producer of the partition."""

    world: SimulatedWorld
    metrics: Metrics
    serial: int = 0
    _session: Session | None = field(default=None, init=False)

    @property
    def at(self) -> Partition:
        return Partition(self.world.inputs[0], 0)

    @property
    def log(self) -> PartitionLog:
        return self.world.cluster.partition(self.at)

    def pass_(self, seconds: float) -> None:
        """Let time pass; a worker that has ended stays as it is."""
        self.world.scheduler.run_to(self.world.scheduler.now() + seconds)

    def start(self) -> None:
        self.world.start(self.world.slots[0])
        self.pass_(LONG_S)

    def stop(self) -> None:
        assert self.world.stop()

    def write(self, count: int) -> None:
        for message in self._messages(count):
            self.world.cluster.append(self.log, message)

    def open(self, count: int) -> None:
        """Begin a transaction of so many records."""
        transactions = self.world.cluster.transactions
        known = transactions.renew("crawler-9", TIMEOUT_S)
        self._session = Session(known, known.epoch)
        for message in self._messages(count):
            transactions.produce(self._session, self.log, message)

    def end(self, *, committed: bool) -> None:
        assert self._session is not None
        self.world.cluster.transactions.end(self._session, committed=committed)

    def freeze_committer(self) -> None:
        (process,) = self.world.running()
        process.link.stalls["sink.commit"] = 2 * LONG_S

    def _messages(self, count: int) -> Iterator[Message]:
        for _ in range(count):
            self.serial += 1
            yield Message(None, value_of(self.serial, 0, self.serial), (), self.world.cluster.time_ms())

    # What is seen.

    @property
    def is_ready(self) -> bool:
        return any(process.worker is not None and process.worker.ready for process in self.world.running())

    @property
    def shown_lag(self) -> float | None:
        """What the metrics of the worker say; None where none runs, and nobody is asked."""
        if not any(self.world.running()):
            return None
        return self.metrics.registry.get_sample_value("stream_dedup_source_lag", {"topic": self.at.topic})

    def look(self) -> Snapshot:
        """What ``status`` reads from the brokers."""
        group = self.world.cluster.group(GROUP)
        topics = tuple(self.world.inputs)
        members = tuple(
            Member(each.client_id, "h", tuple(each.share), topics=topics) for each in group.members.values()
        )
        logs = self.world.cluster.topics[self.at.topic].partitions
        return Snapshot(
            at_s=self.world.scheduler.now(),
            at_ms=self.world.cluster.time_ms(),
            group=GROUP,
            group_state="PreparingRebalance" if group.rebalancing else "Stable" if members else "Empty",
            members=members,
            partitions=tuple(self._state(log, members) for log in logs),
            log=LogState(self.world.log_topic, exists=True),
            out_of_sync={},
            topic_problems=(),
            hanging=(),
            lost=None,
        )

    def _state(self, log: PartitionLog, members: tuple[Member, ...]) -> PartitionState:
        committed = self.world.cluster.group(GROUP).committed.get(log.name)
        owner = next((member.client_id for member in members if log.name in member.partitions), None)
        return PartitionState(
            log.name,
            log.start,
            log.end,
            None if committed is None else committed.offset,
            committed is not None and committed.topic_id != self.world.cluster.topics[log.name.topic].id,
            owner=owner,
            first_ms=log.records[0].timestamp if owner is None and log.records else None,
            open_from=log.stable_end if log.stable_end < log.end else None,
        )


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    shown = Metrics(CollectorRegistry())
    monkeypatch.setattr(worker_process, "metrics", lambda: shown)
    with ExitStack() as stack:
        stack.enter_context(stores_in_memory())
        world = SimulatedWorld(plan(), tmp_path)
        yield Scene(world, shown)
        for process in list(world.running()):
            process.die()


@dataclass(frozen=True)
class Case:
    """What is done, and what is then said."""

    happens: Callable[[Scene], None]
    lag: int
    """Of ``status``: what is not committed."""
    shown: int | None
    """Of the worker's metrics: what is not polled; None where no worker runs."""
    is_ready: bool
    says: tuple[str, ...] = ()
    """Codes of the findings of ``status``; notes have a question mark."""


def all_read(scene: Scene) -> None:
    scene.write(3)
    scene.start()


def backlog_moves(scene: Scene) -> None:
    """Something waits at the first look, and has left by the second."""
    scene.start()
    scene.write(2)


def backlog_stands(scene: Scene) -> None:
    scene.start()
    scene.freeze_committer()
    scene.write(20)
    scene.pass_(LONG_S)


def backlog_without_a_worker(scene: Scene) -> None:
    all_read(scene)
    scene.stop()
    scene.write(2)


def aborted_tail(scene: Scene) -> None:
    all_read(scene)
    scene.open(3)
    scene.end(committed=False)
    scene.pass_(LONG_S)


def only_markers(scene: Scene) -> None:
    scene.start()
    for _ in range(2):
        scene.open(1)
        scene.end(committed=False)
    scene.pass_(LONG_S)


def last_marker(scene: Scene) -> None:
    scene.start()
    scene.open(2)
    scene.end(committed=True)
    scene.pass_(LONG_S)


def open_transaction(scene: Scene) -> None:
    """Of two records, with one behind them that is in no transaction."""
    all_read(scene)
    scene.open(2)
    scene.write(1)
    scene.pass_(LONG_S)


def transaction_that_ended(scene: Scene) -> None:
    open_transaction(scene)
    scene.end(committed=True)
    scene.pass_(LONG_S)


def timed_out(scene: Scene) -> None:
    """Its producer is dead; the broker aborts it."""
    open_transaction(scene)
    scene.pass_(TIMEOUT_S)


def backlog_before_a_transaction(scene: Scene) -> None:
    scene.start()
    scene.freeze_committer()
    scene.write(20)
    scene.open(2)
    scene.pass_(LONG_S)


def read_and_deleted(scene: Scene) -> None:
    aborted_tail(scene)
    scene.log.delete_before(scene.log.end)


def deleted_after_an_abort(scene: Scene) -> None:
    """While no worker runs: the next one begins where the last one had committed."""
    aborted_tail(scene)
    scene.stop()
    scene.log.delete_before(scene.log.end)
    scene.start()


def deleted_unread(scene: Scene) -> None:
    """The next worker ends with an error that says so."""
    all_read(scene)
    scene.stop()
    scene.write(3)
    scene.log.delete_before(scene.log.end - 1)
    scene.start()
    (slot,) = scene.world.slots
    assert slot.running is not None
    assert "no longer has the articles that come next" in str(slot.running.error)


def recreated(scene: Scene) -> None:
    all_read(scene)
    scene.world.cluster.delete_topic(scene.at.topic)
    scene.world.cluster.make_topic(scene.at.topic)
    scene.write(2)
    scene.pass_(4 * LONG_S)


def partition_added(scene: Scene) -> None:
    """The clients of the group learn of it later."""
    all_read(scene)
    scene.world.cluster.timings = replace(scene.world.cluster.timings, metadata_s=lambda: 10 * LONG_S)
    scene.world.cluster.add_partitions(scene.at.topic, 2)
    (message,) = scene._messages(1)
    scene.world.cluster.append(scene.world.cluster.partition(Partition(scene.at.topic, 1)), message)


def partition_added_and_taken(scene: Scene) -> None:
    partition_added(scene)
    scene.pass_(11 * LONG_S)


def nothing(scene: Scene) -> None:
    scene.start()


CASES = {
    "empty topic": Case(nothing, 0, 0, is_ready=True),
    "all read": Case(all_read, 0, 0, is_ready=True),
    "backlog that moves": Case(backlog_moves, 0, 0, is_ready=True),
    "backlog that stands": Case(backlog_stands, 20, 18, is_ready=True, says=("stuck",)),
    "backlog without a worker": Case(backlog_without_a_worker, 2, None, is_ready=False, says=("no_worker",)),
    "aborted records at the end": Case(aborted_tail, 0, 0, is_ready=True),
    "a marker at the end": Case(last_marker, 0, 0, is_ready=True),
    "only aborted records and markers": Case(only_markers, 0, 0, is_ready=True),
    "open transaction": Case(open_transaction, 3, 3, is_ready=True, says=("open_transaction?",)),
    "open transaction that ended": Case(transaction_that_ended, 0, 0, is_ready=True),
    "open transaction of a dead producer, timed out": Case(timed_out, 0, 0, is_ready=True),
    "backlog before an open transaction": Case(backlog_before_a_transaction, 22, 20, is_ready=True, says=("stuck",)),
    "everything deleted that was read": Case(read_and_deleted, 0, 0, is_ready=True),
    "aborted records deleted before the start": Case(deleted_after_an_abort, 0, 0, is_ready=True),
    "articles deleted before they were read": Case(
        deleted_unread, 1, None, is_ready=False, says=("no_worker", "deleted_unjudged")
    ),
    "partition added, not taken yet": Case(partition_added, 1, 0, is_ready=True, says=("new_partitions?",)),
    "partition added and taken": Case(partition_added_and_taken, 0, 0, is_ready=True),
    "recreated topic": Case(recreated, 0, 0, is_ready=True),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_status_metrics_and_readiness_agree(scene: Scene, case: Case) -> None:
    """The lag of ``status`` is that of the metrics, and what is in flight; what it calls wrong has one cause."""
    case.happens(scene)
    before = scene.look()
    scene.pass_(LOOKS_S)
    now = scene.look()
    found = tuple(f"{one.code}{'?' * one.is_note}" for one in find(now, before, None))
    assert (now.lag, scene.shown_lag, scene.is_ready, found) == (case.lag, case.shown, case.is_ready, case.says)
