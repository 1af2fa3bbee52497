"""The metrics server and clients that mean harm, over real sockets: it goes on, and so does the process."""

from __future__ import annotations

import logging
import re
import socket
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

from stream_dedup.metrics import server as module
from stream_dedup.metrics.server import CONNECTIONS, MAX_HEAD_BYTES, MetricsServer
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
WAIT_S = 20.0
"""For what takes a fraction of a second where the machine is not busy."""

Serve = Callable[..., MetricsServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Return a function that starts a server with these collectors beside a counter."""
    with ExitStack() as stack:

        def start(*more: Collector, ready: Callable[[], bool] = lambda: True) -> MetricsServer:
            registry = CollectorRegistry()
            Counter("articles", "Articles.", registry=registry)
            for collector in more:
                registry.register(collector)
            checks = (lambda: (True, "well")), (lambda: (ready(), "ready"))
            return stack.enter_context(MetricsServer("127.0.0.1:0", registry, *checks))

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


def get(page: str, method: str = "GET", more: bytes = b"") -> bytes:
    return f"{method} {page} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n".encode() + more + b"\r\n"


def serves(server: MetricsServer) -> bool:
    return ask(server, get("/healthz")).endswith(b"\r\n\r\nwell\n")


@pytest.mark.expect_log("total open connections reached the connection limit")
def test_connections_have_a_limit(serve: Serve) -> None:
    """A further one waits until another one ends."""
    server = serve()
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            taken = stack.enter_context(closing(connected(server)))
            taken.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert taken.recv(1000).startswith(b"HTTP/1.1 200 ")
        waiting = stack.enter_context(closing(connected(server)))
        waiting.sendall(get("/healthz"))
        waiting.settimeout(0.3)
        with pytest.raises(TimeoutError):
            waiting.recv(1000)
        waiting.settimeout(WAIT_S)
        taken.close()
        assert waiting.recv(1000).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("sent", [b"", b"GET /metrics HTTP/1.1\r\nX: ", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"])
def test_an_idle_connection_is_closed(serve: Serve, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    """Before a request, within one, and after an answer."""
    monkeypatch.setattr(module, "IDLE_S", 1)
    began = time.monotonic()
    answer = ask(serve(), sent)
    assert answer.startswith(b"HTTP/1.1 200 ") or not answer
    assert time.monotonic() - began > 0.9


class Large(Collector):
    """Metrics of several megabytes: more than fits into the buffers of a connection."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily("large", "x" * (8 << 20), value=1)


def test_answers_that_are_not_read_hold_up_nobody(serve: Serve) -> None:
    """Of more clients than there are threads."""
    server = serve(Large())
    with ExitStack() as stack:
        for _ in range(5):
            deaf = stack.enter_context(closing(connected(server)))
            deaf.sendall(get("/metrics"))
        assert serves(server)


MALFORMED = [
    pytest.param(b"\x00\xff\r\n\r\n", b"400", id="bytes"),
    pytest.param(b"GET\r\n\r\n", b"400", id="one word"),
    pytest.param(get("/metrics", "POST"), b"405", id="method"),
    pytest.param(get("/", "POST"), b"404", id="method of no page"),
    pytest.param(get("/metrics", "POST", b"Content-Length: 5\r\n"), b"413", id="body"),
    pytest.param(b"\x1b]0;x\x07 /metrics HTTP/1.1\r\n\r\n", b"400", id="escape"),
    pytest.param(get("/" + "a" * MAX_HEAD_BYTES), b"431", id="long line"),
    pytest.param(get("/metrics", "GET", (b"a: " + b"b" * 9000 + b"\r\n") * 20), b"431", id="large headers"),
]


@pytest.mark.parametrize(("request_", "status"), MALFORMED)
def test_a_malformed_request_is_refused(
    request_: bytes, status: bytes, serve: Serve, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """As HTTP has it (or the connection is reset, where more was sent than is read), and nothing is logged."""
    server = serve()
    for _ in range(3):
        assert re.match(rb"HTTP/1\.. " + status + rb" |$", ask(server, request_))
    assert serves(server)
    assert (caplog.records, capfd.readouterr().err) == ([], "")


@pytest.mark.parametrize(
    "accept",
    [
        b"application/openmetrics-text;version=x",
        b"application/openmetrics-text;version=\xff",
        b"text/plain;version=.;q",
        b"application/openmetrics-text;version=1.0.0.\t Evil: yes",
        b"a;q=," * 12_000,
        b",;=,;=",
    ],
)
def test_any_accept_header_is_answered(
    accept: bytes, serve: Serve, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """With the metrics; nothing of it becomes a header of the answer."""
    head, _, body = ask(serve(), get("/metrics", "GET", b"Accept: " + accept + b"\r\n")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert b"articles_total 0.0" in body
    assert not re.search(rb"^\s*Evil", head, re.MULTILINE)
    assert (caplog.records, capfd.readouterr().err) == ([], "")


@pytest.mark.parametrize("request_", [b"", b"GET /metr", b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 200])
def test_a_reset_is_nothing_to_log(
    request_: bytes, serve: Serve, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Wherever it comes."""
    server = serve(Large())
    for _ in range(5):
        with closing(connected(server)) as connection:
            connection.sendall(request_)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wait_until(lambda: serves(server) and not server._server.active_channels, WAIT_S, "all have ended")
    assert (caplog.records, capfd.readouterr().err) == ([], "")


PAGES = ("/metrics", "/healthz", "/readyz", "/nothing")


@pytest.mark.parametrize("path", PAGES)
def test_head_is_answered_as_get_without_the_body(serve: Serve, path: str) -> None:
    """Status and headers are the same, the length included."""
    server = serve(ready=lambda: False)
    got, _, body = ask(server, get(path)).partition(b"\r\n\r\n")
    head, _, nothing = ask(server, get(path, "HEAD")).partition(b"\r\n\r\n")
    assert (without_date(head), nothing) == (without_date(got), b"")
    assert f"Content-Length: {len(body)}".encode() in head.split(b"\r\n")


def without_date(head: bytes) -> list[bytes]:
    return [line for line in head.split(b"\r\n") if not line.startswith(b"Date:")]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_another_method_is_answered_with_those_that_there_are(serve: Serve, method: str) -> None:
    """405 with Allow, which RFC 9110 demands."""
    answer = ask(serve(), get("/healthz", method))
    assert answer.startswith(b"HTTP/1.1 405 ")
    assert b"\r\nAllow: GET, HEAD\r\n" in answer


class Failing(Collector):
    """A collector that fails when it is asked."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        raise ZeroDivisionError("no")  # noqa: EM101 - any error


@pytest.mark.expect_log("Exception while serving /metrics", "Exception while serving /readyz")
def test_a_page_that_fails_is_answered_500(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """The log says why; the other pages go on."""
    server = serve(Failing(), ready=lambda: bool(1 // 0))
    for page in ("/metrics", "/readyz"):
        answer = ask(server, get(page))
        assert answer.startswith(b"HTTP/1.1 500 ")
        assert b"ZeroDivisionError" not in answer
    assert serves(server)
    assert "ZeroDivisionError" in caplog.text


def test_a_closed_server_hangs_up(serve: Serve) -> None:
    """A worker's end does not wait for its clients, and they do not wait for it."""
    server = serve()
    with closing(connected(server)) as idle:
        wait_until(lambda: bool(server._server.active_channels), WAIT_S, "the connection is taken")
        server.close()
        assert idle.recv(1) == b""


def test_requests_that_wait_for_a_thread_are_not_logged() -> None:
    """Waitress warns of each of them."""
    assert not logging.getLogger("waitress.queue").isEnabledFor(logging.WARNING)


SERVER = """\
import resource, sys
files = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
from prometheus_client import CollectorRegistry
from stream_dedup.metrics.server import MetricsServer
held = [open("/dev/null") for _ in range(int(sys.argv[2]))]
with MetricsServer("127.0.0.1:0", CollectorRegistry(), lambda: (True, ""), lambda: (True, "")) as server:
    print(server.port, flush=True)
    for _ in sys.stdin:
        with open("/dev/null"):
            print("opened", flush=True)
"""


def started(stack: ExitStack, files: int, held: int) -> tuple[subprocess.Popen[str], int]:
    """A server in a process that may have so many files and has opened some; its port."""
    command = [sys.executable, "-P", "-c", SERVER, str(files), str(held)]
    pipe = subprocess.PIPE
    process = stack.enter_context(subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True))
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def end(process: subprocess.Popen[str]) -> str:
    """What a process said that ended well."""
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.close()
    assert process.wait(WAIT_S) == 0
    return process.stderr.read()


def test_clients_cannot_take_the_processes_file_descriptors() -> None:
    """With 64 of them and 200 clients that send half a request, the process still opens files."""
    with ExitStack() as stack:
        process, port = started(stack, 64, 0)
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(200):
            client = stack.enter_context(closing(socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)))
            client.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        for _ in range(3):
            print("open", file=process.stdin, flush=True)
            assert process.stdout.readline() == "opened\n"
        assert end(process).count("\n") == 1  # the limit, once


def test_a_process_with_many_files_is_served() -> None:
    """select() takes no file descriptor beyond 1,023."""
    with ExitStack() as stack:
        process, port = started(stack, 2_048, 1_200)
        with closing(socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)) as client:
            client.sendall(get("/healthz"))
            assert client.recv(1000).startswith(b"HTTP/1.1 200 ")
        assert end(process) == ""
