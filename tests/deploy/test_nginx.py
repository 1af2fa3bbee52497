"""The reverse proxy of deploy/nginx.conf, before a service: it holds up what the service leaves to it."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from tests.serve.clients import Client
from tests.serve.served import CUT_S, MARKUP, MemoryService, limited_service
from tests.waiting import wait_until

CONFIG = Path(__file__).parents[2] / "deploy" / "nginx.conf"
AROUND = """
daemon off; master_process off; pid {folder}/pid; error_log stderr;
events {{}}
http {{
    access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
    uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    {server}
}}
"""
HEAD = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
ANSWERS = HEAD + b"Connection: close\r\n\r\n"

pytestmark = pytest.mark.skipif(shutil.which("nginx") is None, reason="no nginx here")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryService]:
    with limited_service(tmp_path_factory.mktemp("serve")) as made:
        yield made


@pytest.fixture(scope="module")
def proxy(service: MemoryService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Run the proxy before the service; yield its port. A client has one second for a head."""
    folder = tmp_path_factory.mktemp("nginx")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    server = CONFIG.read_text("utf-8")
    for old, new in (
        ("listen 8080", f"listen 127.0.0.1:{port}"),
        ("127.0.0.1:8787", f"127.0.0.1:{service.port}"),
        ("client_header_timeout 10s", "client_header_timeout 1s"),
    ):
        assert old in server
        server = server.replace(old, new)
    config = folder / "nginx.conf"
    config.write_text(AROUND.format(folder=folder, server=server), "utf-8")
    command = ["nginx", "-p", str(folder), "-c", str(config)]
    subprocess.run([*command, "-t"], check=True, capture_output=True)
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: begins(port, ANSWERS) == b"HTTP/1.1 200", CUT_S, "the proxy answers")
            yield port
        finally:
            process.terminate()


def begins(port: int, sent: bytes) -> bytes:
    """Send bytes, and return the first ones of the answer; empty where the connection ends without one."""
    with suppress(ConnectionError), socket.create_connection(("127.0.0.1", port), timeout=CUT_S) as connection:
        connection.sendall(sent)
        return connection.recv(12)
    return b""


def test_requests_reach_the_service(proxy: int) -> None:
    """A check, and a page, with the host that the client names."""
    with Client(proxy) as client:
        answer = client.call("POST", "/v1/check", {"text": MARKUP})
        assert (answer.status, answer.json["results"][0]["verdict"]) == (200, "duplicate")
        assert client.call("GET", "/system").status == 200
        assert client.call("GET", "/v1/status", headers={"Host": "evil.example"}).status == 421


def test_a_head_that_does_not_end_is_cut_off(proxy: int) -> None:
    """The proxy closes its connection, which the service has never seen."""
    assert begins(proxy, HEAD) == b""
    assert begins(proxy, b"") == b""


def test_a_client_has_a_number_of_connections(proxy: int) -> None:
    """Requests of further ones are refused; when the others have gone, it is served again."""
    body = b"POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n"
    with ExitStack() as stack:
        for _ in range(32):
            client = stack.enter_context(closing(socket.create_connection(("127.0.0.1", proxy), timeout=CUT_S)))
            client.sendall(body)
        wait_until(lambda: begins(proxy, ANSWERS) == b"HTTP/1.1 503", CUT_S, "the limit is reached")
    wait_until(lambda: begins(proxy, ANSWERS) == b"HTTP/1.1 200", CUT_S, "it is served again")


def test_a_large_body_is_refused(proxy: int) -> None:
    """Before it is sent."""
    sent = b"POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999\r\n\r\n"
    assert begins(proxy, sent) == b"HTTP/1.1 413"
