"""The configuration: one typed value, made once at the start.

Three sources, the later over the earlier: a TOML file, environment variables
(``STREAM_DEDUP_<SECTION>__<KEY>``, lists with commas), flags of the command line. Rules:

* Every problem is reported at once, in one ``ConfigError``: key, value, where it came from,
  reason, remedy. A key that nobody knows is a problem, not a surprise later.
* A secret's value is never printed, nor that of an unknown key, which may be a misspelt secret.
* Units stand in the names (``_s``, ``_mib``, ``_bytes``); durations carry theirs ("24h").
* Each key has its meaning and what may be given, in one place (``config_sections``): the errors,
  ``config show`` and the README's table are made of them.

No algorithm and no effect here: nothing is opened but the configuration and secret files.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict

from stream_dedup import config_checks as checks
from stream_dedup.config_across import across
from stream_dedup.config_checks import ConfigError, parse_duration_ms
from stream_dedup.config_profile import search_of, settings_of
from stream_dedup.config_sections import (
    FeaturesConfig,
    IndexConfig,
    InputConfig,
    KafkaConfig,
    MatchConfig,
    MetricsConfig,
    TextConfig,
    TopicsConfig,
    WorkerConfig,
    key,
)

if TYPE_CHECKING:
    from stream_dedup.core.decode import InputFormat
    from stream_dedup.core.rules import Rules
    from stream_dedup.core.scheme import FingerprintSettings
    from stream_dedup.index import IndexSettings

__all__ = ["ENV_PREFIX", "Config", "ConfigError", "KafkaConfig", "load_config", "parse_duration_ms"]

ENV_PREFIX = "STREAM_DEDUP_"
LOG_SUFFIX = ".fingerprints"
"""The log topic is the group's name with this behind it."""


class Config(BaseModel):
    """Everything that can be set."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    kafka: KafkaConfig = KafkaConfig()
    topics: TopicsConfig = TopicsConfig()
    input: InputConfig = InputConfig()
    text: TextConfig = TextConfig()
    features: FeaturesConfig = FeaturesConfig()
    match: MatchConfig = MatchConfig()
    index: IndexConfig = IndexConfig()
    worker: WorkerConfig = WorkerConfig()
    metrics: MetricsConfig = MetricsConfig()
    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(checks.lower)] = key(
        "info", "least severe lines written to standard error", "debug, info, warning or error"
    )

    @property
    def log_topic(self) -> str:
        """Topic of the fingerprint log."""
        return f"{self.kafka.group}{LOG_SUFFIX}"

    def fingerprint_settings(self) -> FingerprintSettings:
        """What the core needs to know to make log entries."""
        return settings_of(self)

    def rules(self) -> Rules:
        """The rules that a log begun with this configuration has."""
        from stream_dedup.core.rules import Rules  # noqa: PLC0415 - loads the core
        from stream_dedup.core.scheme import scheme_of  # noqa: PLC0415 - loads the core

        search = search_of(self)
        return Rules(
            scheme=scheme_of(self.fingerprint_settings()),
            search=search.kind,
            distance=search.distance,
            probes=search.probes,
            limit=search.limit,
            short_limit=search.short_limit,
            window_ms=self.match.window_ms,
            bucket_limit=self.match.bucket_limit,
            featureless=self.match.featureless,
            recrawl=self.match.recrawl,
            observe=self.match.observe,
        )

    def index_settings(self) -> IndexSettings:
        """What may be set of the index."""
        from stream_dedup.index import IndexSettings  # noqa: PLC0415 - loads RocksDB

        return IndexSettings(
            fold_entries=self.index.fold_entries,
            block_cache_mib=self.index.block_cache_mib,
            image_mib=self.index.image_mib,
        )

    def input_format(self) -> InputFormat:
        """How records are read."""
        from stream_dedup.core.decode import InputFormat  # noqa: PLC0415 - loads the core

        return InputFormat(
            kind=self.input.format,
            id_field=self.input.id_field,
            text_field=self.input.text_field,
            max_bytes=self.input.max_bytes,
            fields=tuple(self.input.fields),
            scope_field=self.input.scope_field,
        )


def load_config(
    path: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Config:
    """Read the configuration from its three sources.

    Args:
        path: TOML file, None for none.
        overrides: what the flags say, as ``{"kafka": {"brokers": …}}``; a value of None was not given.
        environment: the process's own where not given.

    Raises:
        ConfigError: with every problem there is.
    """
    problems: list[str] = []
    file_values = _read_file(path, problems) if path is not None else {}
    layers = [
        checks.Layer(f"file {path}", file_values),
        checks.Layer("environment", _from_environment(os.environ if environment is None else environment)),
        checks.Layer("flag", _given(overrides or {})),
    ]
    config = checks.validate(Config, layers, problems, across)
    if config is None:
        raise ConfigError(problems)
    return config


def _read_file(path: Path, problems: list[str]) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        problems.append(f"file {path}: cannot be read ({error.strerror}); name a TOML file with --config")
    except UnicodeDecodeError as error:
        problems.append(f"file {path}: not UTF-8 at byte {error.start}; save it as UTF-8")
    except tomllib.TOMLDecodeError as error:
        problems.append(f"file {path}: not TOML: {error}; mend that line")
    return {}


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """Variables with two underscores between section and key; an empty one was not given."""
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
    """Flags that were given: None and empty sections fall away."""
    kept: dict[str, Any] = {}
    for name, value in overrides.items():
        inner = _given(value) if isinstance(value, Mapping) else value
        if inner is not None and inner != {}:
            kept[name] = inner
    return kept
