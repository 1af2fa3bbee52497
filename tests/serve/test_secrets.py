"""Who can reach the service: the token, TLS, and what is refused at the start."""

from __future__ import annotations

import base64
import http.client
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_dedup.config.load import load_config
from stream_dedup.errors import UserError
from stream_dedup.serve.server import read_token, tls_context
from tests.config.files import problems_of
from tests.serve.served import MemoryService

TOKEN = "0123456789abcdef0123456789abcdef"  # noqa: S105 - of the tests


def token_file(folder: Path, content: str | bytes = TOKEN + "\n", mode: int = 0o600) -> Path:
    path = folder / "token"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    path.chmod(mode)
    return path


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryService]:
    """A service with a token; its log is not there, so what passes is answered with 503 or the page."""
    folder = tmp_path_factory.mktemp("token")
    made = MemoryService(folder, serve={"token_file": str(token_file(folder))})
    with made.serve(until_ready=False):
        yield made


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"anybody:{password}".encode()).decode()


@pytest.mark.parametrize("path", ["/v1/openapi.json", "/v1/status", "/metrics", "/v1/clusters", "/nothing", "/"])
@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}0",
        f"Bearer {TOKEN.upper()}",
        f"Token {TOKEN}",
        TOKEN,
        "Basic !!!",
        basic(TOKEN[1:]),
        basic(""),
        f"Basic {TOKEN}",
    ],
)
def test_a_request_without_the_token_is_refused(service: MemoryService, path: str, given: str | None) -> None:
    """Whatever it asks for, known or not; the answer names the schemes and not the token."""
    answer = service.call("GET", path, headers={} if given is None else {"Authorization": given})
    assert (answer.status, answer.json["type"]) == (401, "urn:stream-dedup:problem:unauthorized")
    assert answer.headers["www-authenticate"].startswith("Bearer ")
    assert TOKEN not in answer.body.decode()


@pytest.mark.parametrize("given", [f"Bearer {TOKEN}", f"bearer  {TOKEN} ", basic(TOKEN)])
def test_a_request_with_the_token_is_answered(service: MemoryService, given: str) -> None:
    """As a bearer, or as the password that a browser asks for; by any host."""
    answer = service.call("GET", "/v1/openapi.json", headers={"Authorization": given, "Host": "dedup.example"})
    assert answer.status == 200


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_need_no_token(service: MemoryService, path: str) -> None:
    """They say nothing about articles."""
    assert service.call("GET", path).status in (200, 503)


def test_a_body_is_not_read_without_the_token(service: MemoryService) -> None:
    """The answer comes before the body is sent."""
    with service.connect() as connection:
        connection.sendall(b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize(
    ("content", "mode", "reason"),
    [
        (TOKEN, 0o644, "everybody on this machine may read it"),
        (TOKEN, 0o604, "everybody on this machine may read it"),
        ("", 0o600, "must contain one token of at least 16 ASCII characters"),
        ("\n \n", 0o600, "must contain one token"),
        ("short", 0o600, "must contain one token"),
        ("two words of a token", 0o600, "must contain one token"),
        ("one-token-in-a-line\nanother-token", 0o600, "must contain one token"),
        ("ein-schlüssel-mit-umlaut", 0o600, "must contain one token"),
        (b"\xff\xfe token token token", 0o600, "not UTF-8"),
    ],
)
def test_a_token_file_that_protects_nothing_is_refused(
    tmp_path: Path, content: str | bytes, mode: int, reason: str
) -> None:
    """The error names the file, and not what is in it."""
    path = token_file(tmp_path, content, mode)
    with pytest.raises(UserError, match=reason) as refused:
        read_token(path)
    assert str(path) in str(refused.value)
    assert TOKEN not in str(refused.value)


def test_a_missing_token_file_is_refused(tmp_path: Path) -> None:
    """Nor is a folder one. The path is not told: it may be the token itself."""
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(UserError, match="cannot be read") as refused:
            read_token(path)
        assert path.name not in str(refused.value)


def test_a_group_may_read_the_token(tmp_path: Path) -> None:
    """A secret that Kubernetes mounts belongs to a group."""
    token = read_token(token_file(tmp_path, mode=0o640))
    assert token is not None
    assert token.allows(f"Bearer {TOKEN}".encode())


@pytest.mark.parametrize("address", ["0.0.0.0:8787", ":8787", "[::]:8787", "10.0.0.1:1", "dedup.example:1"])
def test_an_address_of_other_machines_needs_a_token(tmp_path: Path, address: str) -> None:
    """The configuration is refused; with a token file it is not."""
    (problem,) = problems_of(tmp_path, f'[serve]\naddress = "{address}"\n')
    assert "serve.address" in problem
    assert "set serve.token_file, or a loopback address" in problem
    load_config(None, {"serve": {"address": address, "token_file": "token"}}, {})


@pytest.mark.parametrize("address", ["127.0.0.1:0", "localhost:1", "[::1]:1", "127.8.8.8:1"])
def test_a_loopback_address_needs_none(address: str) -> None:
    """Only this machine reaches it."""
    load_config(None, {"serve": {"address": address}}, {})


def test_keys_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    """A certificate without its key; the folder of a worker's index."""
    (problem,) = problems_of(tmp_path, '[serve]\ntls_cert = "c.pem"\n')
    assert "a certificate and its private key go together" in problem
    (problem,) = problems_of(tmp_path, '[serve]\ndata_dir = "data"\n[index]\npath = "data/index"\n')
    assert "the service would use the folder of a worker's index" in problem


# TLS.


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1, signed by itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    named = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, *named, "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key


def test_requests_are_https_with_a_certificate(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    """Plain HTTP gets no answer; a client that does not finish its handshake holds up nobody."""
    cert, key = certificate
    made = MemoryService(tmp_path, serve={"tls_cert": str(cert), "tls_key": str(key), "client_s": 1})
    trusting = ssl.create_default_context(cafile=str(cert))
    with made.serve(until_ready=False) as running:
        assert running.url.startswith("https://127.0.0.1:")
        stalled = [made.connect() for _ in range(20)]
        client = http.client.HTTPSConnection("127.0.0.1", made.port, timeout=30, context=trusting)
        client.request("GET", "/healthz")
        assert client.getresponse().status == 200
        client.close()
        with made.connect() as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert b"HTTP" not in _rest(plain)
        for one in stalled:
            one.close()


def _rest(connection: socket.socket) -> bytes:
    try:
        return connection.recv(10_000)
    except ConnectionError:
        return b""


def test_a_certificate_that_cannot_be_used_is_refused(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    """Missing, no PEM, or the key of another one: the error names both files."""
    cert, key = certificate
    other = tmp_path / "other.pem"
    other.write_text("no key\n")
    for pair in ((tmp_path / "none", key), (cert, tmp_path / "none"), (cert, other), (other, key), (key, cert)):
        config = load_config(None, {"serve": {"tls_cert": pair[0], "tls_key": pair[1]}}, {})
        with pytest.raises(UserError, match="cannot be used") as refused:
            tls_context(config.serve)
        assert all(str(path) in str(refused.value) for path in pair)


def test_an_address_in_use_is_refused(tmp_path: Path) -> None:
    """The error names the address and the keys that change it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        made = MemoryService(tmp_path, serve={"address": address})
        with pytest.raises(UserError, match="another program listens on it; set another address with --address"):
            made.serve(until_ready=False).__enter__()
