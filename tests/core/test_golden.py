"""The same entries and plans on every machine and run."""

import json

import pytest

from tests.core.make_golden import FOLDER, NAMES, golden


@pytest.mark.parametrize("name", NAMES)
def test_golden_values(name: str) -> None:
    """Scheme, kinds, scope hashes, signatures, margins and plans never change; ``make_golden`` says when they may."""
    assert golden(name) == json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
