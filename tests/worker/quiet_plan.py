"""A plan of the simulation in which nothing goes wrong: the test says what does, in a world whose indexes are real."""

from __future__ import annotations

from tests.simulation.fake_threads import value_of
from tests.simulation.plan import Plan, Write
from tests.simulation.worker_process import WorkerProcess
from tests.simulation.world import SimulatedWorld

ARTICLES = 300


def quiet_plan(workers: int = 1, partitions: int = 1) -> Plan:
    """One input topic; its articles are not written before the test does."""
    values = [(None, value_of(number % 40, number % 3, number)) for number in range(ARTICLES)]
    return Plan(
        seed=0,
        workers=workers,
        topics=(partitions,),
        output_partitions=1,
        nodes=1,
        window_s=None,
        rules={"profile": "simhash"},
        features={},
        deletes=False,
        pattern=False,
        schemas=False,
        worker={"batch_records": 10, "max_inflight_batches": 4},
        switching=0.3,
        slow=0.0,
        marker_s=0.0,
        delivery_s=0.0,
        real_store=True,
        writes=tuple(
            Write(0.0, 0, number, tuple(values[number::partitions]), "plain", 0.0) for number in range(partitions)
        ),
        events=(),
    )


def write(world: SimulatedWorld) -> None:
    """Write every article of the plan, again if they are there."""
    for each in world.plan.writes:
        world.write(each)


def start(world: SimulatedWorld, number: int = 0) -> WorkerProcess:
    """Start a worker, and return its process."""
    world.start(world.slots[number])
    process = world.slots[number].running
    assert process is not None
    return process
