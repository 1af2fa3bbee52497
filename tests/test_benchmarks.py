"""The benchmarks load: what they take from the program is there."""

import importlib
import pkgutil

import pytest

import benchmarks


@pytest.mark.parametrize("name", [module.name for module in pkgutil.walk_packages(benchmarks.__path__, "benchmarks.")])
def test_it_loads(name: str) -> None:
    """Types are not checked in them."""
    importlib.import_module(name)
