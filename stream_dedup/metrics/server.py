"""The HTTP server of /metrics, /healthz and /readyz.

Owns one listening socket, its connections and their threads. Each request of a health page calls a function, which must
return at once and may be called from any thread. A health page answers 200, or 503 with the reason in its body. The
server changes nothing: its pages have the methods GET and HEAD, and another one is answered 405.

A client must not be able to harm the process. Rules:

* At most ``Limits.connections`` connections are open; a further one is closed at once, without a thread.
* A connection is shut down ``Limits.request_s`` after it was accepted. It carries one request (HTTP/1.0) of at most
  ``MAX_HEAD_BYTES``.
* Faults of clients and of the server are logged: one line for each kind of fault in ``Limits.quiet_s``.
"""

from __future__ import annotations

import errno
import logging
import math
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.client import LineTooLong
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from threading import Event, Lock, Thread
from types import MappingProxyType, TracebackType
from typing import Any, NamedTuple, Self

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from stream_dedup.config.keys import split_address
from stream_dedup.errors import UserError

MAX_HEAD_BYTES = 65_537
"""Request line and headers: a byte more than the longest line that ``http.server`` accepts. Prometheus sends 300."""
ACCEPT_PAUSE_S = 0.5
"""Seconds after a failed accept: the connection still waits, and would be tried again in a busy loop."""
CLOSED_WITHIN_S = 0.1
"""Seconds after which the server notices at the latest that it is to end."""
MAX_DETAIL = 200
"""Characters of a client's request that a log line quotes."""
_TEXT = "text/plain; charset=utf-8"
_ALLOW = {"Allow": "GET, HEAD"}

Check = Callable[[], tuple[bool, str]]
"""Returns whether the check passes, and the reason."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """Resources that clients may use."""

    connections: int = 16
    """Prometheus and a probe need two. Each uses a file descriptor and a thread, which the worker needs too."""
    request_s: float = 10.0
    """From accepting a connection to the end of its answer. Prometheus waits as long; milliseconds are usual."""
    quiet_s: float = 60.0
    """Time between two log lines about the same kind of fault."""


class MetricsServer:
    """Serves until it is closed. ``address`` has the port that was bound."""

    def __init__(
        self,
        address: str,
        registry: CollectorRegistry,
        healthy: Check,
        ready: Check,
        limits: Limits = Limits(),
    ) -> None:
        """Bind the address and start to serve.

        Raises:
            UserError: the address cannot be bound.
        """
        faults = Faults(limits.quiet_s)
        pages = {"registry": registry, "checks": {"/healthz": healthy, "/readyz": ready}, "faults": faults}
        self._server = _bind(address, type("_BoundHandler", (_Handler,), pages))
        self._server.limit(limits, faults)
        host, port = self._server.server_address[:2]
        self.port = int(port)
        name = host.decode() if isinstance(host, (bytes, bytearray)) else host
        self.address = f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
        self._thread = Thread(target=self._server.serve_forever, args=(CLOSED_WITHIN_S,), name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving, shut all connections down and release the port."""
        self._server.closing.set()
        self._server.shutdown()
        self._server.hang_up(math.inf)
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class Faults:
    """Logs one line for each kind of fault in a period. Thread-safe."""

    def __init__(
        self, quiet_s: float, now: Callable[[], float] = time.monotonic, *, name: str = "metrics server"
    ) -> None:
        """``now`` returns seconds; ``name`` begins each line."""
        self._quiet_s = quiet_s
        self._name = name
        self._now = now
        self._lock = Lock()
        self._last: dict[str, float] = {}
        self._unsaid: dict[str, int] = {}

    def note(self, kind: str, detail: object, level: int = logging.INFO) -> None:
        """Log a fault, with the number of its kind not logged since the last line; or count it only."""
        with self._lock:
            now, unsaid = self._now(), self._unsaid.get(kind, 0)
            if now - self._last.get(kind, -math.inf) < self._quiet_s:
                self._unsaid[kind] = unsaid + 1
                return
            self._last[kind], self._unsaid[kind] = now, 0
        more = f" ({unsaid} more since the last such line)" if unsaid else ""
        _log.log(level, "%s: %s: %s%s", self._name, kind, detail, more)


class _Server(ThreadingHTTPServer):
    """A server that enforces the limits. ``_open`` has each connection with a thread, and the time of its end."""

    daemon_threads = True
    block_on_close = False  # an open connection must not delay the end of the worker
    allow_reuse_address = True
    request_queue_size = 128  # in the kernel; with a shorter queue, a flood delays a scrape by seconds

    def __init__(self, family: socket.AddressFamily, target: Any, handler: type[BaseHTTPRequestHandler]) -> None:  # noqa: ANN401 - a socket address, as its family has it
        self.address_family = family
        self.closing = Event()
        self._open: dict[socket.socket, float] = {}
        self._lock = Lock()
        super().__init__(target, handler)

    def limit(self, limits: Limits, faults: Faults) -> None:
        """Set the limits, before the first connection is accepted."""
        self._limits, self._faults = limits, faults

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection. Where the process has no file descriptor left, wait before the next attempt."""
        try:
            return super().get_request()
        except OSError as error:
            self._faults.note("accept failed", error.strerror, logging.WARNING)
            self.closing.wait(ACCEPT_PAUSE_S)
            raise

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ANN401 - as socketserver has them
        """Return whether a connection is within the limit; another one is closed at once."""
        with self._lock:
            room = len(self._open) < self._limits.connections
            if room:
                self._open[request] = time.monotonic() + self._limits.request_s
        if not room:
            said = f"{self._limits.connections} are open already, that of {client_address[0]} was closed"
            self._faults.note("too many connections", said, logging.WARNING)
        return room

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401
        """Remove a connection from ``_open`` and close it, in this order: ``hang_up`` never meets a closed one."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Shut late connections down; ``serve_forever`` calls it twice a second."""
        if late := self.hang_up(time.monotonic()):
            self._faults.note("slow request", f"{late} not done within {self._limits.request_s:g} s, hung up")

    def hang_up(self, now: float) -> int:
        """Shut down the connections whose time is over, which ends their threads; return their number."""
        with self._lock:
            late = [request for request, end in self._open.items() if end <= now]
            for request in late:
                self._open[request] = math.inf
                with suppress(OSError):  # the client has closed it already
                    request.shutdown(socket.SHUT_RDWR)
        return len(late)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Log the error that ended a connection, unless the server shut it down itself."""
        error = sys.exception()
        with self._lock:
            hung_up = self._open.get(request) == math.inf
        if isinstance(error, OSError):
            if not hung_up:
                self._faults.note("broken connection", f"{client_address[0]}: {error.strerror or error}")
        else:
            self._faults.note("a request failed", f"{type(error).__name__}: {error}", logging.WARNING)

    def server_bind(self) -> None:
        """Bind without the reverse look-up of the host name, which may take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])


def _bind(address: str, handler: type[BaseHTTPRequestHandler]) -> _Server:
    try:
        host, port = split_address(address)
        family, _, _, _, target = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return _Server(family, target, handler)
    except (OSError, ValueError) as error:
        remedy = "set another address with --metrics or metrics.address (port 0: any free port; off: no server)"
        raise UserError(bind_refusal("metrics", address, error, remedy)) from error


def bind_refusal(server: str, address: str, error: OSError | ValueError, remedy: str) -> str:
    """Return why a server cannot listen on an address, and the remedy."""
    reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        reason = "another program listens on it"
    return f"{server} address {address}: {reason}; {remedy}"


class _Head:
    """The line and headers of a request; reading more than ``MAX_HEAD_BYTES`` is an error."""

    def __init__(self, stream: BufferedIOBase) -> None:
        self._stream = stream
        self._left = MAX_HEAD_BYTES

    def readline(self, limit: int) -> bytes:
        """Return the next line, or its beginning.

        Raises:
            LineTooLong: the limit is reached; the answer is 431.
        """
        if self._left <= 0:
            raise LineTooLong("request")  # noqa: EM101 - as http.client has it
        line = self._stream.readline(min(limit, self._left))
        self._left -= len(line)
        return line

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()


class _Response(NamedTuple):
    status: int
    content_type: str
    content: bytes
    headers: Mapping[str, str] = MappingProxyType({})


_NO_PAGE = _Response(HTTPStatus.NOT_FOUND, _TEXT, b"pages: /metrics /healthz /readyz\n")


class _Handler(BaseHTTPRequestHandler):
    """Answers the request of a connection."""

    protocol_version = "HTTP/1.0"  # one request for each connection
    registry: CollectorRegistry
    checks: dict[str, Check]
    faults: Faults

    def setup(self) -> None:
        super().setup()
        self.rfile: Any = _Head(self.rfile)

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        path = self.path.partition("?")[0]
        try:
            page = _page(self.registry, self.checks, path, self.headers.get("Accept", ""))
        except Exception as error:  # noqa: BLE001 - whatever fails, the client is answered and the log says so
            self.faults.note(f"{path} failed", f"{type(error).__name__}: {error}", logging.WARNING)
            page = _Response(HTTPStatus.INTERNAL_SERVER_ERROR, _TEXT, b"failed; the log says why\n")
        self._send(page, body=body)

    def _send(self, page: _Response, *, body: bool) -> None:
        self.send_response(page.status)
        self.send_header("Content-Type", page.content_type)
        self.send_header("Content-Length", str(len(page.content)))
        for name, value in page.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(page.content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a faulty request; a method without a ``do_METHOD`` is 501 in http.server, whatever the page."""
        if code != HTTPStatus.NOT_IMPLEMENTED:
            super().send_error(code, message, explain)
            return
        page = _NO_PAGE
        if self.path.partition("?")[0] in {"/metrics", *self.checks}:
            page = _Response(HTTPStatus.METHOD_NOT_ALLOWED, _TEXT, b"methods: GET HEAD\n", _ALLOW)
        self.log_error("code %d, message %s", page.status, message)
        self._send(page, body=True)

    def log_error(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        self.faults.note("malformed request", f"{self.client_address[0]}: {format % args}"[:MAX_DETAIL])

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        _log.debug(format, *args)


def _page(registry: CollectorRegistry, checks: dict[str, Check], path: str, accept: str) -> _Response:
    if path == "/metrics":
        encoder, content_type = _encoder(accept)
        return _Response(HTTPStatus.OK, content_type, encoder(registry))
    if path in checks:
        good, reason = checks[path]()
        status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
        return _Response(status, _TEXT, f"{reason}\n".encode(errors="backslashreplace"))
    return _NO_PAGE


def _encoder(accept: str) -> tuple[Callable[[Collector], bytes], str]:
    """Return the encoder of a format that the client accepts; the default one where its header is invalid."""
    try:
        return choose_encoder(" ".join(accept.split()))
    except (TypeError, ValueError):  # a version that is not a number
        return choose_encoder("")
