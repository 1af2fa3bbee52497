"""Which endpoint answers a request, what it gets of it, and how ``/v1/openapi.json`` describes it.

An endpoint gets one value. Where its route has a model, that is an instance of it: of the JSON object in the body of a
POST, of the parameters in path and query otherwise. Without a model it is the request.

A body is read as source records are: a JSON object, of limited depth, half surrogates included.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, ValidationError
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Scope

from stream_dedup import __version__
from stream_dedup.core.decode import parse_object
from stream_dedup.core.paths import NativePath
from stream_dedup.serve.problems import (
    PROBLEM_JSON,
    ProblemError,
    in_body,
    invalid,
    invalid_body,
    invalid_parameters,
    not_found,
    unsupported,
)

SMALL_BODY = 64 << 10
"""Bytes that are parsed at once: 10 ms at most. The largest body takes more than a second where it is all brackets."""
JSON = "application/json"
UTF8_NAMES = frozenset({"utf-8", "utf8"})
OPENAPI = "/v1/openapi.json"

Endpoint = Callable[[Any], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Route:
    """What answers a method of a path."""

    path: str
    """``{name}`` is a segment of it, ``{name:any_text}`` the rest, line feeds included: an article id may have them."""
    endpoint: Endpoint
    summary: str = ""
    """Routes without a summary are not described."""
    model: type[BaseModel] | None = None
    problems: tuple[int, ...] = ()
    """Statuses of the problems that it answers with, beside those of a request of another form."""
    method: str = "GET"
    media: str = JSON
    """Type of its answer, for the description."""


class Router:
    """The routes of the service. One event loop."""

    def __init__(self, routes: Iterable[Route], names: Sequence[NativePath] = ()) -> None:
        """``names``: where bodies have ids and scopes; a number there is a text."""
        self._names = names
        self._resources: dict[str, tuple[re.Pattern[str], dict[str, Route]]] = {}
        for route in routes:
            _, methods = self._resources.setdefault(route.path, (_pattern(route.path), {}))
            methods[route.method] = route

    async def answer(self, scope: Scope, body: bytes) -> Response:
        """Return the answer to a request with this body; name its path, as it is declared, in ``scope["route"]``.

        Raises:
            ProblemError: there is no such resource or method, or the request has not the form that the route declares.
        """
        route = self._route(scope)
        return await route.endpoint(await self._given(route, scope, body))

    def _route(self, scope: Scope) -> Route:
        for path, (pattern, methods) in self._resources.items():
            if (found := pattern.fullmatch(scope["path"])) is not None:
                scope["route"], scope["path_params"] = path, found.groupdict()
                if (route := methods.get(scope["method"])) is None:
                    raise _other_method(methods)
                return route
        raise not_found(f"there is no such resource; {OPENAPI} lists all")

    async def _given(self, route: Route, scope: Scope, body: bytes) -> Any:  # noqa: ANN401 - what the endpoint gets
        if route.model is None:
            return Request(scope, _receiving(body))
        if route.method == "POST":
            values = await self._parsed(Headers(scope=scope), body)
            try:
                return route.model.model_validate(values)
            except ValidationError as error:
                raise invalid_body(error, values) from error
        try:
            return route.model.model_validate({**Request(scope).query_params, **scope["path_params"]})
        except ValidationError as error:
            raise invalid_parameters(error) from error

    async def _parsed(self, headers: Headers, body: bytes) -> dict[str, Any]:
        """Return the object of a body.

        Raises:
            ProblemError: the body is of another type, or no JSON object.
        """
        if not body:
            raise invalid("the request has no body; send a JSON object")
        require_type(headers, JSON)
        if len(body) > SMALL_BODY:  # other clients are answered meanwhile
            parsed = await asyncio.to_thread(parse_object, body, self._names)
        else:
            parsed = parse_object(body, self._names)
        if isinstance(parsed, str):
            raise invalid("the body is not a JSON object that can be read", in_body((), parsed))
        return parsed


def _pattern(path: str) -> re.Pattern[str]:
    kinds = {"": "[^/]+", ":any_text": r"[\s\S]*"}
    parts = re.split(r"({\w+(?::any_text)?})", path)
    parts[1::2] = (f"(?P<{name}>{kinds[kind]})" for name, kind in re.findall(r"{(\w+)(:any_text)?}", path))
    parts[::2] = map(re.escape, parts[::2])
    return re.compile("".join(parts))


def _other_method(methods: Mapping[str, Route]) -> ProblemError:
    allowed = {*methods, "HEAD"} if "GET" in methods else {*methods}  # ``server.Gate`` answers HEAD by GET
    detail = "this resource has other methods; the header Allow names them"
    headers = {"Allow": ", ".join(sorted(allowed))}
    return ProblemError(HTTPStatus.METHOD_NOT_ALLOWED, "method-not-allowed", detail, headers)


def _receiving(body: bytes) -> Callable[[], Awaitable[Message]]:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def require_type(headers: Headers, media_type: str) -> None:
    """Refuse a body of another media type, or of another character set than UTF-8.

    Raises:
        ProblemError: the answer is 415 and names the type that is read.
    """
    # Python's parser of headers of mail takes half a second for one of 30 KB, and has errors of its own for others.
    named, *parameters = ", ".join(headers.getlist("content-type")).lower().split(";")
    pairs = (one.partition("=") for one in parameters)
    charsets = [value.strip(' \t"') for name, _, value in pairs if name.strip() == "charset"]
    if named.strip() != media_type:
        detail = f"the header Content-Type is missing or names another type; send Content-Type: {media_type}"
    elif not set(charsets) <= UTF8_NAMES:
        detail = "the header Content-Type names another charset than UTF-8; send the body in UTF-8"
    else:
        return
    raise unsupported(detail, {"Accept": media_type})


_TEXT = {"type": "string"}
PROBLEM_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": _TEXT,
        "title": _TEXT,
        "status": {"type": "integer"},
        "detail": _TEXT,
        "errors": {
            "type": "array",
            "description": "Each has its place: a JSON pointer into the body, or the name of a parameter.",
            "items": {
                "type": "object",
                "required": ["detail"],
                "properties": {"pointer": _TEXT, "parameter": _TEXT, "detail": _TEXT},
            },
        },
    },
}
"""A problem, for the description of each route."""
_REF = "#/components/schemas/{model}"


def described(routes: Iterable[Route]) -> dict[str, Any]:
    """Return the description of the routes that have a summary (OpenAPI 3.1)."""
    components: dict[str, Any] = {}
    paths: dict[str, dict[str, Any]] = {}
    for route in (one for one in routes if one.summary):
        path = route.path.replace(":any_text", "")
        operation: dict[str, Any] = {
            "summary": route.summary,
            "description": inspect.getdoc(route.endpoint),
            "operationId": re.sub(r"\W", "_", f"{route.endpoint.__name__}{path}_{route.method.lower()}"),
            "responses": _responses(route),
        }
        if route.model is not None:
            schema = route.model.model_json_schema(ref_template=_REF)
            components |= schema.pop("$defs", {})
            if route.method == "POST":
                name = route.model.__name__
                components[name] = schema
                content = {JSON: {"schema": {"$ref": _REF.format(model=name)}}}
                operation["requestBody"] = {"content": content, "required": True}
            else:
                operation["parameters"] = _parameters(schema, route.path)
        paths.setdefault(path, {})[route.method.lower()] = operation
    info = {
        "title": "stream-dedup",
        "summary": "Near-duplicate articles of a stream: what an article would be, as of now, and why.",
        "version": __version__,
    }
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": components}}


def _parameters(schema: Mapping[str, Any], path: str) -> list[dict[str, Any]]:
    """Return the parameters of path and query, from the schema of their model."""
    return [
        {
            "name": name,
            "in": "path" if f"{{{name}" in path else "query",
            "required": name in schema.get("required", ()),
            "schema": {key: value for key, value in member.items() if key != "description"},
            **({"description": member["description"]} if "description" in member else {}),
        }
        for name, member in schema["properties"].items()
    ]


def _responses(route: Route) -> dict[str, Any]:
    of_form = () if route.model is None else (413, 415, 422) if route.method == "POST" else (422,)
    problem = {PROBLEM_JSON: {"schema": PROBLEM_SCHEMA}}
    return {"200": {"description": "OK", "content": {route.media: {}}}} | {
        str(status): {"description": HTTPStatus(status).phrase, "content": problem}
        for status in sorted((*route.problems, *of_form))
    }
