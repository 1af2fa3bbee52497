"""A schema registry in this process: what the program asks of one, and what goes wrong with them."""

from __future__ import annotations

import json
import re
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from stream_dedup.dev.broker.base import free_ports

_BY_ID = re.compile(r"/schemas/ids/(\d+)")
_BY_VERSION = re.compile(r"/subjects/([^/]+)/versions/(\d+)")
_VERSIONS = re.compile(r"/subjects/([^/]+)/versions")
PATH = "/api"
"""Before every path, as of registries that have several interfaces."""


class FakeRegistry:
    """Listens on a port of its own, the same one from start to start."""

    def __init__(self, certificate: Path | None = None) -> None:
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}
        self.authorization: str | None = None
        """What a request must have in this header."""
        self.answer: tuple[int, dict[str, str], bytes] | None = None
        """Status, headers and body of every answer, whatever was asked."""
        self.hidden: set[int] = set()
        """Ids that it does not know for now."""
        self.asked: list[str] = []
        self._certificate = certificate
        (self._port,) = free_ports(1)
        self._server: ThreadingHTTPServer | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"{'http' if self._certificate is None else 'https'}://127.0.0.1:{self._port}{PATH}"

    def start(self) -> None:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._send(*registry.found(self.path, self.headers["Authorization"]))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                match = _VERSIONS.fullmatch(self.path.removeprefix(PATH))
                assert match is not None
                self._send(200, {}, json.dumps({"id": registry.register(unquote(match[1]), body)}).encode())

            def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        if self._certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Listen no more; schemas are kept."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        """Keep a schema; what is Avro, or refers to nothing, does not say so."""
        left_out = {"schemaType": "AVRO", "references": []}
        self.schemas.append({name: value for name, value in schema.items() if left_out.get(name) != value})
        self.subjects.setdefault(subject, []).append(len(self.schemas))
        return len(self.schemas)

    def found(self, path: str, authorization: str | None) -> tuple[int, dict[str, str], bytes]:
        path = path.removeprefix(PATH)
        self.asked.append(path)
        if self.answer is not None:
            return self.answer
        if authorization != self.authorization:
            return 401, {}, b'{"error_code": 401, "message": "Unauthorized"}'
        schema_id, code = None, 40403
        if (match := _BY_ID.fullmatch(path)) is not None:
            schema_id = int(match[1])
        elif (match := _BY_VERSION.fullmatch(path)) is not None:
            versions, code = self.subjects.get(unquote(match[1]), []), 40402
            schema_id = versions[int(match[2]) - 1] if int(match[2]) <= len(versions) else None
        else:
            return 404, {}, b"<html>not found</html>"
        if schema_id is None or schema_id in self.hidden or not 0 < schema_id <= len(self.schemas):
            return 404, {}, json.dumps({"error_code": code, "message": "not found"}).encode()
        return 200, {}, json.dumps(self.schemas[schema_id - 1]).encode()
