"""A schema registry: some schemas are there late, one never, and at times it does not answer.

Some values of a schedule begin with the id of a schema, as in the wire format (``stream_dedup.registry.values``); what
follows is the value of an article. A worker may read it as soon as it has asked for the schema.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING

from stream_dedup.registry.client import RegistryAwayError, UnknownSchemaError
from stream_dedup.registry.values import FRAME_BYTES, MAGIC, schema_id_of

if TYPE_CHECKING:
    from stream_dedup.ports import Clock
    from tests.simulation.plan import Write
    from tests.simulation.scheduler import Scheduler

SCHEMAS = range(1, 7)
NEVER = SCHEMAS[-1]
"""The schema that the registry never has."""
FRAMED = 0.25
"""Part of the values that name a schema."""
LATEST_S = 18.0
"""Virtual seconds after which the registry has all schemas but one."""
ANSWER_S = 0.3
"""Longest time for which an answer is waited."""


def framed(seed: int, writes: tuple[Write, ...]) -> tuple[Write, ...]:
    """Return the writes with some of their values under schemas."""
    rng = Random(f"schemas {seed}")

    def value_of(value: bytes | None) -> bytes | None:
        if value is None or rng.random() >= FRAMED:
            return value
        return MAGIC + rng.choice(SCHEMAS).to_bytes(FRAME_BYTES - 1, "big") + value

    return tuple(
        replace(write, values=tuple((key, value_of(value)) for key, value in write.values)) for write in writes
    )


def article_of(value: bytes | None) -> bytes | None:
    """Return the value of an article without the id of its schema."""
    return value if value is None or schema_id_of(value) is None else value[FRAME_BYTES:]


@dataclass(slots=True, eq=False)
class Registry:
    """What all processes ask."""

    seed: int
    scheduler: Scheduler
    away_until: float = 0.0
    """It does not answer until then."""
    _comes_at: dict[int, float] = field(init=False)

    def __post_init__(self) -> None:
        """Draw when each schema is there."""
        rng = Random(f"registry {self.seed}")
        self._comes_at = {schema_id: rng.random() * LATEST_S for schema_id in SCHEMAS if schema_id != NEVER}

    def answers(self) -> bool:
        """Return whether it answers now."""
        return self.scheduler.now() >= self.away_until

    def knows(self, schema_id: int) -> bool:
        """Return whether it has a schema now."""
        return schema_id in self._comes_at and self._comes_at[schema_id] <= self.scheduler.now()


class ProcessSchemas:
    """The schemas that one process has asked for: what stands in for ``registry.values.Schemas``."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._there: set[int] = set()

    def __contains__(self, schema_id: int) -> bool:
        return schema_id in self._there

    def load(self, schema_id: int) -> None:
        """Ask for a schema."""
        self._clock.sleep(self._registry.scheduler.rng.random() * ANSWER_S)
        if not self._registry.answers():
            raise RegistryAwayError("the schema registry does not answer")
        if not self._registry.knows(schema_id):
            raise UnknownSchemaError
        self._there.add(schema_id)

    def lacks_schema_of(self, value: bytes | None) -> bool:
        """Return whether a value cannot be read by this process."""
        schema_id = schema_id_of(value)
        return schema_id is not None and schema_id not in self._there
