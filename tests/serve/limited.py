"""A service with small limits, for clients that exceed them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.serve.served import MemoryService

CLIENT_S = 1.0
"""``serve.client_s`` of these tests."""
CUT_S = 20.0
"""A client that must be cut off is cut off within this time on a busy machine."""
BODY = 64 << 10
CONNECTIONS = 32
THREADS = 3
MARKUP = '<script>alert(1)</script><img src=x onerror="alert(2)"> a story about markup, told at some length here'
HOST = b"Host: 127.0.0.1\r\n"


@contextmanager
def limited_service(folder: Path) -> Iterator[MemoryService]:
    """Run a service whose log has an article full of markup."""
    limits = {"client_s": CLIENT_S, "max_body_bytes": BODY, "connections": CONNECTIONS, "queue_articles": 500}
    limits |= {"threads": THREADS}
    made = MemoryService(folder, serve=limits)
    made.begin_log()
    made.log_articles([json.dumps({"id": MARKUP, "text": MARKUP}).encode()])
    with made.serve():
        yield made


def assert_answers(made: MemoryService) -> None:
    """Assert that a new client is answered."""
    result = made.call("POST", "/v1/check", {"text": MARKUP})
    assert (result.status, result.json["results"][0]["verdict"]) == (200, "duplicate")
