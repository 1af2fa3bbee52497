"""Clients of the service: JSON over a connection that is kept open."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

ANSWER_S = 60.0
"""Seconds that a client waits for an answer."""


class Answer(NamedTuple):
    """An HTTP answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401 - JSON values
        return json.loads(self.body)


class Client:
    """One connection; a closed one is opened again."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,  # noqa: ANN401 - JSON values, or bytes as they are
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request and return the answer."""
        given = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        json_type = {} if given is None else {"Content-Type": "application/json"}
        self._connection.request(method, path, given, json_type | dict(headers or {}))
        got = self._connection.getresponse()
        return Answer(got.status, {name.lower(): value for name, value in got.getheaders()}, got.read())
