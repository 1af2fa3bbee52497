"""Configuration files for the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_dedup.config.keys import ConfigError
from stream_dedup.config.load import load_config


def write(folder: Path, text: str) -> Path:
    path = folder / "worker.toml"
    path.write_text(text, "utf-8")
    return path


def problems_of(folder: Path, text: str, **more: dict[str, str]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_config(write(folder, text), more.get("flags", {}), more.get("environment", {}))
    return caught.value.problems
