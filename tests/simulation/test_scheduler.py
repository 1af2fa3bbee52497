"""The scheduler: one seed gives one schedule; processes freeze, thaw and die."""

from collections.abc import Callable
from random import Random

from tests.memory.runtime import Signal
from tests.simulation.scheduler import Process, Scheduler, VirtualClock


def counting(scheduler: Scheduler, clock: VirtualClock, seen: list[str], name: str) -> Callable[[], None]:
    def run() -> None:
        for _ in range(5):
            scheduler.point("count")
            seen.append(name)
            clock.sleep(1)

    return run


def order_of(seed: int) -> tuple[list[str], list[tuple[str, str]]]:
    """Run three actors; return the order in which they counted, and the trace."""
    scheduler, seen = Scheduler(Random(seed)), list[str]()
    process = Process("p")
    for name in "abc":
        scheduler.spawn(process, name, counting(scheduler, VirtualClock(scheduler, process), seen, name))
    scheduler.run_until(lambda: len(seen) == 15, 100)
    return seen, scheduler.trace


def test_one_seed_gives_one_order() -> None:
    """And another seed another one."""
    assert order_of(1) == order_of(1)
    assert len({tuple(order_of(seed)[0]) for seed in range(10)}) > 5


def test_virtual_time_passes_only_while_actors_wait() -> None:
    """Five sleeps of a second take five seconds and the time of the turns."""
    scheduler, process = Scheduler(Random(0)), Process("p")
    seen: list[str] = []
    actor = scheduler.spawn(process, "a", counting(scheduler, VirtualClock(scheduler, process), seen, "a"))
    assert scheduler.run_until(lambda: not actor.is_alive, 100)
    assert round(scheduler.now(), 1) == 5.0


def test_a_frozen_process_has_no_turn_until_it_is_thawed() -> None:
    """Its sleeps go on to pass."""
    scheduler, process = Scheduler(Random(0)), Process("p")
    seen: list[str] = []
    scheduler.spawn(process, "a", counting(scheduler, VirtualClock(scheduler, process), seen, "a"))
    scheduler.run_to(1.5)
    assert len(seen) == 2
    scheduler.freeze(process)
    scheduler.run_to(50)
    assert len(seen) == 2
    scheduler.thaw(process)
    scheduler.run_until(lambda: len(seen) == 3, 50.1)
    assert len(seen) == 3


def test_a_killed_process_never_goes_on() -> None:
    """Its actors end where they are, and their last wishes of the clock have no effect."""
    scheduler, process = Scheduler(Random(0)), Process("p")
    clock, seen = VirtualClock(scheduler, process), list[str]()

    def run() -> None:
        try:
            clock.sleep(10)
            seen.append("woken")
        finally:
            seen.append("finally")
            clock.sleep(1)
            seen.append("after")

    scheduler.spawn(process, "a", run)
    scheduler.run_to(5)
    scheduler.kill(process)
    scheduler.run_to(50)
    assert seen == ["finally"]


def test_an_actor_can_kill_its_own_process() -> None:
    """The call does not return."""
    scheduler, process = Scheduler(Random(0)), Process("p")
    seen: list[str] = []

    def run() -> None:
        scheduler.kill(process)
        seen.append("lives")

    actor = scheduler.spawn(process, "a", run)
    scheduler.run_to(1)
    assert (seen, actor.is_alive, actor.error) == ([], False, None)


def test_a_signal_wakes_before_the_time_out() -> None:
    """And the time-out wakes where no signal comes."""
    scheduler, process = Scheduler(Random(0)), Process("p")
    signal, woken = Signal(), list[float]()

    def run() -> None:
        for timeout_s in (10, 10):
            scheduler.wait(signal, timeout_s)
            woken.append(round(scheduler.now(), 1))

    scheduler.spawn(process, "a", run)
    scheduler.call_at(2, signal.fire)
    scheduler.run_until(lambda: len(woken) == 2, 100)
    assert woken == [2.0, 12.0]
