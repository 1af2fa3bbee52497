"""The same entries and plans on every machine and run."""

import json

import pytest

from stream_dedup.core.fingerprint import keys_kernel
from tests.core.make_golden import FOLDER, NAMES, golden


@pytest.mark.parametrize("name", NAMES)
def test_golden_values(name: str) -> None:
    """Scheme, kinds, groups, signatures, margins and plans never change; ``make_golden`` says when they may."""
    assert golden(name) == json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("seed", [b"\0" * 8, b"\xff" * 8, b"\xff" * 7 + b"\x7f", b"\0" * 7 + b"\x80"])
@pytest.mark.parametrize("name", NAMES)
def test_no_entry_depends_on_the_seed_of_a_table(name: str, seed: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The golden values are the same under 0, -1, and the largest and the least seed of the tables."""
    monkeypatch.setattr(keys_kernel, "urandom", lambda _size: seed)
    test_golden_values(name)
