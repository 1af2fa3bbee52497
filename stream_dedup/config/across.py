"""Rules between keys of the configuration that are each valid alone.

Order: the brokers, topics, records, then the rules of a match. Checks that named files can be read, and does not
read them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from stream_dedup.config.checks import ConfigProblem, is_loopback
from stream_dedup.config.effective import PROFILE_FEATURES, SEARCH_KEYS, fingerprint_settings_of, search_of
from stream_dedup.config.model import Config
from stream_dedup.config.sections import InputConfig, KafkaConfig
from stream_dedup.config.serve_section import SERVED_INDEX
from stream_dedup.core.rules import EXACT, MAX_EXACT_LOOKUPS, greatest_distance, mask_bits, most_probes

OAUTHBEARER = "OAUTHBEARER"
"""The mechanism that takes a token in place of name and password."""
LEAST_KEEP_MS = 7 * 24 * 3_600_000
"""The longest window in which groups are counted, ms."""
EXACT_TABLES = 4
"""Number of tables that cover the fingerprint."""


def across(config: Config) -> list[ConfigProblem]:
    """Return every problem between keys that are each valid alone."""
    return [
        *_security_problems(config.kafka),
        *_file_problems(config),
        *_topic_problems(config),
        *_input_problems(config),
        *_registry_problems(config),
        *_delete_problems(config.input),
        *_size_problems(config),
        *_feature_problems(config),
        *_search_problems(config),
        *_keep_problems(config),
        *_serve_problems(config),
    ]


def _keep_problems(config: Config) -> Iterator[ConfigProblem]:
    keep = config.groups.keep_ms
    if keep is not None and keep < LEAST_KEEP_MS:
        yield ConfigProblem(("groups.keep",), "groups are counted in windows of up to a week", "set at least 7d")
    if keep is not None and keep < (config.match.window_ms or 0):
        yield ConfigProblem(
            ("groups.keep", "match.window"),
            "an article that can still be matched would be in no group any more",
            "set groups.keep to more than the window",
        )


def _security_problems(kafka: KafkaConfig) -> list[ConfigProblem]:
    problems = []
    for name in ("sasl_password", "ssl_password"):
        if getattr(kafka, name) is not None and getattr(kafka, f"{name}_file") is not None:
            keys = (f"kafka.{name}", f"kafka.{name}_file")
            problems.append(ConfigProblem(keys, "both are set", "set only one of them"))
    problems += _sasl_problems(kafka)
    if kafka.ssl_keyfile is not None and kafka.ssl_certfile is None:
        problems.append(
            ConfigProblem(("kafka.ssl_keyfile",), "a private key needs a certificate", "set kafka.ssl_certfile")
        )
    if not kafka.security_protocol.endswith("SSL"):
        tls = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_password", "ssl_password_file")
        given = [name for name in tls if getattr(kafka, name) is not None]
        problems += [_unused(f"kafka.{name}", kafka.security_protocol, "SSL or SASL_SSL") for name in given]
    return problems


def _sasl_problems(kafka: KafkaConfig) -> Iterator[ConfigProblem]:
    given = {
        "sasl_mechanism": kafka.sasl_mechanism,
        "sasl_username": kafka.sasl_username,
        "sasl_password": kafka.sasl_password or kafka.sasl_password_file,
        "sasl_token_file": kafka.sasl_token_file,
    }
    if not kafka.security_protocol.startswith("SASL"):
        used = [name for name, value in given.items() if value is not None]
        yield from (_unused(f"kafka.{name}", kafka.security_protocol, "SASL_SSL") for name in used)
        return
    mechanism = kafka.sasl_mechanism
    by_name = ("sasl_username", "sasl_password")
    needed = ("sasl_mechanism", *(("sasl_token_file",) if mechanism == OAUTHBEARER else by_name))
    for name in needed:
        if given[name] is None:
            yield ConfigProblem(
                (f"kafka.{name}",),
                f"required by {mechanism or kafka.security_protocol}",
                "set it, or another kafka.sasl_mechanism or kafka.security_protocol",
            )
    for name, value in given.items():
        if mechanism is not None and name not in needed and value is not None:
            keys = (f"kafka.{name}", "kafka.sasl_mechanism")
            yield ConfigProblem(keys, f"{mechanism} does not use it", f"remove kafka.{name}")


def _unused(key: str, protocol: str, other: str) -> ConfigProblem:
    return ConfigProblem(
        (key, "kafka.security_protocol"),
        f"{protocol} does not use it, so the connection would be less secure than it looks",
        f"set kafka.security_protocol to {other}, or remove {key}",
    )


def _file_problems(config: Config) -> Iterator[ConfigProblem]:
    files: dict[str, tuple[str, ...]] = {
        "kafka": (
            "ssl_cafile",
            "ssl_certfile",
            "ssl_keyfile",
            "ssl_password_file",
            "sasl_password_file",
            "sasl_token_file",
        ),
        "registry": ("password_file", "token_file", "ssl_cafile"),
        "features": ("user_dictionary", "stop_words"),
    }
    for section, names in files.items():
        for name in names:
            path: Path | None = getattr(getattr(config, section), name)
            if path is not None and not (path.is_file() and os.access(path, os.R_OK)):
                yield ConfigProblem((f"{section}.{name}",), f"{path} is not a readable file", "name a readable file")


def _topic_problems(config: Config) -> list[ConfigProblem]:
    roles = [(name, f"topics.input[{at}]") for at, name in enumerate(config.topics.input)]
    roles += [(getattr(config.topics, role), f"topics.{role}") for role in ("unique", "duplicate", "rejected")]
    if config.topics.groups is not None:
        roles.append((config.topics.groups, "topics.groups"))
    roles.append((config.log_topic, "the log of kafka.group"))
    first: dict[str, str] = {}
    problems = []
    for name, role in roles:
        if name in first:
            keys = ("topics", *(part for part in (role, first[name]) if part.startswith("topics.")))
            problems.append(
                ConfigProblem(
                    keys, f"topic {name!r} is both {first[name]} and {role}", "use a different topic for each"
                )
            )
        first.setdefault(name, role)
    return problems


def _input_problems(config: Config) -> Iterator[ConfigProblem]:
    given = config.input
    if given.format == "text":
        for name in ("fields", "html_fields", "scope_field", "delete_field"):
            if getattr(given, name):
                yield ConfigProblem(
                    (f"input.{name}", "input.format"),
                    "plain text has no fields",
                    f"set input.format to json, or remove input.{name} (input.markup sets HTML)",
                )
        return
    fields = list(given.fields) or [given.text_field]
    known = ", ".join(fields)
    for name in given.html_fields:
        if name not in fields:
            yield ConfigProblem(
                ("input.html_fields", "input.fields", "input.text_field"),
                f"{name!r} is not a field of the text ({known})",
                "name a field of the text, or add it to input.fields",
            )
    if given.text_field != "text" and given.text_field not in fields:
        yield ConfigProblem(
            ("input.text_field", "input.fields"),
            f"the text consists of {known} only",
            f"add {given.text_field!r} to input.fields, or remove input.text_field",
        )


def _registry_problems(config: Config) -> Iterator[ConfigProblem]:
    registry = config.registry
    if config.input.format in {"avro", "protobuf"} and registry.url is None:
        yield ConfigProblem(("registry.url", "input.format"), f"required by {config.input.format}", "set it")
    has_secret = registry.password is not None or registry.password_file is not None
    if registry.password is not None and registry.password_file is not None:
        keys = ("registry.password", "registry.password_file")
        yield ConfigProblem(keys, "both are set", "set only one of them")
    if has_secret is not (registry.username is not None):
        keys = ("registry.username", "registry.password_file")
        yield ConfigProblem(keys, "a user name and a password go together", "set both, or none of them")
    if registry.username is not None and registry.token_file is not None:
        keys = ("registry.username", "registry.token_file")
        yield ConfigProblem(keys, "basic and bearer authentication exclude each other", "set only one of them")
    if registry.ssl_cafile is not None and not (registry.url or "https:").startswith("https:"):
        yield ConfigProblem(
            ("registry.ssl_cafile", "registry.url"),
            "the connection is not encrypted",
            "begin registry.url with https://",
        )


def _delete_problems(given: InputConfig) -> Iterator[ConfigProblem]:
    """Yield each key about deletes that has no effect."""
    names = ("delete_field", "delete_value", "delete_id_field")
    set_names = [name for name in names if getattr(given, name) != InputConfig.model_fields[name].default]
    if given.deletes == "reject":
        why, remedy, needed = "no record is a delete", 'set input.deletes to "withdraw"', "input.deletes"
    elif given.delete_field is None:
        why, remedy, needed = "no field has the operation of a record", "set input.delete_field", "input.delete_field"
    else:
        return
    for name in set_names:
        yield ConfigProblem((f"input.{name}", needed), why, f"{remedy}, or remove input.{name}")


def _size_problems(config: Config) -> Iterator[ConfigProblem]:
    settings = fingerprint_settings_of(config)
    if settings.article_size and settings.exact_size > settings.article_size:
        yield ConfigProblem(
            ("text.exact_size", "text.article_size"),
            f"no text is short: below {settings.exact_size} characters a text is compared whole, from "
            f"{settings.article_size} letters on it is long",
            "set text.exact_size to a smaller value",
        )


def _feature_problems(config: Config) -> Iterator[ConfigProblem]:
    settings, features = fingerprint_settings_of(config), config.features
    if not settings.has_long:
        for name in PROFILE_FEATURES:
            if getattr(features, name) is not None:
                yield ConfigProblem(
                    (f"features.{name}", "match.profile", "text.article_size"),
                    f"it applies to long text, and in profile {config.match.profile} every text is short",
                    f"remove features.{name}, or set text.article_size",
                )
    if settings.has_long and settings.long.features.kind == "words":
        return
    for name in ("user_dictionary", "stop_words"):
        if getattr(features, name) is not None:
            yield ConfigProblem(
                (f"features.{name}", "features.kind", "match.profile"),
                "it applies to words, and the features are characters",
                f"remove features.{name}, or use profile article",
            )


def _serve_problems(config: Config) -> Iterator[ConfigProblem]:
    serve = config.serve
    if (serve.tls_cert is None) is not (serve.tls_key is None):
        keys = ("serve.tls_cert", "serve.tls_key")
        yield ConfigProblem(keys, "a certificate and its private key go together", "set both, or none of them")
    if serve.token_file is None and not is_loopback(serve.address):
        yield ConfigProblem(
            ("serve.address", "serve.token_file"),
            f"{serve.address} can be reached from other machines",
            "set serve.token_file, or a loopback address",
        )
    if serve.data_dir.absolute() / SERVED_INDEX == config.index.path.absolute():
        yield ConfigProblem(
            ("serve.data_dir", "index.path"),
            "the service would use the folder of a worker's index",
            "name another folder with serve.data_dir",
        )


def _search_problems(config: Config) -> Iterator[ConfigProblem]:
    search = search_of(config)
    if search.kind == EXACT:
        yield from _exact_problems(config)
    else:
        yield from _directed_problems(config)
    needed = ("distance",) if search.kind == EXACT else ("probes", "limit", "short_limit")
    for name in needed:
        if getattr(search, name) is None:
            yield ConfigProblem(
                (f"match.{name}", "match.search", "match.profile"),
                f"required by {search.kind} search, and profile {config.match.profile} has no value",
                f"set match.{name}, or remove match.search",
            )


def _exact_problems(config: Config) -> Iterator[ConfigProblem]:
    for name in SEARCH_KEYS:
        if name != "distance" and getattr(config.match, name) is not None:
            yield ConfigProblem(
                (f"match.{name}", "match.profile", "match.search"),
                f"the search of profile {config.match.profile} is exact: only the distance of the fingerprints decides",
                "set match.distance (--distance) instead, or use profile article or comment",
            )
    if config.features.tables != EXACT_TABLES:
        yield ConfigProblem(
            ("features.tables", "match.profile", "match.search"),
            "exact search uses the four tables over the fingerprint",
            "set features.tables to 4, or use directed search (profile article or comment)",
        )
    most = greatest_distance(config.features.block_bits)
    if (search_of(config).distance or 0) > most:
        yield ConfigProblem(
            ("match.distance", "features.block_bits"),
            f"{config.features.block_bits} bits of block find every fingerprint within {most} at most: for more, each "
            f"article takes over {MAX_EXACT_LOOKUPS:,} look-ups",
            f"set at most {most}, or features.block_bits to 16",
        )


def _directed_problems(config: Config) -> Iterator[ConfigProblem]:
    if config.match.distance is not None:
        yield ConfigProblem(
            ("match.distance", "match.profile", "match.search"),
            f"the search of profile {config.match.profile} is directed: the fingerprint distance does not decide",
            "set match.limit (--limit: bits of 256 between signatures) and match.probes (--probes: posting lists) "
            "instead, or use profile simhash",
        )
    settings = fingerprint_settings_of(config)
    yield from _sketch_problems(config, settings.sketch_values)
    yield from _far_problems(config)
    if config.match.form_limit is not None and not settings.form:
        yield ConfigProblem(
            ("match.form_limit", "match.profile"),
            f"articles of profile {config.match.profile} have no form",
            "remove match.form_limit",
        )
    tables, block_bits = config.features.tables, config.features.block_bits
    most, flips = most_probes(tables, block_bits), mask_bits(block_bits)
    if (config.match.probes or 0) > most:
        yield ConfigProblem(
            ("match.probes", "features.tables", "features.block_bits"),
            f"{tables} tables have at most {most} posting lists within {flips} bits of an article",
            f"set at most {most}",
        )


def _sketch_problems(config: Config, values: int) -> Iterator[ConfigProblem]:
    """Yield each number of equal values that is greater than the values of a sketch."""
    for name in ("min_equal", "short_min_equal", "far_min_equal"):
        if (getattr(config.match, name) or 0) > values:
            yield ConfigProblem(
                (f"match.{name}", "match.profile"),
                f"a sketch of profile {config.match.profile} has {values} values",
                f"set at most {values}" if values else f"remove match.{name}",
            )


def _far_problems(config: Config) -> Iterator[ConfigProblem]:
    """Yield what the given keys say of far entries in vain: the limit is lower, or as many values are asked anyway."""
    search, match = search_of(config), config.match
    if (search.far is None) is not (search.far_min_equal is None):
        missing = "far" if search.far is None else "far_min_equal"
        yield ConfigProblem(
            ("match.far", "match.far_min_equal", "match.profile"),
            f"the one takes the other, and profile {match.profile} has no value",
            f"set match.{missing} too",
        )
    most = max(search.limit or 0, search.short_limit or 0)
    if match.far is not None and match.far > most:
        yield ConfigProblem(
            ("match.far", "match.limit", "match.short_limit"),
            f"no entry beyond {most} bits is near",
            f"set match.far to at most {most}, or a greater match.limit",
        )
    least = min(search.min_equal or 0, search.short_min_equal or 0)
    if 0 < (match.far_min_equal or 0) < least:
        yield ConfigProblem(
            ("match.far_min_equal", "match.min_equal", "match.short_min_equal"),
            f"{least} values must be equal at any distance beyond match.certain",
            f"set at least {least}, or 0 for no other number beyond match.far",
        )
