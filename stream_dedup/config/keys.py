"""A key of the configuration: its default, its meaning, its unit, its range and the check of its value.

``key`` declares one, once, in ``model`` or, for a profile's file, in ``profile_file``. Everything that a person reads
about it is derived here: the values that an error message offers, the help of its flag, the comment in ``config show``,
the row of the reference's table. A check of one value returns it, or raises ValueError with the reason.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Union, get_args, get_origin
from urllib.parse import urlsplit

from annotated_types import Ge, Le
from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from stream_dedup.core.paths import PathError, parse_path
from stream_dedup.core.profiles import Profile
from stream_dedup.core.rules import MAX_WINDOW_MS
from stream_dedup.errors import UserError
from stream_dedup.terminal import replace_hidden

MAX_FIELD_WEIGHT = 16
"""A heavier field would hide the others."""
MAX_TOPIC_CHARACTERS = 249
"""Kafka's limit for the name of a topic."""
PATTERN = "^"
"""Begins a pattern of names of topics, as in librdkafka: no name of a topic does, so none is mistaken for a pattern."""
MAX_REPEATS = 4
"""Parts of a pattern that match more or less of a name. With four the slowest match of the longest name takes a second,
in which no other thread runs; each further one multiplies that by some fifty, and a repeated group has no bound."""
_PATTERN_PART = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?:\?(?:[:=!]|<[=!]))?|\{[0-9,]+\}|.", re.DOTALL)
_REPEAT = re.compile(r"[*+?]|\{.+\}", re.DOTALL)

MAX_SHORT_ESCAPE = 0xFFFF
"""The last code point that TOML escapes with four digits."""
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]+")
_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[^\s:\[\],/]*):(?P<port>\d{1,5})")
_DURATION = re.compile(r"(\d{1,9})\s*([smhd])")
_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LOG_SUFFIX_CHARACTERS = len(".fingerprints")
_MAX_PORT = 65_535


class ConfigError(UserError):
    """The configuration is invalid; ``problems`` has one line for each problem."""

    def __init__(self, problems: Sequence[str]) -> None:
        """Take one line for each problem; the message contains all of them."""
        self.problems = list(problems)
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        super().__init__("\n".join([f"configuration has {count}:", *(f"  {line}" for line in self.problems)]))


class ConfigProblem(NamedTuple):
    """A problem between keys that are each valid alone."""

    keys: str
    """The keys, separated by commas."""
    text: str
    """The reason, and after a semicolon the remedy."""

    def line(self, source: str = "") -> str:
        """Return the problem as one line; ``source`` is that of the keys where all have the same."""
        return f"{self.keys}{f' ({source})' if source else ''}: {self.text}"


class Section(BaseModel):
    """A section of the configuration, or of a profile's file."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
    read_first: ClassVar[tuple[str, ...]] = ()
    """Keys of a file that are read before the others, which depend on them."""

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_boolean_numbers(cls, value: object, info: ValidationInfo) -> object:
        """Refuse true and false for a number, or in a table of numbers; pydantic reads them as 1 and 0."""
        given = value.values() if isinstance(value, dict) else (value,)
        if any(isinstance(one, bool) for one in given):
            annotation = cls.model_fields[str(info.field_name)].annotation
            if {int, float} & {annotation, *get_args(annotation)}:
                raise ValueError("must be a number")
        return value


def key(
    default: Any,  # noqa: ANN401 - as pydantic's Field
    meaning: str,
    *,
    form: str = "",
    note: str = "",
    unset: str = "",
    **constraints: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Declare a key.

    Args:
        default: the value that is in force where none is given.
        meaning: what the key sets, without a final full stop.
        form: unit of a number, or how a value is written where its type does not say so.
        note: an addition to the accepted values.
        unset: what is in force where the default is None.
        constraints: those of pydantic's ``Field``; ``ge`` and ``le`` become the range that is shown.
    """
    return Field(
        default, description=meaning, json_schema_extra={"form": form, "note": note, "unset": unset}, **constraints
    )


def all_keys(config: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    """Yield the full name (``section.key``) and the declaration of each key, in the order of declaration."""
    for name, field in config.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            yield from ((f"{name}.{inner}", declared) for inner, declared in section.model_fields.items())
        else:
            yield name, field


def accepted_values(field: FieldInfo) -> str:
    """Return the values that a key accepts, as words: ``seconds, 1 to 3600``, ``json or text``, ``a topic name``."""
    values = ", ".join(part for part in (_text(field, "form"), _range(field) or _choices(field.annotation)) if part)
    return "; ".join(part for part in (values, _text(field, "note")) if part)


def default_value(field: FieldInfo) -> str:
    """Return the default as JSON in backquotes, or as words where it is not a value."""
    if field.default is None:
        return _text(field, "unset")
    return f"`{json.dumps(_plain(field.default))}`"


def flag_help(field: FieldInfo, value: str = "") -> str:
    """Return the help of the flag that sets a key, or sets it to ``value``: meaning, accepted values and default."""
    meaning = field.description or ""
    default = _text(field, "unset") if field.default is None else _plain(field.default)
    shown = ", ".join(default) if isinstance(default, list) else default
    facts = [] if value or field.annotation is bool else [accepted_values(field)]
    facts += [f"default: {shown}"] if shown and not isinstance(shown, bool) else []
    about = f"{meaning[0].upper()}{meaning[1:]}{f': {value}' if value else ''}"
    return f"{about} [{'; '.join(facts)}]." if facts else f"{about}."


def shown_comment(field: FieldInfo) -> str:
    """Return the comment of a key in ``config show``: its meaning, the note, and what is in force if it is not set."""
    unset = _text(field, "unset")
    default = f"default: {unset}" if unset else ""
    return "; ".join(part for part in (field.description, _text(field, "note"), default) if part)


def file_problem(key: str, path: Path | None) -> Iterator[ConfigProblem]:
    """Yield the problem of a key that names no readable file. That of a secret is not shown: it may be the secret."""
    if path is None or (os.path.isfile(path) and os.access(path, os.R_OK)):  # noqa: PTH113 - Path raises for odd names
        return
    if key.endswith("_file"):
        remedy = "give the path of a file that contains the secret, never the secret itself"
        yield ConfigProblem(key, f"not the path of a readable file; {remedy}")
    else:
        yield ConfigProblem(key, f"{path} is not a readable file; name a readable file")


def is_path(field: FieldInfo) -> bool:
    """Return whether the value of a key is a path."""
    return Path in {field.annotation, *get_args(field.annotation)}


def toml_value(value: object) -> str:
    """Return a value as TOML, which shares strings, numbers, booleans and lists with JSON.

    A path is written as an absolute one, so that the file may stand in any folder.
    """
    path = value.path if isinstance(value, Profile) else value
    if isinstance(path, Path):
        return toml_value(str(path.absolute()))
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {toml_value(one)}" for name, one in value.items()) + "}"
    return replace_hidden(json.dumps(_plain(value), ensure_ascii=False), _toml_escape)


def check_utf8(path: Path) -> None:
    """Raise UserError for a path that TOML cannot have."""
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError as error:
        raise UserError(f"{path} is not UTF-8, as TOML has to be; rename that path") from error


def _toml_escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= MAX_SHORT_ESCAPE else f"\\U{code:08x}"


def _text(field: FieldInfo, name: str) -> str:
    extra = field.json_schema_extra
    return str(extra.get(name, "")) if isinstance(extra, dict) else ""


def _range(field: FieldInfo) -> str:
    bounds: dict[type, object] = {type(one): one for one in field.metadata}
    least, most = bounds.get(Ge), bounds.get(Le)
    return f"{least.ge} to {most.le}" if isinstance(least, Ge) and isinstance(most, Le) else ""


def _choices(annotation: object) -> str:
    if annotation is bool:
        return "true or false"
    if get_origin(annotation) is Literal:
        *most, last = map(str, get_args(annotation))
        return f"{', '.join(most)} or {last}"
    if get_origin(annotation) in {Union, UnionType, Annotated}:
        return next(filter(None, map(_choices, get_args(annotation))), "")
    return ""


def _plain(value: object) -> object:
    if isinstance(value, Profile):
        return value.name
    return str(value) if isinstance(value, Path) else value


# Checks of one value.


def parse_duration_ms(text: str) -> int:
    """Return the milliseconds of a duration such as ``90s``, ``15m``, ``24h``, ``7d``.

    Raises:
        ValueError: not a number with a unit, zero, or longer than the rules can store.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None or int(match[1]) == 0:
        raise ValueError("not a duration")
    found = int(match[1]) * _UNIT_MS[match[2]]
    if found > MAX_WINDOW_MS:
        raise ValueError(f"longer than {MAX_WINDOW_MS // _UNIT_MS['d']} days")
    return found


def duration(text: str) -> str:
    """Check a duration and return it unchanged."""
    parse_duration_ms(text)
    return text


def topic_name(name: str) -> str:
    """Check the name of a topic and return it."""
    if _TOPIC_NAME.fullmatch(name) is None or name in {".", ".."} or len(name) > MAX_TOPIC_CHARACTERS:
        raise ValueError(f"not a topic name: 1 to {MAX_TOPIC_CHARACTERS} letters, digits, '.', '_' and '-'")
    return name


def topic_or_pattern(text: str) -> str:
    """Check the name of a topic, or a pattern of names, and return it."""
    if not text.startswith(PATTERN):
        return topic_name(text)
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
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
        raise ValueError(
            f"one name could take hours: {len(repeats)} repeats (* + ? {{}}), at most {MAX_REPEATS} are allowed"
        )
    if any(before == "(" for before, _ in repeats):
        raise ValueError("of the groups that begin with (? only (?: and the lookarounds (?= (?! (?<= (?<! are allowed")
    if any(before == ")" and part != "?" for before, part in repeats):
        raise ValueError(
            "one name could take hours: a group is repeated by * + or {}, which is allowed of one character"
        )


def group_name(name: str) -> str:
    """Check the name of a group, which with the suffix of the log must be the name of a topic, and return it."""
    if _TOPIC_NAME.fullmatch(name) is None or len(name) + _LOG_SUFFIX_CHARACTERS > MAX_TOPIC_CHARACTERS:
        most = MAX_TOPIC_CHARACTERS - _LOG_SUFFIX_CHARACTERS
        raise ValueError(f"not a group name: its log is a topic, so at most {most} letters, digits, '.', '_' and '-'")
    return name


def broker_list(text: str) -> str:
    """Check a list of brokers and return it."""
    for part in text.split(","):
        host, port = split_address(part.strip())
        if not host or port == 0:
            raise ValueError(f"{part.strip()!r} is not host:port")
    return text


def listening_address(text: str) -> str:
    """Check an address and return it."""
    split_address(text)
    return text


def metrics_address(text: str) -> str:
    """Check an address or ``off`` and return it."""
    return text if text == "off" else listening_address(text)


def http_url(text: str) -> str:
    """Check the address of an HTTP service and return it; one with a password in it is refused without showing it."""
    try:
        parts = urlsplit(text)
        host = (parts.hostname or "").encode("idna").decode()
        is_url = parts.scheme in {"http", "https"} and bool(host) and (parts.port or 0) >= 0
        # http.client sends nothing else; what a path has besides is written with percent signs.
        is_url = is_url and all("!" <= character <= "~" for character in host + parts.path)
    except ValueError:
        is_url = False
    if not is_url or parts.query or parts.fragment:
        raise ValueError("not the address of a server")
    if "@" in parts.netloc:
        raise ValueError("a user name in it; set registry.username and registry.password_file")
    return text


def split_address(text: str) -> tuple[str, int]:
    """Return host and port of ``host:port``. An IPv6 host is in brackets; an empty host means every address.

    Raises:
        ValueError: the text is not ``host:port``.
    """
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > _MAX_PORT:
        raise ValueError(f"{text!r} is not host:port")
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


def field_weights(weights: dict[str, int]) -> dict[str, int]:
    """Check the paths of fields and their weights, and return them."""
    for name, weight in weights.items():
        try:
            parse_path(name)
        except PathError as error:
            raise ValueError(f"field {name!r}, {error}") from None
        if not 1 <= weight <= MAX_FIELD_WEIGHT:
            raise ValueError(f"field {name!r} has weight {weight}")
    return weights


def lower(value: object) -> object:
    """Return a text in lower case, any other value unchanged."""
    return value.lower() if isinstance(value, str) else value
