"""What the client of the registry makes of answers: wait, refuse, or unknown."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from stream_dedup.errors import UserError
from stream_dedup.registry import client as module
from stream_dedup.registry.client import RegistryAwayError, RegistryClient, SchemaProblemError, UnknownSchemaError
from tests.registry.fake import FakeRegistry
from tests.registry.records import AVRO, registry_config


def client(url: str, **keys: str) -> RegistryClient:
    return RegistryClient(registry_config(url, **keys).registry)


def test_basic_authentication(fake: FakeRegistry, tmp_path: Path) -> None:
    """Name and password; wrong ones are refused with the keys that set them, and are not in the message."""
    fake.register("a", {"schema": AVRO})
    fake.authorization = f"Basic {base64.b64encode('crawler:gehéim'.encode()).decode()}"
    file = tmp_path / "password"
    file.write_text("gehéim\n", "utf-8")
    assert client(fake.url, username="crawler", password_file=str(file)).schema(1).text == AVRO
    (tmp_path / "wrong").write_text("wrong-one", "utf-8")
    for keys in ({}, {"username": "crawler", "password_file": str(tmp_path / "wrong")}):
        with pytest.raises(UserError, match=r"refuses this client \(401\): check registry.username") as refused:
            client(fake.url, **keys).schema(1)
        assert "wrong-one" not in str(refused.value)


def test_bearer_authentication(fake: FakeRegistry, tmp_path: Path) -> None:
    """The token is read at each request: it may be renewed."""
    fake.register("a", {"schema": AVRO})
    fake.authorization = "Bearer one"
    file = tmp_path / "token"
    file.write_text("one\n")
    made = client(fake.url, token_file=str(file))
    assert made.schema(1).text == AVRO
    fake.authorization = "Bearer two"
    with pytest.raises(UserError, match=r"registry\.token_file"):
        made.schema(1)
    file.write_text("two\n")
    assert made.schema(1).text == AVRO
    for text in ("", "hidden\nInjected: yes", "hidden ü"):
        file.write_text(text, "utf-8")
        with pytest.raises(UserError, match=r"registry\.token_file .*: no token") as refused:
            made.schema(1)
        assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_what_is_waited_for(fake: FakeRegistry, status: int) -> None:
    """A registry that is busy or broken, and a proxy before one that is down."""
    fake.answer = (status, {}, b"<html>")
    with pytest.raises(RegistryAwayError, match=f"status {status}"):
        client(fake.url).schema(1)


@pytest.mark.parametrize(
    "body",
    [
        b"<html>login</html>",
        b"[]",
        b"{}",
        b'{"schema": 3, "references": [{}]}',
        b'{"schema": 3, "references": 7}',
        b'{"schema": {"type": "string"}}',
        b'{"schema": "x", "schemaType": ["AVRO"]}',
        b'{"schema": "x", "references": [{"name": "n", "subject": "s", "version": "latest"}]}',
        b'{"schema": "x", "references": [{"name": "n", "subject": "s", "version": 1e999}]}',
        b'{"schema": "x", "references": [{"name": "n", "subject": "\\ud800", "version": 1}]}',
        b"[" * 200_000,
        b"\xff",
    ],
)
def test_what_is_no_schema(fake: FakeRegistry, body: bytes) -> None:
    """Answers of status 200 that are none are waited out: a proxy may be up before the registry."""
    fake.answer = (200, {}, body)
    with pytest.raises(RegistryAwayError):
        client(fake.url).schema(1)


@pytest.mark.parametrize(
    ("status", "headers"),
    [(404, {}), (400, {}), (301, {"Location": "http://127.0.0.1:1/stolen"}), (302, {"Location": "/login"})],
)
def test_what_is_no_registry(fake: FakeRegistry, status: int, headers: dict[str, str], tmp_path: Path) -> None:
    """Another server, or another path. A redirection is not followed: the credentials would go with it."""
    fake.answer = (status, headers, b"[" * 200_000)
    token = tmp_path / "token"
    token.write_text("secret")
    with pytest.raises(UserError, match=f"no schema registry at .* with status {status}; check registry.url"):
        client(fake.url, token_file=str(token)).schema(1)
    assert len(fake.asked) == 1


def test_unknown_is_what_the_registry_says(fake: FakeRegistry) -> None:
    """By its own code; of the schema, and of what it refers to."""
    with pytest.raises(UnknownSchemaError):
        client(fake.url).schema(1)
    fake.register("a", {"schema": AVRO, "references": [{"name": "x", "subject": "gone", "version": 1}]})
    with pytest.raises(UnknownSchemaError):
        client(fake.url).schema(1)


def test_an_answer_without_end(fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read up to the limit."""
    monkeypatch.setattr(module, "MAX_ANSWER_BYTES", 1000)
    fake.answer = (200, {}, json.dumps({"schema": "x" * 2000}).encode())
    with pytest.raises(RegistryAwayError, match="more than 1000 bytes"):
        client(fake.url).schema(1)


@pytest.mark.timeout(20)
def test_an_answer_that_comes_byte_by_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte is in time; the whole is not waited for."""
    monkeypatch.setattr(module, "WHOLE_ANSWER_S", 0.1)
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                while not ended.wait(0.02):
                    connection.sendall(b" ")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        with pytest.raises(RegistryAwayError, match=r"not whole after 0.1 s"):
            client(f"http://127.0.0.1:{server.getsockname()[1]}").schema(1)
        ended.set()
        thread.join(20)


def test_the_name_of_a_reference_is_a_text(fake: FakeRegistry) -> None:
    """Another one is no answer of a registry."""
    fake.register("a", {"schema": AVRO, "references": [{"name": 5, "subject": "a", "version": 1}]})
    with pytest.raises(RegistryAwayError, match="an answer that is no schema"):
        client(fake.url).schema(1)


def test_references_end(fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those in a circle, and those that are too many: the program does not run on."""
    monkeypatch.setattr(module, "MAX_REFERENCES", 5)
    for number in range(6):
        reference = {"name": f"n{number}", "subject": f"s{number}", "version": 1}
        fake.register(f"s{number}", {"schema": AVRO, "references": [reference]})
    assert [one.name for one in client(fake.url).schema(1).references] == ["n0"]
    many = [{"name": f"n{number}", "subject": f"s{number}", "version": 1} for number in range(6)]
    fake.register("many", {"schema": AVRO, "references": many})
    with pytest.raises(SchemaProblemError, match="more than 5 others"):
        client(fake.url).schema(7)


def test_a_subject_with_any_characters(fake: FakeRegistry) -> None:
    """Slashes, spaces and what else names have."""
    fake.register("a/b ü?#-value", {"schema": AVRO})
    fake.register("c", {"schema": AVRO, "references": [{"name": "n", "subject": "a/b ü?#-value", "version": 1}]})
    assert [one.name for one in client(fake.url).schema(2).references] == ["n"]


def test_nobody_listens(fake: FakeRegistry) -> None:
    """A registry that is down is waited for."""
    fake.stop()
    with pytest.raises(RegistryAwayError, match="refused"):
        client(fake.url).schema(1)
    with pytest.raises(RegistryAwayError):
        client("http://no-such-host.invalid:8081").schema(1)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1 and its key in one file, signed by itself."""
    path = tmp_path / "server.pem"
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert),
        ],
        check=True,
        capture_output=True,
    )
    path.write_bytes(key.read_bytes() + cert.read_bytes())
    return path


@pytest.fixture
def encrypted(certificate: Path) -> Iterator[FakeRegistry]:
    made = FakeRegistry(certificate)
    yield made
    made.stop()


def test_an_encrypted_connection(encrypted: FakeRegistry, certificate: Path, tmp_path: Path) -> None:
    """By the certificates of ``ssl_cafile``; another one is refused with the key that sets it."""
    encrypted.register("a", {"schema": AVRO})
    assert client(encrypted.url, ssl_cafile=str(certificate.parent / "cert.pem")).schema(1).text == AVRO
    with pytest.raises(UserError, match=r"certificate that is not trusted .*: set registry"):
        client(encrypted.url).schema(1)
    nothing = tmp_path / "nothing.pem"
    nothing.write_text("no certificate")
    with pytest.raises(UserError, match=r"registry.ssl_cafile .*: no certificates in PEM"):
        client(encrypted.url, ssl_cafile=str(nothing))
