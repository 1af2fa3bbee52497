"""A registry in this process, and a real one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.registry.apicurio import Apicurio, apicurio, can_run
from tests.registry.fake import FakeRegistry


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    yield made
    made.stop()


@pytest.fixture(scope="session")
def real_registry() -> Iterator[Apicurio]:
    if not can_run():
        pytest.skip("neither Java 17 with Maven, nor the registry's jars are here")
    with apicurio() as started:
        yield started
