"""Rules between keys of the configuration that are each valid alone.

Checks that named files can be read, and does not read them. The keys of a profile are checked in ``profile_file``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from stream_dedup.config.checks import ConfigProblem, is_loopback
from stream_dedup.config.model import Config
from stream_dedup.config.sections import SERVED_INDEX, InputConfig, KafkaConfig

OAUTHBEARER = "OAUTHBEARER"
"""The mechanism that takes a token in place of name and password."""
LEAST_KEEP_MS = 7 * 24 * 3_600_000
"""The longest window in which clusters are counted, ms."""


def across(config: Config) -> list[ConfigProblem]:
    """Return every problem between keys that are each valid alone."""
    return [
        *_security_problems(config.kafka),
        *_file_problems(config),
        *_topic_problems(config),
        *_input_problems(config),
        *_registry_problems(config),
        *_delete_problems(config.input),
        *_keep_problems(config),
        *_serve_problems(config),
    ]


def _keep_problems(config: Config) -> Iterator[ConfigProblem]:
    keep = config.clusters.keep_ms
    if keep is not None and keep < LEAST_KEEP_MS:
        yield ConfigProblem(("clusters.keep",), "clusters are counted in windows of up to a week", "set at least 7d")
    if keep is not None and keep < (config.match.window_ms or 0):
        yield ConfigProblem(
            ("clusters.keep", "match.window"),
            "an article that can still be matched would be in no cluster any more",
            "set clusters.keep to more than the window",
        )


def _security_problems(kafka: KafkaConfig) -> list[ConfigProblem]:
    problems = list(_sasl_problems(kafka))
    if kafka.ssl_keyfile is not None and kafka.ssl_certfile is None:
        problems.append(
            ConfigProblem(("kafka.ssl_keyfile",), "a private key needs a certificate", "set kafka.ssl_certfile")
        )
    if not kafka.security_protocol.endswith("SSL"):
        tls = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_password_file")
        given = [name for name in tls if getattr(kafka, name) is not None]
        problems += [_unused(f"kafka.{name}", kafka.security_protocol, "SSL or SASL_SSL") for name in given]
    return problems


def _sasl_problems(kafka: KafkaConfig) -> Iterator[ConfigProblem]:
    given = {
        "sasl_mechanism": kafka.sasl_mechanism,
        "sasl_username": kafka.sasl_username,
        "sasl_password_file": kafka.sasl_password_file,
        "sasl_token_file": kafka.sasl_token_file,
    }
    if not kafka.security_protocol.startswith("SASL"):
        used = [name for name, value in given.items() if value is not None]
        yield from (_unused(f"kafka.{name}", kafka.security_protocol, "SASL_SSL") for name in used)
        return
    mechanism = kafka.sasl_mechanism
    by_name = ("sasl_username", "sasl_password_file")
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
    }
    for section, names in files.items():
        for name in names:
            path: Path | None = getattr(getattr(config, section), name)
            if path is not None and not (path.is_file() and os.access(path, os.R_OK)):
                yield ConfigProblem((f"{section}.{name}",), f"{path} is not a readable file", "name a readable file")


def _topic_problems(config: Config) -> list[ConfigProblem]:
    roles = [(name, f"topics.input[{at}]") for at, name in enumerate(config.topics.input)]
    roles += [(getattr(config.topics, role), f"topics.{role}") for role in ("unique", "duplicate", "rejected")]
    if config.topics.clusters is not None:
        roles.append((config.topics.clusters, "topics.clusters"))
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
    if (registry.password_file is None) is not (registry.username is None):
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
