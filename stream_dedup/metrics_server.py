"""The HTTP server of /metrics, /healthz and /readyz.

Owns one listening socket and its threads. What the two health pages say is asked of callables
each time: they must answer at once and may be called from any thread. A page answers 200 when
all is well, 503 with the reason in its body when not. The server never changes anything.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any, Self

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from stream_dedup.config_checks import split_address
from stream_dedup.errors import UserError

REQUEST_TIMEOUT_S = 10
"""A client that sends nothing for so long is hung up on: it must not hold a thread for ever."""

Check = Callable[[], tuple[bool, str]]
"""Whether all is well, and the reason."""

_log = logging.getLogger(__name__)


class MetricsServer:
    """Serves until it is closed; ``address`` is where, with the port that was bound."""

    def __init__(self, address: str, registry: CollectorRegistry, healthy: Check, ready: Check) -> None:
        """Bind and begin to serve.

        Raises:
            UserError: the address cannot be bound.
        """
        self._server = _bind(address, _handler(registry, healthy, ready))
        host, port = self._server.server_address[:2]
        self.port = int(port)
        name = host.decode() if isinstance(host, (bytes, bytearray)) else host
        self.address = f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
        self._thread = Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving and give the port back."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # an idle keep-alive connection must not hold up the worker's end
    allow_reuse_address = True

    def __init__(self, family: socket.AddressFamily, target: Any, handler: type[BaseHTTPRequestHandler]) -> None:  # noqa: ANN401 - a socket address, as its family has it
        self.address_family = family
        super().__init__(target, handler)

    def server_bind(self) -> None:
        """Bind without the reverse look-up of the host's name, which may take seconds."""
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
        raise UserError(_refusal(address, error)) from error


def _refusal(address: str, error: Exception) -> str:
    reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        reason = "another program listens there"
    return (
        f"metrics address {address}: {reason}; give another with --metrics or metrics.address "
        f"(port 0 takes any free one, off serves none)"
    )


def _handler(registry: CollectorRegistry, healthy: Check, ready: Check) -> type[BaseHTTPRequestHandler]:
    checks = {"/healthz": healthy, "/readyz": ready}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = REQUEST_TIMEOUT_S

        def do_GET(self) -> None:
            self._answer(body=True)

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def _answer(self, *, body: bool) -> None:
            path = self.path.partition("?")[0]
            if path == "/metrics":
                encoder, content_type = choose_encoder(self.headers.get("Accept", ""))
                self._send(200, content_type, encoder(registry), body=body)
            elif path in checks:
                good, reason = checks[path]()
                self._send(200 if good else 503, "text/plain; charset=utf-8", f"{reason}\n".encode(), body=body)
            else:
                self._send(404, "text/plain; charset=utf-8", b"pages: /metrics /healthz /readyz\n", body=body)

        def _send(self, status: int, content_type: str, content: bytes, *, body: bool) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if body:
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
            _log.debug(format, *args)

    return Handler
