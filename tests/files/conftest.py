"""`filter` called in the test process, or started as a process of its own."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.files.filtering import Filter, started


@pytest.fixture
def call(capsysbinary: pytest.CaptureFixture[bytes]) -> Filter:
    return Filter(capsysbinary)


@pytest.fixture
def piped() -> Iterator[Any]:
    """Starts `filter` on pipes; what still runs at the end is killed."""
    running: list[subprocess.Popen[bytes]] = []

    def start(*args: object) -> subprocess.Popen[bytes]:
        running.append(started(*args))
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
