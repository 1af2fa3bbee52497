"""The HTTP service of ``benchmarks.alerts``, and its clients: they ask all the time, some of them what is refused."""

from __future__ import annotations

import http.client
import json
import secrets
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from stream_dedup.clusters.schema import CLUSTERS_FILE

QUEUE = 500
"""``serve.queue_articles``: the smallest."""
MANY = 400
"""Articles of a large request: one of them, and what the usual clients ask, fit the queue."""
LONG = "the harbour was closed this morning because of the storm from the north " * 1_500
"""A text of some 110 kB; so many of them take a second and more."""
PAUSE_S = 0.2
ANSWER_S = 60.0

CONFIG = """\
[serve]
address = "127.0.0.1:{port}"
data_dir = "{data}"
token_file = "{token}"
queue_articles = {queue}
max_body_bytes = 67108864
"""


@dataclass(slots=True)
class ServedGroup:
    """A service that is killed and started again with the same folder and address."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def instance(self) -> str:
        """Its label in Prometheus."""
        return f"127.0.0.1:{self.port}"

    @property
    def token(self) -> Path:
        """The file with its token."""
        return self.folder / "token"

    def configure(self, group: str) -> None:
        """Write its token and its configuration, which begins with that of a worker of the group."""
        self.folder.mkdir()
        self.token.touch(0o600)
        self.token.write_text(secrets.token_hex(), "utf-8")
        own = CONFIG.format(port=self.port, data=self.folder / "data", token=self.token, queue=QUEUE)
        (self.folder / "serve.toml").write_text(group + own, "utf-8")

    def start(self) -> None:
        """Start it, unless it runs."""
        if self.process is not None and self.process.poll() is None:
            return
        command = [sys.executable, "-m", "stream_dedup", "serve", "--config", str(self.folder / "serve.toml")]
        with (self.folder / "log").open("ab") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out)

    def kill(self) -> None:
        """Kill it as a machine that fails would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def damage_clusters(self) -> None:
        """Drop a table of the clusters, as another program that opens the database might."""
        for folder in self._clusters():
            with closing(sqlite3.connect(folder / CLUSTERS_FILE, timeout=ANSWER_S)) as database:
                database.execute("DROP TABLE position")

    def make_clusters_again(self) -> None:
        """Delete the clusters, and start the service again."""
        self.kill()
        for folder in self._clusters():
            shutil.rmtree(folder)
        self.start()

    def _clusters(self) -> list[Path]:
        return [*(self.folder / "data").glob("clusters-*")]


class Clients:
    """Clients of the service: one that asks about an article now and then, and more of them for each harm."""

    def __init__(self, service: ServedGroup) -> None:
        self._port = service.port
        self._token = service.token.read_text("utf-8")
        self._ending = threading.Event()
        self._harming = threading.Event()
        self._threads: list[threading.Thread] = []
        self._begin(self._ask_usual)

    def load(self, clients: int, text: str) -> None:
        """Let so many clients send large requests, one after the other, until ``relax``."""
        self._harming.set()
        body = json.dumps({"articles": [{"text": f"{text} {number}"} for number in range(MANY)]}).encode()
        for _ in range(clients):
            self._begin(lambda: self._ask_much(body))

    def relax(self) -> None:
        """End the large requests."""
        self._harming.clear()

    def close(self) -> None:
        """End all clients."""
        self._harming.clear()
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def _begin(self, ask: Callable[[], None]) -> None:
        thread = threading.Thread(target=ask, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _ask_usual(self) -> None:
        """Ask for a verdict, a page, clusters; and send what is refused: no token, a faulty request."""
        number = 0
        while not self._ending.wait(PAUSE_S):
            number += 1
            self._ask("POST", "/v1/check", json.dumps({"text": f"{LONG[:200]} {number}"}).encode())
            self._ask("GET", ("/check", "/v1/clusters", "/live")[number % 3])
            if number % 10 == 0:
                self._ask("POST", "/v1/check", b"{", with_token=False)
                self._ask("POST", "/v1/check", b'{"text": 1}')

    def _ask_much(self, body: bytes) -> None:
        while self._harming.is_set():
            self._ask("POST", "/v1/check", body)

    def _ask(self, method: str, path: str, body: bytes | None = None, *, with_token: bool = True) -> None:
        headers = {"Authorization": f"Bearer {self._token}"} if with_token else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
        with (
            suppress(OSError, http.client.HTTPException),  # while the service is away
            closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=ANSWER_S)) as connection,
        ):
            connection.request(method, path, body, headers)
            connection.getresponse().read()
