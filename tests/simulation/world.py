"""A simulated cluster with its workers and producers, from the first article until everything is quiet."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config
from stream_dedup.config.profile_file import SearchSection
from stream_dedup.core.model import Coordinates
from stream_dedup.ports import CommittedOffset, Partition, PortError
from stream_dedup.worker.committer import write_worker_id
from tests.memory.broker import Cluster, Timings, Topic
from tests.memory.partition import Message, PartitionLog
from tests.memory.transactions import Session
from tests.profiles import profile_with
from tests.simulation.plan import LENGTH_S, SESSION_S, TRANSACTION_S, Plan, Write
from tests.simulation.registry import Registry
from tests.simulation.scheduler import Scheduler
from tests.simulation.worker_process import WorkerProcess

GROUP = "group"
OUTPUTS = ("unique", "duplicate", "rejected")
RESTART_S = 1.0
"""A worker that has ended with an error is started again after so long."""
QUIET_S = 240.0
"""Everything must be quiet so long after the last event, in virtual seconds."""
LOOK_S = 0.25
"""Virtual seconds between two looks whether it is."""
CLOCK_ALLOWANCE_S = 1.0
"""``worker.clock_allowance_s``."""
FOLD_ENTRIES = 8
"""``index.fold_entries``: what a schedule logs becomes stored runs, which are merged."""
OTHER_RULES = "the rules in force in .* are not the configuration's"
"""The end of a worker that was starting while other rules were applied: its next start has them."""
RESTARTED = (
    "has trimmed the log|was trimmed|no longer there|did not answer|no Kafka broker|not acknowledged|watchdog|"
    "cannot be read|was not delivered|cannot start within|failed in a row|not read to its end|gave no answer"
)
"""Errors after which a worker is started again, and nothing else is to be done."""


class UnexpectedEndError(Exception):
    """A worker ended with an error that nothing in the schedule explains."""


@dataclass(slots=True, eq=False)
class Slot:
    """A worker: its index folder, and its present process."""

    number: int
    config: Config
    running: WorkerProcess | None = None
    starts: int = 0
    is_wanted: bool = True
    """Whether it is to be started again when it has ended."""


@dataclass(slots=True, eq=False)
class Mended:
    """An error that an event explains, and what the operator does about it before the next start."""

    pattern: str
    remedy: Callable[[], None]


@dataclass(slots=True, eq=False)
class SimulatedWorld:
    """Everything that one schedule consists of."""

    plan: Plan
    root: Path
    scheduler: Scheduler = field(init=False)
    cluster: Cluster = field(init=False)
    slots: list[Slot] = field(init=False)
    partitions: list[int] = field(init=False)
    """Partitions of each input topic."""
    topics: list[Topic] = field(default_factory=list)
    """Every input topic that there ever was."""
    mended: list[Mended] = field(default_factory=list)
    lost_offsets: dict[Partition, CommittedOffset] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    rejected: set[Coordinates] = field(default_factory=set)
    """What an operator has rejected on purpose."""
    registry: Registry | None = None
    """Where some values have schemas."""
    is_healed: bool = False

    def __post_init__(self) -> None:
        """Make the cluster, its topics and its workers; nothing runs yet."""
        plan = self.plan
        rng = Random(f"run {plan.seed}")
        self.scheduler = Scheduler(rng, switching=plan.switching)
        timings = Timings(marker_s=lambda: rng.random() * plan.marker_s, metadata_s=lambda: rng.random() * 2)
        self.cluster = Cluster(self.scheduler, plan.nodes, timings)
        self.registry = Registry(plan.seed, self.scheduler) if plan.schemas else None
        self.partitions = list(plan.topics)
        for number in range(len(plan.topics)):
            self.make_input(number)
        for name in OUTPUTS:
            self.cluster.make_topic(name, plan.output_partitions)
        self.cluster.make_topic(self.log_topic, has_append_time=True)
        ids = [f"{GROUP}-{uuid.UUID(int=rng.getrandbits(128))}" for _ in range(plan.workers)]
        self.slots = [Slot(number, self._config(number)) for number in range(plan.workers)]
        for slot, transactional_id in zip(self.slots, ids, strict=True):
            slot.config.index.path.mkdir(parents=True)
            write_worker_id(slot.config.index.path, transactional_id)

    # The parts.

    @property
    def log_topic(self) -> str:
        """Name of the log topic."""
        return f"{GROUP}.fingerprints"

    @property
    def log(self) -> PartitionLog:
        """The log."""
        return self.cluster.topics[self.log_topic].partitions[0]

    @property
    def inputs(self) -> list[str]:
        """Names of the input topics."""
        return [f"articles{number}" for number in range(len(self.partitions))]

    def make_input(self, number: int) -> None:
        """Make an input topic."""
        name = self.inputs[number]
        self.cluster.make_topic(name, self.partitions[number])
        self.topics.append(self.cluster.topics[name])

    def note(self, text: str) -> None:
        """Add a line to the story of the schedule."""
        self.notes.append(f"{self.scheduler.now():7.2f} s  {text}")

    def later(self, delay_s: float, run: Callable[[], None]) -> None:
        """Call a function after so many seconds."""
        self.scheduler.call_at(self.scheduler.now() + delay_s, run)

    def running(self) -> Iterator[WorkerProcess]:
        """Yield the processes that run."""
        for slot in self.slots:
            if slot.running is not None and slot.running.is_running:
                yield slot.running

    # The workers.

    def start(self, slot: Slot) -> None:
        """Start a process of a worker that has none."""
        if slot.running is not None and slot.running.is_running:
            return
        slot.is_wanted = True
        slot.starts += 1
        name = f"w{slot.number}.{slot.starts}"
        slot.running = started = WorkerProcess(
            name, self.plan, self.scheduler, self.cluster, slot.config, self.registry
        )
        started.link.is_healed = self.is_healed

    def kill(self, slot: Slot, restart_s: float = RESTART_S) -> None:
        """Kill the process of a worker; start another one later."""
        process = slot.running
        if process is None or not process.is_running:
            return
        self.note(f"{process.process.name} is killed")
        slot.is_wanted = False
        self.later(restart_s, partial(self.start, slot))
        process.die()

    def look_after(self) -> None:
        """Start again the workers that have ended, as their operator would.

        Raises:
            UnexpectedEndError: nothing explains the end of one.
        """
        for slot in self.slots:
            process = slot.running
            if process is None or process.is_running or not slot.is_wanted:
                continue
            slot.is_wanted = False
            self._mend(process, slot.config)
            self.later(RESTART_S, partial(self.start, slot))

    def _mend(self, process: WorkerProcess, config: Config) -> None:
        """Do what makes the next start work, which is one with this configuration."""
        name, error = process.process.name, process.error or process.main.error
        self.note(f"{name} ended: {error!r}")
        if process.config.match != config.match and re.search(OTHER_RULES, str(error)):
            return
        for mended in self.mended:
            if re.search(mended.pattern, str(error)):
                mended.remedy()
                return
        if error is None or not re.search(RESTARTED, str(error)):
            raise UnexpectedEndError(f"{name} ended with {error!r}") from error

    def restore_offsets(self) -> None:
        """Set the committed offsets that the group has lost, where it has no newer ones."""
        group = self.cluster.group(GROUP)
        for partition, offset in self.lost_offsets.items():
            group.committed.setdefault(partition, offset)

    # The articles.

    def write(self, write: Write) -> None:
        """Write records to an input topic, within a transaction or without."""
        name = self.inputs[write.topic]
        if name not in self.cluster.topics:
            return
        log = self.cluster.partition(Partition(name, write.partition))
        messages = [Message(key, value, (), self.cluster.time_ms()) for key, value in write.values]
        if write.outcome == "plain":
            for message in messages:
                self.cluster.append(log, message)
            return
        known = self.cluster.transactions.renew(f"producer-{write.at}", TRANSACTION_S)
        session = Session(known, known.epoch)
        for message in messages:
            self.cluster.transactions.produce(session, log, message)
        self.later(write.open_s, partial(self._end, session, committed=write.outcome == "committed"))

    def _end(self, session: Session, *, committed: bool) -> None:
        try:
            self.cluster.transactions.end(session, committed=committed)
        except PortError as error:
            self.note(f"a producer's transaction has ended already: {error}")

    # From begin to end.

    def run_until(self, when: float) -> None:
        """Let everything run until a time, and look after the workers meanwhile."""
        while self.scheduler.now() < when:
            self.scheduler.run_to(min(when, self.scheduler.now() + LOOK_S))
            self.look_after()

    def run_until_quiet(self) -> bool:
        """Let everything run until no article is owed; return whether that came in due time."""
        deadline = self.scheduler.now() + QUIET_S
        while self.scheduler.now() < deadline:
            if self.is_quiet():
                return True
            self.run_until(self.scheduler.now() + LOOK_S)
        return False

    def is_quiet(self) -> bool:
        """Whether every article has left, every transaction has ended, and nothing is in flight or uncommitted."""
        if any(self.cluster.transactions.ongoing()):
            return False
        if any(process.worker is None or process.worker._assignments.batches for process in self.running()):
            return False
        return all(self._is_done(log) for topic in self.cluster.topics.values() for log in topic.partitions)

    def _is_done(self, log: PartitionLog) -> bool:
        if log.open:
            return False
        if log.name.topic not in self.inputs:
            return True
        committed = self.committed(log)
        return committed is not None and committed.offset >= log.end

    def committed(self, log: PartitionLog) -> CommittedOffset | None:
        """Return the committed offset of an input partition, if it is one of its present topic."""
        found = self.cluster.group(GROUP).committed.get(log.name)
        return None if found is None or found.topic_id != self.cluster.topics[log.name.topic].id else found

    def heal(self) -> None:
        """End every fault; start every worker."""
        self.is_healed = True
        if self.registry is not None:
            self.registry.away_until = 0.0
        for node in self.cluster.nodes:
            node.ahead_ms = 0
        for slot in self.slots:
            process = slot.running
            if process is not None:
                process.link.is_healed = True
                process.link.faults_until = process.link.away_until = 0.0
                process.link.stalls.clear()
                process.at_step.clear()
                process.process.ahead_ms = 0
                self.scheduler.thaw(process.process)
        for number, name in enumerate(self.inputs):
            if name not in self.cluster.topics:
                self.make_input(number)

    def stop(self) -> bool:
        """Stop every worker; return whether each has ended in time, and with no error but one that can be mended.

        A worker that was held up may find just now that the log was cut past what it has read, or that the group had
        lost its offsets when it asked for them.
        """
        running = list(self.running())
        for slot in self.slots:
            slot.is_wanted = False
        for process in running:
            process.stop.set()
        done = self.scheduler.run_until(
            lambda: not any(process.is_running for process in running), self.scheduler.now() + LENGTH_S * 5
        )
        errors = [process.error or process.main.error for process in running]
        explained = "|".join([RESTARTED, *(mended.pattern for mended in self.mended)])
        return done and all(error is None or re.search(explained, str(error)) for error in errors)

    def match(self, change: dict[str, Any]) -> dict[str, Any]:
        """Return the keys of ``match`` of the plan with a change; keys of a profile's search are among both."""
        given = self.plan.rules | change
        search = {name: given.pop(name) for name in SearchSection.model_fields if name in given}
        return given | {"profile": profile_with(given["profile"], features=self.plan.features, search=search)}

    def _config(self, number: int) -> Config:
        overrides: dict[str, Any] = {
            "kafka": {
                "group": GROUP,
                "session_timeout_s": SESSION_S,
                "transaction_timeout_s": TRANSACTION_S,
                "broker_wait_s": 20,
            },
            "topics": {"input": ["^"] if self.plan.pattern else self.inputs},
            "match": self.match({}),
            "input": {
                "deletes": "withdraw" if self.plan.deletes else "reject",
                "format": "avro" if self.plan.schemas else "json",
            },
            "registry": {"url": "http://registry" if self.plan.schemas else None},
            "worker": {"clock_allowance_s": CLOCK_ALLOWANCE_S, "shutdown_s": 20, **self.plan.worker},
            "index": {"path": str(self.root / f"worker{number}"), "memory_mib": 0, "fold_entries": FOLD_ENTRIES},
        }
        return load_config(None, overrides, {})
