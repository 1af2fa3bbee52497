"""The application: every route of the service, and the layer of limits around them.

``make_app`` makes an ASGI application from a ``Service``. Beside the routes for programs (``api``) it has the pages
(``pages``). ``limits.Gate`` is around both: the token (a browser asks for it, and sends it as the password of
``Basic``), the host, the size of bodies, problems for errors. It sets ``Content-Security-Policy: default-src 'none'``
where the answer has none; pages set their own.

An endpoint that blocks (SQLite, Kafka) does so off the event loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from stream_dedup import __version__
from stream_dedup.config.effective import input_format_of
from stream_dedup.errors import StreamDedupError
from stream_dedup.serve.api import add_api
from stream_dedup.serve.bodies import JsonRoute
from stream_dedup.serve.given import name_paths
from stream_dedup.serve.limits import Gate
from stream_dedup.serve.pages import add_pages
from stream_dedup.serve.pages.connecting import ServicePages
from stream_dedup.serve.problems import (
    ProblemError,
    on_failure,
    on_http_error,
    on_invalid,
    on_problem,
    on_program_error,
)

if TYPE_CHECKING:
    from stream_dedup.serve.secrets import Token
    from stream_dedup.serve.service import Service

OPENAPI = "/v1/openapi.json"


def make_app(service: Service, token: Token | None) -> Gate:
    """Return the application; with a token, every request but those for health needs it."""
    app = FastAPI(
        title="stream-dedup",
        summary="Near-duplicate articles of a stream: what an article would be, as of now, and why.",
        version=__version__,
        openapi_url=OPENAPI,
        docs_url=None,  # its page loads scripts from a stranger's server
        redoc_url=None,
        redirect_slashes=False,
    )
    app.router.route_class = JsonRoute
    app.state.name_paths = name_paths(input_format_of(service.config))
    app.add_exception_handler(ProblemError, on_problem)
    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(StreamDedupError, on_program_error)
    app.add_exception_handler(Exception, on_failure)
    add_api(app, service)
    add_pages(app, ServicePages(service))
    return Gate(app, service.config.serve, token, service.metrics)
