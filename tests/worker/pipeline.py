"""A pipeline on a real broker, as tests see it: topics, workers in processes of their own, an audit at the end."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import MemberToRemove

from stream_dedup.audit.run import AuditOptions, run_audit
from stream_dedup.config.load import load_config
from stream_dedup.config.model import MAX_RECORD_BYTES, Config
from stream_dedup.core.headers import Stamp, parse_headers
from stream_dedup.kafka.admin import committed_offsets
from stream_dedup.kafka.clients import kafka_audit_ports
from stream_dedup.kafka.connection import make_admin, make_consumer, make_producer
from stream_dedup.kafka.errors import patiently
from stream_dedup.kafka.topics import ensure_topics
from stream_dedup.worker import Step
from tests.forks import ForkedProcess, forks
from tests.waiting import wait_until

SESSION_S = 3
TRANSACTION_S = 6
DONE_S = 120.0
"""How long a test waits for a stream to be done."""
COMMAND_S = 200.0
"""For a command to end."""


Value = str | int | float | bool | list[str]
Keys = dict[str, Value]


class Pipeline:
    """One group with its topics on a broker."""

    def __init__(self, bootstrap: str, folder: Path, name: str, *, partitions: int = 1, **sections: Keys) -> None:
        self.folder = folder
        self.name = name
        self.bootstrap = bootstrap
        self._partitions = partitions
        self._sections = sections
        self._workers: list[ForkedProcess] = []
        self._clients = ExitStack()
        self._started: dict[int, tuple[str, int]] = {}
        admin = make_admin(self.config("main").kafka)
        ensure_topics(admin, self.config("main"))
        admin.close()

    def values(self, index: str) -> dict[str, dict[str, Any]]:
        values: dict[str, dict[str, Any]] = {
            "kafka": {
                "brokers": self.bootstrap,
                "group": self.name,
                "session_timeout_s": SESSION_S,
                "transaction_timeout_s": TRANSACTION_S,
                "broker_wait_s": 40,
            },
            "topics": {
                "input": [f"{self.name}-articles"],
                "unique": f"{self.name}-unique",
                "duplicate": f"{self.name}-duplicate",
                "rejected": f"{self.name}-rejected",
                "partitions": self._partitions,
            },
            "index": {"path": str(self.folder / index), "fold_entries": 500},
            "worker": {"batch_records": 100, "shutdown_s": 10},
            "metrics": {"address": "off"},
        }
        for section, keys in self._sections.items():
            values.setdefault(section, {}).update(keys)
        return values

    def config(self, index: str = "main") -> Config:
        return load_config(None, self.values(index), {})

    def set(self, section: str, **keys: Value) -> None:
        """Change the configuration of workers and commands that start from now on."""
        self._sections.setdefault(section, {}).update(keys)

    @property
    def topic(self) -> str:
        return f"{self.name}-articles"

    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, number) for number in range(self._partitions)]

    # articles in

    def produce(self, records: Iterable[tuple[bytes | None, bytes | None]], compression: str | None = None) -> None:
        # How large a record may be is up to the topic.
        settings = {"acks": "all", "linger_ms": 5, "max_request_size": MAX_RECORD_BYTES}
        producer = make_producer(self.config().kafka, compression_type=compression, **settings)
        sent = [
            producer.send(self.topic, key=key, value=value, partition=number % self._partitions)
            for number, (key, value) in enumerate(records)
        ]
        producer.flush(60)
        assert all(future.succeeded() for future in sent)
        producer.close()

    # workers

    def start(
        self,
        index: str = "main",
        die_at: Step = Step.POLLED,
        times: int = 0,
        *flags: str,
        program: str = "tests.worker.dying_worker:main",
    ) -> ForkedProcess:
        if self._workers and all(worker.poll() is not None for worker in self._workers):
            self._remove_members()
        assigned_before = self._assigned(index)
        path = self.folder / f"{index}.toml"
        path.write_text(toml_of(self.values(index)), "utf-8")
        with (self.folder / f"{index}.log").open("ab") as log, Path(os.devnull).open("rb") as nothing:
            streams = [nothing.fileno(), log.fileno(), log.fileno()]
            arguments = [str(path), die_at.value, str(times), *flags]
            worker = forks().start(program, arguments, streams)
        self._workers.append(worker)
        self._started[worker.pid] = (index, assigned_before)
        return worker

    def _remove_members(self) -> None:
        """Remove the members that died from the group: the next one would wait until their sessions end.

        Not where other workers run: that wait is part of what is tested then.
        """
        admin, kafka = self._admin, self.config().kafka
        described = patiently(kafka, "the group", lambda: admin.describe_groups([self.name]))[self.name]
        dead = [MemberToRemove(member_id=each["member_id"]) for each in described["members"]]
        if dead:
            patiently(kafka, "the group", lambda: admin.remove_group_members(self.name, dead))

    def _assigned(self, index: str) -> int:
        path = self.folder / f"{index}.log"
        return path.read_text("utf-8").count("partitions assigned") if path.exists() else 0

    def log(self, index: str = "main") -> str:
        return (self.folder / f"{index}.log").read_text("utf-8")

    def wait_joined(self, index: str = "main", times: int = 1) -> None:
        wait_until(lambda: self.log(index).count("begins at offset") >= times, 60, f"{index} joins its group")

    def stop(self, worker: ForkedProcess) -> None:
        """Stop a worker in order, once it takes part; it must end with exit code 0."""
        index, before = self._started[worker.pid]
        wait_until(lambda: self._assigned(index) > before, 60, f"{index} takes part in its group")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0, self.log(index)

    def close(self) -> None:
        """Kill the workers that still run."""
        self._clients.close()
        for worker in self._workers:
            if worker.poll() is None:
                worker.kill()
                worker.wait()

    # how far it is

    def committed(self) -> dict[TopicPartition, int]:
        admin, kafka = self._admin, self.config().kafka
        found = patiently(kafka, "committed offsets", lambda: committed_offsets(admin, self.name))
        return {partition: known.offset for partition, known in found.items()}

    def ends(self) -> dict[TopicPartition, int]:
        consumer, kafka = self._consumer, self.config().kafka
        ends: dict[TopicPartition, int] = patiently(
            kafka, "the ends of the input", lambda: consumer.end_offsets(self.partitions())
        )
        return ends

    # One client for all looks: making one takes more processor time than the look.

    @cached_property
    def _admin(self) -> KafkaAdminClient:
        return self._clients.enter_context(closing(make_admin(self.config().kafka)))

    @cached_property
    def _consumer(self) -> KafkaConsumer:
        return self._clients.enter_context(closing(make_consumer(self.config().kafka)))

    def done(self) -> bool:
        """Whether every article that is there has its verdict, committed."""
        committed = self.committed()
        return all(committed.get(partition, 0) >= end for partition, end in self.ends().items())

    def wait_done(self, limit_s: float = DONE_S) -> None:
        """Wait until every article that is there has its verdict, committed."""
        wait_until(self.done, limit_s, f"every article of {self.name} is judged")

    def wait_judged(self, articles: int, limit_s: float = DONE_S) -> None:
        """Wait until so many articles have their verdict, committed."""
        wait_until(lambda: sum(self.committed().values()) >= articles, limit_s, f"{articles} articles are judged")

    # verdicts out

    def outputs(self) -> list[tuple[str, Any, Stamp]]:
        """Topic, record and stamp of every output record, read committed."""
        topics = self.config().topics
        return [
            (record.topic, record, parse_headers(record.headers))
            for topic in (topics.unique, topics.duplicate, topics.rejected)
            for record in self.read(topic)
        ]

    def stamps(self) -> dict[tuple[int, int], Stamp]:
        """Stamps by source partition and offset; none may be there twice."""
        found: dict[tuple[int, int], Stamp] = {}
        for _, _, stamp in self.outputs():
            at = (stamp.coordinates.partition, stamp.coordinates.offset)
            assert at not in found, f"{stamp.coordinates} left twice"
            found[at] = stamp
        return found

    def read(self, topic: str) -> list[Any]:
        """Every committed record of a topic."""
        consumer = make_consumer(self.config().kafka)
        partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)
        records: list[Any] = []
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            for batch in consumer.poll(500).values():
                records += batch
        consumer.close()
        return records

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the program with this pipeline's configuration."""
        path, out, error = (self.folder / f"command.{name}" for name in ("toml", "out", "err"))
        path.write_text(toml_of(self.values("command")), "utf-8")
        arguments = ["{}", *command, "--config", str(path)]
        with Path(os.devnull).open("rb") as nothing, out.open("wb") as to, error.open("wb") as to_error:
            streams = [nothing.fileno(), to.fileno(), to_error.fileno()]
            running = forks().start("tests.files.dying_filter:main", arguments, streams)
        self._workers.append(running)
        code = running.wait(COMMAND_S)
        return subprocess.CompletedProcess(command, code, out.read_text("utf-8"), error.read_text("utf-8"))

    def assert_sound(self, *, allow_repeats: bool = False) -> None:
        """The audit finds no fault."""
        config = self.config()
        with kafka_audit_ports(config) as ports:
            report = run_audit(config, AuditOptions(allow_repeats=allow_repeats), ports, lambda *_: None)
        assert not report.faults, report


@contextmanager
def pipeline(bootstrap: str, folder: Path, name: str, *, partitions: int = 1, **sections: Keys) -> Iterator[Pipeline]:
    made = Pipeline(bootstrap, folder, name, partitions=partitions, **sections)
    try:
        yield made
    finally:
        made.close()


def stop_all(made: Pipeline, workers: Sequence[ForkedProcess]) -> None:
    for worker in workers:
        made.stop(worker)


def freeze(worker: ForkedProcess) -> None:
    os.kill(worker.pid, signal.SIGSTOP)


def is_frozen(worker: ForkedProcess) -> bool:
    return Path(f"/proc/{worker.pid}/stat").read_text().rpartition(") ")[2].startswith("T")


def thaw(worker: ForkedProcess) -> None:
    os.kill(worker.pid, signal.SIGCONT)


def toml_of(values: dict[str, dict[str, Any]]) -> str:
    lines: list[str] = []
    for section, keys in values.items():
        lines.append(f"[{section}]")
        lines += [f"{key} = {_toml_value(value)}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"


def _toml_value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)
