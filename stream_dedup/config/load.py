"""Loads the configuration: one typed value, created once at the start.

Three sources, each overriding those before it: a TOML file, environment variables
(``STREAM_DEDUP_<SECTION>__<KEY>``, lists with commas), flags of the command line. Rules:

* One ``ConfigError`` reports every problem: key, value, source, reason, remedy. An unknown key is a problem.
* The value of an unknown key is never printed, for it may be a password.

Opens no other file than the configuration file and that of the profile.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stream_dedup.config import checks
from stream_dedup.config.across import across
from stream_dedup.config.checks import ConfigError
from stream_dedup.config.model import Config

__all__ = ["ENV_PREFIX", "load_config"]

ENV_PREFIX = "STREAM_DEDUP_"


def load_config(
    path: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Config:
    """Read the configuration from its three sources.

    Args:
        path: TOML file, or None.
        overrides: values of the flags, as ``{"kafka": {"brokers": …}}``; None: the flag was not given.
        environment: that of the process where None.

    Raises:
        ConfigError: the configuration is invalid; the error lists every problem.
    """
    problems: list[str] = []
    file_values = checks.read_toml(path, "--config", problems) if path is not None else {}
    layers = [
        checks.Layer(f"file {path}", file_values),
        checks.Layer("environment", _from_environment(os.environ if environment is None else environment)),
        checks.Layer("flag", _given(overrides or {})),
    ]
    config = checks.validate(Config, layers, problems, across)
    if config is None:
        raise ConfigError(problems)
    return config


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of the variables. A variable without a section, or with an empty value, is ignored."""
    values: dict[str, Any] = {}
    for name, value in environment.items():
        section, mark, key = name.removeprefix(ENV_PREFIX).lower().partition("__")
        if not name.startswith(ENV_PREFIX) or not value:
            continue
        if mark:
            values.setdefault(section, {})[key] = value
        elif section == "log_level":
            values[section] = value
    return values


def _given(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags that were given: without None and empty sections."""
    kept: dict[str, Any] = {}
    for name, value in overrides.items():
        inner = _given(value) if isinstance(value, Mapping) else value
        if inner is not None and inner != {}:
            kept[name] = inner
    return kept
