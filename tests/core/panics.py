"""Panics of the native core at a text, planted from outside: a kind of sketch without a value."""

from __future__ import annotations

from typing import Any

from stream_dedup import _native
from stream_dedup.core.scheme import FingerprintSettings


class _WithSketchOfNothing:
    """Settings under which the core panics at each text that has a sketch: at all but exact ones."""

    def __init__(self, settings: FingerprintSettings) -> None:
        self._settings = settings
        self.sketch = (*settings.sketch, (2, 0))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever they have
        return getattr(self._settings, name)


def panicking_reader(settings: FingerprintSettings) -> _native.TextReader:
    """Return a reader that panics at long text and at short text."""
    planted: Any = _WithSketchOfNothing(settings)
    return _native.TextReader(planted, [], [])
