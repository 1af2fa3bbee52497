"""What requests give: articles to check, as they would be in the source topic.

An article is made into the value of a source record and decoded as a worker decodes one, so it is rejected for the
same reasons. A text may therefore be any JSON value here: what is no text is rejected by the decoder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, cast

import orjson
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)
from pydantic.config import JsonDict

from stream_dedup.core.rules import COPIES_LIMIT
from stream_dedup.core.text.decode import InputFormat, RawRecord
from stream_dedup.core.text.paths import FieldPath, parse_path, with_value
from stream_dedup.serve.problems import JsonPath, in_body, invalid

MAX_CHECKED = 500
"""Articles of one request."""
MAX_MEMBERS = 16
"""Members of an object of a request, known or not: an error takes some 10 microseconds, and a body has room for a
million."""
USUAL_TOP = 5
"""Nearest entries that an answer has where the request does not say how many."""

_Text = Annotated[Any, WithJsonSchema({"type": "string"})]


def _id_or_scope(value: Any) -> str | int | None:  # noqa: ANN401 - a JSON value
    """Return text; a number was made a text where the body was read (``name_paths``)."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, str | int)):
        msg = "must be text or a number"
        raise ValueError(msg)
    return value


_ID_SCHEMA: JsonDict = {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]}
# Not a union: its errors name its types, which no request has.
_IdOrScope = Annotated[str | int | None, PlainValidator(_id_or_scope), WithJsonSchema(_ID_SCHEMA)]
_Fields = Annotated[dict[str, Any], WithJsonSchema({"type": "object", "additionalProperties": {"type": "string"}})]

_EXAMPLE: JsonDict = {"text": "渡口的船今天早上开了。", "id": "4711"}
_EXAMPLES: list[JsonValue] = [
    _EXAMPLE,
    {"articles": [_EXAMPLE, {"fields": {"title": "The ferry", "text": "It left this morning."}}], "top": 3},
]


class GivenObject(BaseModel):
    """An object of a request. Members that it does not know are errors, and many of them are one error."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _has_few_members(cls, values: Any) -> Any:  # noqa: ANN401 - as the framework passes it
        if isinstance(values, dict) and len(values) > MAX_MEMBERS:
            msg = f"an object of this form has at most {MAX_MEMBERS} members"
            raise ValueError(msg)
        return values


class GivenArticle(GivenObject):
    """An article: its text, or its fields by name, as they are in a source record."""

    text: _Text = Field(None, description="The text, for input.text_field.")
    fields: _Fields | None = Field(None, description="Other fields of the record, for input.fields.")
    id: _IdOrScope = Field(None, description="The article id; an earlier version of it is an update under recrawl.")
    scope: _IdOrScope = Field(None, description="The scope, for input.scope_field.")

    @property
    def is_given(self) -> bool:
        """Whether there is an article at all."""
        return bool({"text", "fields"} & self.model_fields_set)


class CheckRequest(GivenArticle):
    """One article, or several."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": _EXAMPLES})

    articles: list[GivenArticle] | None = Field(None, min_length=1, max_length=MAX_CHECKED)
    top: int = Field(USUAL_TOP, ge=0, le=COPIES_LIMIT, description="Nearest entries in the answer, for each article.")

    @model_validator(mode="after")
    def _has_one_form(self) -> CheckRequest:
        own = {"text", "fields", "id", "scope"} & self.model_fields_set
        if bool(own) == (self.articles is not None):
            msg = "give one article (text or fields), or articles"
            raise ValueError(msg)
        return self

    @property
    def given(self) -> Mapping[JsonPath, GivenArticle]:
        """The articles in order, each with its place in the request."""
        return {(): self} if self.articles is None else {("articles", at): one for at, one in enumerate(self.articles)}


@dataclass(frozen=True, slots=True)
class GivenRecord:
    """An article as the source record that it would be; implements ``ports.SourceRecord``."""

    key: bytes | None
    value: bytes | None
    topic: str = "(not logged)"
    """No name of a topic: the article id that comes of it, where none is given, is that of no article."""
    partition: int = 0
    offset: int = 0
    leader_epoch: int = -1
    timestamp: int = 0
    headers: Sequence[tuple[str, bytes | None]] = ()


def refuse_unused(article: GivenArticle, at: JsonPath, fmt: InputFormat) -> None:
    """Refuse an article, at its place in the request, with what the records of the source topic do not have.

    Raises:
        ProblemError: it names the member.
    """
    given = article.model_fields_set
    if "scope" in given and fmt.scope_field is None:
        detail = "scope: the configuration has no input.scope_field"
        raise invalid(detail, in_body((*at, "scope"), detail))
    if "fields" in given and fmt.kind == "text":
        detail = "fields: the records are plain text (input.format)"
        raise invalid(detail, in_body((*at, "fields"), detail))


def raw_of(article: GivenArticle, fmt: InputFormat) -> RawRecord:
    """Return what the decoder gets of an article."""
    record = record_of(article, fmt)
    return RawRecord(record.key, record.value, record.topic)


def record_of(article: GivenArticle, fmt: InputFormat) -> GivenRecord:
    """Return the source record of an article."""
    if fmt.kind == "text":
        text = article.text if isinstance(article.text, str) else None
        key = None if article.id is None else str(article.id).encode("utf-8", "backslashreplace")
        return GivenRecord(key, None if text is None else text.encode("utf-8", "surrogatepass"))
    values: object = article.fields or {}
    fields = {"text": fmt.text_field, "id": fmt.id_field, "scope": fmt.scope_field}
    for name, field in fields.items():
        if name in article.model_fields_set and field is not None:
            values = with_value(values, parse_path(field).steps, getattr(article, name))
    return GivenRecord(None, _as_json(values))


def fields_of(texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of an article that has these texts, each at the path of a field."""
    fields: object = {}
    for name, text in texts.items():
        fields = with_value(fields, parse_path(name).steps, text)
    return cast("dict[str, Any]", fields)


def name_paths(fmt: InputFormat) -> list[FieldPath]:
    """Return where requests have ids and scopes: a number there is the text that it is in a source record.

    Not where a text of the record is, too: a number is no text there.
    """
    texts = [parse_path(field) for field in fmt.text_fields]
    own = [parse_path(field) for field in (fmt.id_field, fmt.scope_field) if field is not None]
    own = [path for path in own if not any(map(path.is_in, texts))]
    paths = []
    for place in (("articles", None), ("a",), ("b",), ()):
        paths += [FieldPath(name, (*place, name)) for name in ("id", "scope")]
        paths += [FieldPath(path.name, (*place, "fields", *path.steps)) for path in own]
    return paths


def _as_json(values: object) -> bytes:
    """Return JSON; half surrogates, which orjson refuses, stay as escapes, and the decoder reads them."""
    try:
        return orjson.dumps(values)
    except TypeError:  # orjson.JSONEncodeError
        return json.dumps(values).encode()
