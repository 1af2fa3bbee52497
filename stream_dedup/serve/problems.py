"""Errors of the service as problem details (RFC 9457): what a client is told when it gets no answer.

A problem has a type ``urn:stream-dedup:problem:NAME``, the HTTP status, its phrase as the title, and a detail for
people. Details never repeat what the client sent.

A request of another form than its route declares has a list of errors. Each has a detail and its place: ``parameter``,
the name of a parameter of path or query; or ``pointer``, a JSON pointer into the body, as the fragment of a URI (RFC
6901, 6). A pointer always resolves in the body that was sent: the error of a member that is missing has the pointer of
the object that lacks it. ``#`` is the whole body.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import orjson
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from starlette.responses import Response

PROBLEM_TYPE = "urn:stream-dedup:problem:"
PROBLEM_JSON = "application/problem+json"
FAILED = "the service failed; its log says why"
RETRY_AFTER_S = 1
"""Seconds after which a client may try again where the service is busy."""
MAX_ERRORS = 20
"""Most errors of one request that an answer lists."""
MAX_NAME = 100
"""Characters of the longest name of a member that a pointer has; a request may have one of megabytes."""
_FRAGMENT = "~!$&'()*+,;=:@?"
"""Characters that a fragment has as they are (RFC 3986, 3.5), beside letters, digits and ``-._``."""

JsonPath = tuple[str | int, ...]
"""Where a value is in a JSON document: names of members and places in arrays."""
Fault = Mapping[str, str]
"""An error of a request: its place and a detail."""


class ProblemError(Exception):
    """A request that gets a problem for an answer."""

    def __init__(
        self,
        status: HTTPStatus,
        name: str,
        detail: str,
        headers: Mapping[str, str] | None = None,
        errors: Sequence[Fault] = (),
    ) -> None:
        """``name`` ends the type of the problem; ``errors`` are the parts of it, if it has any."""
        super().__init__(detail)
        self.status = status
        self.name = name
        self.detail = detail
        self.headers = dict(headers or {})
        self.errors = errors

    def response(self) -> Response:
        """Return the answer."""
        title = self.status.phrase
        members = {"type": f"{PROBLEM_TYPE}{self.name}", "title": title, "status": self.status, "detail": self.detail}
        body = orjson.dumps(members | ({"errors": list(self.errors)} if self.errors else {}))
        return Response(body, self.status, self.headers, media_type=PROBLEM_JSON)


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


def invalid(detail: str, *errors: Fault) -> ProblemError:
    """Return the problem of a request of another form than its route declares."""
    return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-request", detail, errors=errors[:MAX_ERRORS])


def in_body(path: JsonPath, detail: str) -> Fault:
    """Return the error of a value of the body, which has a value there."""
    parts = (quote(str(part).replace("~", "~0").replace("/", "~1"), safe=_FRAGMENT) for part in path)
    return {"pointer": "".join(["#", *(f"/{part}" for part in parts)]), "detail": detail}


def in_parameter(name: str, detail: str) -> Fault:
    """Return the error of a parameter of the path or the query."""
    return {"parameter": name, "detail": detail}


def unsupported(detail: str, headers: Mapping[str, str]) -> ProblemError:
    """Return the problem of a body whose coding or type is not read; ``headers`` name what is."""
    return ProblemError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", detail, headers)


def invalid_body(error: ValidationError, body: Any) -> ProblemError:  # noqa: ANN401 - JSON values
    """Return the problem of a body that has not the form that its route declares."""
    return _differing(in_body(_existing(one["loc"], body), _detail(one)) for one in _errors(error))


def invalid_parameters(error: ValidationError) -> ProblemError:
    """Return the problem of parameters that are not as their route declares them."""
    return _differing(in_parameter(str(one["loc"][0]), _detail(one)) for one in _errors(error))


def _errors(error: ValidationError) -> Sequence[ErrorDetails]:
    return error.errors(include_url=False, include_input=False)


def _differing(faults: Iterable[Fault]) -> ProblemError:
    found = [*faults]
    count = f"{len(found)} parts of the request differ" if len(found) > 1 else "a part of the request differs"
    return invalid(f"{count} from what /v1/openapi.json describes", *found)


def _detail(error: ErrorDetails) -> str:
    """Return what is wrong, without the names of the program's own classes."""
    kind = error["type"]
    if kind == "value_error":
        return str(error["ctx"]["error"])
    return f"{error['loc'][-1]} is missing" if kind == "missing" else _SAID.get(kind, error["msg"])


_SAID = {
    "dict_type": "must be an object",
    "extra_forbidden": "unknown member",
    "list_type": "must be an array",
    "model_type": "must be an object",
    "string_type": "must be text",
}
"""Details of kinds of errors for which Pydantic has other words than JSON."""


def _existing(path: JsonPath, document: Any) -> JsonPath:  # noqa: ANN401 - JSON values
    """Return the part of a path that leads to a value of the document, by names that may be repeated."""
    found: list[str | int] = []
    for part in path:
        is_member = isinstance(document, dict) and part in document and _is_short_text(part)
        if not is_member and not (isinstance(document, list) and isinstance(part, int) and part < len(document)):
            break
        document = document[part]
        found.append(part)
    return tuple(found)


def _is_short_text(name: str | int) -> bool:
    """Whether a name has few characters, and no half surrogate, which a pointer cannot have."""
    text = str(name)
    return len(text) <= MAX_NAME and text == text.encode("utf-8", "replace").decode()
