"""The settings of the core and of the index that follow from a configuration and its profile."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from stream_dedup.config.model import LOG_SUFFIX, Config
from stream_dedup.core.rules import Rules
from stream_dedup.core.scheme import FingerprintSettings, scheme_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stream_dedup.core.decode import InputFormat
    from stream_dedup.index import IndexSettings

MAX_VALUE_BYTES = 1_000_000
"""Bytes of a value in a topic where no key sets a limit; articles have some KB."""

KEEP_DEFAULT_MS = 8 * 24 * 3_600_000
"""The least default of ``clusters.keep``, ms: the longest window in which clusters are counted is a week."""


def fingerprint_settings_of(config: Config) -> FingerprintSettings:
    """Return the settings of fingerprinting: the profile's, with those of the input."""
    given = config.input
    return replace(
        config.match.profile.settings,
        fields=tuple(given.fields.items()),
        markup="html" if not given.fields and given.text_field in given.html_fields else given.markup,
        html_fields=tuple(given.html_fields) if given.fields else (),
        scope_field=given.scope_field,
        deletes=given.deletes == "withdraw",
    )


def rules_of(config: Config) -> Rules:
    """Return the rules that a new log gets from this configuration."""
    match = config.match
    return Rules(
        scheme=scheme_of(fingerprint_settings_of(config)),
        window_ms=match.window_ms,
        copies=match.copies,
        featureless=match.featureless,
        recrawl=match.recrawl,
        observe=match.observe,
        **match.profile.rules,
    )


def with_input_topics(config: Config, known: Callable[[], Iterable[str]]) -> Config:
    """Return the configuration with the input topics by their names: of the known ones those that a pattern matches.

    A pattern matches the beginning of a name. It never matches a topic of the program (the log of any group, an output,
    the topic of clusters), nor one of Kafka's own (``__``). ``known`` returns the names of all topics that exist; it is
    called where there is a pattern.
    """
    topics = config.topics
    if not topics.patterns:
        return config
    own = {topics.unique, topics.duplicate, topics.rejected, topics.clusters}
    found = sorted(
        name
        for name in known()
        if not name.startswith("__") and not name.endswith(LOG_SUFFIX) and name not in own
        if any(re.match(pattern, name) for pattern in topics.patterns)
    )
    named = [name for name in topics.input if name not in topics.patterns]
    return config.model_copy(update={"topics": topics.model_copy(update={"input": list(dict.fromkeys(named + found))})})


def clusters_keep_ms(config: Config) -> int | None:
    """Return the time for which an article stays in its cluster, ms; None: for ever.

    While an article can still be matched, its cluster must be known; so it is kept longer than the window.
    """
    window = config.match.window_ms
    if config.clusters.keep_ms is not None or window is None:
        return config.clusters.keep_ms
    return max(2 * window, KEEP_DEFAULT_MS)


def index_settings_of(config: Config) -> IndexSettings:
    """Return the settings of the index."""
    from stream_dedup.index import IndexSettings  # noqa: PLC0415 - loads RocksDB

    return IndexSettings(memory_mib=config.index.memory_mib, fold_entries=config.index.fold_entries)


def input_format_of(config: Config, max_bytes: int = MAX_VALUE_BYTES, *, deletes: bool = False) -> InputFormat:
    """Return the format of the source records.

    ``max_bytes`` is their size limit where no key sets one; ``deletes`` says whether a record may be a delete, as those
    for a log in Kafka may be: what is given to a command or to the service is a text. Values in the wire format of a
    schema registry are decoded to JSON first (``registry.values``).
    """
    from stream_dedup.core.decode import InputFormat  # noqa: PLC0415 - loads the core

    return InputFormat(
        kind="text" if config.input.format == "text" else "json",
        id_field=config.input.id_field,
        text_field=config.input.text_field,
        max_bytes=max_bytes if config.input.max_bytes is None else config.input.max_bytes,
        fields=tuple(config.input.fields),
        scope_field=config.input.scope_field,
        key_field=config.input.key_field,
        deletes=deletes and config.input.deletes == "withdraw",
        delete_field=config.input.delete_field,
        delete_value=config.input.delete_value,
        delete_id_field=config.input.delete_id_field,
    )
