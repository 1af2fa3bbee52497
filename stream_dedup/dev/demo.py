"""The two demonstrations: ``make run`` shows the main job on a sample, ``make demo`` the pages over an endless stream.

1. Start a development broker, or use the one that the environment names.
2. Make topics under new names.
3. Start a worker as a user would: ``stream-dedup run``; for the pages ``stream-dedup serve`` as well.
4. Send the sample, a few records a second, and print each verdict as it comes; or the endless stream, and print the
   address of the pages, until Ctrl-C.
5. End the worker with SIGTERM, print a summary, and recompute the verdicts of the sample with ``stream-dedup audit``.

On a machine without Docker and Java the first says so and shows the same stream with ``stream-dedup filter``. They
leave nothing behind: no topic, broker, process or folder.
"""

from __future__ import annotations

import json
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

import click
from kafka import TopicPartition
from kafka.errors import KafkaError

from stream_dedup.cli import exit_code_of
from stream_dedup.cli.output import write_lines
from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config, ServeConfig
from stream_dedup.core.headers import Stamp, parse_headers, source_text
from stream_dedup.core.model import OUTPUT_VERDICTS, Verdict
from stream_dedup.dev.broker import NoMachineryError, find_broker
from stream_dedup.dev.broker.base import is_free
from stream_dedup.dev.stream import SampleStream
from stream_dedup.errors import EXIT_OK, StreamDedupError, UnavailableError
from stream_dedup.extras import SERVE_PACKAGES, need_packages
from stream_dedup.folders import TemporaryFolder
from stream_dedup.kafka.admin import partitions_of
from stream_dedup.kafka.connection import CLOSE_TIMEOUT_S, make_admin, make_consumer, make_producer
from stream_dedup.kafka.topics import ensure_topics
from stream_dedup.terminal import shorten, visible

PROGRAM = (sys.executable, "-P", "-m", "stream_dedup")
"""The installed program; -P keeps Python from importing files of the current folder."""
STARTING_KAFKA = "Starting Kafka (the first time its image or its jars are fetched) …"
SAMPLE = Path(__file__).with_name("samples") / "articles.jsonl"
SETTINGS = """\
[input]
fields = { text = 1, html = 1 }
html_fields = ["html"]
[match]
recrawl = "update"
"""
"""The settings that differ from the defaults: pages are HTML, and an article crawled again is an update."""
PAUSE_S = 0.12
"""Between two records, seconds: a person can follow, and the whole sample takes seven seconds."""
VERDICT_LIMIT_S = 30.0
"""Seconds for the next verdict: some tens of milliseconds are usual."""
TITLE_COLUMNS = 48
"""Columns of the text in the printed line; a Chinese character takes two."""
PAGES_PAUSE_S = 0.15
"""The same of the endless stream: some six a second, of which a person can read the verdicts."""
WATCH_PROCESSES_S = 0.5
PLAIN = "an article"
"""The sample's note on a record that needs no note."""
COLOURS = {Verdict.UNIQUE: "green", Verdict.DUPLICATE: "yellow", Verdict.REJECTED: "red"}


def main() -> int:
    """Show the pages where the argument is ``pages``, else the stream, until it or a signal ends it; the exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    name, show = ("make demo", _show_the_pages) if sys.argv[1:] == ["pages"] else ("make run", _show_the_stream)
    try:
        return show()
    except StreamDedupError as error:
        write_lines(*f"{name}: {error}".split("\n"), err=True)
        return exit_code_of(error)
    except KeyboardInterrupt:
        write_lines("", "ended; nothing is left behind", err=True)
        return EXIT_OK


def _stop(_number: int, _frame: FrameType | None) -> None:
    """End what is being done; a second signal changes nothing."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _show_the_stream() -> int:
    settings = (f"    {line}" for line in SETTINGS.splitlines())
    write_lines("The profile is article; beside it is set:", "", *settings, "", STARTING_KAFKA)
    with TemporaryFolder() as folder:
        try:
            broker = find_broker()
        except NoMachineryError as error:
            write_lines(str(error), "The same stream through files instead:", "")
            return _through_files(folder)
        with broker:
            write_lines(f"Kafka answers at {broker.bootstrap}, {broker.description}.")
            return _through_kafka(broker.bootstrap, folder)


def _through_kafka(brokers: str, folder: Path) -> int:
    lines = SAMPLE.read_bytes().splitlines()
    settings = write_settings(folder, "sample", brokers, SETTINGS)
    flags = ["--config", str(settings)]
    with closing(Showing(load_config(settings))) as showing:
        write_lines("A worker: stream-dedup run " + " ".join(flags), "")
        with DevProcess(["run", *flags], folder / "worker.log") as worker:
            worker.wait_until_ready()
            showing.feed(lines, PAUSE_S)
            verdicts, delays = Counter[Verdict](), list[int]()
            for value, stamp, delay_ms in showing.outputs(len(lines), worker.running):
                write_output(value, stamp)
                verdicts[stamp.verdict] += 1
                delays.append(delay_ms)
        numbers = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in OUTPUT_VERDICTS)
        write_lines("", f"{verdicts.total()} records: {numbers}.")
        write_lines(f"From article to committed verdict: median {statistics.median(delays):.0f} ms.")
        write_lines("Every verdict recomputed from the log: stream-dedup audit " + " ".join(flags))
        return subprocess.run([*PROGRAM, "audit", *flags], check=False).returncode


def write_output(value: bytes | None, stamp: Stamp) -> None:
    """Write a line: the verdict is in its colour, the record's own text without any colour codes."""
    match, record = stamp.match, _record(value)
    name = str(record.get("id", source_text(stamp.topic, stamp.coordinates)))
    if match is not None:
        detail = f"{'new version of' if stamp.update else '='} {match.id}, {match.distance} bits"
    else:
        detail = stamp.reason or shorten(str(record.get("text", record.get("html", ""))), TITLE_COLUMNS)
    note = str(record.get("what", PLAIN))
    click.secho(f"  {stamp.verdict:<10}", fg=COLOURS[stamp.verdict], nl=False)  # noqa: TID251 - our own words
    write_lines(f" {visible(name):<20} {detail}" + f"  ({note})" * (note != PLAIN))


def _record(value: bytes | None) -> dict[str, Any]:
    try:
        record = json.loads(value or b"null")
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def _through_files(folder: Path) -> int:
    settings = folder / "demo.toml"
    settings.write_text(SETTINGS, "utf-8")
    subprocess.run([*PROGRAM, "filter", "--config", str(settings), str(SAMPLE)], check=False)
    return EXIT_OK


def _show_the_pages() -> NoReturn:
    need_packages("the service", "serve", *SERVE_PACKAGES)
    write_lines(STARTING_KAFKA)
    try:
        broker = find_broker()
    except NoMachineryError as error:
        raise UnavailableError(f"{error}; make run shows the program without a broker") from error
    with broker, ExitStack() as stack:
        folder = stack.enter_context(TemporaryFolder())
        serve = f'[serve]\naddress = "{_free_address()}"\ndata_dir = "{folder / "serve"}"\n'
        settings = write_settings(folder, "demo", broker.bootstrap, '[match]\nrecrawl = "update"\n' + serve)
        showing = stack.enter_context(closing(Showing(load_config(settings))))
        write_lines("Starting a worker …")
        worker = stack.enter_context(DevProcess(["run", "--config", str(settings)], folder / "worker.log"))
        worker.wait_until_ready()
        showing.feed((record.value for record in SampleStream()), PAGES_PAUSE_S)
        write_lines("Starting the service …")
        service = stack.enter_context(DevProcess(["serve", "--config", str(settings)], folder / "serve.log"))
        service.wait_until_ready()
        write_lines("", f"The pages: http://{service.address()}/", "Ctrl-C ends everything.")
        while worker.running() and service.running():
            time.sleep(WATCH_PROCESSES_S)
        raise UnavailableError("a process of the demonstration has ended by itself")


def _free_address() -> str:
    """Return the usual address of the service, or one of its host with any free port if that is taken."""
    host, _, port = ServeConfig().address.rpartition(":")
    return f"{host}:{port if is_free(int(port), host) else 0}"


# The topics of a demonstration, and its processes.

SHOWING_POLL_MS = 100
"""One wait for outputs, milliseconds; a person does not see a shorter delay."""
TOMBSTONE_LINE = b"null"
"""The line of a file that stands for a record without a value."""


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


class Showing:
    """The topics of one demonstration; the constructor makes them, ``close`` removes them."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._outputs = [config.topics.unique, config.topics.duplicate, config.topics.rejected]
        self._stopped = threading.Event()
        self._feeder: threading.Thread | None = None
        self._failed: KafkaError | None = None
        with closing(make_admin(config.kafka)) as admin:
            ensure_topics(admin, config)

    def feed(self, lines: Iterable[bytes], pause_s: float) -> None:
        """Start to send the lines, however many, one record each, with a pause between them; returns at once."""
        self._feeder = threading.Thread(target=self._send, args=(lines, pause_s), name="feeder")
        self._feeder.start()

    def outputs(self, count: int, running: Callable[[], bool]) -> Iterator[tuple[bytes | None, Stamp, int]]:
        """Yield so many outputs as they come: value, headers, and the milliseconds since the article was written.

        Raises:
            UnavailableError: no output came within ``VERDICT_LIMIT_S``, or the worker is not ``running`` any more.
        """
        with closing(make_consumer(self._config.kafka, auto_offset_reset="earliest", group_id=None)) as consumer:
            with closing(make_admin(self._config.kafka)) as admin:
                consumer.assign([TopicPartition(*at) for at in partitions_of(admin, self._outputs)])
            deadline = time.monotonic() + VERDICT_LIMIT_S
            while count > 0:
                records = [record for batch in consumer.poll(SHOWING_POLL_MS).values() for record in batch]
                for record in sorted(records, key=lambda record: int(record.timestamp)):
                    stamp = parse_headers(record.headers)
                    yield record.value, stamp, record.timestamp - stamp.timestamp
                    count -= 1
                    deadline = time.monotonic() + VERDICT_LIMIT_S
                if count and (self._failed is not None or not running() or time.monotonic() > deadline):
                    late = f"none within {VERDICT_LIMIT_S:g} s" if running() else "the worker has ended"
                    why = self._failed or late
                    raise UnavailableError(f"{count} verdicts are missing: {why}")

    def close(self) -> None:
        """Stop feeding, and delete the topics and the group if the broker answers."""
        self._stopped.set()
        if self._feeder is not None:
            self._feeder.join()
        names = [*self._config.topics.input, *self._outputs, self._config.log_topic]
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process with SIGTERM, by force if it takes too long; an error has the end of its log."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_LIMIT_S)
        self._process.kill()
        if (code := self._process.wait()) and error is None:
            error = UnavailableError(f"stream-dedup {self._name} ended with exit code {code}")
        if isinstance(error, UnavailableError):
            with self._log.open(errors="replace") as lines:
                tail = "".join(deque(lines, SHOWN_LOG_LINES))
            raise UnavailableError(f"{error}; the log of stream-dedup {self._name} ends:\n{tail}") from error


if __name__ == "__main__":
    sys.exit(main())
