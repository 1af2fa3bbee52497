"""The HTTP server, and what a client may take of it: token and certificate, limits of requests and connections.

``Gate`` is the ASGI application. In this order, for every request:

1. The head: at most ``MAX_HEAD`` bytes.
   The token. Without it the answer is 401, except for the open pages. A service without a token answers only requests
   that name a loopback host: a page of a stranger that a browser was made to load from this address names its own.
2. The body: at most ``serve.max_body_bytes``, complete within ``serve.client_s``, and all bodies under way together at
   most ``BODIES`` times as large. It is read before the route is called, and no further than its limit. A body
   with a content coding is refused: what it unpacks to would need limits of its own.
3. The route. Whatever it raises becomes a problem, and the log has the traceback.

Every answer gets ``HEADERS``, unless the route has set them. HEAD is answered as GET, without the body.

``HttpServer`` runs uvicorn in a thread of its own, with its own event loop, on one listening socket. A connection is
closed ``serve.client_s`` after its answer without a further request, and where its client does not read its answer for
so long. The head of a request has no limit of time, and connections no limit of number: where strangers reach the
service, a reverse proxy has them (docs/http-api.md).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import logging
import math
import ssl
import stat
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

import h11
import uvicorn
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stream_dedup.config.model import ServeConfig
from stream_dedup.errors import StreamDedupError, UserError
from stream_dedup.metrics.server import bound_socket
from stream_dedup.serve.problems import FAILED, ProblemError, busy, unsupported
from stream_dedup.serve.routing import Router
from stream_dedup.serve.serve_metrics import ServeMetrics

log = logging.getLogger(__name__)


MIN_TOKEN = 16
"""Characters of the shortest token: one that can be guessed protects nothing."""
_HOW = "make one with: (umask 077; openssl rand -hex 32 > FILE)"


class Token:
    """The token that requests must have; compared in constant time."""

    def __init__(self, text: str) -> None:
        """Take the token itself."""
        self._bytes = text.encode()

    def allows(self, authorization: bytes | None) -> bool:
        """Return whether a header ``Authorization`` has the token.

        Either as ``Bearer TOKEN`` or, for browsers, as the password of ``Basic`` with any user name.
        """
        scheme, _, given = (authorization or b"").strip().partition(b" ")
        given = given.strip()
        if scheme.lower() == b"basic":
            given = _password(given)
        elif scheme.lower() != b"bearer":
            given = b""
        return hmac.compare_digest(given, self._bytes)


def _password(basic: bytes) -> bytes:
    try:
        return base64.b64decode(basic, validate=True).partition(b":")[2]
    except (binascii.Error, ValueError):
        return b""


def read_token(path: Path | None) -> Token | None:
    """Return the token of a file, None without a file.

    Raises:
        UserError: the file cannot be read, everybody may read it, or it contains no token.
    """
    if path is None:
        return None
    try:
        mode = path.stat().st_mode
        text = path.read_text("utf-8").strip()
    except OSError as error:
        # Without the path: somebody may have given the token itself.
        raise UserError(f"serve.token_file: its file cannot be read ({error.strerror}); {_HOW}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"serve.token_file {path}: is not UTF-8 text; {_HOW}") from error
    if mode & stat.S_IROTH:
        raise UserError(f"serve.token_file {path}: everybody on this machine may read it; chmod o-r {path}")
    if len(text) < MIN_TOKEN or not text.isascii() or not text.isprintable() or " " in text:
        raise UserError(
            f"serve.token_file {path}: must contain one token of at least {MIN_TOKEN} ASCII characters; {_HOW}"
        )
    return Token(text)


def tls_context(serve: ServeConfig) -> ssl.SSLContext | None:
    """Return the TLS settings of the service, None without a certificate.

    Raises:
        UserError: certificate or key cannot be read, or do not belong together.
    """
    if serve.tls_cert is None or serve.tls_key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(serve.tls_cert, serve.tls_key, password=_no_password)
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror if not isinstance(error, ssl.SSLError) else error.reason or "no PEM files"
        raise UserError(
            f"serve.tls_cert {serve.tls_cert}, serve.tls_key {serve.tls_key}: cannot be used ({reason}); name a "
            "certificate chain and its private key without a password, as PEM files"
        ) from error
    return context


def _no_password() -> str:
    """Refuse a key with a password, which would be asked for on the terminal."""
    return ""


BODIES = 8
"""Bodies of the largest size that fit into memory at once."""
MAX_HEAD = 32 << 10
"""Bytes of a request's line and headers."""
OPEN_PAGES = ("/healthz", "/readyz")
"""Pages that need no token: probes have none."""
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
HEADERS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
OTHER_ROUTE = "other"
"""Label of requests that took no route."""


GONE = 499
"""Status, in the metrics, of a request whose client has closed the connection before its body was there."""


class Gate:
    """The ASGI application around the routes. One event loop."""

    def __init__(self, router: Router, serve: ServeConfig, token: Token | None, metrics: ServeMetrics) -> None:
        """``router`` answers the requests that pass."""
        self._router = router
        self._serve = serve
        self._token = token
        self._metrics = metrics
        self._buffered = 0
        self._hosts = _hosts(serve.address)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        begun, status = time.perf_counter(), GONE
        if scope["method"] == "HEAD":  # uvicorn goes by its own scope, and sends no body
            scope = {**scope, "method": "GET"}
        try:
            with suppress(ClientDisconnect):
                response, is_read = await self._answer(scope, receive)
                status = response.status_code
                await self._send(response, send, receive=None if is_read else receive)
        finally:
            self._metrics.count_request(route_of(scope), status, time.perf_counter() - begun)

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[Response, bool]:
        """Return the answer, and whether the body of the request was read."""
        headers = Headers(scope=scope)
        is_read = not _has_body(headers)
        try:
            _check_head(scope, headers)
            self._check_client(scope, headers)
            body = await self._body(headers, receive)
            is_read = True
            try:
                return await self._router.answer(scope, body), True
            finally:
                self._buffered -= len(body)
        except ProblemError as problem:
            if not is_read:
                problem.headers["Connection"] = "close"  # else the rest of the body would be read, however long
            # What comes late is not waited for again; who asks whether to send the body (``Expect``) sends nothing.
            is_read |= problem.status == HTTPStatus.REQUEST_TIMEOUT or "expect" in headers
            return problem.response(), is_read
        except StreamDedupError as error:  # a store that cannot be read
            log.warning("a request cannot be answered: %s", error)
            return ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", FAILED).response(), True
        except ClientDisconnect:
            raise
        except Exception:
            log.exception("a request for %s failed", route_of(scope))
            return ProblemError(HTTPStatus.INTERNAL_SERVER_ERROR, "internal-error", FAILED).response(), True

    # 1

    def _check_client(self, scope: Scope, headers: Headers) -> None:
        if scope["path"] in OPEN_PAGES:
            return
        if self._token is None:
            _check_host(headers.get("host", ""), self._hosts)
        elif not self._token.allows(headers.get("authorization", "").encode("latin-1")):
            detail = "this service needs its token: Authorization: Bearer TOKEN, or as a password with any user name"
            wanted = 'Bearer realm="stream-dedup", Basic realm="stream-dedup", charset="UTF-8"'
            raise ProblemError(HTTPStatus.UNAUTHORIZED, "unauthorized", detail, {"WWW-Authenticate": wanted})

    # 2

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        """Read the body; its length counts as buffered until the request is answered."""
        declared = headers.get("content-length", "0")
        if not declared.isdecimal() or int(declared) > self._serve.max_body_bytes:
            raise self._too_large()
        if _has_body(headers):
            _check_coding(headers)
        body = bytearray()
        try:
            async with asyncio.timeout(self._serve.client_s):
                await self._receive(receive, body)
        except BaseException as error:
            self._buffered -= len(body)
            if not isinstance(error, TimeoutError):
                raise
            detail = f"the request was not complete within {self._serve.client_s:g} s"
            raise ProblemError(HTTPStatus.REQUEST_TIMEOUT, "timeout", detail) from None
        return bytes(body)

    async def _receive(self, receive: Receive, body: bytearray) -> None:
        """Append the body as it arrives."""
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            part = message.get("body", b"")
            body += part
            self._buffered += len(part)
            if len(body) > self._serve.max_body_bytes:
                raise self._too_large()
            if self._buffered > BODIES * self._serve.max_body_bytes:
                raise busy("too many large requests are under way")
            more = message.get("more_body", False)

    def _too_large(self) -> ProblemError:
        detail = f"a request may have {self._serve.max_body_bytes} bytes (serve.max_body_bytes)"
        return ProblemError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", detail)

    async def _send(self, response: Response, send: Send, receive: Receive | None) -> None:
        """Send an answer; with ``receive`` before the body was read: who still sends it would not get the answer."""
        names = {name for name, _ in response.raw_headers}
        headers = [*response.raw_headers, *(one for one in HEADERS if one[0] not in names)]
        body: Message = {"type": "http.response.body", "body": response.body}
        await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
        if receive is not None:
            await send({**body, "more_body": True})
            await self._read_on(receive)
            body["body"] = b""
        await send(body)

    async def _read_on(self, receive: Receive) -> None:
        """Read for no longer than a body that is taken may last, and no more of it."""
        left = self._serve.max_body_bytes
        with suppress(TimeoutError):
            async with asyncio.timeout(self._serve.client_s):
                while left > 0 and (part := await receive()).get("more_body", False):
                    left -= len(part["body"])


def route_of(scope: Scope) -> str:
    """Return the path of the route that a request took, as it is declared: a label that clients cannot multiply."""
    return str(scope.get("route", OTHER_ROUTE))


def _check_head(scope: Scope, headers: Headers) -> None:
    """Refuse a head that is too large; one that arrives in parts is refused before it is whole, by uvicorn.

    A body with a length and in chunks is refused, too: a proxy may take the other of the two for its end, and what
    follows for the request of somebody else (RFC 9112, 6.3).
    """
    if "transfer-encoding" in headers and "content-length" in headers:
        detail = "the request has a Content-Length and a Transfer-Encoding"
        raise ProblemError(HTTPStatus.BAD_REQUEST, "malformed-request", detail, {"Connection": "close"})
    size = len(scope["raw_path"]) + len(scope["query_string"])
    size += sum(len(name) + len(value) for name, value in scope["headers"])
    if size > MAX_HEAD:
        detail = f"the line and the headers of a request may have {MAX_HEAD} bytes"
        raise ProblemError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "head-too-large", detail)


def _has_body(headers: Headers) -> bool:
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def _check_coding(headers: Headers) -> None:
    codings = {one.strip().lower() for line in headers.getlist("content-encoding") for one in line.split(",")}
    if codings - {"", "identity"}:
        raise unsupported(
            "the body has a content coding (Content-Encoding); send it without one", {"Accept-Encoding": "identity"}
        )


def _hosts(address: str) -> Collection[str]:
    """Return the hosts by which a service without a token may be addressed."""
    return {*LOOPBACK_HOSTS, address.rpartition(":")[0].lower()}


def _check_host(host: str, hosts: Collection[str]) -> None:
    name = host.lower()
    before, _, port = name.rpartition(":")
    if name not in hosts and not (before in hosts and port.isdecimal()):
        detail = "without serve.token_file this service answers requests for a loopback address only"
        raise ProblemError(HTTPStatus.MISDIRECTED_REQUEST, "wrong-host", detail)


BACKLOG = 256
"""Connections that the kernel keeps until they are accepted."""
DRAIN_S = 5
"""Seconds that requests under way have when the service ends."""
ACCEPT_FAILED = "socket.accept() out of system resource"
"""What asyncio says of each connection that it cannot accept; it tries again after a second."""
ACCEPT_QUIET_S = 60
"""Seconds between two log lines about that."""


class HttpServer:
    """Serves an ASGI application until it is closed. ``url`` has the port that was bound."""

    def __init__(self, app: ASGIApp, serve: ServeConfig, context: ssl.SSLContext | None) -> None:
        """Bind the address and start to serve.

        Raises:
            UserError: the address cannot be bound.
        """
        remedy = "set another address with --address or serve.address (port 0: any free port)"
        self._socket = bound_socket("serve", serve.address, serve.client_s, remedy)
        host, port = self._socket.getsockname()[:2]
        self.port = int(port)
        scheme = "http" if context is None else "https"
        self.url = f"{scheme}://[{host}]:{self.port}" if ":" in host else f"{scheme}://{host}:{self.port}"
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",  # ``Gate`` logs what fails here; faults of clients are none of an operator's
            access_log=False,
            proxy_headers=False,
            server_header=False,
            h11_max_incomplete_event_size=MAX_HEAD,
            backlog=BACKLOG,
            timeout_keep_alive=max(1, int(serve.client_s)),
            timeout_graceful_shutdown=DRAIN_S,
            ssl_context_factory=None if context is None else lambda *_: context,
        )
        self._server = uvicorn.Server(config)
        self._failed_accept_s = -math.inf
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self.failure: BaseException | None = None
        self._thread.start()

    @property
    def connections(self) -> int:
        """Connections that are open, TLS handshakes aside."""
        return len(self._server.server_state.connections)

    def close(self) -> None:
        """Accept nothing more, finish the requests under way within ``DRAIN_S``, and release the port."""
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - the owner looks at it
            self.failure = error

    async def _serve(self) -> None:
        asyncio.get_running_loop().set_exception_handler(self._on_loop_error)
        await self._server.serve([self._socket])

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log an error that nobody awaits, unless a client caused it: faulty bytes in a request that is answered."""
        error = context.get("exception")
        if context["message"] == ACCEPT_FAILED:
            if loop.time() - self._failed_accept_s >= ACCEPT_QUIET_S:
                self._failed_accept_s = loop.time()
                log.error("connections cannot be accepted: %s; see ulimit -n", error)
        elif not isinstance(error, h11.ProtocolError):
            loop.default_exception_handler(context)
