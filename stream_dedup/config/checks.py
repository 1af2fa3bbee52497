"""Checks of the configuration, and its error.

Owns the checks of single values (names, addresses, durations), the merging of the layers, and the error that lists
every problem at once. Never prints the value of an unknown key, which may be a password: those are in files only.
"""

from __future__ import annotations

import difflib
import ipaddress
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, time
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError

from stream_dedup.config.keys import accepted_values
from stream_dedup.core.paths import PathError, check_path
from stream_dedup.core.rules import MAX_WINDOW_MS
from stream_dedup.errors import UserError

MAX_FIELD_WEIGHT = 16
"""A heavier field would hide the others."""
MAX_TOPIC_CHARACTERS = 249
"""Kafka's limit for the name of a topic."""
MAX_SHOWN_CHARACTERS = 80
"""A value in an error is truncated there, so that its line stays readable."""

PATTERN = "^"
"""Begins a pattern of names of topics, as in librdkafka: no name of a topic does, so none is mistaken for a pattern."""
MAX_REPEATS = 4
"""Parts of a pattern that match more or less of a name. With four the slowest match of the longest name takes a second,
in which no other thread runs; each further one multiplies that by some fifty, and a repeated group has no bound."""
_PATTERN_PART = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?:\?(?:[:=!]|<[=!]))?|\{[0-9,]+\}|.", re.DOTALL)
_REPEAT = re.compile(r"[*+?]|\{.+\}", re.DOTALL)

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
}
"""Reasons for pydantic's kinds of errors that begin with these words, the first that fits."""
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]+")
_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[^\s:\[\],/]*):(?P<port>\d{1,5})")
_USER_INFO = re.compile(r"//[^/]*@")
_DURATION = re.compile(r"(\d{1,9})\s*([smhd])")
_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LOG_SUFFIX_CHARACTERS = len(".fingerprints")
_MAX_PORT = 65_535

_Model = TypeVar("_Model", bound=BaseModel)


class ConfigError(UserError):
    """The configuration is invalid; ``problems`` has one line for each problem."""

    def __init__(self, problems: Sequence[str]) -> None:
        """Take one line for each problem; the message contains all of them."""
        self.problems = list(problems)
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        super().__init__("\n".join([f"configuration has {count}:", *(f"  {line}" for line in self.problems)]))


class ManyProblemsError(ValueError):
    """The file that a value names has problems; ``problems`` has one line for each."""

    def __init__(self, problems: Sequence[str]) -> None:
        """Take one line for each problem."""
        self.problems = list(problems)
        # pydantic takes no name of a file that is not UTF-8.
        super().__init__("; ".join(self.problems).encode(errors="backslashreplace").decode())


class ConfigProblem(NamedTuple):
    """A problem between keys that are each valid alone."""

    keys: tuple[str, ...]
    reason: str
    remedy: str

    def line(self, source: str = "") -> str:
        """Return the problem as one line; ``source`` is that of the keys where all have the same."""
        return f"{', '.join(self.keys)}{f' ({source})' if source else ''}: {self.reason}; {self.remedy}"


class Layer(NamedTuple):
    """One source of the configuration."""

    name: str
    values: Mapping[str, Any]


def parse_duration_ms(text: str) -> int:
    """Return the milliseconds of a duration such as ``90s``, ``15m``, ``24h``, ``7d``.

    Raises:
        ValueError: not a number with a unit, zero, or longer than the rules can store.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None or int(match[1]) == 0:
        msg = "not a duration"
        raise ValueError(msg)
    found = int(match[1]) * _UNIT_MS[match[2]]
    if found > MAX_WINDOW_MS:
        msg = f"longer than {MAX_WINDOW_MS // _UNIT_MS['d']} days"
        raise ValueError(msg)
    return found


def duration(text: str) -> str:
    """Check a duration and return it unchanged."""
    parse_duration_ms(text)
    return text


def topic_name(name: str) -> str:
    """Check the name of a topic and return it."""
    if _TOPIC_NAME.fullmatch(name) is None or name in {".", ".."} or len(name) > MAX_TOPIC_CHARACTERS:
        msg = f"not a topic name: 1 to {MAX_TOPIC_CHARACTERS} letters, digits, '.', '_' and '-'"
        raise ValueError(msg)
    return name


def topic_or_pattern(text: str) -> str:
    """Check the name of a topic, or a pattern of names, and return it."""
    if not text.startswith(PATTERN):
        return topic_name(text)
    try:
        re.compile(text)
    except re.error as error:
        msg = f"not a regular expression: {error}"
        raise ValueError(msg) from error
    _refuse_slow(text)
    return text


def _refuse_slow(pattern: str) -> None:
    """Refuse a pattern that one name could keep a worker busy with for hours."""
    parts = _PATTERN_PART.findall(pattern)
    repeats = [
        (before, part)
        for before, part in pairwise(parts)
        if _REPEAT.fullmatch(part) and not _REPEAT.fullmatch(before)  # else it makes a repeat lazy or possessive
    ]
    if len(repeats) > MAX_REPEATS:
        msg = f"one name could take hours: {len(repeats)} repeats (* + ? {{}}), at most {MAX_REPEATS} are allowed"
        raise ValueError(msg)
    if any(before == "(" for before, _ in repeats):
        msg = "of the groups that begin with (? only (?: and the lookarounds (?= (?! (?<= (?<! are allowed"
        raise ValueError(msg)
    if any(before == ")" and part != "?" for before, part in repeats):
        msg = "one name could take hours: a group is repeated by * + or {}, which is allowed of one character"
        raise ValueError(msg)


def group_name(name: str) -> str:
    """Check the name of a group, which with the suffix of the log must be the name of a topic, and return it."""
    if _TOPIC_NAME.fullmatch(name) is None or len(name) + _LOG_SUFFIX_CHARACTERS > MAX_TOPIC_CHARACTERS:
        most = MAX_TOPIC_CHARACTERS - _LOG_SUFFIX_CHARACTERS
        msg = f"not a group name: its log is a topic, so at most {most} letters, digits, '.', '_' and '-'"
        raise ValueError(msg)
    return name


def broker_list(text: str) -> str:
    """Check a list of brokers and return it."""
    for part in text.split(","):
        host, port = split_address(part.strip())
        if not host or port == 0:
            msg = f"{part.strip()!r} is not host:port"
            raise ValueError(msg)
    return text


def metrics_address(text: str) -> str:
    """Check an address or ``off`` and return it."""
    if text != "off":
        split_address(text)
    return text


def listening_address(text: str) -> str:
    """Check an address and return it."""
    split_address(text)
    return text


def http_url(text: str) -> str:
    """Check the address of an HTTP service and return it; one with a password in it is refused without showing it."""
    try:
        parts = urlsplit(text)
        is_url = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 0) >= 0
    except ValueError:
        is_url = False
    if not is_url or parts.query or parts.fragment:
        msg = "not the address of a server"
        raise ValueError(msg)
    if "@" in parts.netloc:
        msg = "a user name in it; set registry.username and registry.password_file"
        raise ValueError(msg)
    return text


def split_address(text: str) -> tuple[str, int]:
    """Return host and port of ``host:port``. An IPv6 host is in brackets; an empty host means every address.

    Raises:
        ValueError: the text is not ``host:port``.
    """
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > _MAX_PORT:
        msg = f"{text!r} is not host:port"
        raise ValueError(msg)
    return match["host"].strip("[]"), int(match["port"])


def is_loopback(address: str) -> bool:
    """Return whether only this machine reaches an address ``host:port``."""
    host, _ = split_address(address)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def split_list(value: object) -> object:
    """Split a text at its commas (from the environment); return any other value unchanged."""
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


def split_weights(value: object) -> object:
    """Parse names and weights (``title=3,text=1``, from the environment); return any other value unchanged."""
    if not isinstance(value, str):
        return value
    pairs = (part.partition("=") for part in value.split(","))
    return {name.strip(): weight.strip() for name, _, weight in pairs}


def whole(value: object) -> object:
    """Parse a text of digits (from the environment); return any other value unchanged."""
    return int(value) if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value) else value


def field_weights(weights: dict[str, int]) -> dict[str, int]:
    """Check the paths of fields and their weights, and return them."""
    for name, weight in weights.items():
        try:
            check_path(name)
        except PathError as error:
            msg = f"field {name!r}, {error}"
            raise ValueError(msg) from None
        if not 1 <= weight <= MAX_FIELD_WEIGHT:
            msg = f"field {name!r} has weight {weight}"
            raise ValueError(msg)
    return weights


def lower(value: object) -> object:
    """Return a text in lower case, any other value unchanged."""
    return value.lower() if isinstance(value, str) else value


def read_toml(path: Path, key: str, problems: list[str]) -> dict[str, Any]:
    """Return the content of a file that ``key`` names; nothing, and a problem more, where it cannot be read."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        problems.append(f"file {path}: cannot be read ({error.strerror}); name a TOML file with {key}")
    except UnicodeDecodeError as error:
        problems.append(f"file {path}: not UTF-8 at byte {error.start}; save it as UTF-8")
    except tomllib.TOMLDecodeError as error:
        problems.append(f"file {path}: not TOML: {error}; correct that line")
    return {}


def validate(
    model: type[_Model],
    layers: Sequence[Layer],
    problems: list[str],
    across: Callable[[_Model], list[ConfigProblem]],
) -> _Model | None:
    """Merge the layers and check the result. Return None, and append to ``problems``, where anything is wrong.

    Values that are invalid alone are removed before the rules between keys are checked, so that one call reports
    both kinds of problem.
    """
    merged = _merged(layers)
    wrong: set[str] = set()
    try:
        config = model.model_validate(merged)
    except ValidationError as error:
        for loc, line in _field_problems(model, layers, error):
            problems.append(line)
            wrong.add(".".join(loc))
        config = model.model_validate(_without(merged, wrong))
    between = [
        problem for problem in across(config) if not any(_touches(key, bad) for key in problem.keys for bad in wrong)
    ]
    problems += [problem.line(layers[0].name if len(layers) == 1 else "") for problem in between]
    return None if problems else config


def _touches(key: str, bad: str) -> bool:
    return key == bad or bad == key.split(".", 1)[0] or (bad.startswith(f"{key}.") and "." not in key)


def _merged(layers: Iterable[Layer]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for layer in layers:
        for section, values in layer.values.items():
            if isinstance(values, Mapping) and isinstance(merged.get(section), dict):
                merged[section].update(values)
            else:
                merged[section] = dict(values) if isinstance(values, Mapping) else values
    return merged


def _without(merged: Mapping[str, Any], wrong: set[str]) -> dict[str, Any]:
    """Return the merged values without those in ``wrong``, named as ``section`` or ``section.key``."""
    kept: dict[str, Any] = {}
    for section, values in merged.items():
        if section in wrong:
            continue
        if isinstance(values, dict):
            values = {key: value for key, value in values.items() if f"{section}.{key}" not in wrong}  # noqa: PLW2901
        kept[section] = values
    return kept


def _field_problems(
    model: type[BaseModel], layers: Sequence[Layer], error: ValidationError
) -> Iterable[tuple[tuple[str, ...], str]]:
    """Yield section and key, and the line, of each problem; one for each key, and all of a file that a key names."""
    seen = set()
    for item in error.errors(include_url=False):
        loc = tuple(str(part) for part in item["loc"][:2])
        if loc in seen:
            continue
        seen.add(loc)
        cause = item.get("ctx", {}).get("error")
        if isinstance(cause, ManyProblemsError):
            yield from ((loc, line) for line in cause.problems)
        elif item["type"] == "extra_forbidden":
            yield loc, _unknown_key(model, layers, loc)
        else:
            yield loc, _wrong_value(model, layers, loc, _reason(item["type"], str(item["msg"])))


def _unknown_key(model: type[BaseModel], layers: Sequence[Layer], loc: tuple[str, ...]) -> str:
    siblings = list(model.model_fields)
    if len(loc) > 1:
        siblings = list(_section(model, loc[0]).model_fields)
    near = difflib.get_close_matches(loc[-1], siblings, n=1, cutoff=0.5)
    remedy = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(siblings)}"
    _, source = _given_by(layers, loc)
    return f"{'.'.join(loc)} ({source}): unknown key; {remedy}"


def _wrong_value(model: type[BaseModel], layers: Sequence[Layer], loc: tuple[str, ...], reason: str) -> str:
    value, source = _given_by(layers, loc)
    field = model.model_fields[loc[0]]
    if len(loc) > 1:
        field = _section(model, loc[0]).model_fields[loc[1]]
    elif isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
        return f"{'.'.join(loc)} ({source}): {reason}; give a table of keys"
    return f"{'.'.join(loc)} = {_shown(value)} ({source}): {reason}; give {accepted_values(field)}"


def _reason(kind: str, message: str) -> str:
    """Return why a value is invalid: the text of a check of ours, or one for this kind of pydantic's errors."""
    for name, reason in _REASONS.items():
        if kind.startswith(name):
            return reason
    return message.removeprefix("Value error, ").replace("Input should be", "must be")


def _section(model: type[BaseModel], name: str) -> type[BaseModel]:
    section = model.model_fields[name].annotation
    if not (isinstance(section, type) and issubclass(section, BaseModel)):
        msg = f"{name} is no section"
        raise TypeError(msg)
    return section


def _given_by(layers: Sequence[Layer], loc: tuple[str, ...]) -> tuple[object, str]:
    """Return the value and the name of the last layer that sets it."""
    for layer in reversed(layers):
        value: object = layer.values
        for part in loc:
            if not isinstance(value, Mapping) or part not in value:
                break
            value = value[part]
        else:
            name = f"environment STREAM_DEDUP_{'__'.join(loc).upper()}" if layer.name == "environment" else layer.name
            return value, name
    return None, "default"


def _shown(value: object) -> str:
    """Return a value as TOML has it, as far as it is shown; without what stands before the host of a URL."""
    text = value.isoformat() if isinstance(value, date | time) else repr(value)
    text = _USER_INFO.sub("//…@", text.lower() if isinstance(value, bool) else text)
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}…"
