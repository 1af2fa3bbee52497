"""The flags that set a key of the configuration.

A command names its flags:

    @click.command()
    @config_options("brokers", "group")
    def command(config: Config, …) -> int | None:

The command then has ``--config``, ``--log-level`` and the named flags, and its first argument is the whole ``Config``.
Rules: the text of a flag is passed to the configuration unchanged, so that every problem is reported in one error;
logging is set up before the body of the command runs. The return value of a command is its exit code.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import click

from stream_dedup.cli.logs import set_up_logging
from stream_dedup.config.keys import all_keys, flag_help
from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config
from stream_dedup.core.paths import FieldPath, PathError, parse_path
from stream_dedup.files.recognition import FORMATS, Format, InputForm, checked_encoding

_P = ParamSpec("_P")
_R = TypeVar("_R")


class WholeNumber(click.IntRange):
    """A whole number in a range, so called in messages."""

    name = "whole number"


class Seconds(click.FloatRange):
    """A time in seconds, so called in messages; NaN lies in no range."""

    name = "number of seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401 - click's signature
        """Return the number, if it is one."""
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value!r} is not a valid {self.name}.", param, ctx)
        return number


class _Flag(NamedTuple):
    """A flag that sets a key of the configuration; its help is derived from the key."""

    key: str
    metavar: str = ""
    multiple: bool = False
    value: str = ""
    """What a flag without a value sets its key to, where the key is no boolean."""


_KEYS = dict(all_keys(Config))

FLAGS = {
    "brokers": _Flag("kafka.brokers", "HOST:PORT,…"),
    "group": _Flag("kafka.group", "NAME"),
    "input": _Flag("topics.input", "TOPIC", multiple=True),
    "unique": _Flag("topics.unique", "TOPIC"),
    "duplicate": _Flag("topics.duplicate", "TOPIC"),
    "rejected": _Flag("topics.rejected", "TOPIC"),
    "index": _Flag("index.path", "DIR"),
    "profile": _Flag("match.profile", "PROFILE"),
    "window": _Flag("match.window", "TIME"),
    "id_field": _Flag("input.id_field", "FIELD"),
    "text_field": _Flag("input.text_field", "FIELD"),
    "html": _Flag("input.markup", value="html"),
    "scope": _Flag("input.scope_field", "FIELD"),
    "recrawl": _Flag("match.recrawl", "RESULT"),
    "observe": _Flag("match.observe"),
    "threads": _Flag("worker.threads", "N"),
    "metrics": _Flag("metrics.address", "ADDRESS"),
    "address": _Flag("serve.address", "ADDRESS"),
    "data_dir": _Flag("serve.data_dir", "DIR"),
    "token_file": _Flag("serve.token_file", "FILE"),
}
_EVERYWHERE = {"log_level": _Flag("log_level", "LEVEL")}
ALL_FLAGS = FLAGS | _EVERYWHERE

OFFSET_DIGITS = 19
"""Decimal digits of the greatest offset in Kafka, 2**63 - 1."""

GROUP_FLAGS = ("brokers", "input", "unique", "duplicate", "rejected", "group")
"""The flags that name a group and its topics."""
JUDGING = ("profile", "window", "scope", "recrawl", "observe")
"""The flags that determine the rules of a log."""


class OneField(click.ParamType):  # type: ignore[type-arg] # generic in the stubs alone
    """The path of a field that is one value."""

    name = "FIELD"

    def convert(self, value: str | FieldPath, param: click.Parameter | None, ctx: click.Context | None) -> FieldPath:
        """Read the path; where it cannot be read, say where and what to write."""
        if isinstance(value, FieldPath):
            return value
        try:
            return parse_path(value, one=True)
        except PathError as error:
            self.fail(f"{value!r}, {error}", param, ctx)


def config_options(*names: str) -> Callable[[Callable[Concatenate[Config, _P], _R]], Callable[_P, _R]]:
    """Decorate a command: add the named flags (of ``FLAGS``), and pass the configuration to it."""
    taken = (*names, *_EVERYWHERE)

    def decorate(function: Callable[Concatenate[Config, _P], _R]) -> Callable[_P, _R]:
        @functools.wraps(function)
        def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            flags: dict[str, Any] = {name: kwargs.pop(f"flag_{name}") for name in (*taken, "config")}
            config = config_from(flags)
            set_up_logging(config.log_level)
            return function(config, *args, **kwargs)

        wrapped: Callable[_P, _R] = run
        for name in reversed(taken):
            wrapped = _option(name, ALL_FLAGS[name])(wrapped)
        about = "Configuration file (TOML). STREAM_DEDUP_<SECTION>__<KEY> overrides it, a flag overrides both."
        return click.option("--config", "flag_config", metavar="FILE", envvar="STREAM_DEDUP_CONFIG", help=about)(
            wrapped
        )

    return decorate


def input_options(*, formats: bool = True) -> Callable[[Callable[Concatenate[Config, _P], _R]], Callable[..., _R]]:
    """Decorate a command that reads files: add ``--format`` and ``--encoding``, and pass them as ``form``.

    Stands below ``config_options``. ``formats``: False for a command whose files are texts, not records.
    """

    def decorate(function: Callable[Concatenate[Config, _P], _R]) -> Callable[..., _R]:
        @functools.wraps(function)
        def run(config: Config, *args: Any, **kwargs: Any) -> _R:  # noqa: ANN401 - those of the command
            format_: Format | None = kwargs.pop("input_format", None)
            encoding: str | None = kwargs.pop("input_encoding")
            form = InputForm(format_, None if encoding is None else checked_encoding(encoding))
            return function(config, *args, form=form, **kwargs)  # type: ignore[arg-type] # a keyword of the command

        about = "Encoding of the files (default: utf-8), as Python names it."
        named = click.option("--encoding", "input_encoding", metavar="NAME", help=about)(run)
        about = "Format of the files (default: by their first bytes; CSV and TSV by their names)."
        return (
            click.option("--format", "input_format", type=click.Choice(FORMATS), help=about)(named)
            if formats
            else named
        )

    return decorate


def config_from(flags: dict[str, Any]) -> Config:
    """Return the configuration of a command that was called with these flags, by name; None: not given.

    Raises:
        ConfigError: the configuration has problems; the error lists all of them.
    """
    path = flags.get("config")
    overrides: dict[str, Any] = {}
    for name, flag in ALL_FLAGS.items():
        value = flags.get(name)
        if value is not None and value != ():
            *section, key = flag.key.split(".")
            values = overrides.setdefault(section[0], {}) if section else overrides
            values[key] = list(value) if flag.multiple else value
    return load_config(None if path is None else Path(path), overrides)


def settings_files(config: Config) -> tuple[Path, ...]:
    """Return the files from which the configuration of the running command is read. No output may be one of them."""
    given = click.get_current_context().params.get("flag_config")
    profile = config.match.profile
    named = (given, profile.path, profile.settings.user_dictionary, profile.settings.stop_words)
    return tuple(Path(one) for one in named if one is not None)


def _option(name: str, flag: _Flag) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    names, field = (f"--{name.replace('_', '-')}", f"flag_{name}"), _KEYS[flag.key]
    about = flag_help(field, flag.value)
    if flag.value:
        return click.option(*names, flag_value=flag.value, default=None, help=about)
    if field.annotation is bool:
        return click.option(*names, is_flag=True, default=None, help=about)
    if flag.multiple:
        about = f"{about} May be given several times."
    return click.option(*names, metavar=flag.metavar, help=about, multiple=flag.multiple)
