"""The HTTP server: one listening socket, its connections, and what a client may take of them.

uvicorn reads and writes HTTP/1.1 with h11. Rules added here:

* At most ``serve.connections`` connections are open, TLS handshakes included. For a further one, the one that has
  waited longest for a request is closed, idle or in the middle of one; where every one has a whole request, the new one
  is closed.
* The head of a request must arrive within ``serve.client_s``: of the connection, of the handshake, or of the answer
  before it. A connection without one is closed.
* A client that does not read its answer for ``serve.client_s`` is cut off.
* Faults of clients are logged: one line for each kind of fault in a minute.

The server runs in a thread of its own with its own event loop.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from stream_dedup.config.checks import split_address
from stream_dedup.errors import UserError
from stream_dedup.metrics.server import ACCEPT_PAUSE_S, Faults, bind_refusal
from stream_dedup.serve.limits import MAX_HEAD
from stream_dedup.serve.problems import PROBLEM_JSON, problem_body

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from stream_dedup.config.sections import ServeConfig

BACKLOG = 256
"""Connections that the kernel keeps until they are accepted."""
DRAIN_S = 5
"""Seconds that requests under way have when the service ends."""
SERVE_QUIET_S = 60.0
"""Seconds between two log lines about the same kind of fault."""


class TimedProtocol(H11Protocol):
    """One connection, with time limits."""

    limit_s: float
    faults: Faults
    waiting_since: float | None = None
    """Loop time since which the connection waits for a request, or the rest of it; None while it has a whole one."""
    _has_answered = False
    _timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a head."""
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the timers."""
        super().connection_lost(exc)
        self._stop_timers()

    def handle_events(self) -> None:
        """Handle what has arrived; with a whole head wait for the body, with a whole request for nothing."""
        try:
            super().handle_events()
        except h11.LocalProtocolError:  # faulty bytes within a request that is being answered
            self.transport.abort()
            return
        if self.cycle is not None and not self.cycle.response_complete:  # type: ignore[redundant-expr] # None at first
            if self.conn.their_state is not h11.SEND_BODY:
                self.waiting_since = None
            elif self._timer is not None:
                self.waiting_since = self.loop.time()
            self._cancel_timer()

    def eof_received(self) -> bool:  # type: ignore[override] # asyncio takes the answer
        """Return whether the connection stays open: a client that sends nothing more may wait for its answer."""
        cycle = self.cycle
        is_whole = self.conn.their_state in {h11.DONE, h11.MUST_CLOSE}  # the latter: HTTP/1.0, or Connection: close
        if cycle is None or cycle.response_complete or not is_whole:  # type: ignore[redundant-expr] # None at first
            return False
        cycle.keep_alive = False
        return self.scheme == "http"  # TLS has no half of a connection

    def on_response_complete(self) -> None:
        """Begin to wait for the next head, or for the client to read the end of the answer."""
        self._has_answered = True
        self._await_head()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Give a client that does not read some time."""
        super().pause_writing()
        self._write_timer = self.loop.call_later(self.limit_s, self._cut_off, "a client does not read its answer")

    def resume_writing(self) -> None:
        """Note that the client reads."""
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's words
        """Answer a request that is no HTTP with a problem."""
        self.faults.note("malformed request", self._peer)
        body = problem_body(HTTPStatus.BAD_REQUEST, "malformed-request", "the request is not valid HTTP/1.1")
        length = str(len(body)).encode()
        headers = [(b"content-type", PROBLEM_JSON.encode()), (b"content-length", length), (b"connection", b"close")]
        for event in (h11.Response(status_code=400, headers=headers), h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    @property
    def _peer(self) -> str:
        return self.client[0] if self.client else "a client that has gone"

    def abort(self) -> None:
        """Close the connection at once."""
        self.transport.abort()

    def _await_head(self) -> None:
        self._cancel_timer()
        self.waiting_since = self.loop.time()
        self._timer = self.loop.call_later(self.limit_s, self._cut_off, "no whole request")

    def _cut_off(self, why: str) -> None:
        if not self._has_answered:
            self.faults.note(why, f"from {self._peer} within {self.limit_s:g} s, hung up")
        self.transport.abort()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_timers(self) -> None:
        self._cancel_timer()
        if self._write_timer is not None:
            self._write_timer.cancel()


class _LimitedServer(uvicorn.Server):
    """Accepts connections itself, within a limit."""

    def __init__(self, config: uvicorn.Config, serve: ServeConfig, context: ssl.SSLContext | None) -> None:
        super().__init__(config)
        self._limit = serve.connections
        self._handshake_s = serve.client_s
        self._context = context
        self._faults = Faults(SERVE_QUIET_S, name="serve")
        self._opening: dict[asyncio.Task[None], float] = {}
        self._accepting: asyncio.Task[None] | None = None
        self._protocol = type("_Protocol", (TimedProtocol,), {"limit_s": serve.client_s, "faults": self._faults})

    @property
    def open_connections(self) -> int:
        """Connections that are open, handshakes included."""
        return len(self.server_state.connections) + len(self._opening)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept."""
        await self.lifespan.startup()
        self.servers = []
        (listener,) = sockets or []
        self._accepting = asyncio.create_task(self._accept(listener))
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept nothing more; give the requests under way ``DRAIN_S``, then close every connection."""
        for task in (self._accepting, *self._opening):
            if task is not None:
                task.cancel()
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(listener)
            except OSError as error:  # no file descriptor is left, for example
                self._faults.note("accept failed", error.strerror)
                await asyncio.sleep(ACCEPT_PAUSE_S)
                continue
            if not self._make_room():
                self._faults.note("too many connections", f"{self._limit} have a request, that of {peer[0]} was closed")
                accepted.close()
                continue
            accepted.setblocking(False)  # noqa: FBT003 - the standard library's own parameter
            task = asyncio.create_task(self._open(accepted))
            self._opening[task] = loop.time()
            task.add_done_callback(partial(self._opened, accepted))
            await asyncio.sleep(0)  # connections that were ended close before the next one is accepted

    async def _open(self, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        limit = None if self._context is None else self._handshake_s
        try:
            await loop.connect_accepted_socket(
                self._make_protocol, accepted, ssl=self._context, ssl_handshake_timeout=limit
            )
        except OSError as error:  # a handshake that failed or took too long
            self._faults.note("no connection", str(error) or type(error).__name__)

    def _opened(self, accepted: socket.socket, task: asyncio.Task[None]) -> None:
        """Note that a connection is open, or was given up: then nobody else closes its socket."""
        del self._opening[task]
        if task.cancelled() or task.exception() is not None:
            accepted.close()

    def _make_protocol(self) -> asyncio.Protocol:
        protocol: asyncio.Protocol = self._protocol(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol

    def _make_room(self) -> bool:
        """Return whether there is room for one more connection; close the one that waits longest if there is none."""
        if self.open_connections < self._limit:
            return True
        waiting: list[tuple[float, Callable[[], Any]]] = [
            (one.waiting_since, one.abort)
            for one in self.server_state.connections
            if isinstance(one, TimedProtocol) and one.waiting_since is not None and not one.transport.is_closing()
        ]
        waiting += [(since, task.cancel) for task, since in self._opening.items() if not task.cancelling()]
        if not waiting:
            return False
        _, end = min(waiting, key=lambda one: one[0])
        self._faults.note("too many connections", f"{self._limit} are open, one without a whole request was closed")
        end()
        return True


class HttpServer:
    """Serves an ASGI application until it is closed. ``address`` has the port that was bound."""

    def __init__(self, app: ASGIApp, serve: ServeConfig, context: ssl.SSLContext | None) -> None:
        """Bind the address and start to serve.

        Raises:
            UserError: the address cannot be bound.
        """
        self._socket = _bound(serve.address)
        host, port = self._socket.getsockname()[:2]
        self.port = int(port)
        scheme = "http" if context is None else "https"
        self.url = f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
        config = uvicorn.Config(
            app,
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            h11_max_incomplete_event_size=MAX_HEAD,
            timeout_keep_alive=max(1, int(serve.client_s)),
            timeout_graceful_shutdown=DRAIN_S,
        )
        self._server = _LimitedServer(config, serve, context)
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self.failure: BaseException | None = None
        self._thread.start()

    @property
    def connections(self) -> int:
        """Connections that are open."""
        return self._server.open_connections

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


def _bound(address: str) -> socket.socket:
    try:
        host, port = split_address(address)
        family, _, _, _, target = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # asyncio turns Nagle's algorithm off for connections that are known to be TCP: else answers wait 40 ms.
        bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(target)
            bound.listen(BACKLOG)
            bound.setblocking(False)  # noqa: FBT003 - the standard library's own parameter
        except BaseException:
            bound.close()
            raise
    except (OSError, ValueError) as error:
        remedy = "set another address with --address or serve.address (port 0: any free port)"
        raise UserError(bind_refusal("serve", address, error, remedy)) from error
    return bound
