"""Checks each article before it is logged, and compares the answer with the verdict that a worker then gives."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from stream_dedup.core.headers import Stamp
from stream_dedup.kafka.connection import make_producer
from tests.forks import ForkedProcess, forks
from tests.serve.clients import Client
from tests.waiting import wait_until
from tests.worker.pipeline import Pipeline, toml_of

START_S = 90.0
"""For the service to be at the end of the log."""
END_S = 60.0
LOGGED_S = 60.0
"""For a worker to log an article, and the service to apply it."""
APPLIED_POLL_S = 0.02


class Said(NamedTuple):
    """What a check and an output both say of an article."""

    verdict: str
    fingerprint: str | None
    match: str | None
    source: str | None
    distance: int | None
    similarity: str | None
    copies: int
    reason: str | None


class Served:
    """The service as a process of its own, on a port of its choice."""

    def __init__(self, made: Pipeline, folder: str = "served", **serve: Any) -> None:  # noqa: ANN401 - keys of the section
        self._made = made
        self._log = made.folder / f"{folder}.log"
        values = made.values("worker")
        values["serve"] = {"address": "127.0.0.1:0", "data_dir": str(made.folder / folder)} | serve
        self._config = made.folder / f"{folder}.toml"
        self._config.write_text(toml_of(values), "utf-8")
        self.process: ForkedProcess | None = None

    def start(self) -> None:
        """Start it, and wait for its address."""
        self._log.write_bytes(b"")
        with self._log.open("ab") as log, Path("/dev/null").open("rb") as nothing:
            streams = [nothing.fileno(), log.fileno(), log.fileno()]
            arguments = ["{}", "serve", "--config", str(self._config)]
            self.process = forks().start("tests.files.dying_filter:main", arguments, streams)
        wait_until(lambda: "serve: " in self.log() or not self.runs, START_S, "the service listens")

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def port(self) -> int:
        found = re.search(r"^serve: http://127\.0\.0\.1:(\d+)/$", self.log(), re.MULTILINE)
        assert found is not None, self.log()
        return int(found[1])

    def log(self) -> str:
        return self._log.read_text("utf-8")

    def client(self) -> Client:
        return Client(self.port)

    def wait_ready(self, offset: int = 0) -> None:
        """Wait until it is at the end of the log, and there are so many records."""
        with self.client() as client:

            def is_ready() -> bool:
                assert self.runs, self.log()
                if client.call("GET", "/readyz").status != 200:
                    return False
                return log_offset(client) >= offset

            wait_until(is_ready, START_S, f"the service is ready: {self.log()}")

    def stop(self) -> None:
        """End it in order."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(END_S) == 0, self.log()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@contextmanager
def served(made: Pipeline, folder: str = "served", **serve: Any) -> Iterator[Served]:  # noqa: ANN401 - as above
    """A service that is ready."""
    service = Served(made, folder, **serve)
    try:
        service.start()
        service.wait_ready()
        yield service
    finally:
        service.kill()


def log_offset(client: Client) -> int:
    """The log offset before which the service has applied every record."""
    text = client.call("GET", "/metrics").body.decode()
    found = re.search(r"^stream_dedup_serve_log_offset ([0-9.e+]+)$", text, re.MULTILINE)
    assert found is not None
    return int(float(found[1]))


def asked(value: bytes | None) -> dict[str, Any] | None:
    """The article of a record as a request has it; None of a record that no request can have."""
    try:
        record = json.loads(value or b"")
    except ValueError:
        return None
    if not isinstance(record, dict) or "text" not in record:
        return None
    return {name: record[name] for name in ("text", "id") if name in record}


def checked_and_judged(made: Pipeline, service: Served, values: Sequence[bytes | None]) -> list[tuple[Said, Said]]:
    """Check each article, produce it and wait until it is logged; then compare with the outputs of the worker."""
    answers: dict[int, Said] = {}
    producer = make_producer(made.config().kafka, acks="all", linger_ms=0)
    with service.client() as client:
        for offset, value in enumerate(values):
            article = asked(value)
            if article is not None:
                answer = client.call("POST", "/v1/check", article | {"top": 0})
                assert answer.status == 200, answer.body
                answers[offset] = _answered(answer.json["results"][0])
            before = log_offset(client)
            sent = producer.send(made.topic, key=b"key", value=value, partition=0).get(timeout=LOGGED_S)
            assert sent.offset == offset
            _wait_applied(client, before)
    producer.close()
    made.wait_done()
    stamps = made.stamps()
    return [(said, _stamped(stamps[0, offset])) for offset, said in answers.items()]


def _wait_applied(client: Client, before: int) -> None:
    """Return as soon as the service has applied a record more."""
    deadline = time.monotonic() + LOGGED_S
    while log_offset(client) == before:  # some 0.1 s: ``wait_until`` looks too seldom
        assert time.monotonic() < deadline, "an article is logged, and applied by the service"
        time.sleep(APPLIED_POLL_S)


def _answered(result: dict[str, Any]) -> Said:
    match = result["match"] or {}
    source = match.get("source")
    return Said(
        result["verdict"],
        result["fingerprint"],
        match.get("id"),
        None if source is None else f"{source['topic']}-{source['partition']}-{source['offset']}",
        match.get("distance"),
        None if not match else f"{match['similarity']:.4f}",
        result["copies"],
        result["reason"],
    )


def _stamped(stamp: Stamp) -> Said:
    match = stamp.match
    return Said(
        str(stamp.verdict),
        None if stamp.fingerprint is None else f"{stamp.fingerprint:016x}",
        None if match is None else match.id,
        None if match is None else f"{match.topic}-{match.coordinates.partition}-{match.coordinates.offset}",
        None if match is None else match.distance,
        None if match is None else match.similarity,
        stamp.copies or 0,
        stamp.reason,
    )
