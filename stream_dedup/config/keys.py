"""A key of the configuration: its default, its meaning, its unit and its range are declared once.

``key`` declares one in ``sections``. Everything that a person reads about a key is derived here: the values that an
error message offers, the help of its flag, the comment in ``config show``, the row of the reference's table. The keys
of a profile's file are declared in the same way (``profile_file``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

from stream_dedup.core.profiles import Profile
from stream_dedup.terminal import replace_hidden

MAX_SHORT_ESCAPE = 0xFFFF
"""The last code point that TOML escapes with four digits."""


class Section(BaseModel):
    """A section of the configuration, or of a profile's file."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


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


def flag_help(field: FieldInfo) -> str:
    """Return the help of the flag that sets a key: its meaning, accepted values and default."""
    meaning = field.description or ""
    default = _text(field, "unset") if field.default is None else _plain(field.default)
    shown = ", ".join(default) if isinstance(default, list) else default
    facts = [] if field.annotation is bool else [accepted_values(field)]
    facts += [f"default: {shown}"] if shown and not isinstance(shown, bool) else []
    shown_facts = "; ".join(facts)
    return f"{meaning[0].upper()}{meaning[1:]}{f' [{shown_facts}]' if shown_facts else ''}."


def value_flag_help(field: FieldInfo, value: str) -> str:
    """Return the help of a flag that sets a key to one of its values."""
    meaning = field.description or ""
    return f"{meaning[0].upper()}{meaning[1:]}: {value} [default: {_plain(field.default)}]."


def shown_comment(field: FieldInfo) -> str:
    """Return the comment of a key in ``config show``: its meaning, the note, and what is in force if it is not set."""
    unset = _text(field, "unset")
    default = f"default: {unset}" if unset else ""
    return "; ".join(part for part in (field.description, _text(field, "note"), default) if part)


def toml_value(value: object) -> str:
    """Return a value as TOML, which shares strings, numbers, booleans and lists with JSON."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {toml_value(one)}" for name, one in value.items()) + "}"
    return replace_hidden(json.dumps(_plain(value), ensure_ascii=False), _toml_escape)


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
