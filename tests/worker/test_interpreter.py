"""How long the interpreter keeps a worker's threads waiting."""

from __future__ import annotations

import gc
import sys

import pytest

from stream_dedup.config.load import load_config
from stream_dedup.worker import app


def test_a_worker_runs_with_short_pauses_and_leaves_none_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    class Worker:
        def run(self) -> None:
            seen.append((gc.get_freeze_count(), sys.getswitchinterval()))

    monkeypatch.setattr(app, "_start", lambda *_args, **_kwargs: Worker())
    former = sys.getswitchinterval()
    assert app.run_worker(load_config(None, {"topics": {"input": ["articles"]}}, {})) == 0
    ((frozen, interval),) = seen
    assert frozen > 10_000, "what is loaded is part of every full collection"
    assert interval < former / 5
    assert (gc.get_freeze_count(), sys.getswitchinterval()) == (0, former)
