"""Steps of the scheme that call code of others give the same results on every installation."""

import json

import pytest

from tests.core.make_golden import FOLDER
from tests.core.steps import STEPS

KEPT = json.loads((FOLDER / "steps.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("step", [pytest.param(step, marks=[pytest.mark.slow] * (step == "unicode")) for step in STEPS])
def test_the_results_of_a_step_have_not_changed(step: str) -> None:
    """Another HTML parser, JSON parser, OpenCC, Unicode or mathematical library shows itself here.

    Then entries change too: refuse the upgrade in pyproject.toml, or give the step a new version in ``core.scheme``.
    """
    assert STEPS[step]() == KEPT[step]
