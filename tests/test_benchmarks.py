"""The benchmarks load: what they take from the program is there."""

import importlib
import pkgutil

import pytest

import benchmarks

NAMES = [module.name for module in pkgutil.walk_packages(benchmarks.__path__, "benchmarks.")]


@pytest.mark.parametrize("name", NAMES)
def test_it_loads(name: str) -> None:
    """Types are not checked in them."""
    importlib.import_module(name)
