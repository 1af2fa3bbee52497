"""What happens in one schedule, drawn from its seed: the topology, the articles, and the events.

The order in which the actors take their turns, the delays and the faults of single calls are drawn while the schedule
runs, from another generator of the same seed: a plan with fewer events is run with the same generator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import Any

from tests.simulation.fake_threads import value_of
from tests.simulation.registry import framed

LENGTH_S = 12.0
"""Virtual seconds in which articles are written and events happen."""
SESSION_S = 3.0
"""``kafka.session_timeout_s`` of every worker."""
IDS = 6
"""Ids that several articles of a schedule have."""
TRANSACTION_S = 5.0
"""``kafka.transaction_timeout_s`` of every worker."""


class Kind(StrEnum):
    """What may happen to a worker, to the broker, or to a topic."""

    CRASH = "crash"
    CRASH_AT_STEP = "crash-at-step"
    LOSE_INDEX = "lose-index"
    FREEZE = "freeze"
    FREEZE_AT_STEP = "freeze-at-step"
    STOP = "stop"
    STALL = "stall"
    AWAY = "away"
    FAULTS = "faults"
    TWIN = "twin"
    REMAKE = "remake"
    RETAIN_OUTPUTS = "retain-outputs"
    RETAIN_SOURCE = "retain-source"
    LOSE_OFFSETS = "lose-offsets"
    RULES = "rules"
    LONGER_WINDOW_AT_TRIM = "longer-window-at-trim"
    BROKER_CLOCK = "broker-clock"
    WORKER_CLOCK = "worker-clock"
    SEED = "seed"
    WITHDRAW = "withdraw"
    DELETE = "delete"
    NEW_TOPIC = "new-topic"
    REJECT = "reject"
    REGISTRY_AWAY = "registry-away"


USUAL = {
    Kind.CRASH: 4,
    Kind.CRASH_AT_STEP: 5,
    Kind.LOSE_INDEX: 2,
    Kind.FREEZE: 3,
    Kind.FREEZE_AT_STEP: 5,
    Kind.STOP: 3,
    Kind.STALL: 6,
    Kind.AWAY: 3,
    Kind.FAULTS: 6,
    Kind.TWIN: 3,
    Kind.REMAKE: 3,
    Kind.RETAIN_OUTPUTS: 2,
    Kind.RETAIN_SOURCE: 2,
    Kind.LOSE_OFFSETS: 1,
    Kind.RULES: 3,
    Kind.BROKER_CLOCK: 2,
    Kind.WORKER_CLOCK: 2,
}


@dataclass(frozen=True, slots=True)
class Theme:
    """What the events of a schedule are mostly about: interleavings of a few kinds go deeper than those of all."""

    weights: Mapping[Kind, int]
    windows: tuple[float | None, ...] = (None, None, 1.0, 4.0)
    """Windows of the rules in seconds, of which one is drawn."""
    fewest_topics: int = 1
    fewest_workers: int = 1


THEMES = (
    Theme(USUAL),
    Theme(
        {
            Kind.FREEZE: 3,
            Kind.FREEZE_AT_STEP: 4,
            Kind.STALL: 4,
            Kind.RULES: 4,
            Kind.BROKER_CLOCK: 3,
            Kind.WORKER_CLOCK: 1,
            Kind.LOSE_OFFSETS: 2,
            Kind.CRASH: 1,
            Kind.LOSE_INDEX: 1,
            Kind.FAULTS: 1,
        },
        windows=(1.0, 1.0, 2.0),
        fewest_workers=2,
    ),
    Theme(
        {Kind.REMAKE: 6, Kind.STALL: 5, Kind.FREEZE: 2, Kind.CRASH: 1, Kind.STOP: 1, Kind.FAULTS: 1},
        fewest_topics=2,
        fewest_workers=2,
    ),
    Theme(
        {
            Kind.FAULTS: 6,
            Kind.TWIN: 3,
            Kind.CRASH_AT_STEP: 5,
            Kind.STALL: 4,
            Kind.AWAY: 2,
            Kind.FREEZE: 1,
            Kind.FREEZE_AT_STEP: 5,
            Kind.STOP: 2,
            Kind.LOSE_INDEX: 1,
        },
        fewest_workers=2,
    ),
    Theme(
        {
            Kind.LONGER_WINDOW_AT_TRIM: 5,
            Kind.CRASH: 4,
            Kind.CRASH_AT_STEP: 2,
            Kind.STALL: 2,
            Kind.FREEZE: 1,
            Kind.LOSE_INDEX: 1,
        },
        windows=(1.0,),
        fewest_workers=2,
    ),
)

ARCHIVES = (Kind.SEED, Kind.WITHDRAW, Kind.WITHDRAW)
"""Of these kinds are the events that two of every seven seeds have beside their own."""
ARCHIVE_SEEDS = (7, (1, 5))
"""The others mean what they meant before there were archives, and so do the seeds that docs/simulation.md names."""


DELETE_SEEDS = (7, (2, 6))
"""In two of every seven seeds records without a value are deletes, and these seeds have some more of them."""
PATTERN_SEEDS = (7, (3,))
"""In one of every seven seeds the input topics are named by a pattern, which matches all topics, and more are made."""


SCHEMA_SEEDS = (21, (11, 18))
"""In two of every twenty-one seeds some records have schemas, and an operator rejects some of them."""
SCHEMAS = (Kind.REJECT, Kind.REJECT, Kind.REGISTRY_AWAY)
"""Of these kinds are the events that these seeds have beside their own."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens: when, to which of the workers, nodes or topics, and how much of it."""

    at: float
    kind: Kind
    target: int
    amount: float
    """Seconds, mostly; otherwise a number from 0 to 1 times 10 that the kind reads as it needs."""
    choice: int
    """A number that the kind reads as it needs."""

    def __str__(self) -> str:
        """Return it as one line."""
        return f"{self.at:6.2f} s  {self.kind} of {self.target}: {self.amount:.2f} ({self.choice})"


@dataclass(frozen=True, slots=True)
class Write:
    """Records that a producer writes to one partition at once."""

    at: float
    topic: int
    partition: int
    values: tuple[tuple[bytes | None, bytes | None], ...]
    """Keys and values."""
    outcome: str
    """``plain``: outside any transaction; ``committed`` or ``aborted`` after ``open_s``."""
    open_s: float


@dataclass(frozen=True, slots=True)
class Plan:
    """A schedule before it runs."""

    seed: int
    workers: int
    topics: tuple[int, ...]
    """Partitions of each input topic."""
    output_partitions: int
    nodes: int
    window_s: float | None
    rules: dict[str, Any]
    """Keys of ``match`` in the configuration."""
    features: dict[str, Any]
    """Keys of ``features`` in the configuration."""
    deletes: bool
    """Whether a record without a value is a delete."""
    pattern: bool
    """Whether a pattern names the input topics."""
    schemas: bool
    """Whether some values begin with the id of a schema."""
    worker: dict[str, Any]
    """Keys of ``worker`` in the configuration."""
    switching: float
    """Probability that an actor gives up its turn at a point."""
    slow: float
    """Probability that a call of a port is held up."""
    marker_s: float
    """Longest delay of a control record."""
    delivery_s: float
    """Longest delay of an append."""
    real_store: bool
    """Whether the indexes keep their data in RocksDB, and not in memory."""
    writes: tuple[Write, ...]
    events: tuple[Event, ...]

    def without(self, dropped: frozenset[int]) -> Plan:
        """Return the plan without some of its events."""
        return replace(self, events=tuple(event for i, event in enumerate(self.events) if i not in dropped))


def plan_of(seed: int) -> Plan:
    """Draw the plan of a seed."""
    rng = Random(f"plan {seed}")
    theme = rng.choice(THEMES)
    topics = tuple(rng.randint(1, 3) for _ in range(max(theme.fewest_topics, rng.choice((1, 1, 1, 2, 2, 3)))))
    workers = max(theme.fewest_workers, rng.choice((1, 2, 2, 2, 3)))
    window_s = rng.choice(theme.windows)
    return Plan(
        seed=seed,
        workers=workers,
        topics=topics,
        output_partitions=rng.randint(1, 2),
        nodes=rng.randint(1, 2),
        window_s=window_s,
        rules=_rules(rng, window_s) | _bounds(seed),
        features={"block_bits": Random(f"keys {seed}").choice((16, 16, 20, 24))},
        deletes=_is_of(seed, DELETE_SEEDS),
        pattern=_is_of(seed, PATTERN_SEEDS),
        schemas=_is_of(seed, SCHEMA_SEEDS),
        worker={"batch_records": rng.choice((1, 3, 10)), "max_inflight_batches": rng.choice((1, 4, 32))},
        switching=rng.choice((0.05, 0.3, 1.0)),
        slow=rng.choice((0.0, 0.001, 0.01)),
        marker_s=rng.choice((0.0, 0.05, 1.0)),
        delivery_s=rng.choice((0.0, 0.05, 0.5)),
        real_store=seed % 10 == 0,
        writes=framed(seed, _writes(rng, topics)) if _is_of(seed, SCHEMA_SEEDS) else _writes(rng, topics),
        events=_events(rng, theme, workers, len(topics)) + _more_events(seed, len(topics)),
    )


def _rules(rng: Random, window_s: float | None) -> dict[str, Any]:
    rules: dict[str, Any] = {"profile": rng.choice(("simhash", "simhash", "article"))}
    if window_s is not None:
        rules["window"] = f"{window_s:g}s"
    if rng.random() < 0.2:
        rules["observe"] = True
    if rng.random() < 0.2:
        rules["recrawl"] = "update"
    return rules


def _bounds(seed: int) -> dict[str, Any]:
    """Return a bound on candidates and a number of copies, drawn apart: what else a seed means stays as it was."""
    if seed % 2 == 0:
        return {}
    rng = Random(f"bounds {seed}")
    return {"candidates": rng.choice((1, 2, 5)), "copies": rng.choice((1, 1, 2, 3))}


def _writes(rng: Random, topics: tuple[int, ...]) -> tuple[Write, ...]:
    writes, serial = [], 0
    stories = rng.choice((4, 10, 40))
    skew = rng.choice((1, 2))
    for _ in range(rng.randint(12, 24)):
        topic = rng.randrange(len(topics))
        values: list[tuple[bytes | None, bytes | None]] = []
        for _ in range(rng.choice((1, 1, 2, 4))):
            serial += 1
            value = value_of(rng.randrange(stories), rng.randrange(3), serial, readable=rng.random() > 0.08)
            key = f"id{rng.randrange(IDS)}".encode() if rng.random() < 0.5 else None
            values.append((key, None if rng.random() < 0.02 else value))
        outcome = rng.choice(("plain", "plain", "plain", "committed", "aborted"))
        at = rng.random() ** skew * LENGTH_S
        writes.append(Write(at, topic, rng.randrange(topics[topic]), tuple(values), outcome, rng.random() * 2))
    return tuple(sorted(writes, key=lambda write: write.at))


def _events(rng: Random, theme: Theme, workers: int, topics: int) -> tuple[Event, ...]:
    weights = theme.weights
    kinds = rng.choices(list(weights), list(weights.values()), k=rng.choice((0, 1, 2, 3, 4, 5, 8)))
    events = [_event(rng, kind, workers, topics) for kind in kinds]
    return tuple(sorted(events, key=lambda event: event.at))


def _more_events(seed: int, topics: int) -> tuple[Event, ...]:
    """Return the events of the kinds that only some seeds have, each from a generator of its own."""
    if _is_of(seed, ARCHIVE_SEEDS):
        rng = Random(f"archives {seed}")
        return tuple(_event(rng, rng.choice(ARCHIVES), 1, 1) for _ in range(rng.randint(2, 6)))
    if _is_of(seed, DELETE_SEEDS):
        rng = Random(f"deletes {seed}")
        return tuple(_event(rng, Kind.DELETE, 1, topics) for _ in range(rng.randint(4, 12)))
    if _is_of(seed, PATTERN_SEEDS):
        rng = Random(f"patterns {seed}")
        kinds = (Kind.NEW_TOPIC, Kind.NEW_TOPIC, Kind.REMAKE)
        return tuple(_event(rng, rng.choice(kinds), 1, topics) for _ in range(rng.randint(1, 4)))
    if _is_of(seed, SCHEMA_SEEDS):
        rng = Random(f"rejections {seed}")
        return tuple(_event(rng, rng.choice(SCHEMAS), 1, topics) for _ in range(rng.randint(4, 12)))
    return ()


def _is_of(seed: int, seeds: tuple[int, tuple[int, ...]]) -> bool:
    every, chosen = seeds
    return seed % every in chosen


def _event(rng: Random, kind: Kind, workers: int, topics: int) -> Event:
    many = topics if kind in {Kind.REMAKE, Kind.RETAIN_SOURCE, Kind.DELETE, Kind.REJECT} else workers
    amount = rng.choice((0.2, 1.0, 3.0, 10.0)) * (0.5 + rng.random())
    return Event(0.3 + rng.random() * LENGTH_S, kind, rng.randrange(many), amount, rng.randrange(1 << 16))
