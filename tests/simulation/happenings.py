"""What each kind of event does to the world."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from stream_dedup.config.effective import rules_of
from stream_dedup.ports import Partition
from stream_dedup.worker.steps import Step, TrimStep
from tests.memory.partition import Message
from tests.simulation.fake_threads import value_of
from tests.simulation.memory_store import MemoryStore
from tests.simulation.operator import apply_rules, reject, seed, withdraw
from tests.simulation.plan import IDS, Event, Kind
from tests.simulation.world import GROUP, OUTPUTS, RESTART_S, Mended, SimulatedWorld, Slot

STALLED = (
    "append.done",
    "append.error",
    "log.append",
    "log.bounds",
    "log.cut",
    "log.poll",
    "log.renew",
    "offsets.committed",
    "offsets.topic_ids",
    "sink.begin",
    "sink.commit",
    "sink.flush",
    "sink.send",
    "sink.send_offsets",
    "source.begin",
    "source.beginning",
    "source.commit_start",
    "source.committed",
    "source.membership",
    "source.poll",
)
"""Calls of which one may be held up for long."""
AHEAD_MS = (0, 1_000, 8_000, 30_000)
"""How far a broker's clock may be ahead: within the allowance of the configuration, or far beyond it."""


MOST_PASSES = 4
"""An effect at a step comes to pass before the worker has come there so many times."""
HELD_UP_S = 1.0
"""So long are appends held up, in the middle of which the rules change."""


def happen(world: SimulatedWorld, event: Event) -> None:
    """Let an event happen."""
    world.note(f"{event.kind} of {event.target}: {event.amount:.2f} ({event.choice})")
    EFFECTS[event.kind](world, event)


def _slot(world: SimulatedWorld, event: Event) -> Slot:
    return world.slots[event.target % len(world.slots)]


def _crash(world: SimulatedWorld, event: Event) -> None:
    world.kill(_slot(world, event), event.amount)


def _crash_at_step(world: SimulatedWorld, event: Event) -> None:
    _at_step(world, event, partial(world.kill, _slot(world, event)))


def _at_step(world: SimulatedWorld, event: Event, effect: Callable[[], None]) -> None:
    """Let something happen when the worker comes to a step for the so-many-th time."""
    process = _slot(world, event).running
    steps: list[Step | TrimStep] = [*Step, *TrimStep]
    if process is not None:
        process.at_step[steps[event.choice % len(steps)]] = (event.choice // 64 % MOST_PASSES, effect)


def _lose_index(world: SimulatedWorld, event: Event) -> None:
    """Kill a worker, and let its index folder be gone when it starts again, but for its transactional id."""
    slot = _slot(world, event)
    world.kill(slot, event.amount)
    if slot.running is not None and not slot.running.is_running:
        MemoryStore.disk.remove(slot.config.index.path)
        for found in sorted(slot.config.index.path.iterdir()):
            if found.is_dir():
                shutil.rmtree(found)
            elif found.name != "worker-id":
                found.unlink()


def _freeze(world: SimulatedWorld, event: Event) -> None:
    process = _slot(world, event).running
    if process is not None and process.is_running:
        world.scheduler.freeze(process.process)
        world.later(event.amount, partial(world.scheduler.thaw, process.process))


def _freeze_at_step(world: SimulatedWorld, event: Event) -> None:
    _at_step(world, event, partial(_freeze, world, event))


def _stop(world: SimulatedWorld, event: Event) -> None:
    """Stop a worker in order, and start it again."""
    slot = _slot(world, event)
    process = slot.running
    if process is None or not process.is_running:
        return
    slot.is_wanted = False
    process.stop.set()

    def start_when_ended() -> None:
        if process.is_running:
            world.later(RESTART_S, start_when_ended)
        else:
            world.start(slot)

    world.later(event.amount, start_when_ended)


def _stall(world: SimulatedWorld, event: Event) -> None:
    process = _slot(world, event).running
    if process is not None:
        process.link.stalls[STALLED[event.choice % len(STALLED)]] = event.amount


def _away(world: SimulatedWorld, event: Event) -> None:
    """Let no broker answer: to one worker, or to all of them."""
    until = world.scheduler.now() + event.amount
    for process in world.running():
        if event.choice % 2 or process is _slot(world, event).running:
            process.link.away_until = until


def _faults(world: SimulatedWorld, event: Event) -> None:
    for process in world.running():
        if event.choice % 3 or process is _slot(world, event).running:
            process.link.faults_until = world.scheduler.now() + event.amount


def _twin(world: SimulatedWorld, event: Event) -> None:
    """Start a second producer with the transactional id of a worker."""
    process = _slot(world, event).running
    if process is not None and process.link.end_late is not None:
        transactional_id = (process.folder / "worker-id").read_text().splitlines()[1]
        world.cluster.transactions.renew(transactional_id, 60.0)


def _remake(world: SimulatedWorld, event: Event) -> None:
    """Delete an input topic, and make it again."""
    number = event.target % len(world.inputs)
    name = world.inputs[number]
    if name not in world.cluster.topics:
        return
    world.cluster.delete_topic(name)

    def make() -> None:
        if name not in world.cluster.topics:
            world.make_input(number)
            rewrite(world, number, event.choice)

    if event.choice % 2:
        make()
    else:
        world.later(event.amount / 4, make)


def rewrite(world: SimulatedWorld, number: int, count: int) -> None:
    """Write other articles to a topic that was recreated: as many at first as it had, or fewer."""
    name = world.inputs[number]
    for partition in range(world.partitions[number]):
        log = world.cluster.partition(Partition(name, partition))
        for serial in range(count % 7):
            value = f"{serial % 3}.0.{1000 * len(world.topics) + serial}".encode()
            world.cluster.append(log, Message(None, value, (), world.cluster.time_ms()))


def _retain_outputs(world: SimulatedWorld, event: Event) -> None:
    for log in world.cluster.topics[OUTPUTS[event.choice % len(OUTPUTS)]].partitions:
        log.delete_before(min(log.stable_end, log.start + event.choice % 11))


def _retain_source(world: SimulatedWorld, event: Event) -> None:
    """Delete records of an input topic that the group has done with."""
    name = world.inputs[event.target % len(world.inputs)]
    topic = world.cluster.topics.get(name)
    for log in [] if topic is None else topic.partitions:
        committed = world.cluster.group(GROUP).committed.get(log.name)
        if topic is not None and committed is not None and committed.topic_id == topic.id:
            log.delete_before(min(committed.offset, log.start + event.choice % 13))


def _lose_offsets(world: SimulatedWorld, event: Event) -> None:
    """Kill every worker, and let the group lose its committed offsets; the operator sets them when a worker asks.

    Offsets expire while a group has no members: a worker that was started meanwhile is killed, too.
    """

    def kill() -> None:
        for slot in world.slots:
            world.kill(slot, event.amount)

    kill()

    def lose() -> None:
        kill()
        group = world.cluster.group(GROUP)
        world.lost_offsets |= group.committed
        group.committed = {}
        world.mended = [Mended("lost its offsets|no committed offset", world.restore_offsets)]

    world.later(event.amount * 0.5, lose)


def _rules(world: SimulatedWorld, event: Event) -> None:
    """Apply other rules."""
    changes: tuple[dict[str, Any], ...] = (
        {"window": "3s"},
        {"window": "1s"},
        {"window": "20s"},
        {"observe": True},
        {"bucket_limit": 2},
        {},
    )
    bounds: tuple[dict[str, Any], ...] = ({}, {"copies": 2}, {"candidates": 1}, {"copies": 1, "candidates": 3})
    change_rules(world, changes[event.choice % len(changes)] | bounds[event.choice // len(changes) % len(bounds)])


def _longer_window_at_trim(world: SimulatedWorld, event: Event) -> None:
    """Make the window longer between the computing of a trim and its append; other workers append none meanwhile."""
    longer = ("3s", "20s")[event.choice % 2]

    def hold_up() -> None:
        for process in world.running():
            process.link.stalls["log.append"] = HELD_UP_S
        world.later(HELD_UP_S / 2, partial(change_rules, world, {"window": longer}))

    process = _slot(world, event).running
    if process is not None:
        process.at_step[TrimStep.RESTATED] = (event.choice // 64 % 2, hold_up)


def change_rules(world: SimulatedWorld, change: dict[str, Any]) -> None:
    """Apply rules that differ from those of the plan in a change, and configure every worker with them."""
    config = world.slots[0].config
    changed = config.model_copy(update={"match": config.match.model_validate(world.match(change))})
    if apply_rules(world, rules_of(changed)):
        for slot in world.slots:
            slot.config = slot.config.model_copy(update={"match": changed.match})


def _broker_clock(world: SimulatedWorld, event: Event) -> None:
    nodes = world.cluster.nodes
    nodes[event.target % len(nodes)].ahead_ms = AHEAD_MS[event.choice % len(AHEAD_MS)]


def _worker_clock(world: SimulatedWorld, event: Event) -> None:
    """Set a worker's clock back."""
    process = _slot(world, event).running
    if process is not None:
        process.process.ahead_ms = -int(event.amount * 1000)


def _seed(world: SimulatedWorld, event: Event) -> None:
    """Enter one of two archives: the next call goes on, also while this one runs."""
    seed(world, event.choice % 2, Random(event.choice), event.amount)


def _withdraw(world: SimulatedWorld, event: Event) -> None:
    withdraw(world, Random(event.choice))


def _delete(world: SimulatedWorld, event: Event) -> None:
    """Delete an id, or two, in whichever partition; every other time an article comes with it, and again behind it."""
    number = event.target % len(world.inputs)
    topic = world.cluster.topics.get(world.inputs[number])
    if topic is None:
        return
    log, serial = topic.partitions[event.choice % len(topic.partitions)], 10_000 + event.choice
    for at in range(1 + (event.amount > 3)):
        key = f"id{(event.choice // 8 + at) % IDS}".encode()
        article = value_of(event.choice % 5, at, serial)
        for value in (article, None, article) if event.choice // 64 % 2 else (None,):
            world.cluster.append(log, Message(key, value, (), world.cluster.time_ms()))


def _new_topic(world: SimulatedWorld, event: Event) -> None:
    """Make another input topic, with articles from its beginning."""
    number = len(world.partitions)
    world.partitions.append(1 + event.choice % 3)
    world.make_input(number)
    rewrite(world, number, 1 + event.choice)


def _reject(world: SimulatedWorld, event: Event) -> None:
    """Reject what is held in a partition."""
    topic = world.cluster.topics.get(world.inputs[event.target % len(world.inputs)])
    if topic is not None:
        reject(world, topic.partitions[event.choice % len(topic.partitions)], event.amount / 20)


def _registry_away(world: SimulatedWorld, event: Event) -> None:
    if world.registry is not None:
        world.registry.away_until = world.scheduler.now() + event.amount


EFFECTS: dict[Kind, Callable[[SimulatedWorld, Event], None]] = {
    Kind.CRASH: _crash,
    Kind.CRASH_AT_STEP: _crash_at_step,
    Kind.FREEZE_AT_STEP: _freeze_at_step,
    Kind.LOSE_INDEX: _lose_index,
    Kind.FREEZE: _freeze,
    Kind.STOP: _stop,
    Kind.STALL: _stall,
    Kind.AWAY: _away,
    Kind.FAULTS: _faults,
    Kind.TWIN: _twin,
    Kind.REMAKE: _remake,
    Kind.RETAIN_OUTPUTS: _retain_outputs,
    Kind.RETAIN_SOURCE: _retain_source,
    Kind.LOSE_OFFSETS: _lose_offsets,
    Kind.RULES: _rules,
    Kind.LONGER_WINDOW_AT_TRIM: _longer_window_at_trim,
    Kind.BROKER_CLOCK: _broker_clock,
    Kind.WORKER_CLOCK: _worker_clock,
    Kind.SEED: _seed,
    Kind.WITHDRAW: _withdraw,
    Kind.DELETE: _delete,
    Kind.NEW_TOPIC: _new_topic,
    Kind.REJECT: _reject,
    Kind.REGISTRY_AWAY: _registry_away,
}
