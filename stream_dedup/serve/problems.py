"""Errors of the service as problem details (RFC 9457): what a client is told when it gets no answer.

A problem has a type ``urn:stream-dedup:problem:NAME``, the HTTP status, its phrase as the title, and a detail for
people. Details never repeat what the client sent.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import orjson
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from stream_dedup.errors import UserError

log = logging.getLogger(__name__)

PROBLEM_TYPE = "urn:stream-dedup:problem:"
PROBLEM_JSON = "application/problem+json"
FAILED = "the service failed; its log says why"
RETRY_AFTER_S = 1
"""Seconds after which a client may try again where the service is busy."""
MAX_ERRORS = 20
"""Most errors of one request that an answer lists."""


class ProblemError(Exception):
    """A request that gets a problem for an answer."""

    def __init__(self, status: HTTPStatus, name: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        """``name`` ends the type of the problem."""
        super().__init__(detail)
        self.status = status
        self.name = name
        self.detail = detail
        self.headers = dict(headers or {})

    def response(self) -> Response:
        """Return the answer."""
        return problem_response(self.status, self.name, self.detail, self.headers)


def problem_body(status: int, name: str, detail: str, errors: Sequence[Mapping[str, str]] = ()) -> bytes:
    """Return a problem as JSON; ``errors`` are the parts of it, if it has any."""
    title = HTTPStatus(status).phrase
    members = {"type": f"{PROBLEM_TYPE}{name}", "title": title, "status": int(status), "detail": detail}
    return orjson.dumps(members | ({"errors": list(errors)} if errors else {}))


def problem_response(status: int, name: str, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return the answer that says a problem."""
    return Response(problem_body(status, name, detail), int(status), dict(headers or {}), media_type=PROBLEM_JSON)


def busy(detail: str) -> ProblemError:
    """Return the problem of a request for which there is no room."""
    status = HTTPStatus.SERVICE_UNAVAILABLE
    return ProblemError(status, "busy", detail, {"Retry-After": str(RETRY_AFTER_S)})


def not_ready(detail: str) -> ProblemError:
    """Return the problem of a request that cannot be answered yet."""
    status = HTTPStatus.SERVICE_UNAVAILABLE
    return ProblemError(status, "not-ready", detail, {"Retry-After": str(RETRY_AFTER_S)})


def not_found(detail: str) -> ProblemError:
    """Return the problem of a resource that does not exist."""
    return ProblemError(HTTPStatus.NOT_FOUND, "not-found", detail)


async def on_problem(_: Request, error: Exception) -> Response:
    """Answer a ``ProblemError``."""
    assert isinstance(error, ProblemError)  # noqa: S101 - registered for this class
    return error.response()


async def on_http_error(_: Request, error: Exception) -> Response:
    """Answer an error of the framework: no such page, another method, a body that is not read."""
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this class
    if error.status_code == HTTPStatus.UNPROCESSABLE_ENTITY:  # the body is no JSON object (``bodies``)
        return _invalid([{"pointer": "body", "detail": str(error.detail)}])
    name = HTTPStatus(error.status_code).phrase.lower().replace(" ", "-")
    return problem_response(error.status_code, name, _DETAILS.get(error.status_code, name), error.headers)


async def on_invalid(_: Request, error: Exception) -> Response:
    """Answer a request that has not the form that its route declares; name each place and what is wrong there."""
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for this class
    found = [{"pointer": _pointer(one["loc"]), "detail": str(one["msg"])} for one in error.errors()]
    return _invalid(found)


async def on_program_error(_: Request, error: Exception) -> Response:
    """Answer an error of the program: a store that cannot be read, or a place in a list that no answer named."""
    if isinstance(error, UserError):
        return problem_response(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-request", "no answer named this place")
    log.warning("a request cannot be answered: %s", error)
    return problem_response(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", FAILED)


async def on_failure(_: Request, __: Exception) -> Response:
    """Answer where the service failed; ``limits`` logs the error."""
    return problem_response(HTTPStatus.INTERNAL_SERVER_ERROR, "internal-error", FAILED)


def _invalid(found: Sequence[Mapping[str, str]]) -> Response:
    detail = f"{len(found)} parts of the request are not as /v1/openapi.json describes them"
    body = problem_body(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-request", detail, found[:MAX_ERRORS])
    return Response(body, HTTPStatus.UNPROCESSABLE_ENTITY, media_type=PROBLEM_JSON)


_DETAILS: dict[int, str] = {
    HTTPStatus.NOT_FOUND: "there is no such resource; /v1/openapi.json lists all",
    HTTPStatus.METHOD_NOT_ALLOWED: "this resource has other methods; the header Allow names them",
    HTTPStatus.BAD_REQUEST: "the body cannot be read",
}


def _pointer(location: Sequence[Any]) -> str:
    """Return where an error is: the source (body, query, path), then the place in it as a JSON pointer."""
    source, *path = location
    escaped = (str(part).replace("~", "~0").replace("/", "~1") for part in path)
    return f"{source}#/{'/'.join(escaped)}" if path else str(source)
