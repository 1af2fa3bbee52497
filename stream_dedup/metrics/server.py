"""The HTTP server of /metrics, /healthz and /readyz: a small WSGI application, served by waitress.

Each request of a health page calls a function, which must return at once and may be called from any thread. A health
page answers 200, or 503 with the reason in its body. The server changes nothing: its pages have the methods GET and
HEAD, and another one is answered 405.

A client must not be able to harm the process. waitress has these limits, and answers malformed requests itself:

* At most ``CONNECTIONS`` are open. A further client waits in the kernel until one of them is closed.
* A connection on which nothing has come for ``IDLE_S`` is closed, also one whose client does not read its answer. One
  on which a request comes byte by byte stays: none but Prometheus and probes should reach this server.
* A request has at most ``MAX_HEAD_BYTES``, and no body to speak of.
* ``THREADS`` answer; requests wait for them in a queue. Without these threads a connection costs a file descriptor.
"""

from __future__ import annotations

import errno
import logging
import socket
import time
from collections.abc import Callable
from http import HTTPStatus
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from waitress.server import create_server
from waitress.wasyncore import dispatcher

from stream_dedup.config.keys import split_address
from stream_dedup.errors import UserError

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

CONNECTIONS = 64
"""Prometheus and a probe need two. Each uses a file descriptor, which the worker needs too."""
IDLE_S = 10
"""Prometheus waits as long for an answer; milliseconds are usual."""
CLEANUP_S = 2
"""Seconds between two looks for idle connections."""
MAX_HEAD_BYTES = 65_536
"""Request line and headers. Prometheus sends 300."""
MAX_REQUEST_BODY_BYTES = 1_024
THREADS = 4
ACCEPT_PAUSE_S = 0.5
"""Seconds after a failed accept."""
ENDED_WITHIN_S = 1.0
"""Longest wait for the threads when the server is closed; a page that still runs does not keep the process."""
_OWN_SOCKETS = 2
"""Sockets that waitress counts among the connections: the one that listens, and a pipe."""

Check = Callable[[], tuple[bool, str]]
"""Returns whether the check passes, and the reason."""


class MetricsServer:
    """Serves until it is closed. ``address`` has the port that was bound."""

    def __init__(self, address: str, registry: CollectorRegistry, healthy: Check, ready: Check) -> None:
        """Bind the address and start to serve.

        Raises:
            UserError: the address cannot be bound.
        """
        # Faults of clients are none of an operator's, and their paths belong in no log; a queue of requests is no harm.
        logging.getLogger("waitress").setLevel(logging.WARNING)
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        remedy = "set another address with --metrics or metrics.address (port 0: any free port; off: no server)"
        bound = bound_socket("metrics", address, IDLE_S, remedy, _PatientSocket)
        host, port = bound.getsockname()[:2]
        self.port = int(port)
        self.address = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        self._server = create_server(
            MetricsPages(registry, {"/healthz": healthy, "/readyz": ready}),
            sockets=[bound],
            connection_limit=CONNECTIONS + _OWN_SOCKETS,
            channel_timeout=IDLE_S,
            cleanup_interval=CLEANUP_S,
            max_request_header_size=MAX_HEAD_BYTES,
            max_request_body_size=MAX_REQUEST_BODY_BYTES,
            threads=THREADS,
            ident="",
            log_socket_errors=False,
            asyncore_use_poll=True,  # select takes no file descriptor above 1,023, and RocksDB has many
        )
        self._thread = Thread(target=self._server.run, name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving, close all connections and release the port."""
        self._server.trigger.pull_trigger(self._hang_up)
        self._thread.join()
        self._server.task_dispatcher.shutdown(timeout=ENDED_WITHIN_S)
        # Last: the threads that answer write to its pipe.
        self._server.trigger.close()

    def _hang_up(self) -> None:
        """Close every connection, on the server's thread, which ends when it has no socket left to look at."""
        for connection in list(self._server.active_channels.values()):
            connection.handle_close()
        dispatcher.close(self._server)
        self._server.trigger.del_channel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class _PatientSocket(socket.socket):
    """A listening socket. Where the process has no file descriptor left, it waits before it fails.

    The connection still waits, and the server would try again in a busy loop.
    """

    def accept(self) -> tuple[socket.socket, Any]:
        try:
            return super().accept()
        except BlockingIOError:
            raise
        except OSError:
            time.sleep(ACCEPT_PAUSE_S)
            raise


class MetricsPages:
    """The pages, as a WSGI application."""

    def __init__(self, registry: CollectorRegistry, checks: dict[str, Check]) -> None:
        """Take the health pages by their paths."""
        self._registry = registry
        self._checks = checks

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        """Answer a request."""
        status, headers, content = self._answer(environ)
        headers["Content-Length"] = str(len(content))
        start_response(f"{status.value} {status.phrase}", list(headers.items()))
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [content]

    def _answer(self, environ: WSGIEnvironment) -> tuple[HTTPStatus, dict[str, str], bytes]:
        path = environ["PATH_INFO"]
        text = {"Content-Type": "text/plain; charset=utf-8"}
        if path not in {"/metrics", *self._checks}:
            return HTTPStatus.NOT_FOUND, text, b"pages: /metrics /healthz /readyz\n"
        if environ["REQUEST_METHOD"] not in {"GET", "HEAD"}:
            return HTTPStatus.METHOD_NOT_ALLOWED, text | {"Allow": "GET, HEAD"}, b"methods: GET HEAD\n"
        if path == "/metrics":
            return HTTPStatus.OK, {"Content-Type": CONTENT_TYPE_LATEST}, generate_latest(self._registry)
        good, reason = self._checks[path]()
        status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
        return status, text, f"{reason}\n".encode(errors="backslashreplace")


def bound_socket(
    server: str, address: str, unread_s: float, remedy: str, kind: type[socket.socket] = socket.socket
) -> socket.socket:
    """Return a socket that is bound to an address ``host:port``; an empty host is every address.

    Linux ends its connections whose client does not take what was sent to it for ``unread_s``: a server that waits
    until it can write notices no time passing. A client that has vanished is noticed, too.

    Raises:
        UserError: it cannot be bound; the message names ``server``, the reason and ``remedy``.
    """
    try:
        host, port = split_address(address)
        flags = socket.AI_PASSIVE
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=flags)
        family, stream, protocol, _, target = found[0]
        bound = kind(family, stream, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * unread_s))
            bound.bind(target)
            bound.listen()  # else a second server on the port would be refused only later
        except BaseException:
            bound.close()
            raise
    except (OSError, ValueError) as error:
        reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            reason = "another program listens on it"
        raise UserError(f"{server} address {address}: {reason}; {remedy}") from error
    return bound
