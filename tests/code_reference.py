"""Generated parts of the reference that are no tables of declarations: the HTTP service, the Python API."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import stream_dedup
from stream_dedup import Index
from stream_dedup.serve.api import Service, api_routes
from stream_dedup.serve.routing import described
from tests.markdown import table

Schema = Mapping[str, Any]


def http_part() -> str:
    """Returns a section for each request of the HTTP service, from its description by OpenAPI."""
    routes = api_routes(cast("Service", None))  # a route asks the service when it is called only
    found = described(routes)
    parts = [
        part
        for path, methods in found["paths"].items()
        for method, operation in methods.items()
        for part in _operation(f"{method.upper()} {path}", operation, found)
    ]
    return "\n\n".join(parts)


def _operation(name: str, operation: Schema, described: Schema) -> Iterator[str]:
    yield f"## `{name}`"
    yield inspect.cleandoc(operation["description"]).replace("``", "`")
    parameters = operation.get("parameters", [])
    if parameters:
        rows = (
            (f"`{one['name']}`", one["in"], _type(one["schema"], described), one.get("description", ""))
            for one in parameters
        )
        yield table(("parameter", "in", "type", "meaning"), rows)
    if "requestBody" in operation:
        yield from _body(operation["requestBody"], described)
    yield f"Answers: {', '.join(operation['responses'])}."


def _body(body: Schema, described: Schema) -> Iterator[str]:
    for content in body["content"].values():
        schema = _resolved(content["schema"], described)
        yield "The body is JSON:"
        yield _members(schema, described)
        parts: dict[str, list[str]] = {}
        for name, one in schema["properties"].items():
            if "$ref" in one:
                parts.setdefault(one["$ref"], []).append(f"`{name}`")
        for part, names in parts.items():
            yield f"The members of {' and '.join(names)}:"
            yield _members(_resolved({"$ref": part}, described), described)
        for example in schema.get("examples", []):
            yield f"```json\n{json.dumps(example, ensure_ascii=False)}\n```"


def _members(schema: Schema, described: Schema) -> str:
    rows = (
        (f"`{name}`", _type(member, described), member.get("description") or _of(member, described))
        for name, member in schema["properties"].items()
    )
    return table(("member", "type", "meaning"), rows)


def _of(member: Schema, described: Schema) -> str:
    """Returns what an object is, or the parts of a list."""
    for one in member.get("anyOf", [member]):
        found = _resolved(one.get("items", one), described).get("description")
        if found:
            return str(found).replace("``", "`")
    return ""


def _type(schema: Schema, described: Schema) -> str:
    schema = _resolved(schema, described)
    if "anyOf" in schema:
        return " or ".join(_type(one, described) for one in schema["anyOf"] if one.get("type") != "null")
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    kind = str(schema.get("type", "any"))
    if kind == "array":
        kind = f"list of {_type(schema['items'], described)}s"
    bounds = [schema.get(low, schema.get(short)) for low, short in (("minimum", "minItems"), ("maximum", "maxItems"))]
    limits = [f"{bound:g}" for bound in bounds if bound is not None]
    default = f"; {json.dumps(schema['default'])} without it" if schema.get("default") is not None else ""
    return f"{kind}{', ' + ' to '.join(limits) if len(limits) > 1 else ''}{default}"


def _resolved(schema: Schema, described: Schema) -> Schema:
    if "$ref" not in schema:
        return schema
    found: Schema = described["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return found


def python_part() -> str:
    """Returns a section for each name that the package exports, with the methods of ``Index``."""
    exported = [name for name in stream_dedup.__all__ if not name.startswith("_")]
    parts: list[str] = []
    for name in exported:
        value = getattr(stream_dedup, name)
        parts += _described(name, value, "##")
        if value is Index:
            methods = {method: vars(Index)[method] for method in vars(Index) if not method.startswith("_")}
            for method, function in {"__len__": Index.__len__, **methods}.items():
                parts += _described(f"Index.{method}", function, "###")
    return "\n\n".join(parts)


def _described(name: str, value: object, heading: str) -> Iterator[str]:
    yield f"{heading} `{name}`"
    if callable(value):
        signature = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(value)))  # annotations are text
        signature = re.sub(r"ForwardRef\('?(\w+)'?\)", r"\1", signature).replace("self, ", "").replace("self", "")
        yield f"```text\n{name}{signature}\n```"
    doc = inspect.cleandoc(getattr(value, "__doc__", None) or "")
    text, _, raises = doc.partition("\n\nRaises:\n")
    yield text.replace("``", "`")
    for line in inspect.cleandoc(raises).replace("\n    ", " ").splitlines():
        error, _, reason = line.partition(": ")
        yield f"Raises `{error}`: {reason.replace('``', '`')}"
