"""Loads the configuration: one typed value, created once at the start.

Three sources, each overriding those before it: a TOML file, environment variables
(``STREAM_DEDUP_<SECTION>__<KEY>``, lists with commas), flags of the command line. Rules:

* One ``ConfigError`` reports every problem: key, value, source, reason, remedy. An unknown key is a problem.
* The value of an unknown key, or of one that names the file of a secret, is never printed: it may be a password.
* A path in a file is relative to the folder of that file, another one to the working directory.

Reads no other file than the configuration file and that of the profile, each once.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import date, time
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from stream_dedup.config.keys import (
    ConfigError,
    ConfigProblem,
    Section,
    accepted_values,
    all_keys,
    file_problem,
    is_loopback,
    is_path,
)
from stream_dedup.config.model import SERVED_INDEX, Config, InputConfig, KafkaConfig
from stream_dedup.config.profile_file import BUILT_IN, SUFFIX, ProfileFile, profile_problems, with_values
from stream_dedup.core.profiles import DEFAULT_PROFILE, PROFILES, Profile

ENV_PREFIX = "STREAM_DEDUP_"
PROFILE_KEY = "match.profile"
MAX_SHOWN_CHARACTERS = 80
"""A value in an error is truncated there, so that its line stays readable."""
OAUTHBEARER = "OAUTHBEARER"
"""The mechanism that takes a token in place of name and password."""
LEAST_KEEP_MS = 7 * 24 * 3_600_000
"""The longest window in which clusters are counted, ms."""

_REASONS = {
    "string_too_short": "must not be empty",
    "string": "must be text",
    "int": "must be a whole number",
    "float": "must be a number",
    "bool": "must be true or false",
    "path": "must be a path",
    "list": "must be a list",
    "dict": "must be a table",
    "model": "must be a table",
    "literal": "unknown value",
    "is_instance": "unknown value",
}
"""Reasons for pydantic's kinds of errors that begin with these words, the first that fits."""
_IN_PROFILE = {name: f"[{name}]" for name in ProfileFile.model_fields} | {
    name.partition(".")[2]: name for name, _ in all_keys(ProfileFile)
}
"""Sections and keys of a profile's file, with how they are written there."""
_USER_INFO = re.compile(r"//[^/]*@")
_Section = TypeVar("_Section", bound=Section)
_Given = dict[tuple[str, ...], tuple[Any, str]]
"""By section and key, or by a section alone that is no table or an empty one: the value, and the source of it."""


def load_config(
    path: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Config:
    """Read the configuration from its three sources.

    ``overrides`` are the values of the flags, as ``{"kafka": {"brokers": …}}``; None: the flag was not given.

    Raises:
        ConfigError: the configuration is invalid; the error lists every problem.
    """
    problems: list[str] = []
    given = _by_key({} if path is None else _read_toml(path, "--config", Config, problems), f"file {path}")
    given |= _from_environment(os.environ if environment is None else environment)
    given |= _by_key({name: one for name, one in (overrides or {}).items() if one != {}}, "flag")
    _read_named_profile(given, problems)
    config = _validated(Config, given, problems, _problems_between)
    if config is None:
        raise ConfigError(problems)
    return config


def read_profile(path: Path | str) -> Profile:
    """Read a profile from its file (``docs/reference/profiles.md``).

    Raises:
        ConfigError: the file cannot be read, or has problems; the error lists all of them.
    """
    path, problems = Path(path), list[str]()
    values = _read_toml(path, f"{PROFILE_KEY} (--profile)", ProfileFile, problems)
    if problems:
        raise ConfigError(problems)
    source, name = f"file {path}", values.pop("from", None)
    base = PROFILES.get(name) if isinstance(name, str) else None
    if base is None:
        shown, reason = ("", "missing") if name is None else (f" = {_shown(name)}", "unknown value")
        problems.append(f"from{shown} ({source}): {reason}; give {BUILT_IN}")
    made = _validated(ProfileFile, _by_key(values, source), problems, partial(profile_problems, base), source)
    if base is None or made is None:
        raise ConfigError(problems)
    return replace(with_values(base, made), path=path)


def _read_toml(path: Path, key: str, model: type[Section], problems: list[str]) -> dict[str, Any]:
    """Return the content of a file that ``key`` names; nothing, and a problem more, where it cannot be read."""
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # not UTF-8, not TOML, a NUL in the path; nested too deep
        reason = getattr(error, "strerror", None) or error
        problems.append(f"file {path}: cannot be read ({reason}); name a TOML file, in UTF-8, with {key}")
        return {}
    # Paths are relative to the folder of the file.
    folder = path.parent.absolute()
    for name, field in all_keys(model):
        section, _, inner = name.rpartition(".")
        table = values.get(section)
        given = table.get(inner) if isinstance(table, dict) else None
        if isinstance(given, str) and (is_path(field) or (name == PROFILE_KEY and given.endswith(SUFFIX))):
            values[section][inner] = folder / given
    return values


def _by_key(sections: Mapping[str, Any], source: str) -> _Given:
    """Return what a source gives; None is a value that is not given."""
    given: _Given = {}
    for section, values in sections.items():
        if isinstance(values, Mapping) and values:
            given |= {(section, key): (value, source) for key, value in values.items() if value is not None}
        elif values is not None:
            given[section,] = values, source
    return given


def _from_environment(environment: Mapping[str, str]) -> _Given:
    """Return the values of the variables. A variable without a section, or with an empty value, is ignored."""
    given: _Given = {}
    for name, value in environment.items():
        loc = tuple(name.removeprefix(ENV_PREFIX).lower().split("__", 1))
        if name.startswith(ENV_PREFIX) and value and (len(loc) > 1 or loc == ("log_level",)):
            given[loc] = value, f"environment {name}"
    return given


def _read_named_profile(given: _Given, problems: list[str]) -> None:
    """Put a profile in place of the name of its file; the default one in place of one with problems."""
    loc = tuple(PROFILE_KEY.split("."))
    named, source = given.get(loc, (None, ""))
    if isinstance(named, str | Path) and str(named).endswith(SUFFIX):
        given[loc] = PROFILES[DEFAULT_PROFILE], source
        try:
            given[loc] = read_profile(named), source
        except ConfigError as error:
            problems += error.problems


def _validated(
    model: type[_Section],
    given: _Given,
    problems: list[str],
    between: Callable[[_Section], list[ConfigProblem]],
    source: str = "",
) -> _Section | None:
    """Check what is given. Return None, and append to ``problems``, where anything is wrong.

    Values that are invalid alone are removed before the rules between keys are checked, so that one call reports
    both kinds of problem. ``source`` is named in the latter.
    """
    wrong: set[tuple[str, ...]] = set()
    parents = {loc[:1] for loc in given if len(loc) > 1}
    given = {loc: one for loc, one in given.items() if loc not in parents}  # a section gives way to keys of it
    try:
        config = model.model_validate(_by_section(given))
    except ValidationError as error:
        lines = _lines(model, given, error)
        problems += lines.values()
        wrong = set(lines)
        right = {loc: one for loc, one in given.items() if wrong.isdisjoint((loc, loc[:1]))}
        config = model.model_validate(_by_section(right))
    for problem in between(config):
        keys = [tuple(key.split(".")) for key in problem.keys.split(", ")]
        if not any(key[: len(bad)] == bad or bad[: len(key)] == key for key in keys for bad in wrong):
            problems.append(problem.line(source))
    return None if problems else config


def _by_section(given: _Given) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for (section, *key), (value, _) in given.items():
        if key:
            values.setdefault(section, {})[key[0]] = value
        else:
            values[section] = value
    return values


# Lines of the error.


def _lines(model: type[Section], given: _Given, error: ValidationError) -> dict[tuple[str, ...], str]:
    """Return one line for each key with a problem, by section and key."""
    lines: dict[tuple[str, ...], str] = {}
    for item in error.errors(include_url=False, include_input=False):
        loc = tuple(map(str, item["loc"][:2]))
        if item["type"] == "extra_forbidden":
            line = _unknown_key(model, given, loc)
        else:
            line = _wrong_value(model, given, loc, _reason(item["type"], str(item["msg"])))
        lines.setdefault(loc, line)
    return lines


def _unknown_key(model: type[Section], given: _Given, loc: tuple[str, ...]) -> str:
    *section, key = loc
    known = [*model.read_first, *model.model_fields]
    if section:
        known = [inner for *outer, inner in (name.split(".") for name, _ in all_keys(model)) if outer == section]
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    if model is Config and key in _IN_PROFILE:
        remedy = f'{_IN_PROFILE[key]} belongs to a profile: a file with from = "article" that {PROFILE_KEY} names'
    elif near:
        is_secret = near[0].endswith("_file")
        remedy = f"did you mean {near[0]!r}{', the path of a file that contains the secret' if is_secret else ''}?"
    else:
        remedy = f"known keys: {', '.join(known)}"
    return f"{'.'.join(loc)} ({_given_by(given, loc)[1]}): unknown key; {remedy}"


def _wrong_value(model: type[Section], given: _Given, loc: tuple[str, ...], reason: str) -> str:
    name, (value, source) = ".".join(loc), _given_by(given, loc)
    field = dict(all_keys(model)).get(name)
    if field is None:
        return f"{name} ({source}): {reason}; give a table of keys"
    shown = "" if name.endswith("_file") else f" = {_shown(value)}"
    return f"{name}{shown} ({source}): {reason}; give {accepted_values(field)}"


def _reason(kind: str, message: str) -> str:
    """Return why a value is invalid: the text of a check of ours, or one for this kind of pydantic's errors."""
    for name, reason in _REASONS.items():
        if kind.startswith(name):
            return reason
    return message.removeprefix("Value error, ").replace("Input should be", "must be")


def _given_by(given: _Given, loc: tuple[str, ...]) -> tuple[object, str]:
    """Return the value and its source; of a section its keys, and the source of one of them."""
    if loc in given:
        return given[loc]
    keys = {at[-1]: one for at, one in given.items() if at[:-1] == loc}
    source = next((source for _, source in keys.values()), "default")
    return {key: value for key, (value, _) in keys.items()} or None, source


def _shown(value: object) -> str:
    """Return a value as TOML has it, as far as it is shown; without what stands before the host of a URL."""
    try:
        text = value.isoformat() if isinstance(value, date | time) else repr(value)
    except RecursionError:
        return "…"  # keys with thousands of dots
    text = _USER_INFO.sub("//…@", text.lower() if isinstance(value, bool) else text)
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}…"


# Rules between keys that are each valid alone. Named files are checked, and not read.


def _problems_between(config: Config) -> list[ConfigProblem]:
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
        yield ConfigProblem("clusters.keep", "clusters are counted in windows of up to a week; set at least 7d")
    if keep is not None and keep < (config.match.window_ms or 0):
        yield ConfigProblem(
            "clusters.keep, match.window",
            "an article that can still be matched would be in no cluster any more; set clusters.keep to more than the "
            "window",
        )


def _security_problems(kafka: KafkaConfig) -> Iterator[ConfigProblem]:
    yield from _sasl_problems(kafka)
    if kafka.ssl_keyfile is not None and kafka.ssl_certfile is None:
        yield ConfigProblem("kafka.ssl_keyfile", "a private key needs a certificate; set kafka.ssl_certfile")
    if not kafka.security_protocol.endswith("SSL"):
        for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_password_file"):
            if getattr(kafka, name) is not None:
                yield _unused(f"kafka.{name}", kafka.security_protocol, "SSL or SASL_SSL")


def _sasl_problems(kafka: KafkaConfig) -> Iterator[ConfigProblem]:
    names = ("sasl_mechanism", "sasl_username", "sasl_password_file", "sasl_token_file")
    given = [name for name in names if getattr(kafka, name) is not None]
    if not kafka.security_protocol.startswith("SASL"):
        yield from (_unused(f"kafka.{name}", kafka.security_protocol, "SASL_SSL") for name in given)
        return
    mechanism = kafka.sasl_mechanism
    by_name = ("sasl_username", "sasl_password_file")
    needed = ("sasl_mechanism", *(("sasl_token_file",) if mechanism == OAUTHBEARER else by_name))
    for name in needed:
        if name not in given:
            reason = f"required by {mechanism or kafka.security_protocol}"
            remedy = "set it, or another kafka.sasl_mechanism or kafka.security_protocol"
            yield ConfigProblem(f"kafka.{name}", f"{reason}; {remedy}")
    for name in given:
        if mechanism is not None and name not in needed:
            text = f"{mechanism} does not use it; remove kafka.{name}"
            yield ConfigProblem(f"kafka.{name}, kafka.sasl_mechanism", text)


def _unused(key: str, protocol: str, other: str) -> ConfigProblem:
    reason = f"{protocol} does not use it, so the connection would be less secure than it looks"
    remedy = f"set kafka.security_protocol to {other}, or remove {key}"
    return ConfigProblem(f"{key}, kafka.security_protocol", f"{reason}; {remedy}")


def _file_problems(config: Config) -> Iterator[ConfigProblem]:
    for name, field in all_keys(Config):
        section, _, key = name.partition(".")
        if section in {"kafka", "registry"} and is_path(field):
            yield from file_problem(name, getattr(getattr(config, section), key))


def _topic_problems(config: Config) -> Iterator[ConfigProblem]:
    topics = config.topics
    roles = [(name, f"topics.input[{at}]") for at, name in enumerate(topics.input)]
    outputs = ("unique", "duplicate", "rejected", *(("clusters",) if topics.clusters is not None else ()))
    roles += [(getattr(topics, role), f"topics.{role}") for role in outputs]
    roles.append((config.log_topic, "the log of kafka.group"))
    first: dict[str, str] = {}
    for name, role in roles:
        other = first.setdefault(name, role)
        if other != role:
            keys = ("topics", *(part for part in (role, other) if part.startswith("topics.")))
            text = f"topic {name!r} is both {other} and {role}; use a different topic for each"
            yield ConfigProblem(", ".join(keys), text)


def _input_problems(config: Config) -> Iterator[ConfigProblem]:
    given = config.input
    if given.format == "text":
        for name in ("fields", "html_fields", "scope_field", "delete_field"):
            if getattr(given, name):
                remedy = f"set input.format to json, or remove input.{name} (input.markup sets HTML)"
                yield ConfigProblem(f"input.{name}, input.format", f"plain text has no fields; {remedy}")
        return
    fields = list(given.fields) or [given.text_field]
    known = ", ".join(fields)
    for name in given.html_fields:
        if name not in fields:
            yield ConfigProblem(
                "input.html_fields, input.fields, input.text_field",
                f"{name!r} is not a field of the text ({known}); name a field of the text, or add it to input.fields",
            )
    if given.text_field != "text" and given.text_field not in fields:
        remedy = f"add {given.text_field!r} to input.fields, or remove input.text_field"
        yield ConfigProblem("input.text_field, input.fields", f"the text consists of {known} only; {remedy}")


def _registry_problems(config: Config) -> Iterator[ConfigProblem]:
    registry = config.registry
    if config.input.format in {"avro", "protobuf"} and registry.url is None:
        yield ConfigProblem("registry.url, input.format", f"required by {config.input.format}; set it")
    if (registry.password_file is None) is not (registry.username is None):
        text = "a user name and a password go together; set both, or none of them"
        yield ConfigProblem("registry.username, registry.password_file", text)
    if registry.username is not None and registry.token_file is not None:
        text = "basic and bearer authentication exclude each other; set only one of them"
        yield ConfigProblem("registry.username, registry.token_file", text)
    if registry.ssl_cafile is not None and not (registry.url or "https:").startswith("https:"):
        text = "the connection is not encrypted; begin registry.url with https://"
        yield ConfigProblem("registry.ssl_cafile, registry.url", text)


def _delete_problems(given: InputConfig) -> Iterator[ConfigProblem]:
    """Yield each key about deletes that has no effect."""
    if given.deletes == "reject":
        needed, text = "input.deletes", 'no record is a delete; set input.deletes to "withdraw"'
    elif given.delete_field is None:
        needed, text = "input.delete_field", "no field has the operation of a record; set input.delete_field"
    else:
        return
    for name in ("delete_field", "delete_value", "delete_id_field"):
        if getattr(given, name) != InputConfig.model_fields[name].default:
            yield ConfigProblem(f"input.{name}, {needed}", f"{text}, or remove input.{name}")


def _serve_problems(config: Config) -> Iterator[ConfigProblem]:
    serve = config.serve
    if (serve.tls_cert is None) is not (serve.tls_key is None):
        text = "a certificate and its private key go together; set both, or none of them"
        yield ConfigProblem("serve.tls_cert, serve.tls_key", text)
    if serve.token_file is None and not is_loopback(serve.address):
        text = f"{serve.address} can be reached from other machines; set serve.token_file, or a loopback address"
        yield ConfigProblem("serve.address, serve.token_file", text)
    if serve.data_dir.absolute() / SERVED_INDEX == config.index.path.absolute():
        text = "the service would use the folder of a worker's index; name another folder with serve.data_dir"
        yield ConfigProblem("serve.data_dir, index.path", text)
