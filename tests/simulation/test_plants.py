"""The simulation can fail: each planted defect is found."""

import itertools
import logging
from collections.abc import Iterator

import pytest

from tests.simulation.plan import plan_of
from tests.simulation.plant_table import seeds_needed
from tests.simulation.plants import MOST_SEEDS, PLANTS, Plant
from tests.simulation.run import run_plan

FEWEST_PLANTS = 12


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """Workers warn of what is done to them; nobody reads it, and it takes time."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_a_planted_defect_is_found(plant: Plant) -> None:
    """Within 3,000 seeds. The seed that the table of docs/simulation.md names comes first."""
    hint = seeds_needed().get(plant.name, 1) - 1
    for seed in itertools.chain([hint], range(MOST_SEEDS)):
        with plant.make():
            if run_plan(plan_of(seed)).found:
                return
    pytest.fail(f"not found within {MOST_SEEDS} seeds: {plant.claim}")


def test_the_page_has_every_plant() -> None:
    """With the number of seeds that each needed; ``python -m tests.simulation --plants`` writes them."""
    assert seeds_needed().keys() == {plant.name for plant in PLANTS}
    assert max(seeds_needed().values()) <= MOST_SEEDS
    assert len(PLANTS) >= FEWEST_PLANTS
