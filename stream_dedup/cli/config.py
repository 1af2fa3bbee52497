"""``stream-dedup config check|show``: the configuration as the worker would see it."""

from __future__ import annotations

import json
from pathlib import Path

import click
from pydantic import BaseModel, SecretStr

from stream_dedup.cli.options import FLAGS, config_options
from stream_dedup.cli.output import write_lines
from stream_dedup.config.effective import of_profile as profile_values
from stream_dedup.config.model import Config
from stream_dedup.terminal import replace_hidden

MASK = "********"
"""What stands for a secret: of the same length for every one."""
MAX_SHORT_ESCAPE = 0xFFFF
"""Greatest character that TOML escapes with four digits."""


@click.group()
def command() -> None:
    """Check or show the configuration: file, environment and flags together."""


@command.command()
@config_options(*FLAGS)
def check(config: Config) -> None:
    """Say everything that is wrong with the configuration.

    Exit code 0 when it can be used, 2 when it cannot. No broker is asked.
    """
    write_lines(f"configuration is right; log topic {config.log_topic}")


@command.command()
@config_options(*FLAGS)
def show(config: Config) -> None:
    """Write the configuration in force as TOML, each key with its meaning.

    Secrets are masked; a key that is not given is commented out, with what the profile makes of it.
    """
    write_lines(*to_toml(config).rstrip("\n").split("\n"))


def to_toml(config: Config) -> str:
    """The configuration as TOML, with meanings as comments and secrets masked."""
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
    comment = f"# {field.description}"
    if value is None:
        return [comment, f"# {name} =" if of_profile is None else f"# {name} = {of_profile} (the profile's)"]
    return [comment, f"{name} = {_toml_value(value)}"]


def _toml_value(value: object) -> str:
    """A value as TOML: JSON's texts, numbers, booleans and lists are TOML's too."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {_toml_value(one)}" for name, one in value.items()) + "}"
    if isinstance(value, SecretStr):
        value = MASK
    text = json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)
    return replace_hidden(text, _toml_escape)


def _toml_escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= MAX_SHORT_ESCAPE else f"\\U{code:08x}"
