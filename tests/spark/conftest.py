"""PySpark takes long to import, and ``make test`` does not install it: these tests are collected on request alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.amount import FULL


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what imports PySpark where its tests would be left out anyway (tests/conftest.py)."""
    asked_for = FULL or "spark" in str(config.option.markexpr)
    return True if collection_path.suffix == ".py" and not asked_for else None
