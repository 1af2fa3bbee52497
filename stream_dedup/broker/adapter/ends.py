"""Where partitions end, asked on a thread of its own: whoever wants to know never waits for a broker.

A consumer learns where a partition ends from its fetches, and fetches nothing of a paused one. The brokers are asked
for all of these at once, one request for each leader; a request that is late holds up the next one alone.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from kafka import TopicPartition
from kafka.protocol.consumer import IsolationLevel, OffsetSpec

from stream_dedup.broker.adapter.group import AdminConnection
from stream_dedup.broker.adapter.port_errors import port_errors
from stream_dedup.ports import Partition, PortError

if TYPE_CHECKING:
    from stream_dedup.config.model import KafkaConfig

log = logging.getLogger(__name__)


class AskedEnds:
    """The ends of partitions as the brokers answered last; one thread asks for them."""

    def __init__(self, kafka: KafkaConfig) -> None:
        """Connect, and start the thread, with the first question."""
        self._admin = AdminConnection(kafka)
        self._lock = threading.Lock()
        self._wanted: frozenset[Partition] = frozenset()
        self._ends: dict[Partition, int] = {}
        self._requested = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def known(self, partitions: Collection[Partition]) -> Mapping[Partition, int]:
        """Return the last known ends of these partitions, where they are known, and ask for the present ones.

        What is not asked for any more is forgotten.
        """
        with self._lock:
            self._wanted = frozenset(partitions)
            self._ends = {at: end for at, end in self._ends.items() if at in self._wanted}
            if self._wanted and not self._is_closed:
                self._requested.set()
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="source-ends", daemon=True)
                    self._thread.start()
            return self._ends

    def close(self) -> None:
        """Let the thread end, with its connections, when the brokers have answered it; does not wait."""
        with self._lock:
            self._is_closed = True
            self._requested.set()

    def _run(self) -> None:
        while True:
            self._requested.wait()
            self._requested.clear()
            with self._lock:
                wanted = self._wanted
                if self._is_closed:
                    break
            self._ask(wanted)
        self._admin.close()

    def _ask(self, wanted: frozenset[Partition]) -> None:
        request = {TopicPartition(*at): OffsetSpec.LATEST for at in wanted}
        try:
            with port_errors():
                found = self._admin.client().list_partition_offsets(request, IsolationLevel.READ_COMMITTED)
        except PortError as error:
            log.debug("ends of %d partitions: %r", len(wanted), error)  # what was known stays
            return
        with self._lock:
            ends = {Partition(*at): int(answer.offset) for at, answer in found.items()}
            self._ends = {at: end for at, end in ends.items() if at in self._wanted}
