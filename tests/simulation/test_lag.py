"""The lag that a worker shows is that of the partitions that it holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from stream_dedup.metrics.metrics import Metrics
from tests.memory.source import MemorySource
from tests.simulation import worker_process
from tests.simulation.plan import plan_of
from tests.simulation.run import stores_in_memory
from tests.simulation.world import SimulatedWorld

SEED = 1
BEGUN_S, LATER_S = 8.0, 12.0
"""Virtual seconds: the worker polls; its gauges have been set again."""


def test_a_topic_of_which_a_worker_holds_nothing_any_more_has_no_lag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker shows it now: the sum over the workers would count it twice, for as long as this one runs."""
    shown = Metrics(CollectorRegistry())
    monkeypatch.setattr(worker_process, "metrics", lambda: shown)
    with stores_in_memory():
        world = SimulatedWorld(replace(plan_of(SEED), workers=1, events=()), tmp_path)
        topic = world.inputs[0]
        lags = {topic: 5}
        monkeypatch.setattr(MemorySource, "lag", lambda _self: dict(lags))
        world.start(world.slots[0])

        def lag() -> float | None:
            return shown.registry.get_sample_value("stream_dedup_source_lag", {"topic": topic})

        world.run_until(BEGUN_S)
        assert lag() == 5
        lags.clear()
        world.run_until(LATER_S)
        assert lag() == 0
