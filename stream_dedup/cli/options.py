"""The flags that several commands share, and how they become a configuration.

A command names the flags that it takes:

    @click.command()
    @config_options("brokers", "group")
    def command(config: Config, …) -> int | None:

It then has ``--config``, ``--log-level`` and those, and is given the whole ``Config`` as its
first argument. Rules: a flag's text goes to the configuration as it was written, so that all
that is wrong is told at once; logging is set up before the command's body runs. What a
command returns is its exit code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import click

from stream_dedup.cli.logs import set_up_logging
from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config
from stream_dedup.files.same_file import STREAM, refuse_inputs_as_outputs

_P = ParamSpec("_P")
_R = TypeVar("_R")


class _Flag(NamedTuple):
    """A flag and the key of the configuration that it sets."""

    key: tuple[str, ...]
    metavar: str
    help: str
    multiple: bool = False
    switch: bool = False


FLAGS = {
    "brokers": _Flag(("kafka", "brokers"), "HOST:PORT,…", "Kafka brokers to begin with (127.0.0.1:9092)."),
    "group": _Flag(("kafka", "group"), "NAME", "Consumer group; its log is the topic NAME.fingerprints."),
    "input": _Flag(("topics", "input"), "TOPIC", "Topic with articles; may be given several times.", multiple=True),
    "unique": _Flag(("topics", "unique"), "TOPIC", "Topic of articles seen for the first time."),
    "duplicate": _Flag(("topics", "duplicate"), "TOPIC", "Topic of duplicates."),
    "rejected": _Flag(("topics", "rejected"), "TOPIC", "Topic of records that cannot be read."),
    "index": _Flag(("index", "path"), "DIR", "Folder of the index."),
    "profile": _Flag(("match", "profile"), "NAME", "Named set of defaults: article, comment or simhash (article)."),
    "probes": _Flag(("match", "probes"), "P", "Lists looked up for an article (profiles article and comment)."),
    "limit": _Flag(("match", "limit"), "BITS", "Bits of 256 in which two signatures may differ (article, comment)."),
    "short_limit": _Flag(("match", "short_limit"), "BITS", "The same for short texts."),
    "distance": _Flag(("match", "distance"), "K", "Bits of 64 in which two fingerprints may differ (profile simhash)."),
    "window": _Flag(("match", "window"), "TIME", "How long an article is remembered: 90s, 15m, 24h, 7d (for ever)."),
    "scope": _Flag(
        ("input", "scope_field"), "FIELD", "Field of the site or thread: articles match only within theirs."
    ),
    "recrawl": _Flag(("match", "recrawl"), "WHAT", "What an edited article under its old id is: duplicate or update."),
    "observe": _Flag(
        ("match", "observe"),
        "",
        "Send every record to the topic of unique ones, its verdict in its headers.",
        switch=True,
    ),
    "processes": _Flag(("worker", "processes"), "N", "Fingerprinting processes, 0 for none (one a core)."),
    "article_limit": _Flag(
        ("worker", "article_limit_s"), "SECONDS", "Reject an article that takes longer to be fingerprinted (10)."
    ),
    "metrics": _Flag(("metrics", "address"), "ADDRESS", "host:port for /metrics; port 0 for any free one; or off."),
}


OFFSET_DIGITS = 19
"""Digits of the greatest offset in Kafka, 2**63 - 1: what is longer is none."""

JUDGING = ("profile", "probes", "limit", "short_limit", "distance", "window", "scope", "recrawl", "observe")
"""Flags of all that the rules of a log are made of; a command that makes or needs them has every one."""


def config_options(*names: str) -> Callable[[Callable[Concatenate[Config, _P], _R]], Callable[_P, _R]]:
    """Give a command the flags named (of ``FLAGS``) and its configuration."""

    def decorate(function: Callable[Concatenate[Config, _P], _R]) -> Callable[_P, _R]:
        @functools.wraps(function)
        def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            flags: dict[str, Any] = {name: kwargs.pop(f"flag_{name}") for name in (*names, "config", "log_level")}
            config = config_from(flags)
            set_up_logging(config.log_level)
            return function(config, *args, **kwargs)

        wrapped: Callable[_P, _R] = run
        for name in reversed(names):
            wrapped = _option(name, FLAGS[name])(wrapped)
        return _common(wrapped)

    return decorate


def config_from(flags: dict[str, Any]) -> Config:
    """The configuration of a command called with these flags (by their names; None: not given).

    Raises:
        ConfigError: with every problem there is.
        UserError: the configuration file is standard output too (``config show --config c.toml > c.toml``).
    """
    path = flags.get("config")
    refuse_inputs_as_outputs([STREAM], [] if path is None else [path])
    overrides: dict[str, Any] = {"log_level": flags.get("log_level")}
    for name, flag in FLAGS.items():
        value = flags.get(name)
        if value is not None and value != ():
            section, key = flag.key
            overrides.setdefault(section, {})[key] = list(value) if flag.multiple else value
    return load_config(None if path is None else Path(path), overrides)


def settings_files(config: Config) -> tuple[Path, ...]:
    """Files that the configuration of the present command is read from: no output may be one of them."""
    given = click.get_current_context().params.get("flag_config")
    named = (given, config.features.user_dictionary, config.features.stop_words)
    return tuple(Path(one) for one in named if one is not None)


def _option(name: str, flag: _Flag) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    names = (f"--{name.replace('_', '-')}", f"flag_{name}")
    if flag.switch:
        return click.option(*names, is_flag=True, default=None, help=flag.help)
    return click.option(*names, metavar=flag.metavar, help=flag.help, multiple=flag.multiple)


def _common(function: Callable[_P, _R]) -> Callable[_P, _R]:
    level = click.option(
        "--log-level",
        "flag_log_level",
        metavar="LEVEL",
        help="debug, info, warning or error (info), on standard error.",
    )
    config = click.option(
        "--config",
        "flag_config",
        metavar="FILE",
        envvar="STREAM_DEDUP_CONFIG",
        help="Configuration file (TOML). Over it stand STREAM_DEDUP_<SECTION>__<KEY>, then flags.",
    )
    return config(level(function))
