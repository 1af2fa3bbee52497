"""``status`` as a user sees it, without a broker."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Self

import pytest

from stream_dedup.cli import run
from stream_dedup.errors import EXIT_FOUND, EXIT_OK, EXIT_REFUSED, RefusedError
from stream_dedup.status import reading
from stream_dedup.status.snapshot import LogState, Snapshot

NOBODY = Snapshot(0.0, 3000, "news", "Empty", (), (), LogState("news.fingerprints", exists=False), {}, (), (), None)


class ReaderOf:
    """A reader that gives these looks, one after the other, and is interrupted by Ctrl-C after the last."""

    def __init__(self, looks: list[Any]) -> None:
        self._looks = looks

    def __call__(self, *_: Any, **__: Any) -> Self:  # noqa: ANN401 - whatever the command passes
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def read(self) -> Snapshot:
        if not self._looks:
            raise KeyboardInterrupt
        look = self._looks.pop(0)
        if isinstance(look, Exception):
            raise look
        assert isinstance(look, Snapshot)
        return look


@pytest.mark.parametrize(("watch", "code"), [(True, EXIT_FOUND), (False, EXIT_REFUSED)])
def test_a_watch_outlives_a_trim(
    watch: bool, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was to be read was cut off the log: the next look reads what is left. A single look says so."""
    looks = [RefusedError("the log was trimmed"), NOBODY, replace(NOBODY, at_s=9.0)]
    monkeypatch.setattr(reading, "StatusReader", ReaderOf(looks))
    monkeypatch.setattr(time, "sleep", lambda _: None)
    assert run(["status", *["--watch"] * watch]) == code
    said = capsys.readouterr()
    assert "the log was trimmed" in said.err
    assert said.out.count("wrong: no worker is in group news") == 2 * watch
    assert code != EXIT_OK
