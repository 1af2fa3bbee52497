"""The values in force: the configuration merged with its profile.

A key of ``text``, ``features`` or ``match`` without a value has the value of the profile. This module derives the
settings of the core and of the index from both. ``across`` checks the keys.
"""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import TYPE_CHECKING, NamedTuple

from stream_dedup.config.model import LOG_SUFFIX, Config
from stream_dedup.config.sections import TextConfig
from stream_dedup.core.profiles import PROFILES, Profile
from stream_dedup.core.rules import EXACT, Rules
from stream_dedup.core.scheme import FingerprintSettings, Normalisation, scheme_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stream_dedup.core.text.decode import InputFormat
    from stream_dedup.index import IndexSettings

ARTICLE_ALL = "every text is short"
"""Shown for an article size that no text reaches."""

MAX_VALUE_BYTES = 1_000_000
"""Bytes of a value in a topic where no key sets a limit; articles have some KB."""

KEEP_DEFAULT_MS = 8 * 24 * 3_600_000
"""The least default of ``groups.keep``, ms: the longest window in which groups are counted is a week."""

SEARCH_KEYS = (
    "distance",
    "probes",
    "limit",
    "short_limit",
    "min_equal",
    "short_min_equal",
    "certain",
    "form_limit",
    "far",
    "far_min_equal",
)
"""Keys of the section ``match`` for which a profile may have a default."""

Value = str | int | bool | None


class SearchSettings(NamedTuple):
    """The search of the rules; None: not used by this kind of search."""

    kind: str
    distance: int | None
    probes: int | None
    limit: int | None
    short_limit: int | None
    min_equal: int | None = None
    short_min_equal: int | None = None
    certain: int | None = None
    form_limit: int | None = None
    far: int | None = None
    far_min_equal: int | None = None
    dominated: int | None = None


def profile_of(config: Config) -> Profile:
    """Return the profile of the configuration."""
    return PROFILES[config.match.profile]


def search_of(config: Config) -> SearchSettings:
    """Return the search in force. A value is None where neither key nor profile sets it."""
    profile, match = profile_of(config), config.match
    kind = match.search or profile.search
    if kind == EXACT:
        return SearchSettings(kind, _or(match.distance, profile.distance), None, None, None)
    short_limit, short_min_equal = match.short_limit, match.short_min_equal
    if not fingerprint_settings_of(config).has_long:
        short_limit, short_min_equal = _or(short_limit, match.limit), _or(short_min_equal, match.min_equal)
    return SearchSettings(
        kind,
        None,
        _or(match.probes, profile.probes),
        _or(match.limit, profile.limit),
        _or(short_limit, profile.short_limit),
        _or(match.min_equal, profile.min_equal),
        _or(short_min_equal, profile.short_min_equal),
        _or(match.certain, profile.certain),
        _or(match.form_limit, profile.form_limit),
        _or(match.far, profile.far),
        _or(match.far_min_equal, profile.far_min_equal),
        profile.dominated,
    )


def fingerprint_settings_of(config: Config) -> FingerprintSettings:
    """Return the settings of fingerprinting."""
    given, text, features = config.input, config.text, config.features
    settings = profile_of(config).settings
    settings = settings.with_normalisation(**{name: getattr(text, name) for name in NORMALISATION})
    changed = {name: getattr(features, name) for name in PROFILE_FEATURES} | {"top_k": features.top_k or None}
    settings = settings.with_features(**changed)
    return replace(
        settings,
        article_size=settings.article_size if text.article_size is None else text.article_size,
        exact_size=settings.exact_size if text.exact_size is None else text.exact_size,
        fields=tuple(given.fields.items()),
        key_sentences=features.key_sentences,
        markup="html" if not given.fields and given.text_field in given.html_fields else given.markup,
        html_fields=tuple(given.html_fields) if given.fields else (),
        user_dictionary=features.user_dictionary,
        stop_words=features.stop_words,
        scope_field=given.scope_field,
        deletes=given.deletes == "withdraw",
        seed=features.seed,
        tables=features.tables,
        block_bits=features.block_bits,
    )


def rules_of(config: Config) -> Rules:
    """Return the rules that a new log gets from this configuration."""
    search = search_of(config)
    return Rules(
        scheme=scheme_of(fingerprint_settings_of(config)),
        search=search.kind,
        distance=search.distance,
        probes=search.probes,
        limit=search.limit,
        short_limit=search.short_limit,
        min_equal=search.min_equal,
        short_min_equal=search.short_min_equal,
        certain=search.certain,
        form_limit=search.form_limit,
        far=search.far,
        far_min_equal=search.far_min_equal,
        dominated=search.dominated,
        window_ms=config.match.window_ms,
        bucket_limit=config.match.bucket_limit,
        candidates=config.match.candidates or None,
        copies=config.match.copies,
        featureless=config.match.featureless,
        recrawl=config.match.recrawl,
        observe=config.match.observe,
    )


def with_input_topics(config: Config, known: Callable[[], Iterable[str]]) -> Config:
    """Return the configuration with the input topics by their names: of the known ones those that a pattern matches.

    A pattern matches the beginning of a name. It never matches a topic of the program (the log of any group, an output,
    the topic of groups), nor one of Kafka's own (``__``).

    Args:
        config: the configuration.
        known: returns the names of all topics that exist; called where there is a pattern.
    """
    topics = config.topics
    if not topics.patterns:
        return config
    own = {topics.unique, topics.duplicate, topics.rejected, topics.groups}
    found = sorted(
        name
        for name in known()
        if not name.startswith("__") and not name.endswith(LOG_SUFFIX) and name not in own
        if any(re.match(pattern, name) for pattern in topics.patterns)
    )
    named = [name for name in topics.input if name not in topics.patterns]
    return config.model_copy(update={"topics": topics.model_copy(update={"input": list(dict.fromkeys(named + found))})})


def groups_keep_ms(config: Config) -> int | None:
    """Return the time for which an article stays in its group, ms; None: for ever.

    While an article can still be matched, its group must be known; so it is kept longer than the window.
    """
    window = config.match.window_ms
    if config.groups.keep_ms is not None or window is None:
        return config.groups.keep_ms
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
    from stream_dedup.core.text.decode import InputFormat  # noqa: PLC0415 - loads the core

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


NORMALISATION = tuple(field.name for field in fields(Normalisation) if field.name in TextConfig.model_fields)
"""Keys of ``text`` that are steps of the normalisation."""

PROFILE_FEATURES = ("kind", "weights", "top_k", "damped", "damping", "idf", "root")
"""Keys of ``features`` that the profile sets."""


def of_profile(config: Config) -> dict[str, str]:
    """Return, by key, the value in force of each key that the profile sets, as text."""
    settings, search = fingerprint_settings_of(config), search_of(config)
    values: dict[str, str] = {}
    for name in NORMALISATION:
        long, short = (getattr(one.normalisation, name) for one in (settings.long, settings.short))
        values[f"text.{name}"] = _sides(settings, long, short)
    values["text.article_size"] = ARTICLE_ALL if settings.article_size is None else str(settings.article_size)
    values["text.exact_size"] = str(settings.exact_size)
    features = settings.long.features
    if settings.has_long:
        values |= {f"features.{name}": _word(getattr(features, name)) for name in PROFILE_FEATURES}
        values["features.top_k"] = _word(features.top_k or 0)
    values["match.search"] = search.kind
    values |= {f"match.{name}": _word(getattr(search, name)) for name in SEARCH_KEYS}
    return {key: word for key, word in values.items() if word}


def _sides(settings: FingerprintSettings, long: Value, short: Value) -> str:
    if long == short or not settings.has_short:
        return _word(long)
    return f"{_word(long)}; short text: {_word(short)}" if settings.has_long else _word(short)


def _word(value: Value) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _or(given: int | None, else_this: int | None) -> int | None:
    return else_this if given is None else given
