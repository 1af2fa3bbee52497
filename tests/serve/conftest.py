"""The pipeline under test is that of the worker's tests; one browser serves the tests of the pages in a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome

from tests.browser import open_browser
from tests.forked_children import forked_children
from tests.forks import forks
from tests.worker.conftest import make_pipeline

__all__ = ["browser", "make_pipeline"]


@pytest.fixture(scope="session")
def browser() -> Iterator[Chrome]:
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module", autouse=True)
def quick_pools() -> Iterator[None]:
    """Processes of a service in the test's process start in milliseconds."""
    with forked_children(forks()):
        yield
