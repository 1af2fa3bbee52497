"""``stream-dedup config check|show``: the configuration in force."""

from __future__ import annotations

from pathlib import Path

import click
from pydantic import BaseModel

from stream_dedup.cli.options import FLAGS, config_options
from stream_dedup.cli.output import write_lines
from stream_dedup.config.keys import check_utf8, shown_comment, toml_value
from stream_dedup.config.model import Config
from stream_dedup.config.profile_file import own_keys, shown_values
from stream_dedup.core.profiles import Profile


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

    A key without a value is commented out, a path is absolute. Comments at the end have the values of the profile.
    """
    write_lines(*to_toml(config).rstrip("\n").split("\n"))


def to_toml(config: Config) -> str:
    """Return the configuration as TOML, with meanings, and the values of the profile, as comments."""
    top, sections = [], []
    for name in Config.model_fields:
        value = getattr(config, name)
        if isinstance(value, BaseModel):
            keys = type(value).model_fields
            sections += [f"\n[{name}]", *(line for key in keys for line in _line(value, key))]
        else:
            top += _line(config, name)
    return "\n".join([*top, *sections, "", *_of_profile(config.match.profile)]) + "\n"


def _line(section: BaseModel, name: str) -> list[str]:
    value = getattr(section, name)
    path = value.path if isinstance(value, Profile) else value
    if isinstance(path, Path):
        check_utf8(path.absolute())
    said = f"# {name} =" if value is None else f"{name} = {toml_value(value)}"
    return [f"# {shown_comment(type(section).model_fields[name])}", said]


def _of_profile(profile: Profile) -> list[str]:
    """Return the values of a profile, and of a file's which are its own."""
    own = own_keys(profile)
    base = profile.settings.profile
    values = [f"# {key} = {word}{' (its own)' if key in own else ''}" for key, word in shown_values(profile).items()]
    return [f"# profile {toml_value(profile)}{'' if profile.path is None else f', from {base}'}", *values]
