"""How long the interpreter keeps a worker's threads waiting."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest

from stream_dedup.config.load import load_config
from stream_dedup.threads import YOUNG_OBJECTS, short_pauses
from stream_dedup.worker import app


@pytest.fixture(autouse=True)
def nothing_is_frozen() -> Iterator[None]:
    """A test run leaves what it has loaded out of collections."""
    gc.unfreeze()
    yield
    gc.freeze()


def test_a_worker_runs_with_short_pauses_and_leaves_none_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    class Worker:
        def run(self) -> None:
            seen.append((gc.get_freeze_count(), sys.getswitchinterval(), gc.get_threshold()))

    monkeypatch.setattr(app, "_start", lambda *_args, **_kwargs: Worker())
    former, thresholds = sys.getswitchinterval(), gc.get_threshold()
    assert app.run_worker(load_config(None, {"topics": {"input": ["articles"]}}, {})) == 0
    ((frozen, interval, within),) = seen
    assert frozen > 10_000, "what is loaded is part of every full collection"
    assert interval < former / 5
    assert within == (YOUNG_OBJECTS, *thresholds[1:])
    assert (gc.get_freeze_count(), sys.getswitchinterval(), gc.get_threshold()) == (0, former, thresholds)


def test_what_a_caller_has_left_out_of_collections_stays_out() -> None:
    """A program that uses this one may have frozen what it has loaded itself."""
    gc.freeze()
    try:
        with short_pauses():
            assert gc.get_freeze_count() > 0
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
    with short_pauses(collects=False):
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("first", [0, YOUNG_OBJECTS + 1])
def test_a_caller_that_wants_fewer_collections_has_them(first: int) -> None:
    former = gc.get_threshold()
    gc.set_threshold(first, *former[1:])
    try:
        with short_pauses(collects=False):
            assert gc.get_threshold() == (first, *former[1:])
        assert gc.get_threshold() == (first, *former[1:])
    finally:
        gc.set_threshold(*former)
