"""``stream-dedup config check|show``: the configuration in force."""

from __future__ import annotations

import json
from pathlib import Path

import click
from pydantic import BaseModel, SecretStr

from stream_dedup.cli.options import FLAGS, config_options
from stream_dedup.cli.output import write_lines
from stream_dedup.config.effective import of_profile as profile_values
from stream_dedup.config.keys import shown_comment
from stream_dedup.config.model import Config
from stream_dedup.terminal import replace_hidden

MASK = "********"
"""Replaces a secret, whatever its length."""
MAX_SHORT_ESCAPE = 0xFFFF
"""The last code point that TOML escapes with four digits."""


@click.group()
def command() -> None:
    """Check or show the configuration: file, environment and flags merged."""


@command.command()
@config_options(*FLAGS)
def check(config: Config) -> None:
    """Report every problem of the configuration.

    Exit code 0: the configuration is valid; 2: it is not. No broker is contacted.
    """
    write_lines(f"the configuration is valid; log topic {config.log_topic}")


@command.command()
@config_options(*FLAGS)
def show(config: Config) -> None:
    """Write the configuration in force as TOML, with the meaning of each key.

    Secrets are masked. A key without a value is commented out, with the profile's value.
    """
    write_lines(*to_toml(config).rstrip("\n").split("\n"))


def to_toml(config: Config) -> str:
    """Return the configuration as TOML, with meanings as comments and secrets masked."""
    top, sections = [], []
    of_profile = profile_values(config)
    for name in Config.model_fields:
        value = getattr(config, name)
        if isinstance(value, BaseModel):
            keys = type(value).model_fields
            lines = [line for key in keys for line in _line(value, key, of_profile.get(f"{name}.{key}"))]
            sections += [f"\n[{name}]", *lines]
        else:
            top += _line(config, name, None)
    return "\n".join([*top, *sections]) + "\n"


def _line(section: BaseModel, name: str, of_profile: str | None) -> list[str]:
    field = type(section).model_fields[name]
    value = getattr(section, name)
    comment = f"# {shown_comment(field)}"
    if value is None:
        return [comment, f"# {name} =" if of_profile is None else f"# {name} = {of_profile} (the profile's)"]
    return [comment, f"{name} = {_toml_value(value)}"]


def _toml_value(value: object) -> str:
    """Return a value as TOML, which shares strings, numbers, booleans and lists with JSON."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {_toml_value(one)}" for name, one in value.items()) + "}"
    if isinstance(value, SecretStr):
        value = MASK
    text = json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)
    return replace_hidden(text, _toml_escape)


def _toml_escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= MAX_SHORT_ESCAPE else f"\\U{code:08x}"
