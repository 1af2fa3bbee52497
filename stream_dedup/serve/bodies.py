"""Reads and writes JSON as the program does, in place of the framework."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import orjson
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from stream_dedup.core.text.decode import InputFormat, parse_object

SMALL_BODY = 64 << 10
"""Bytes that are parsed at once: 10 ms at most. The largest body takes more than a second where it is all brackets."""
_FORMAT = InputFormat(id_field="")


class JsonRoute(APIRoute):
    """A route whose body is read as source records are: a JSON object, of limited depth, half surrogates included."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override] # a coroutine is one
        """Return the handler of requests."""
        handle = super().get_route_handler()

        async def handle_json(request: Request) -> Response:
            return await handle(_JsonRequest(request.scope, request.receive))

        return handle_json


class _JsonRequest(Request):
    async def json(self) -> Any:  # noqa: ANN401 - as the framework declares it
        """Return the object of the body.

        Raises:
            HTTPException: it is none; the framework lets no other error of a body pass.
        """
        body = await self.body()
        if len(body) > SMALL_BODY:  # other clients are answered meanwhile
            parsed = await asyncio.to_thread(parse_object, body, _FORMAT)
        else:
            parsed = parse_object(body, _FORMAT)
        if isinstance(parsed, str):
            raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, parsed)
        return parsed


def json_answer(values: Any, status: int = 200) -> Response:  # noqa: ANN401 - JSON values
    """Return an answer of JSON values; half surrogates, which texts may have, are escapes as in their records."""
    try:
        body = orjson.dumps(values)
    except TypeError:  # orjson.JSONEncodeError
        body = json.dumps(values).encode()
    return Response(body, status, media_type="application/json")
