"""The metrics server and clients that mean harm, over real sockets: it goes on, and so does the process."""

from __future__ import annotations

import logging
import os
import re
import select
import socket
import socketserver
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from stream_dedup.metrics.server import MAX_HEAD_BYTES, Faults, Limits, MetricsServer
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
WAIT_S = 20.0
"""For what takes a fraction of a second where the machine is not busy."""
USUAL = Limits(connections=3, request_s=WAIT_S)

Serve = Callable[..., MetricsServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Return a function that starts a server with these limits, and these collectors beside a counter."""
    with ExitStack() as stack:

        def start(limits: Limits = USUAL, *more: Collector, ready: Callable[[], bool] = lambda: True) -> MetricsServer:
            registry = CollectorRegistry()
            Counter("articles", "Articles.", registry=registry)
            for collector in more:
                registry.register(collector)
            checks = (lambda: (True, "well")), (lambda: (ready(), "ready"))
            return stack.enter_context(MetricsServer("127.0.0.1:0", registry, *checks, limits))

        yield start


def connected(server: MetricsServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=WAIT_S)


def ask(server: MetricsServer, request: bytes) -> bytes:
    """All that the server answers until it closes the connection; what a reset leaves of it."""
    answer = b""
    with closing(connected(server)) as connection:
        try:
            connection.sendall(request)
            while part := connection.recv(65_536):
                answer += part
        except ConnectionError:
            return answer
    return answer


def serves(server: MetricsServer) -> bool:
    return ask(server, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").endswith(b"\r\n\r\nwell\n")


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Kinds of faults logged, in order, without their details."""
    found = (record.getMessage() for record in caplog.records if record.levelno >= logging.INFO)
    return [line.split(": ")[1] for line in found]


@pytest.mark.expect_log("too many connections")
def test_one_connection_more_than_the_limit_is_closed_at_once(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """Each of them, with one line for all; when the others have gone it is served again."""
    server = serve(Limits(connections=2, request_s=WAIT_S))
    with closing(connected(server)), closing(connected(server)):
        for _ in range(5):
            with closing(connected(server)) as refused:
                assert refused.recv(1) == b""
    wait_until(lambda: serves(server), WAIT_S, "the connections have ended")
    assert lines(caplog).count("too many connections") == 1


def test_a_request_has_a_limit_of_time_in_all(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """A client that sends a byte every now and then is hung up on, however patiently it goes on."""
    caplog.set_level(logging.INFO)
    server = serve(Limits(connections=3, request_s=0.3))
    with closing(connected(server)) as slow:
        slow.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        slow.settimeout(0.05)
        assert drip(slow, time.monotonic() + WAIT_S)
    wait_until(lambda: serves(server), WAIT_S, "others are answered")
    assert lines(caplog) == ["slow request"]


def drip(connection: socket.socket, until: float) -> bool:
    """Send a byte whenever nothing comes; whether the server ends the connection in time."""
    while time.monotonic() < until:
        try:
            if connection.recv(1) == b"":
                return True
        except TimeoutError:
            connection.send(b"x")
        except ConnectionError:
            return True
    return False


class Large(Collector):
    """Metrics of several megabytes: more than fits into the buffers of a connection."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily("large", "x" * (8 << 20), value=1)


@pytest.mark.expect_log("too many connections")
def test_an_answer_that_is_not_read_ends(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """The time holds for the answer too: the client's address is free again."""
    caplog.set_level(logging.INFO)
    server = serve(Limits(connections=1, request_s=0.3), Large())
    with closing(connected(server)) as deaf:
        deaf.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert select.select([deaf], [], [], WAIT_S)[0]
        wait_until(lambda: "slow request" in lines(caplog), WAIT_S, "it is hung up on")
        wait_until(lambda: serves(server), WAIT_S, "its address is free")
    assert set(lines(caplog)) <= {"slow request", "too many connections"}


def test_a_connection_carries_one_request(serve: Serve) -> None:
    """Whatever it asks for: a client cannot keep a thread by asking again."""
    request = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n"
    assert ask(serve(), request * 3).count(b"well") <= 1
    assert ask(serve(), request).count(b"well") == 1


MALFORMED = [
    pytest.param(b"\x00\xff\r\n\r\n", b"400", id="bytes"),
    pytest.param(b"GET\r\n\r\n", b"400", id="one word"),
    pytest.param(b"GET /metrics HTTP/9.9\r\n\r\n", b"505", id="version"),
    pytest.param(b"GET /metrics HTTP/x\r\n\r\n", b"400", id="no version"),
    pytest.param(b"POST /metrics HTTP/1.1\r\n\r\n", b"405", id="method"),
    pytest.param(b"POST / HTTP/1.1\r\n\r\n", b"404", id="method of no page"),
    pytest.param(b"\x1b]0;x\x07 /metrics HTTP/1.1\r\n\r\n", b"405", id="escape"),
    pytest.param(b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", b"414", id="long line"),
    pytest.param(b"GET /metrics HTTP/1.1\r\n" + b"a: b\r\n" * 101 + b"\r\n", b"431", id="many headers"),
    pytest.param(b"GET /metrics HTTP/1.1\r\n" + (b"a: " + b"b" * 9000 + b"\r\n") * 20, b"431", id="large headers"),
]


@pytest.mark.parametrize(("request_", "status"), MALFORMED)
def test_a_malformed_request_is_a_line_in_the_log(
    request_: bytes, status: bytes, serve: Serve, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Answered as HTTP has it (or reset, where more was sent than is read), never a traceback."""
    caplog.set_level(logging.INFO)
    server = serve()
    for _ in range(3):
        assert re.match(rb"HTTP/1.0 " + status + rb" |<!DOCTYPE|$", ask(server, request_))
    assert serves(server)
    assert lines(caplog) == ["malformed request"]
    assert max(len(record.getMessage()) for record in caplog.records) < 300
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "accept",
    [
        b"application/openmetrics-text;version=x",
        b"application/openmetrics-text;version=\xff",
        b"text/plain;version=.;q",
        b"application/openmetrics-text;version=1.0.0.\r\n Evil: yes",
        b"a;q=," * 12_000,
        b",;=,;=",
    ],
)
def test_any_accept_header_is_answered(
    accept: bytes, serve: Serve, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """With the metrics; nothing of it becomes a header of the answer."""
    caplog.set_level(logging.INFO)
    answer = ask(serve(), b"GET /metrics HTTP/1.1\r\nAccept: " + accept + b"\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 200 ")
    assert b"articles_total 0.0" in body
    assert not re.search(rb"^\s*Evil", head, re.MULTILINE)
    assert (lines(caplog), capfd.readouterr().err) == ([], "")


@pytest.mark.parametrize("request_", [b"", b"GET /metr", b"GET /metrics HTTP/1.1\r\n\r\n" * 200])
def test_a_reset_is_one_line_at_most(
    request_: bytes, serve: Serve, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Wherever it comes; never a traceback."""
    caplog.set_level(logging.INFO)
    server = serve(Limits(connections=64), Large())
    for _ in range(5):
        with closing(connected(server)) as connection:
            connection.sendall(request_)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wait_until(lambda: serves(server) and not server._server._open, WAIT_S, "all have ended")
    assert lines(caplog) in ([], ["broken connection"])
    assert capfd.readouterr().err == ""


PAGES = ("/metrics", "/healthz", "/readyz", "/nothing")


@pytest.mark.parametrize("path", PAGES)
def test_head_is_answered_as_get_without_the_body(serve: Serve, path: str) -> None:
    """Status and headers are the same, the length included."""
    server = serve(USUAL, ready=lambda: False)
    got, _, body = ask(server, f"GET {path} HTTP/1.1\r\n\r\n".encode()).partition(b"\r\n\r\n")
    head, _, nothing = ask(server, f"HEAD {path} HTTP/1.1\r\n\r\n".encode()).partition(b"\r\n\r\n")
    assert (without_date(head), nothing) == (without_date(got), b"")
    assert f"Content-Length: {len(body)}".encode() in head.split(b"\r\n")


def without_date(head: bytes) -> list[bytes]:
    return [line for line in head.split(b"\r\n") if not line.startswith(b"Date:")]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_another_method_is_answered_with_those_that_there_are(serve: Serve, method: str) -> None:
    """405 with Allow, which RFC 9110 demands."""
    answer = ask(serve(), f"{method} /healthz HTTP/1.1\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.0 405 ")
    assert b"\r\nAllow: GET, HEAD\r\n" in answer


class Failing(Collector):
    """A collector that fails when it is asked."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        raise ZeroDivisionError("no")  # noqa: EM101 - any error


@pytest.mark.expect_log("/metrics failed: ZeroDivisionError", "/readyz failed: ZeroDivisionError")
def test_a_page_that_fails_is_answered_500(
    serve: Serve, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """The log says why, once; the other pages go on."""
    server = serve(USUAL, Failing(), ready=lambda: bool(1 // 0))
    for _ in range(3):
        for page in (b"metrics", b"readyz"):
            assert ask(server, b"GET /" + page + b" HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.0 500 ")
    assert serves(server)
    assert lines(caplog) == ["/metrics failed", "/readyz failed"]
    assert capfd.readouterr().err == ""


@pytest.mark.expect_log("accept failed: Too many open files")
def test_a_connection_that_cannot_be_taken_is_tried_again(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not at once, which would take a whole core: after a pause, in which the server can still be closed."""
    taken = socketserver.TCPServer.get_request
    tries: list[float] = []

    def get_request(server: socketserver.TCPServer) -> tuple[socket.socket, object]:
        tries.append(time.monotonic())
        if len(tries) < 3:
            raise OSError(24, os.strerror(24))
        return taken(server)

    monkeypatch.setattr(socketserver.TCPServer, "get_request", get_request)
    assert serves(serve(Limits()))
    assert tries[2] - tries[0] > 0.9
    assert lines(caplog) == ["accept failed"]


def test_a_closed_server_hangs_up(serve: Serve) -> None:
    """A worker's end does not wait for its clients, and they do not wait for it."""
    server = serve(Limits(request_s=3600))
    with closing(connected(server)) as idle:
        wait_until(lambda: bool(server._server._open), WAIT_S, "the connection is taken")
        server.close()
        assert idle.recv(1) == b""


def test_faults_of_one_kind_are_one_line_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    """With the number of those that were not logged; other kinds are not held back."""
    caplog.set_level(logging.INFO)
    now = 0.0
    faults = Faults(60, lambda: now)
    for number in range(5):
        faults.note("slow", number)
    faults.note("broken", "x")
    now = 60.0
    faults.note("slow", 5)
    assert [record.getMessage().removeprefix("metrics server: ") for record in caplog.records] == [
        "slow: 0",
        "broken: x",
        "slow: 5 (4 more since the last such line)",
    ]


SERVER = """\
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from prometheus_client import CollectorRegistry
from stream_dedup.metrics.server import MetricsServer
with MetricsServer("127.0.0.1:0", CollectorRegistry(), lambda: (True, ""), lambda: (True, "")) as server:
    print(server.port, flush=True)
    for _ in sys.stdin:
        with open("/dev/null"):
            print("opened", flush=True)
"""


def test_clients_cannot_take_the_processes_file_descriptors() -> None:
    """With 64 of them and 200 clients that send half a request, the process still opens files."""
    command = [sys.executable, "-P", "-c", SERVER]
    with (
        subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process,
        ExitStack() as stack,
    ):
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stderr is not None
        port = int(process.stdout.readline())
        for _ in range(200):
            client = stack.enter_context(closing(socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)))
            client.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        for _ in range(3):
            print("open", file=process.stdin, flush=True)
            assert process.stdout.readline() == "opened\n"
        process.stdin.close()
        assert process.wait(WAIT_S) == 0
        assert process.stderr.read().count("\n") == 1  # "too many connections", once


def test_the_longest_line_is_within_the_limit(serve: Serve) -> None:
    """A path of 60,000 bytes is answered, as before: 404."""
    assert MAX_HEAD_BYTES > 65_536
    assert ask(serve(), b"GET /" + b"a" * 60_000 + b" HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.0 404 ")
