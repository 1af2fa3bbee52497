"""`filter` called in the test process, or started as a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.files.filtering import Filter, PipedFilter


@pytest.fixture
def call(capsysbinary: pytest.CaptureFixture[bytes]) -> Filter:
    return Filter(capsysbinary)


@pytest.fixture
def piped() -> Iterator[Callable[..., PipedFilter]]:
    """Starts `filter` on pipes; what still runs at the end is killed."""
    running: list[PipedFilter] = []

    def start(*args: object) -> PipedFilter:
        running.append(PipedFilter(*args))
        return running[-1]

    yield start
    for process in running:
        process.close()
