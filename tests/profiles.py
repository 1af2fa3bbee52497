"""Profiles of the tests' own: built-in ones with other values, given as the sections of a profile's file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stream_dedup.config.keys import toml_value
from stream_dedup.config.profile_file import ProfileFile, with_values
from stream_dedup.core.profiles import DEFAULT_PROFILE, PROFILES, Profile


def profile_with(base: str = DEFAULT_PROFILE, **sections: Mapping[str, Any]) -> Profile:
    """Return a profile with these values."""
    return with_values(PROFILES[base], ProfileFile.model_validate(sections))


def write_profile(folder: Path, base: str = DEFAULT_PROFILE, **sections: Mapping[str, Any]) -> str:
    """Write the file of such a profile into a folder, and return its path."""
    lines = [f'from = "{base}"']
    for section, values in sections.items():
        lines += [f"[{section}]", *(f"{name} = {toml_value(value)}" for name, value in values.items())]
    path = folder / "profile.toml"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return str(path)
