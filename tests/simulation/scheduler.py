"""Runs actors (greenlets) in virtual time, one at a time, in an order that one seed determines.

    actor     a thread of a process: a greenlet that runs until its next point
    point     every call of a port and of the clock: the actor may be put back among the runnable ones
    process   actors that freeze, thaw and die together

Rules:

* Every choice comes from one ``random.Random``: the same seed gives the same schedule.
* Time moves on by ``STEP_S`` with each turn of an actor, and to the next sleeper where no actor is runnable.
* An actor of a frozen process has no turn until the process is thawed; time goes on meanwhile.
* A process that is killed never goes on: its greenlets end at once with ``GreenletExit``, and whatever their
  ``finally`` blocks ask of a port or of the clock raises ``GreenletExit`` without effect.
* The caller of ``run_until`` is no actor. A port that it calls itself lets the actors run while it waits.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random

from greenlet import GreenletExit, getcurrent, greenlet

from tests.memory.broker import FIRST_TIME_MS
from tests.memory.runtime import Signal

STEP_S = 20e-6
"""Virtual time of one turn."""


class StalledError(Exception):
    """No actor can ever go on, or the schedule does not end."""


@dataclass(slots=True, eq=False)
class Process:
    """Actors that freeze, thaw and die together; ``ahead_ms`` is how far its wall clock is ahead."""

    name: str
    ahead_ms: int = 0
    is_frozen: bool = False
    is_dead: bool = False
    actors: list[Actor] = field(default_factory=list)
    parked: list[Actor] = field(default_factory=list)
    """Actors that would be runnable, if the process were not frozen."""


@dataclass(slots=True, eq=False)
class Actor:
    """A greenlet, and what it waits for."""

    name: str
    process: Process
    number: int
    run: greenlet
    sleep: int = 0
    """Rises when it is woken: an earlier alarm is void."""
    ended: Signal = field(default_factory=Signal)
    error: BaseException | None = None

    @property
    def is_alive(self) -> bool:
        """Whether it goes on."""
        return not self.run.dead and not self.process.is_dead


class Scheduler:
    """Implements ``tests.memory.runtime.Runtime``."""

    def __init__(self, rng: Random, *, switching: float = 1.0, most_turns: int = 1_000_000) -> None:
        """An actor goes on past a point with the probability ``1 - switching``."""
        self.rng = rng
        self.trace: list[tuple[str, str]] = []
        self.switching = switching
        self._random = rng.random
        self._most_turns = most_turns
        self._turns = 0
        self._now = 0.0
        self._numbers = count()
        self._runnable: list[Actor] = []
        self._alarms: list[tuple[float, int, Callable[[], None]]] = []
        self._hub = getcurrent()
        self._current: Actor | None = None

    # Time.

    def now(self) -> float:
        """Return virtual seconds since the schedule began."""
        return self._now

    def call_at(self, when: float, run: Callable[[], None]) -> None:
        """Call ``run`` at a time, outside of every actor."""
        heapq.heappush(self._alarms, (when, next(self._numbers), run))

    def wait(self, signal: Signal, timeout_s: float) -> None:
        """Block until the signal fires or the time has passed."""
        actor = self._current
        if actor is None:
            self._wait_outside(signal, timeout_s)
            return
        if actor.process.is_dead:
            raise GreenletExit
        actor.sleep += 1
        sleep = actor.sleep

        def wake() -> None:
            if actor.sleep == sleep:
                actor.sleep += 1
                self._make_runnable(actor)

        signal.add(wake)
        self.call_at(self._now + max(timeout_s, 0.0), wake)
        self._hub.switch()
        signal.remove(wake)

    # Actors.

    def spawn(self, process: Process, name: str, run: Callable[[], None]) -> Actor:
        """Start an actor."""

        def whole() -> None:
            try:
                run()
            except GreenletExit:
                pass_on(actor)
            except BaseException as error:  # noqa: BLE001 - the simulation looks at it
                actor.error = error
            actor.ended.fire()

        actor = Actor(name, process, next(self._numbers), greenlet(whole, self._hub))
        process.actors.append(actor)
        self._make_runnable(actor)
        return actor

    @property
    def current(self) -> Actor | None:
        """The actor whose turn it is; None outside of every actor."""
        return self._current

    def point(self, what: str) -> None:
        """Note that the current actor has come to a point; another one may have its turn first.

        Raises:
            GreenletExit: its process was killed.
        """
        actor = self._current
        if actor is None:
            return
        if actor.process.is_dead:
            raise GreenletExit
        self.trace.append((actor.name, what))
        if self._random() < self.switching:
            self._runnable.append(actor)
            self._hub.switch()

    # Processes.

    def freeze(self, process: Process) -> None:
        """Give its actors no turn until ``thaw``."""
        process.is_frozen = True

    def thaw(self, process: Process) -> None:
        """Let a frozen process go on."""
        process.is_frozen = False
        self._runnable += process.parked
        process.parked.clear()

    def kill(self, process: Process) -> None:
        """End a process at once. Does not return, if the current actor belongs to it."""
        process.is_dead = True
        self._runnable = [actor for actor in self._runnable if actor.process is not process]
        process.parked.clear()
        own, before = self._current, self._current
        for actor in process.actors:
            actor.sleep += 1
            if actor is not own and not actor.run.dead:
                self._current = actor
                actor.run.parent = getcurrent()
                actor.run.throw(GreenletExit)
                self._current = before
        if own is not None and own.process is process:
            raise GreenletExit

    # Running.

    def run_until(self, done: Callable[[], bool], until: float) -> bool:
        """Give turns until ``done`` or until a time; return ``done``. Not to be called by an actor."""
        while not done():
            if not self._turn(until):
                return done()
        return True

    def run_to(self, until: float) -> None:
        """Give turns until a time. Not to be called by an actor."""
        while self._turn(until):
            continue

    def _turn(self, until: float) -> bool:
        """Give one turn, or move time on; return False when nothing happens before ``until``."""
        alarms = self._alarms
        if alarms and alarms[0][0] <= self._now:
            heapq.heappop(alarms)[2]()
            return True
        if self._runnable:
            if self._now >= until:
                return False
            self._switch_to(self._take())
            return True
        if not alarms or alarms[0][0] > until:
            self._now = max(self._now, until)
            return False
        self._now = max(self._now, alarms[0][0])
        return True

    def _take(self) -> Actor:
        """Take a runnable actor at random."""
        runnable = self._runnable
        index = int(self._random() * len(runnable))
        actor, runnable[index] = runnable[index], runnable[-1]
        runnable.pop()
        return actor

    def _switch_to(self, actor: Actor) -> None:
        if actor.process.is_frozen:
            actor.process.parked.append(actor)
            return
        self._turns += 1
        if self._turns > self._most_turns:
            raise StalledError(f"the schedule does not end within {self._most_turns} turns")
        self._now += STEP_S
        self._current = actor
        actor.run.switch()
        self._current = None

    def _wait_outside(self, signal: Signal, timeout_s: float) -> None:
        fired: list[bool] = []

        def wake() -> None:
            fired.append(True)

        signal.add(wake)
        self.run_until(lambda: bool(fired), self._now + timeout_s)
        signal.remove(wake)

    def _make_runnable(self, actor: Actor) -> None:
        if actor.process.is_dead or actor.run.dead:
            return
        (actor.process.parked if actor.process.is_frozen else self._runnable).append(actor)


def pass_on(actor: Actor) -> None:
    """Note nothing: the process of an actor that ends so was killed, and nobody asks for its error."""
    actor.error = None


class VirtualEvent:
    """``ports.Event`` in virtual time."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_set = False
        self._signal = Signal()

    def set(self) -> None:
        self._is_set = True
        self._signal.fire()

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float) -> bool:
        self._scheduler.point("wait")
        if not self._is_set and timeout > 0:
            self._scheduler.wait(self._signal, timeout)
        return self._is_set


class VirtualThread:
    """``ports.Thread`` in virtual time."""

    def __init__(self, scheduler: Scheduler, actor: Actor) -> None:
        self._scheduler = scheduler
        self._actor = actor

    def join(self, timeout: float | None = None) -> None:
        deadline = self._scheduler.now() + (1e9 if timeout is None else timeout)
        while self.is_alive() and self._scheduler.now() < deadline:
            self._scheduler.wait(self._actor.ended, deadline - self._scheduler.now())

    def is_alive(self) -> bool:
        return self._actor.is_alive


class VirtualClock:
    """``ports.Clock`` of one process."""

    def __init__(self, scheduler: Scheduler, process: Process) -> None:
        self._scheduler = scheduler
        self._process = process

    def monotonic(self) -> float:
        return self._scheduler._now

    def time_ms(self) -> int:
        return FIRST_TIME_MS + int(self._scheduler.now() * 1000) + self._process.ahead_ms

    def sleep(self, seconds: float) -> None:
        self._scheduler.point("sleep")
        self._scheduler.wait(Signal(), seconds)

    def event(self) -> VirtualEvent:
        return VirtualEvent(self._scheduler)

    def spawn(self, name: str, run: Callable[[], None]) -> VirtualThread:
        self._scheduler.point("spawn")
        return VirtualThread(self._scheduler, self._scheduler.spawn(self._process, f"{self._process.name}/{name}", run))
