"""A service over a cluster in memory, a log that a test appends to, and a client."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from stream_dedup.config.effective import fingerprint_settings_of, input_format_of, rules_of
from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config
from stream_dedup.core.decode import RawRecord
from stream_dedup.core.entry import LogRecord, Payload, make_batch
from stream_dedup.core.fingerprinter import EntryMaker
from stream_dedup.kafka.clients import SystemClock
from stream_dedup.ports import FollowPorts, Partition
from stream_dedup.serve.follower import TopicPorts
from stream_dedup.serve.run import RunningService, ServePorts
from tests.memory.broker import Cluster
from tests.memory.following import MemoryTopicFollower
from tests.memory.log import MemoryLog
from tests.memory.log_topic import MemoryLogTopic
from tests.memory.offsets import MemoryOffsets, MemoryTopicReader
from tests.memory.partition import Message
from tests.memory.runtime import Connection
from tests.memory.threads import ThreadRuntime
from tests.serve.clients import ANSWER_S, Answer, Client
from tests.waiting import wait_until

TOPIC = "articles"
READY_S = 60.0


class MemoryService:
    """A group in memory: its source topic and log, and the service over them while it runs."""

    def __init__(self, folder: Path, **sections: dict[str, Any]) -> None:
        values: dict[str, dict[str, Any]] = {
            "kafka": {"group": "group", "broker_wait_s": 5},
            "topics": {"input": [TOPIC]},
            "serve": {"address": "127.0.0.1:0", "data_dir": str(folder / "serve")},
            "index": {"path": str(folder / "index"), "fold_entries": 1000, "memory_mib": 40},
        }
        for section, keys in sections.items():
            values.setdefault(section, {}).update(keys)
        self.config: Config = load_config(None, values, {})
        self.cluster = Cluster(ThreadRuntime())
        self.connection = Connection()
        self.topic_id = self.cluster.make_topic(TOPIC)
        self.maker = EntryMaker(fingerprint_settings_of(self.config), input_format_of(self.config))
        self.running: RunningService | None = None
        self._writer: MemoryLog | None = None

    # the log

    def begin_log(self) -> None:
        """Make the log, with its rules."""
        self.cluster.make_topic(self.config.log_topic, has_append_time=True)
        self._writer = None
        self.append(replace(rules_of(self.config), revision=1))

    def append(self, payload: Payload) -> int:
        if self._writer is None:
            self._writer = MemoryLog(self.cluster, Connection(), self.config.log_topic)
        return self._writer.append(payload).wait(10)

    def log_articles(self, values: Sequence[bytes]) -> int:
        """Write records to the source topic and their entries to the log; return the log offset."""
        source = self.cluster.partition(Partition(TOPIC, 0))
        offsets = [self.cluster.append(source, Message(None, value, (), self.cluster.time_ms())) for value in values]
        raw = [RawRecord(None, value, f"{TOPIC}-0-{offset}") for value, offset in zip(values, offsets, strict=True)]
        return self.append(make_batch(self.maker(raw), self.topic_id, TOPIC, 0, offsets))

    def records(self) -> list[LogRecord]:
        """Every record of the log."""
        reader = MemoryLog(self.cluster, Connection(), self.config.log_topic)
        first, end = reader.bounds()
        reader.seek(first)
        records: list[LogRecord] = []
        while not records or records[-1].offset + 1 < end:
            records += reader.poll(1)
        return records

    # the service

    @contextmanager
    def serve(self, *, until_ready: bool = True) -> Iterator[RunningService]:
        """Run the service."""
        topic = MemoryLogTopic(self.cluster, self.connection, self.config.kafka.group, self.config.log_topic)
        ports = ServePorts(topic, SystemClock(), self._connect_topics, self._connect_outputs)
        with RunningService(self.config, ports) as running:
            self.running = running
            running.follow()
            if until_ready:
                self.wait_ready()
            yield running

    def _connect_topics(self) -> TopicPorts:
        return TopicPorts(
            MemoryTopicReader(self.cluster, self.connection), MemoryOffsets(self.cluster, self.connection, "group")
        )

    @contextmanager
    def _connect_outputs(self) -> Iterator[FollowPorts]:
        cluster, connection = self.cluster, self.connection
        yield FollowPorts(
            follower=MemoryTopicFollower(cluster, connection),
            reader=MemoryTopicReader(cluster, connection),
            offsets=MemoryOffsets(cluster, connection, "group"),
            sink=None,
            clock=SystemClock(),
        )

    def wait_ready(self) -> None:
        """Wait until the service is at the end of the log."""
        running = self.running
        assert running is not None
        log = self.cluster.partition(Partition(self.config.log_topic, 0))

        def is_ready() -> bool:
            running.raise_failure()
            position = running.follower.position
            return position.up_to_date and position.offset >= log.end

        wait_until(is_ready, READY_S, "the service has read the log")

    # a client

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,  # noqa: ANN401 - JSON values, or bytes as they are
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request on a connection of its own, and return the answer."""
        with Client(self.port) as client:
            return client.call(method, path, body, headers)

    @property
    def port(self) -> int:
        assert self.running is not None
        return self.running.port

    def connect(self) -> socket.socket:
        """Open a connection for bytes as the test has them."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=ANSWER_S)


CLIENT_S = 1.0
"""``serve.client_s`` of these tests."""
CUT_S = 20.0
"""A client that must be cut off is cut off within this time on a busy machine."""
BODY = 64 << 10
THREADS = 3
MARKUP = '<script>alert(1)</script><img src=x onerror="alert(2)"> a story about markup, told at some length here'
HOST = b"Host: 127.0.0.1\r\n"


@contextmanager
def limited_service(folder: Path) -> Iterator[MemoryService]:
    """Run a service whose log has an article full of markup."""
    limits = {"client_s": CLIENT_S, "max_body_bytes": BODY, "queue_articles": 500}
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
