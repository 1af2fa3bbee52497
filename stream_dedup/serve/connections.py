"""The HTTP server: uvicorn on one listening socket, in a thread of its own with its own event loop.

``serve.connections`` connections may be open; while there are more, requests are answered 503. A connection that is
kept open is closed where no request follows within ``serve.client_s``. A client that never finishes the head of its
first request, or does not read its answer, keeps its connection: where clients are not trusted, a reverse proxy stands
before the service.
"""

from __future__ import annotations

import ssl
import threading
from typing import TYPE_CHECKING

import uvicorn

from stream_dedup.metrics.server import BACKLOG, address_of, listen
from stream_dedup.serve.limits import MAX_HEAD

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from stream_dedup.config.serve_section import ServeConfig

DRAIN_S = 5
"""Seconds that requests under way have when the service ends."""


class HttpServer:
    """Serves an ASGI application until it is closed. ``url`` has the port that was bound."""

    def __init__(self, app: ASGIApp, serve: ServeConfig, context: ssl.SSLContext | None) -> None:
        """Bind the address and start to serve.

        Raises:
            UserError: the address cannot be bound.
        """
        remedy = "set another address with --address or serve.address (port 0: any free port)"
        self._socket = listen("serve", serve.address, remedy)
        address, self.port = address_of(self._socket)
        self.url = f"{'http' if context is None else 'https'}://{address}"
        config = uvicorn.Config(
            app,
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=BACKLOG,
            limit_concurrency=serve.connections,
            h11_max_incomplete_event_size=MAX_HEAD,
            timeout_keep_alive=max(1, int(serve.client_s)),
            timeout_graceful_shutdown=DRAIN_S,
            ssl_context_factory=None if context is None else lambda *_: context,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self.failure: BaseException | None = None
        self._thread.start()

    @property
    def connections(self) -> int:
        """Connections that are open."""
        return len(self._server.server_state.connections)

    def close(self) -> None:
        """Accept nothing more, finish the requests under way within ``DRAIN_S``, and release the port."""
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        try:
            self._server.run([self._socket])
        except BaseException as error:  # noqa: BLE001 - the owner looks at it
            self.failure = error
