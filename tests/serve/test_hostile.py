"""What hostile clients try, and what they are answered; afterwards the service answers as before.

Each test has its own claim; the tables name what is sent. An answer is a problem, or the connection is closed.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from tests.serve.served import BODY, CLIENT_S, CUT_S, HOST, MARKUP, MemoryService, assert_answers, limited_service
from tests.waiting import wait_until

PROBLEM = "application/problem+json"
NO_HTTP = b"Invalid HTTP request received."
SENT_WHOLE = 100_000
"""Bytes that a socket takes at once: a client that still sends more may lose the answer when the server closes."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryService]:
    """A service with small limits, whose log has an article full of markup."""
    with limited_service(tmp_path_factory.mktemp("hostile")) as made:
        yield made


@pytest.fixture(autouse=True)
def answers_afterwards(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test the service answers a new client."""
    yield
    if "service" in request.fixturenames:
        assert_answers(request.getfixturevalue("service"))


def everything(connection: socket.socket) -> bytes:
    """All that the server sends before it closes the connection."""
    parts = []
    with connection, suppress(ConnectionError):
        while part := connection.recv(65_536):
            parts.append(part)
    return b"".join(parts)


def raw(service: MemoryService, sent: bytes, method: str = "GET") -> tuple[int, str, bytes]:
    """Status, type and body of the first answer to these bytes; status 0 if there is none."""
    with service.connect() as connection, closing(HTTPResponse(connection, method=method)) as answer:
        with suppress(OSError):  # the server has closed it before everything was sent
            connection.sendall(sent)
        try:
            answer.begin()
            return answer.status, answer.headers.get_content_type(), answer.read()
        except (HTTPException, ConnectionError):
            return 0, "", b""


JSON_TYPE = b"Content-Type: application/json\r\n"
MALFORMED: dict[str, tuple[bytes, int]] = {
    "a TLS hello": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64) + b"\r\n\r\n", 400),
    "no HTTP": (b"hello there\r\n\r\n", 400),
    "HTTP/0.9": (b"GET /healthz\r\n\r\n", 400),
    "no Host": (b"GET /healthz HTTP/1.1\r\n\r\n", 400),
    "two hosts": (b"GET /v1/status HTTP/1.1\r\n" + HOST + b"Host: evil.example\r\n\r\n", 400),
    "a head of 40 KiB": (b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 40_960 + b"\r\n\r\n", 431),
    "a head of 400 KiB": (b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 409_600 + b"\r\n\r\n", 400),
    "a target of 40 KiB": (b"GET /" + b"a" * 40_960 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 431),
    "a zero byte in a header": (b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: a\x00b\r\n\r\n", 400),
    "a folded header name": (b"GET /healthz HTTP/1.1\r\n" + HOST + b"X y: z\r\n\r\n", 400),
    "two lengths": (
        b"POST /v1/check HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        400,
    ),
    "a length and chunks": (
        b"POST /v1/check HTTP/1.1\r\n" + HOST + JSON_TYPE + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
        b'c\r\n{"text":"a"}\r\n0\r\n\r\n',
        400,
    ),
    "a negative length": (b"POST /v1/check HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n", 400),
    "a length that is no number": (b"POST /v1/check HTTP/1.1\r\n" + HOST + b"Content-Length: 0x10\r\n\r\n", 400),
    "a length of 31 digits": (
        b"POST /v1/check HTTP/1.1\r\n" + HOST + b"Content-Length: 1" + b"0" * 30 + b"\r\n\r\n",
        400,
    ),
    "a length beyond the limit": (b"POST /v1/check HTTP/1.1\r\n" + HOST + b"Content-Length: 999999999\r\n\r\n", 413),
    "an unknown encoding": (b"POST /v1/check HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: brotli\r\n\r\n", 400),
    "a chunk without a size": (
        b"POST /v1/check HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
        400,
    ),
    "an unknown method": (b"BREW /v1/check HTTP/1.1\r\n" + HOST + b"\r\n", 405),
    "another method": (b"DELETE /v1/check HTTP/1.1\r\n" + HOST + b"\r\n", 405),
    "TRACE": (b"TRACE /v1/status HTTP/1.1\r\n" + HOST + b"\r\n", 405),
    "an upgrade": (
        b"GET /v1/verdicts2 HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        404,
    ),
    "a form": (
        b"POST /v1/check HTTP/1.1\r\n" + HOST + b'Content-Type: text/plain\r\nContent-Length: 12\r\n\r\n{"text":"a"}',
        415,
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_request_is_refused(service: MemoryService, name: str) -> None:
    """With a problem; by the HTTP server where it is no HTTP; or by the end of the connection."""
    sent, expected = MALFORMED[name]
    status, kind, body = raw(service, sent)
    is_cut = len(sent) > SENT_WHOLE and not status
    assert is_cut or status == expected, body
    if status and body != NO_HTTP:
        assert kind == PROBLEM
        assert json.loads(body)["status"] == status


TEXT = b'{"text":"a"}'
UNUSUAL: dict[str, tuple[bytes, int]] = {
    "an upgrade with a body": (
        b"HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n"
        + HOST
        + JSON_TYPE
        + b"Content-Length: 12\r\n\r\n"
        + TEXT,
        200,
    ),
    "chunks": (
        b"HTTP/1.1\r\n" + HOST + JSON_TYPE + b"Transfer-Encoding: chunked\r\n\r\nc\r\n" + TEXT + b"\r\n0\r\n\r\n",
        200,
    ),
    "chunks with a coding": (
        b"HTTP/1.1\r\n" + HOST + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        415,
    ),
    "HTTP/1.0": (b"HTTP/1.0\r\n" + HOST + JSON_TYPE + b"Content-Length: 12\r\n\r\n" + TEXT, 200),
    "HTTP/1.0 without a length": (b"HTTP/1.0\r\n" + HOST + JSON_TYPE + b"\r\n" + TEXT, 422),
    "two types": (b"HTTP/1.1\r\n" + HOST + JSON_TYPE * 2 + b"Content-Length: 12\r\n\r\n" + TEXT, 415),
    "two codings": (
        b"HTTP/1.1\r\n" + HOST + b"Content-Encoding: identity\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\n1",
        415,
    ),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_a_body_is_framed_as_http_has_it(service: MemoryService, name: str) -> None:
    """In chunks, by a length, or by a client of HTTP/1.0."""
    sent, expected = UNUSUAL[name]
    status, _, body = raw(service, b"POST /v1/check " + sent)
    assert status == expected, body


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (b"Content-Length: 12\r\n", b"HTTP/1.1 100 "),
        (b"Content-Length: 12\r\nContent-Encoding: gzip\r\n", b"HTTP/1.1 415 "),
        (b"Content-Length: 99999999\r\n", b"HTTP/1.1 413 "),
    ],
)
def test_a_client_that_waits_is_told_to_go_on_or_not(service: MemoryService, more: bytes, expected: bytes) -> None:
    """Expect: 100-continue. Where the answer comes before the body, the connection ends with it."""
    with closing(service.connect()) as connection:
        connection.sendall(
            b"POST /v1/check HTTP/1.1\r\n" + HOST + JSON_TYPE + b"Expect: 100-continue\r\n" + more + b"\r\n"
        )
        got = connection.recv(4096)
        assert got.startswith(expected)
        if b" 100 " in expected:
            connection.sendall(TEXT)
            assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
        else:
            assert b"\r\nconnection: close\r\n" in got.lower()


def test_faulty_bytes_behind_an_answer_end_the_connection(service: MemoryService) -> None:
    """An answer without a body, or one that has begun, cannot become another one; the log is silent about it."""
    for method, body in ((b"HEAD", b"zz\r\n"), (b"POST", b"2000\r\n" + b"a" * 8192 + b"\r\n" + b"x" * 9)):
        with service.connect() as connection:
            connection.sendall(method + b" /v1/none HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + body)
            assert everything(connection).count(b"HTTP/1.1") <= 1


PATHS = (
    "/../../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/..%2f..%2fetc%2fpasswd",
    "//etc/passwd",
    "/v1/../../etc/passwd",
    "/v1/check/",
    "/v1%2fcheck%00",
    "/v1/clusters/../status",
    "/v1/clusters/%3Cscript%3Ealert(1)%3C/script%3E",
    "/v1/articles/..%2f..%2fetc%2fpasswd",
    "/v1/articles/%F0%9F%98%80%00%0d%0aX-Injected:%201",
    "/docs",
    "/redoc",
    "/openapi.json",
    "/v1/openapi_json",
    "/static/../app.py",
    "/.git/config",
)


@pytest.mark.parametrize("path", PATHS)
def test_a_tricky_path_is_not_found(service: MemoryService, path: str) -> None:
    """It names no file, and the answer does not repeat it."""
    answer = service.call("GET", path)
    assert (answer.status, answer.headers["content-type"]) == (404, PROBLEM)
    assert "x-injected" not in answer.headers
    assert all(part not in answer.body.decode() for part in ("passwd", "script", "app.py", ".git"))


def test_paths_do_not_become_labels_of_metrics(service: MemoryService) -> None:
    """A client that asks for a thousand paths makes no thousand series."""
    for number in range(30):
        service.call("GET", f"/secret-{number}")
        service.call("GET", f"/v1/articles/secret-{number}")
    metrics = service.call("GET", "/metrics").body.decode()
    assert "secret" not in metrics
    assert 'route="other",status="404"' in metrics
    assert 'route="/v1/articles/{article_id:any_text}",status="404"' in metrics


def test_markup_is_data(service: MemoryService) -> None:
    """Ids and texts with scripts are JSON that no browser takes for a page, and scripts may not run anyhow."""
    answer = service.call("POST", "/v1/check", {"text": MARKUP})
    assert answer.json["results"][0]["match"]["id"] == MARKUP
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil", "localhost:80@evil"]
)
def test_a_page_of_a_stranger_is_refused(service: MemoryService, host: str) -> None:
    """DNS rebinding: its browser names the stranger's host, though it reaches this one."""
    answer = service.call("POST", "/v1/check", {"text": "a"}, {"Host": host})
    assert (answer.status, answer.json["type"]) == (421, "urn:stream-dedup:problem:wrong-host")
    assert "evil" not in answer.body.decode()


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:80"])
def test_loopback_hosts_are_answered(service: MemoryService, host: str) -> None:
    """Whatever the port is."""
    assert service.call("GET", "/v1/openapi.json", headers={"Host": host}).status == 200


# Oversized.


def test_a_body_beyond_the_limit_is_refused_before_it_is_sent(service: MemoryService) -> None:
    """The announced length is enough: nothing of the body is waited for."""
    connection = service.connect()
    connection.sendall(b"POST /v1/check HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % (BODY + 1))
    assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")
    connection.close()


def test_a_body_at_the_limit_is_read(service: MemoryService) -> None:
    """The limit is the largest body that is allowed."""
    fill = json.dumps({"text": ""}).encode()
    text = "a" * (BODY - len(fill))
    answer = service.call("POST", "/v1/check", {"text": text})
    assert (answer.status, answer.json["results"][0]["verdict"]) == (200, "unique")
    assert service.call("POST", "/v1/check", {"text": text + "a"}).status == 413


def test_an_endless_body_is_refused_at_the_limit(service: MemoryService) -> None:
    """Sent in chunks without an end: the answer comes at the limit, and the connection ends soon afterwards."""
    chunk = b"1000\r\n" + b"a" * 4096 + b"\r\n"
    connection = service.connect()
    connection.sendall(b"POST /v1/check HTTP/1.1\r\n" + HOST + JSON_TYPE + b"Transfer-Encoding: chunked\r\n\r\n")
    for _ in range(BODY // 4096 + 1):
        connection.sendall(chunk)
    assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")
    began = time.monotonic()
    with closing(connection), pytest.raises(ConnectionError):  # noqa: PT012 - until the server closes
        while time.monotonic() - began < CUT_S:
            connection.sendall(chunk)


@pytest.mark.parametrize(
    ("host", "status"), [(HOST, b"413"), (b"Host: evil\r\n", b"421")], ids=["too long", "another host"]
)
def test_a_refused_body_is_not_read_for_ever(service: MemoryService, host: bytes, status: bytes) -> None:
    """The answer comes at once; what the client sends on is read for as long as a body that is taken, at most."""
    connection = service.connect()
    connection.sendall(b"POST /v1/check HTTP/1.1\r\n" + host + b"Content-Length: %d\r\n\r\n" % 10**12)
    assert connection.recv(1000).startswith(b"HTTP/1.1 " + status)
    began = time.monotonic()
    with closing(connection), pytest.raises(ConnectionError):  # noqa: PT012 - until the server closes
        while time.monotonic() - began < CUT_S:
            connection.sendall(b"x" * 4096)


def test_deep_nesting_is_refused(service: MemoryService) -> None:
    """Nobody's stack is used up."""
    answer = service.call("POST", "/v1/check", b'{"articles":' * 5000 + b"1" + b"}" * 5000)
    assert (answer.status, answer.json["errors"][0]["detail"]) == (
        422,
        "JSON nested deeper than the fixed limit of 512",
    )


def test_a_number_without_an_end_is_refused(service: MemoryService) -> None:
    """Python would take quadratic time for its digits."""
    began = time.process_time()
    assert service.call("POST", "/v1/check", b'{"text": "a", "top": %s}' % (b"9" * 60_000)).status == 422
    assert time.process_time() - began < 2


# Slow.


def test_an_idle_connection_is_closed(service: MemoryService) -> None:
    """After its first answer, where no further request comes."""
    began = time.monotonic()
    connection = service.connect()
    connection.sendall(b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
    assert everything(connection).startswith(b"HTTP/1.1 200")
    assert CLIENT_S * 0.9 < time.monotonic() - began < CUT_S


def test_a_body_that_trickles_in_is_cut_off(service: MemoryService) -> None:
    """The answer is 408, and the connection is closed."""
    connection = service.connect()
    connection.sendall(b"POST /v1/check HTTP/1.1\r\n" + HOST + JSON_TYPE + b"Content-Length: 1000\r\n\r\n{")
    got = everything(connection)
    assert got.startswith(b"HTTP/1.1 408 ")
    assert b'"type":"urn:stream-dedup:problem:timeout"' in got


def test_a_client_that_does_not_read_is_cut_off(service: MemoryService) -> None:
    """It sends requests and takes no answer: its connection does not stay open."""
    assert service.running is not None
    server = service.running._server
    before = server.connections
    with closing(service.connect()) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(0.2)
        request = b"GET /v1/openapi.json HTTP/1.1\r\n" + HOST + b"\r\n"
        with suppress(TimeoutError, ConnectionError):
            for _ in range(2000):
                connection.sendall(request)
        wait_until(lambda: server.connections <= before, CUT_S, "the connection is closed")


@pytest.mark.expect_log("a request for /v1/check failed")
def test_an_error_of_the_service_is_a_problem(service: MemoryService, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug is answered without its words; the log of the service has them."""
    assert service.running is not None

    def fail(*_: object) -> None:
        raise RuntimeError("secret words")

    monkeypatch.setattr("stream_dedup.serve.checking._check_values", fail)
    answer = service.call("POST", "/v1/check", {"text": "a"})
    assert (answer.status, answer.headers["content-type"]) == (500, PROBLEM)
    assert "secret" not in answer.body.decode()


def test_a_service_that_ends_refuses_what_waits(tmp_path: Path) -> None:
    """A request under way gets an answer, and the port is free afterwards."""
    made = MemoryService(tmp_path)
    answers: list[Any] = []
    with made.serve(until_ready=False):
        port = made.port
        answers.append(made.call("POST", "/v1/check", {"text": "a"}).status)
    assert answers == [503]
    with socket.socket() as free, pytest.raises(ConnectionError):
        free.connect(("127.0.0.1", port))
