"""The metrics server and clients that mean harm, over real sockets: it goes on, and so does the process."""

from __future__ import annotations

import errno
import logging
import re
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from stream_dedup.metrics import server as server_module
from stream_dedup.metrics.server import MetricsServer
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
WAIT_S = 20.0
"""For what takes a fraction of a second where the machine is not busy."""

Serve = Callable[..., MetricsServer]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Return a function that starts a server with few and short connections, and these collectors beside a counter."""
    monkeypatch.setattr(server_module, "CONNECTIONS", 3)
    monkeypatch.setattr(server_module, "IDLE_S", 1)
    monkeypatch.setattr(server_module, "CLEANUP_S", 1)
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


def serves(server: MetricsServer) -> bool:
    return ask(server, b"GET /healthz HTTP/1.0\r\n\r\n").endswith(b"\r\n\r\nwell\n")


@pytest.mark.expect_log("reached the connection limit")
@pytest.mark.parametrize("sent", [b"", b"GET /metrics HTTP/1.1\r\nX: "])
def test_idle_connections_are_closed_for_others(serve: Serve, sent: bytes) -> None:
    """With as many as there may be, a further client waits until they are closed, and is answered."""
    server = serve()
    with ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(closing(connected(server))).sendall(sent)
        assert serves(server)


class Large(Collector):
    """Metrics of several megabytes: more than fits into the buffers of a connection."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily("large", "x" * (8 << 20), value=1)


@pytest.mark.expect_log("reached the connection limit")
def test_answers_that_are_not_read_end(serve: Serve) -> None:
    """Clients that do not read occupy no thread, and their connections end."""
    server = serve(Large())
    with ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(closing(connected(server))).sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert serves(server)


MALFORMED = [
    pytest.param(b"\x00\xff\r\n\r\n", b"400", id="bytes"),
    pytest.param(b"GET\r\n\r\n", b"400", id="one word"),
    pytest.param(b"GET /metrics HTTP/x\r\n\r\n", b"400", id="no version"),
    pytest.param(b"\x1b]0;x\x07 /metrics HTTP/1.1\r\n\r\n", b"400", id="escape"),
    pytest.param(b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", b"431", id="long line"),
    pytest.param(b"GET /metrics HTTP/1.1\r\n" + (b"a: " + b"b" * 9000 + b"\r\n") * 20, b"431", id="large headers"),
    pytest.param(b"GET /metrics HTTP/1.0\r\nContent-Length: 5000\r\n\r\n", b"413", id="large body"),
]


@pytest.mark.parametrize(("request_", "status"), MALFORMED)
def test_a_malformed_request_is_refused(
    request_: bytes, status: bytes, serve: Serve, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Answered as HTTP has it (or reset, where more was sent than is read), and nothing of it is logged."""
    caplog.set_level(logging.INFO)
    server = serve()
    for _ in range(3):
        assert re.match(rb"HTTP/1.[01] " + status + rb" |$", ask(server, request_))
    assert serves(server)
    assert (caplog.records, capfd.readouterr().err) == ([], "")


@pytest.mark.parametrize("request_", [b"", b"GET /metr", b"GET /metrics HTTP/1.1\r\n\r\n" * 200])
def test_a_reset_is_not_logged(
    request_: bytes, serve: Serve, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Wherever it comes."""
    caplog.set_level(logging.INFO)
    server = serve(Large())
    for _ in range(5):
        with closing(connected(server)) as connection:
            connection.sendall(request_)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wait_until(lambda: serves(server) and not server._server.active_channels, WAIT_S, "all have ended")
    assert [record for record in caplog.records if "connection limit" not in record.getMessage()] == []
    assert capfd.readouterr().err == ""


PAGES = ("/metrics", "/healthz", "/readyz", "/nothing")


@pytest.mark.parametrize("path", PAGES)
def test_head_is_answered_as_get_without_the_body(serve: Serve, path: str) -> None:
    """Status and headers are the same, the length included."""
    server = serve(ready=lambda: False)
    got, _, body = ask(server, f"GET {path} HTTP/1.0\r\n\r\n".encode()).partition(b"\r\n\r\n")
    head, _, nothing = ask(server, f"HEAD {path} HTTP/1.0\r\n\r\n".encode()).partition(b"\r\n\r\n")
    assert (without_date(head), nothing) == (without_date(got), b"")
    assert f"Content-Length: {len(body)}".encode() in head.split(b"\r\n")


def without_date(head: bytes) -> list[bytes]:
    return [line for line in head.split(b"\r\n") if not line.startswith(b"Date:")]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_another_method_is_answered_with_those_that_there_are(serve: Serve, method: str) -> None:
    """405 with Allow, which RFC 9110 demands; 404 where there is no page."""
    server = serve()
    answer = ask(server, f"{method} /healthz HTTP/1.0\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.0 405 ")
    assert b"\r\nAllow: GET, HEAD\r\n" in answer
    assert ask(server, f"{method} / HTTP/1.0\r\n\r\n".encode()).startswith(b"HTTP/1.0 404 ")


class Failing(Collector):
    """A collector that fails when it is asked."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        raise ZeroDivisionError("no")


@pytest.mark.expect_log("Exception while serving /metrics", "Exception while serving /readyz")
def test_a_page_that_fails_is_answered_500(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """The log says why; the other pages go on."""
    server = serve(Failing(), ready=lambda: bool(1 // 0))
    for page in (b"metrics", b"readyz"):
        assert ask(server, b"GET /" + page + b" HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.0 500 ")
    assert serves(server)
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == [
        "no",
        "integer division or modulo by zero",
    ]


def test_a_closed_server_hangs_up() -> None:
    """A worker's end does not wait for its clients, and they do not wait for it."""
    server = MetricsServer("127.0.0.1:0", CollectorRegistry(), lambda: (True, ""), lambda: (True, ""))
    with closing(connected(server)) as idle:
        wait_until(lambda: bool(server._server.active_channels), WAIT_S, "the connection is taken")
        server.close()
        assert idle.recv(1) == b""


def test_a_server_is_closed_while_a_page_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that has answered wakes the server between the two steps of waking it for its end."""
    server = MetricsServer("127.0.0.1:0", CollectorRegistry(), lambda: (True, ""), lambda: (True, ""))
    pull, thread = server._server.trigger._physical_pull, server._thread

    def after_another() -> None:
        monkeypatch.setattr(server._server.trigger, "_physical_pull", pull)
        server._server.pull_trigger()
        thread.join(1.0)
        pull()

    monkeypatch.setattr(server._server.trigger, "_physical_pull", after_another)
    server.close()
    assert not thread.is_alive()


def test_a_connection_that_cannot_be_taken_is_tried_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a file descriptor left the server waits; while there is no connection it does not."""
    failures = iter([OSError(errno.EMFILE, "too many open files"), BlockingIOError()])

    def accept(_socket: socket.socket) -> None:
        raise next(failures)

    paused: list[float] = []
    monkeypatch.setattr(socket.socket, "accept", accept)
    monkeypatch.setattr("time.sleep", paused.append)
    with server_module._PatientSocket() as listening:
        for expected in (OSError, BlockingIOError):
            with pytest.raises(expected):
                listening.accept()
    assert paused == [server_module.ACCEPT_PAUSE_S]


@pytest.mark.expect_log("1 thread.s. still running")
def test_a_page_that_hangs_does_not_keep_the_server() -> None:
    """It is closed all the same; its threads end with the process."""
    begun, ends = threading.Event(), threading.Event()

    def hang() -> tuple[bool, str]:
        begun.set()
        return ends.wait(WAIT_S), ""

    server = MetricsServer("127.0.0.1:0", CollectorRegistry(), hang, hang)
    with closing(connected(server)) as client:
        try:
            client.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
            assert begun.wait(WAIT_S)
        finally:
            server.close()
            ends.set()
        assert client.recv(1) == b""


SERVER = """\
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
from prometheus_client import CollectorRegistry
from stream_dedup.metrics.server import MetricsServer
with MetricsServer("127.0.0.1:0", CollectorRegistry(), lambda: (True, ""), lambda: (True, "")) as server:
    print(server.port, flush=True)
    for _ in sys.stdin:
        with open("/dev/null"):
            print("opened", flush=True)
"""


def test_clients_cannot_take_the_processes_file_descriptors() -> None:
    """With 128 of them and 200 clients that send half a request, the process still opens files."""
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
        assert "reached the connection limit" in process.stderr.readline()
        for _ in range(3):
            print("open", file=process.stdin, flush=True)
            assert process.stdout.readline() == "opened\n"
        process.stdin.close()
        assert process.wait(WAIT_S) == 0
        assert [line for line in process.stderr if "connection limit" not in line] == []
