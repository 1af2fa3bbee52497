"""Reads and writes JSON as the program does, in place of the framework."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from stream_dedup.core.text.decode import parse_object
from stream_dedup.serve.problems import in_body, invalid, unsupported

SMALL_BODY = 64 << 10
"""Bytes that are parsed at once: 10 ms at most. The largest body takes more than a second where it is all brackets."""
JSON = "application/json"
UTF8_NAMES = frozenset({"utf-8", "utf8"})


class JsonRoute(APIRoute):
    """A route whose body is read as source records are: a JSON object, of limited depth, half surrogates included."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override] # a coroutine is one
        """Return the handler of requests."""
        handle = super().get_route_handler()
        if self.body_field is None:
            return handle

        async def handle_json(request: Request) -> Response:
            read = _JsonRequest(request.scope, request.receive)
            read.parsed = await _parsed(read)
            return await handle(read)

        return handle_json


class _JsonRequest(Request):
    """A request whose body was parsed already: the framework lets no error of its own parsing pass."""

    parsed: dict[str, Any]

    async def json(self) -> Any:  # noqa: ANN401 - as the framework declares it
        """Return the object of the body."""
        return self.parsed


async def _parsed(request: Request) -> dict[str, Any]:
    """Return the object of a body.

    Raises:
        ProblemError: the body is of another type, or no JSON object.
    """
    body = await request.body()
    if not body:
        msg = "the request has no body; send a JSON object"
        raise invalid(msg)
    require_type(request, JSON)
    if len(body) > SMALL_BODY:  # other clients are answered meanwhile
        parsed = await asyncio.to_thread(parse_object, body, request.app.state.name_paths)
    else:
        parsed = parse_object(body, request.app.state.name_paths)
    if isinstance(parsed, str):
        msg = "the body is not a JSON object that can be read"
        raise invalid(msg, in_body((), parsed))
    return parsed


def require_type(request: Request, media_type: str) -> None:
    """Refuse a body of another media type, or of another character set than UTF-8.

    Raises:
        ProblemError: the answer is 415 and names the type that is read.
    """
    # Python's parser of headers of mail takes half a second for one of 30 KB, and has errors of its own for others.
    named, *parameters = ", ".join(request.headers.getlist("content-type")).lower().split(";")
    pairs = (one.partition("=") for one in parameters)
    charsets = [value.strip(' \t"') for name, _, value in pairs if name.strip() == "charset"]
    if named.strip() != media_type:
        detail = f"the header Content-Type is missing or names another type; send Content-Type: {media_type}"
    elif not set(charsets) <= UTF8_NAMES:
        detail = "the header Content-Type names another charset than UTF-8; send the body in UTF-8"
    else:
        return
    raise unsupported(detail, {"Accept": media_type})


def json_answer(values: Any, status: int = 200) -> Response:  # noqa: ANN401 - JSON values
    """Return an answer of JSON values; half surrogates, which texts may have, are escapes as in their records."""
    try:
        body = orjson.dumps(values)
    except TypeError:  # orjson.JSONEncodeError
        body = json.dumps(values).encode()
    return Response(body, status, media_type=JSON)
