"""The HTTP server of /metrics, /healthz and /readyz: waitress, in a thread of its own.

Each request of a health page calls a function, which must return at once and may be called from any thread. The page
answers 200, or 503 with the reason in its body. The server changes nothing: its pages have the methods GET and HEAD,
and another one is answered 405.

A client must not be able to harm the process: at most ``CONNECTIONS`` connections are open, and further ones wait in
the kernel; one that neither sends nor reads for ``IDLE_S`` is closed; a request has at most ``MAX_HEAD_BYTES`` and no
body. A client that sends a byte now and then keeps its connection, so the address is for networks where only monitoring
reaches it.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable, Iterable
from http import HTTPStatus
from threading import Thread
from types import TracebackType
from typing import Any, NamedTuple, Self

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from waitress import wasyncore
from waitress.server import create_server

from stream_dedup.config.checks import split_address
from stream_dedup.errors import UserError

CONNECTIONS = 16
"""Prometheus and a probe need two. Each takes a file descriptor, which the worker needs too."""
IDLE_S = 10
"""Prometheus waits as long; milliseconds are usual."""
MAX_HEAD_BYTES = 64 << 10
"""Request line and headers. Prometheus sends 300."""
LARGE_ANSWER_BYTES = 64 << 20
"""Of an answer that a client reads slowly; beyond it waitress uses a temporary file. Metrics take some 50 kB."""
BACKLOG = 256
"""Connections that the kernel keeps until they are accepted."""
_THREADS = 2
_OWN_SOCKETS = 2
"""Those that waitress counts as connections: the listening one, and the pipe that wakes it."""
_TEXT = "text/plain; charset=utf-8"

Check = Callable[[], tuple[bool, str]]
"""Returns whether the check passes, and the reason."""


class MetricsServer:
    """Serves until it is closed. ``address`` has the port that was bound."""

    def __init__(self, address: str, registry: CollectorRegistry, healthy: Check, ready: Check) -> None:
        """Bind the address and start to serve.

        Raises:
            UserError: the address cannot be bound.
        """
        remedy = "set another address with --metrics or metrics.address (port 0: any free port; off: no server)"
        listening = listen("metrics", address, remedy)
        self.address, self.port = address_of(listening)
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # it warns of each request that waits for a thread
        self._sockets: dict[int, Any] = {}
        self._server = create_server(
            _Pages(registry, {"/healthz": healthy, "/readyz": ready}),
            map=self._sockets,
            sockets=[listening],
            threads=_THREADS,
            connection_limit=CONNECTIONS + _OWN_SOCKETS,
            channel_timeout=IDLE_S,
            cleanup_interval=1,
            max_request_header_size=MAX_HEAD_BYTES,
            max_request_body_size=1,
            outbuf_overflow=LARGE_ANSWER_BYTES,
            asyncore_use_poll=True,  # select() fails where the process has more than 1,024 files open
            log_socket_errors=False,
            ident=None,
        )
        self._thread = Thread(target=self._server.run, name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving, close all connections and release the port."""
        if self._thread.is_alive():
            self._server.trigger.pull_trigger(self._end)
            self._thread.join()

    def _end(self) -> None:
        """End the threads, which wake the server's own one through a pipe, then the sockets and that pipe."""
        self._server.task_dispatcher.shutdown()
        wasyncore.close_all(self._sockets)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def listen(server: str, address: str, remedy: str) -> socket.socket:
    """Return a socket that listens on an address.

    Raises:
        UserError: the address cannot be bound; the message names the server and this remedy.
    """
    try:
        host, port = split_address(address)
        family, _, _, _, target = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # asyncio turns Nagle's algorithm off for connections that are known to be TCP: else answers wait 40 ms.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(target)
            listening.listen(BACKLOG)
        except BaseException:
            listening.close()
            raise
    except (OSError, ValueError) as error:
        reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            reason = "another program listens on it"
        msg = f"{server} address {address}: {reason}; {remedy}"
        raise UserError(msg) from error
    return listening


def address_of(listening: socket.socket) -> tuple[str, int]:
    """Return host and port in one, as in a URL, and the port."""
    host, port = listening.getsockname()[:2]
    return (f"[{host}]:{port}" if ":" in host else f"{host}:{port}"), int(port)


class _Response(NamedTuple):
    status: HTTPStatus
    content: bytes
    content_type: str = _TEXT
    headers: tuple[tuple[str, str], ...] = ()


_NO_PAGE = _Response(HTTPStatus.NOT_FOUND, b"pages: /metrics /healthz /readyz\n")
_NO_METHOD = _Response(HTTPStatus.METHOD_NOT_ALLOWED, b"methods: GET HEAD\n", headers=(("Allow", "GET, HEAD"),))


class _Pages:
    """The WSGI application."""

    def __init__(self, registry: CollectorRegistry, checks: dict[str, Check]) -> None:
        self._registry = registry
        self._checks = checks

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        page = self._page(environ["PATH_INFO"], environ["REQUEST_METHOD"], environ.get("HTTP_ACCEPT", ""))
        headers = [("Content-Type", page.content_type), ("Content-Length", str(len(page.content))), *page.headers]
        start_response(f"{page.status.value} {page.status.phrase}", headers)
        return [b"" if environ["REQUEST_METHOD"] == "HEAD" else page.content]

    def _page(self, path: str, method: str, accept: str) -> _Response:
        if path != "/metrics" and path not in self._checks:
            return _NO_PAGE
        if method not in {"GET", "HEAD"}:
            return _NO_METHOD
        if path == "/metrics":
            encoder, content_type = _encoder(accept)
            return _Response(HTTPStatus.OK, encoder(self._registry), content_type)
        good, reason = self._checks[path]()
        status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
        return _Response(status, f"{reason}\n".encode(errors="backslashreplace"))


def _encoder(accept: str) -> tuple[Callable[[Collector], bytes], str]:
    """Return the encoder of a format that the client accepts; the default one where its header is invalid."""
    try:
        return choose_encoder(" ".join(accept.split()))
    except (TypeError, ValueError):  # a version that is not a number
        return choose_encoder("")
