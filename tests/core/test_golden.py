"""The same entries and plans on every machine and run."""

import json

import pytest

from stream_dedup.core import probes
from stream_dedup.core.fingerprint import Fingerprinter
from stream_dedup.core.profiles import PROFILES
from tests.core.make_golden import FOLDER, NAMES, PROBES, golden
from tests.core.texts import MORE, SAMPLE


@pytest.mark.parametrize("name", NAMES)
def test_golden_values(name: str) -> None:
    """Scheme, kinds, groups, signatures, margins and plans never change; ``make_golden`` says when they may."""
    assert golden(name) == json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def test_the_compiled_plan_is_the_plain_one() -> None:
    """Of golden margins, where the compiled part is installed."""
    margins = Fingerprinter(PROFILES["article"].settings).fingerprint([*SAMPLE, *MORE]).margins
    assert probes.directed(margins, PROBES).tolist() == probes.plain_directed(margins, PROBES).tolist()
