"""The connection of one process of the simulation: held up, cut off, and losing requests and answers."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from stream_dedup.ports import PassingError
from tests.memory.runtime import Connection, Delivery, Phase, Signal
from tests.simulation.plan import Plan
from tests.simulation.scheduler import Process, Scheduler

POLLS = frozenset({"source.poll", "log.poll"})
"""Calls that fail at their begin only: an answer that is lost is fetched again from the same offset."""
FAILING = POLLS | {
    "append.wait",
    "log.bounds",
    "log.cut",
    "offsets.committed",
    "offsets.topic_ids",
    "sink.abort",
    "sink.abort_hanging",
    "sink.commit",
    "sink.flush",
    "sink.renew",
    "sink.renewed",
    "sink.send",
    "sink.send_offsets",
    "source.beginning",
    "source.commit_start",
    "source.committed",
}
"""Calls that may raise ``PassingError``."""
ANSWERED = FAILING - POLLS
"""Calls of which the answer may be lost."""
LOST = 0.08
"""Probability that a request or its answer is lost while there are faults."""
LATEST_S = 6.0
"""A request that was lost to its sender arrives at most so much later, if it arrives."""
LONGEST_STALL_S = 3.0
"""The longest time for which a slow call is held up."""
TIMEOUT_S = 1.0
"""A call that is not answered fails after about so long."""


class Link:
    """Draws what becomes of the calls of one process; everything is right until faults are switched on."""

    def __init__(self, plan: Plan, scheduler: Scheduler, process: Process) -> None:
        self._plan = plan
        self._scheduler = scheduler
        self._process = process
        self._rng: Random = scheduler.rng
        self.faults_until = 0.0
        """Requests and answers get lost until then."""
        self.away_until = 0.0
        """No broker answers until then."""
        self.is_healed = False
        """Whether nothing is held up any more."""
        self.stalls: dict[str, float] = {}
        """Calls of which the next one is held up, and for how long."""
        self.end_late: Callable[[], Callable[[], None]] | None = None
        """Makes the request to commit the open transaction, which arrives late."""
        self.connection = Connection(
            hook=self.hook,
            heartbeats=self.heartbeats,
            delivery=self.delivery,
            most_records=self.most_records,
            notices=lambda: self._rng.random() < 0.3,
        )

    def hook(self, call: str, phase: Phase) -> None:
        """Be a point of the schedule; hold the call up, or let it fail."""
        scheduler = self._scheduler
        scheduler.point(call)
        if phase is Phase.END:
            if call in ANSWERED and self._loses():
                raise PassingError(f"{call}: the answer is lost")
            return
        stall = self.stalls.pop(call, 0.0) or (self._plan.slow and self._slowness())
        if stall:
            scheduler.wait(Signal(), stall)
        if call in FAILING and scheduler.now() < max(self.faults_until, self.away_until):
            self._fail(call)

    def heartbeats(self) -> bool:
        """Return whether the group hears of the process now."""
        return not (self._process.is_dead or self._process.is_frozen or self._is_away())

    def delivery(self, _call: str) -> Delivery:
        """Draw what becomes of an append."""
        rng = self._rng
        arrives: float | None = rng.random() * self._plan.delivery_s
        answered: float | None = rng.random() * self._plan.delivery_s / 2
        if self._is_away():
            return Delivery(None, None)
        if self._loses():
            arrives = rng.choice((None, arrives, rng.random() * LATEST_S))
            answered = rng.choice((None, answered))
        return Delivery(arrives, answered)

    def most_records(self) -> int:
        """Draw the most records of a poll."""
        batch: int = self._plan.worker["batch_records"]
        return batch

    def _fail(self, call: str) -> None:
        rng = self._rng
        if self._is_away():
            left = max(0.0, self.away_until - self._scheduler.now())
            self._scheduler.wait(Signal(), min(TIMEOUT_S, left))
        elif not self._loses():
            return
        elif call == "sink.commit" and self.end_late is not None and rng.random() < 0.5:
            self._scheduler.call_at(self._scheduler.now() + rng.random() * LATEST_S, self.end_late())
        elif rng.random() < 0.3:
            self._scheduler.wait(Signal(), rng.random() * TIMEOUT_S)
        raise PassingError(f"{call}: no answer")

    def _slowness(self) -> float:
        if self.is_healed or self._rng.random() >= self._plan.slow:
            return 0.0
        return LONGEST_STALL_S * self._rng.random() ** 3

    def _is_away(self) -> bool:
        return self._scheduler.now() < self.away_until

    def _loses(self) -> bool:
        return self._scheduler.now() < self.faults_until and self._rng.random() < LOST
