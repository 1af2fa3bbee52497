"""One process of a worker: opens its index and its log, and runs until it is stopped, killed, or ends with an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from prometheus_client import CollectorRegistry

from stream_dedup.config.effective import input_format_of, rules_of
from stream_dedup.config.model import Config
from stream_dedup.core.columns import Columns
from stream_dedup.core.decode import RawRecord
from stream_dedup.core.reasons import UNKNOWN_SCHEMA
from stream_dedup.errors import UnavailableError
from stream_dedup.index import LogIndex
from stream_dedup.metrics.metrics import Metrics
from stream_dedup.ports import FingerprintLog, WorkerPorts
from stream_dedup.registry.values import schema_id_of
from stream_dedup.worker import Step
from stream_dedup.worker.committer import worker_id
from stream_dedup.worker.decoding import SourceEntryMaker
from stream_dedup.worker.opening import open_log
from stream_dedup.worker.worker import Worker
from tests.memory.broker import Cluster
from tests.memory.log_topic import MemoryLogTopic
from tests.memory.offsets import MemoryOffsets
from tests.memory.sink import memory_sink
from tests.memory.source import MemberSettings, MemorySource
from tests.simulation.fake_threads import FakeThreads, columns_of
from tests.simulation.link import Link
from tests.simulation.memory_store import MemoryStore
from tests.simulation.plan import SESSION_S, Plan
from tests.simulation.registry import ProcessSchemas, Registry
from tests.simulation.scheduler import Actor, Process, Scheduler, VirtualClock

if TYPE_CHECKING:
    from stream_dedup.registry.values import Schemas

FINGERPRINT_S = 0.3
"""Longest time in which records are fingerprinted."""


@cache
def metrics() -> Metrics:
    """Return metrics that all workers share: nobody reads them."""
    return Metrics(CollectorRegistry())


class WorkerProcess:
    """A process of one worker, from its start to its end."""

    def __init__(
        self,
        name: str,
        plan: Plan,
        scheduler: Scheduler,
        cluster: Cluster,
        config: Config,
        registry: Registry | None = None,
    ) -> None:
        self.process = Process(name)
        self.link = Link(plan, scheduler, self.process)
        self.config = config
        self.error: BaseException | None = None
        self.at_step: dict[Step, tuple[int, Callable[[], None]]] = {}
        """What happens at a step, and how many times the process passes it before."""
        self.worker: Worker | None = None
        self._plan = plan
        self._scheduler = scheduler
        self._cluster = cluster
        self._clock = VirtualClock(scheduler, self.process)
        self._schemas = None if registry is None else ProcessSchemas(registry, self._clock)
        self._index: LogIndex | None = None
        self.stop = self._clock.event()
        self.main: Actor = scheduler.spawn(self.process, name, self._run)

    @property
    def is_running(self) -> bool:
        """Whether it has neither ended nor been killed."""
        return self.main.is_alive

    @property
    def folder(self) -> Path:
        """Its index folder."""
        return self.config.index.path

    def die(self) -> None:
        """End at once; does not return to an actor of this process."""
        MemoryStore.disk.kill(self.folder, self._scheduler.rng)
        if self._index is not None:
            if self._plan.real_store:
                self._index._applied.store.close()
            self._index._folder.lock.release()
        self._scheduler.kill(self.process)

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - the world looks at it
            self.error = error
        finally:
            if self._index is not None and not self.process.is_dead:
                self._index.close()

    def _work(self) -> None:
        config, connection = self.config, self.link.connection
        topic = MemoryLogTopic(self._cluster, connection, config.kafka.group, config.log_topic)
        opened = open_log(config, topic, lambda _done, _whole: None)
        self._index = opened.index
        name = worker_id(config.index.path, config.kafka.group)
        widths = rules_of(config).scheme.widths

        def entries(records: Sequence[RawRecord]) -> Columns:
            return self._decoded(records, columns_of(records, widths, deletes=self._plan.deletes))

        make = SourceEntryMaker(entries, input_format_of(config, deletes=True), opened.record_bytes, widths)
        threads: Any = FakeThreads(self._later, self._fingerprint_s, make)
        self.worker = Worker(
            config=config,
            ports=self._ports(name, opened.log),
            opened=opened,
            transactional_id=name,
            fingerprinter=threads,
            metrics=metrics(),
            stop=self.stop,
            schemas=cast("Schemas | None", self._schemas),
            on_step=self._on_step,
            end=self._end_by_watchdog,
        )
        self.worker.run()

    def _decoded(self, records: Sequence[RawRecord], columns: Columns) -> Columns:
        """Return the entries, those rejected whose schemas the registry does not have: a worker waits for them."""
        schemas = self._schemas
        if schemas is None:
            return columns
        unread = {
            row: UNKNOWN_SCHEMA.format(id=schema_id_of(record.value))
            for row, record in enumerate(records)
            if schemas.lacks_schema_of(record.value)
        }
        return columns.rejected(unread)

    def _ports(self, member: str, log: FingerprintLog) -> WorkerPorts:
        cluster, connection, group = self._cluster, self.link.connection, self.config.kafka.group
        sink = memory_sink(cluster, connection, self.config, member)
        self.link.end_late = sink.commit_request
        return WorkerPorts(
            source=MemorySource(cluster, connection, MemberSettings(group, member, SESSION_S)),
            log=log,
            sink=sink,
            offsets=MemoryOffsets(cluster, connection, group),
            clock=self._clock,
        )

    def _on_step(self, step: Step) -> None:
        self._scheduler.point(step.value)
        passes, effect = self.at_step.pop(step, (0, None))
        if effect is not None and passes:
            self.at_step[step] = (passes - 1, effect)
        elif effect is not None:
            effect()

    def _end_by_watchdog(self, code: int) -> None:
        self.error = UnavailableError(f"the watchdog ended the process with code {code}")
        self.die()

    def _later(self, delay_s: float, run: Callable[[], None]) -> None:
        self._scheduler.call_at(self._scheduler.now() + delay_s, run)

    def _fingerprint_s(self) -> float:
        return FINGERPRINT_S * self._scheduler.rng.random() ** 2
