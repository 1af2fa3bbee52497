"""What the demonstrations share: their settings, commands in processes as a user would start them, and the Kafka side.

The Kafka side feeds a topic at a reading pace, and reads the verdicts as they come. Only committed records are read.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import TracebackType
from typing import Self

from kafka import TopicPartition
from kafka.errors import KafkaError

from stream_dedup.cli import exit_code_of
from stream_dedup.cli.output import write_lines
from stream_dedup.config.model import Config
from stream_dedup.core.headers import Stamp, parse_headers
from stream_dedup.core.model import OUTPUT_VERDICTS
from stream_dedup.errors import EXIT_OK, StreamDedupError, UnavailableError
from stream_dedup.kafka.admin import partitions_of
from stream_dedup.kafka.connection import CLOSE_TIMEOUT_S, make_admin, make_consumer, make_producer
from stream_dedup.kafka.topics import ensure_topics

STARTING_KAFKA = "Starting Kafka (the first time its image or its jars are fetched) …"
SHOWING_POLL_MS = 100
"""One wait for outputs, milliseconds; a person does not see a shorter delay."""
TOMBSTONE_LINE = b"null"
"""The line of a file that stands for a record without a value."""


def ended(name: str, show: Callable[[], int], interrupted: str) -> int:
    """Run a demonstration until it ends or Ctrl-C ends it; return its exit code."""
    try:
        return show()
    except StreamDedupError as error:
        write_lines(*f"{name}: {error}".split("\n"), err=True)
        return exit_code_of(error)
    except KeyboardInterrupt:
        write_lines("", interrupted, err=True)
        return EXIT_OK


def write_settings(folder: Path, name: str, brokers: str, more: str) -> Path:
    """Write a configuration with a group and topics under new names that begin with ``name``; return its file."""
    group = f"{name}-{uuid.uuid4().hex[:8]}"
    topics = "".join(f'{verdict} = "{group}-{verdict}"\n' for verdict in OUTPUT_VERDICTS)
    path = folder / "demo.toml"
    path.write_text(
        f'[kafka]\nbrokers = "{brokers}"\ngroup = "{group}"\n'
        f'[topics]\ninput = ["{group}-articles"]\n{topics}'
        f'[index]\npath = "{folder / "index"}"\n'
        f'[metrics]\naddress = "127.0.0.1:0"\n{more}',
        "utf-8",
    )
    return path


@dataclass(frozen=True, slots=True)
class CommittedOutput:
    """An output record: its value, its headers, and when the broker received it (ms since 1970)."""

    value: bytes | None
    stamp: Stamp
    time: int


class Showing:
    """The topics of one demonstration; the constructor makes them, ``close`` removes them."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._stopped = threading.Event()
        self._feeder: threading.Thread | None = None
        self._failed: KafkaError | None = None
        with closing(make_admin(config.kafka)) as admin:
            ensure_topics(admin, config)

    def feed(self, lines: Iterable[bytes], pause_s: float) -> None:
        """Start to send the lines, however many, one record each, with a pause between them; returns at once."""
        self._feeder = threading.Thread(target=self._send, args=(lines, pause_s), name="feeder")
        self._feeder.start()

    def outputs(self, count: int, limit_s: float, running: Callable[[], bool]) -> Iterator[CommittedOutput]:
        """Yield so many outputs as they come.

        Raises:
            UnavailableError: no output came within ``limit_s``, or ``running`` returned false: the worker ended.
        """
        names = [self._config.topics.unique, self._config.topics.duplicate, self._config.topics.rejected]
        with closing(make_consumer(self._config.kafka, auto_offset_reset="earliest", group_id=None)) as consumer:
            with closing(make_admin(self._config.kafka)) as admin:
                consumer.assign([TopicPartition(*at) for at in partitions_of(admin, names)])
            deadline = time.monotonic() + limit_s
            while count > 0:
                records = [record for batch in consumer.poll(SHOWING_POLL_MS).values() for record in batch]
                for record in sorted(records, key=lambda record: int(record.timestamp)):
                    yield CommittedOutput(record.value, parse_headers(record.headers), record.timestamp)
                    count -= 1
                    deadline = time.monotonic() + limit_s
                if count and (self._failed is not None or not running() or time.monotonic() > deadline):
                    why = self._failed or (f"none within {limit_s:g} s" if running() else "the worker has ended")
                    raise UnavailableError(f"{count} verdicts are missing: {why}")

    def close(self) -> None:
        """Stop feeding, and delete the topics and the group if the broker answers."""
        self._stopped.set()
        if self._feeder is not None:
            self._feeder.join()
        topics = self._config.topics
        names = [*topics.input, topics.unique, topics.duplicate, topics.rejected, self._config.log_topic]
        with suppress(KafkaError, UnavailableError), closing(make_admin(self._config.kafka)) as admin:
            admin.delete_topics(names)
            admin.delete_groups([self._config.kafka.group])

    def _send(self, lines: Iterable[bytes], pause_s: float) -> None:
        try:
            producer = make_producer(self._config.kafka)
            for line in lines:
                value = None if line == TOMBSTONE_LINE else line
                producer.send(self._config.topics.input[0], value=value, key=b"deleted" if value is None else None)
                if self._stopped.wait(pause_s):
                    break
            producer.close(timeout=CLOSE_TIMEOUT_S)
        except KafkaError as error:
            self._failed = error


PROGRAM = (sys.executable, "-P", "-m", "stream_dedup")
"""The installed program; -P keeps Python from importing files of the current folder."""
PROCESS_READY_S = 120.0
"""Seconds for the process to be ready: it opens its index and joins the group, usually within four."""
READY_POLL_S = 0.1
END_LIMIT_S = 30.0
"""Seconds for a process to end after SIGTERM: the limit of a worker is 20."""
SHOWN_LOG_LINES = 15


class DevProcess:
    """A process of a command that answers on ``/readyz``. As a context manager, it ends with the block."""

    def __init__(self, arguments: Sequence[str], log: Path) -> None:
        """Start it; ``arguments`` begin with the command, ``log`` takes what it prints."""
        self._name = arguments[0]
        self._log = log
        with log.open("wb") as out:
            self._process = subprocess.Popen([*PROGRAM, *arguments], stdout=out, stderr=out)

    def running(self) -> bool:
        """Return whether the process runs."""
        return self._process.poll() is None

    def wait_until_ready(self) -> None:
        """Wait until /readyz answers 200; the process prints its address.

        Raises:
            UnavailableError: it ended, or is not ready in time.
        """
        deadline = time.monotonic() + PROCESS_READY_S
        while not self._is_ready():
            if not self.running() or time.monotonic() > deadline:
                why = f"was not ready within {PROCESS_READY_S:g} s" if self.running() else "ended"
                raise UnavailableError(f"stream-dedup {self._name} {why}")
            time.sleep(READY_POLL_S)

    def address(self) -> str | None:
        """Return host and port, once the process has printed them."""
        found = re.search(r"http://([^\s/]+)/", self._log.read_text(errors="replace"))
        return None if found is None else found[1]

    def _is_ready(self) -> bool:
        address = self.address()
        if address is None:
            return False
        with closing(HTTPConnection(address, timeout=PROCESS_READY_S)) as connection:
            try:
                connection.request("GET", "/readyz")
                return connection.getresponse().status == HTTPStatus.OK
            except (OSError, HTTPException):
                return False  # a busy machine: the server hangs up on a request that takes too long

    def end(self) -> None:
        """End the process with SIGTERM, and check its exit code.

        Raises:
            UnavailableError: it ended with an error.
        """
        self._process.terminate()
        if code := self._process.wait(END_LIMIT_S):
            raise UnavailableError(f"stream-dedup {self._name} ended with exit code {code}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process, by force if it takes too long; add the end of its log to an error."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_LIMIT_S)
        self._process.kill()
        self._process.wait()
        if isinstance(error, UnavailableError | subprocess.TimeoutExpired):
            with self._log.open(errors="replace") as lines:
                tail = "".join(deque(lines, SHOWN_LOG_LINES))
            raise UnavailableError(f"{error}; the log of stream-dedup {self._name} ends:\n{tail}") from error
