"""An engine, and everything that it works with in memory."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry

from stream_dedup.config.effective import rules_of
from stream_dedup.config.load import load_config
from stream_dedup.core.columns import Columns
from stream_dedup.core.decode import RawRecord
from stream_dedup.core.entry import Batch, LogRecord
from stream_dedup.core.fingerprinter import EntryMaker
from stream_dedup.core.model import SourceOffset
from stream_dedup.core.profiles import DEFAULT_PROFILE, PROFILES
from stream_dedup.index import LogIndex
from stream_dedup.metrics.metrics import Metrics
from stream_dedup.ports import (
    CommittedOffset,
    Membership,
    Partition,
    PassingError,
    PortError,
    SourceRecord,
)
from stream_dedup.worker.assignments import Assignment, AssignmentOwner, JudgedBatch, PolledBatch
from stream_dedup.worker.engine import GATHER_S, Engine
from tests.logs import START_TIME, record
from tests.worker.clocks import ManualClock

TOPIC_ID, OTHER_ID = b"t" * 16, b"o" * 16
BROKER_WAIT_S = 60.0
MAKER = EntryMaker(PROFILES[DEFAULT_PROFILE].settings)


class Sent:
    """The outcome of an append: failed, or acknowledged."""

    def __init__(self, error: PortError | None) -> None:
        self._error = error

    def done(self) -> bool:
        return True

    def error(self) -> PortError | None:
        return self._error


class FakeSchemas:
    """What an engine asks a ``SchemaWatch``; a test sets what is there and what is unknown."""

    def __init__(self) -> None:
        self.there: set[int] = set()
        self.unknown: set[int] = set()
        self.wanted: frozenset[int] = frozenset()
        self.changes = 0

    def __contains__(self, schema_id: int) -> bool:
        return schema_id in self.there

    def is_unknown(self, schema_id: int) -> bool:
        return schema_id in self.unknown

    def want(self, ids: frozenset[int]) -> None:
        self.wanted = ids

    def learn(self, *ids: int) -> None:
        self.there |= set(ids)
        self.changes += 1

    def miss(self, *ids: int) -> None:
        self.unknown |= set(ids)
        self.changes += 1


class World:
    """Everything that an engine works with; ``ids`` are the topic ids of a look-up, None while there is none."""

    def __init__(
        self, folder: Path, schemas: FakeSchemas | None = None, input_format: str = "json", *, reads_keys: bool = False
    ) -> None:
        self._schemas = schemas
        self._input = SimpleNamespace(format=input_format, key_field="key" if reads_keys else None)
        rules = rules_of(load_config(None, {}, {}))
        self.index = LogIndex.open(folder, scheme=rules.scheme)
        self.index.begin(str(uuid.uuid4()))
        self.index.apply([record(0, START_TIME, rules)])
        self.ids: dict[str, bytes] | None = {"articles": TOPIC_ID}
        self.fails = 0
        self.failure: PortError = PassingError("the broker was away")
        self.appended: list[list[int]] = []
        self.renewed = 0
        self.polls = 0
        self.trims: list[Sent] = []
        self.unread: list[LogRecord] = []
        self.unread_limit = 100
        self.columns: dict[int, Future[Columns]] = {}
        self.submitted: dict[int, Sequence[SourceRecord]] = {}
        """What each future is of, by its first offset."""
        self.judged: list[JudgedBatch] = []
        self.membership: Membership | None = Membership(frozenset(), 1, "proof")
        self.metrics = Metrics(CollectorRegistry())
        self.clock = ManualClock()
        self.tail: Any = SimpleNamespace(next_records=self._next_records, hurry=lambda: None)
        self.assignments = AssignmentOwner(lambda: self.membership, 100, 1 << 20, held=lambda: self.engine.held)
        self.engine = Engine(**self._collaborators())

    def _collaborators(self) -> dict[str, Any]:
        kafka = SimpleNamespace(broker_wait_s=BROKER_WAIT_S)
        return {
            "config": SimpleNamespace(log_topic="group.fingerprints", input=self._input, kafka=kafka),
            "index": self.index,
            "tail": self.tail,
            "log": SimpleNamespace(append=self._append, renew=self._renew, high_water=lambda: 0),
            "fingerprinter": SimpleNamespace(submit=self._submit),
            "watch": SimpleNamespace(ids_since=lambda _: self.ids),
            "schemas": self._schemas,
            "trimmer": SimpleNamespace(step=lambda _: None, appends=self.trims),
            "assignments": self.assignments,
            "clock": self.clock,
            "wake": self.clock.event(),
            "metrics": self.metrics,
            "on_step": lambda _: None,
        }

    def _next_records(self) -> list[LogRecord]:
        records, self.unread = self.unread[: self.unread_limit], self.unread[self.unread_limit :]
        return records

    def _append(self, batch: Batch) -> Sent:
        if self.fails:
            self.fails -= 1
            return Sent(self.failure)
        self.appended.append(batch.offsets.tolist())
        offset = len(self.appended)
        self.unread.append(record(offset, START_TIME + offset, batch))
        return Sent(None)

    def _renew(self) -> None:
        self.renewed += 1

    def _submit(self, records: Sequence[SourceRecord]) -> Future[Columns]:
        future: Future[Columns] = Future()
        self.submitted[records[0].offset] = records
        self.columns[records[0].offset] = future
        return future

    def begin(self) -> Assignment:
        self.membership = Membership(frozenset(), 1, "proof")
        return self.assignments.begin(self.membership)

    def poll(
        self,
        assignment: Assignment,
        first: int,
        *values: bytes,
        partition: int = 0,
        at_once: bool = False,
        key: bytes | None = None,
    ) -> PolledBatch:
        """Hand in a batch of a poll of its own, or of the poll before."""
        self.polls += not at_once
        offsets = np.arange(first, first + len(values))
        records: Any = [
            SimpleNamespace(key=key, value=value, offset=first + at, leader_epoch=3) for at, value in enumerate(values)
        ]
        at = Partition("articles", partition)
        behind = CommittedOffset(SourceOffset(first + len(values)), TOPIC_ID)
        batch = PolledBatch(assignment, at, TOPIC_ID, records, offsets, 100, float(self.polls), behind)
        assert self.assignments.reserve(batch)
        self.engine.submit(batch)
        self.step()
        return batch

    def step(self) -> None:
        self.judged += self.engine.step()

    def fingerprint(self, batch: PolledBatch) -> None:
        made = MAKER([RawRecord(None, polled.value, "x") for polled in batch.records])
        self.columns.pop(int(batch.offsets[0])).set_result(made)

    def steps(self) -> None:
        """Do some rounds, each after the moment for which fingerprinted batches wait for others."""
        for _ in range(5):
            self.clock.sleep(GATHER_S)
            self.step()
