"""The cluster: nodes with clocks of their own, topics, groups and transactional ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from stream_dedup.ports import Partition, PassingError, RecordTooLargeError
from tests.memory.group import Group
from tests.memory.partition import BrokerNode, Message, PartitionLog, PartitionTransaction
from tests.memory.runtime import Runtime
from tests.memory.transactions import Transactions

FIRST_TIME_MS = 1_700_000_000_000
"""The time of every clock when the world begins."""
LARGEST_BATCH_BYTES = 1_048_588
"""``max.message.bytes`` of a topic, by default."""


@dataclass(frozen=True, slots=True, eq=False)
class Topic:
    """A topic, until it is deleted; one of the same name that is made later is another."""

    name: str
    id: bytes
    partitions: list[PartitionLog]
    largest_batch: int = LARGEST_BATCH_BYTES
    has_append_time: bool = False


@dataclass(frozen=True, slots=True)
class Timings:
    """Draws the delays of the cluster, seconds; by default it has none."""

    marker_s: Callable[[], float] = lambda: 0.0
    """From the decision on a transaction to its control record in one partition."""
    metadata_s: Callable[[], float] = lambda: 0.0
    """From the change of a topic until the members of the groups know it."""


class Cluster:
    """The state of all brokers. Calls neither block nor switch to another actor."""

    def __init__(self, runtime: Runtime, nodes: int = 1, timings: Timings | None = None) -> None:
        """Start the brokers, without topics."""
        self.runtime = runtime
        self.timings = timings or Timings()
        self.nodes = [BrokerNode(number) for number in range(nodes)]
        self.topics: dict[str, Topic] = {}
        self.transactions = Transactions(self)
        self._groups: dict[str, Group] = {}
        self._topics_made = 0

    # Time.

    def time_ms(self, node: BrokerNode | None = None) -> int:
        """Return the time by the clock of a node, ms since 1970; by default of a right one."""
        return FIRST_TIME_MS + int(self.runtime.now() * 1000) + (0 if node is None else node.ahead_ms)

    # Topics.

    def make_topic(
        self, name: str, partitions: int = 1, largest_batch: int | None = None, *, has_append_time: bool = False
    ) -> bytes:
        """Make a topic; return its id."""
        self._topics_made += 1
        topic_id = b"topic-id" + self._topics_made.to_bytes(8, "big")
        logs = [self._made_partition(name, number) for number in range(partitions)]
        largest = LARGEST_BATCH_BYTES if largest_batch is None else largest_batch
        self.topics[name] = Topic(name, topic_id, logs, largest, has_append_time)
        self._spread_metadata()
        return topic_id

    def add_partitions(self, name: str, total: int) -> None:
        """Let a topic have so many partitions."""
        partitions = self.topics[name].partitions
        partitions += [self._made_partition(name, number) for number in range(len(partitions), total)]
        self._spread_metadata()

    def _made_partition(self, name: str, number: int) -> PartitionLog:
        return PartitionLog(Partition(name, number), self.nodes[(self._topics_made + number) % len(self.nodes)])

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and the offsets that groups have committed of it."""
        topic = self.topics.pop(name)
        for group in self._groups.values():
            group.delete_offsets(name)
        for partition in topic.partitions:
            partition.fire()
        self._spread_metadata()

    def partition(self, name: Partition) -> PartitionLog:
        """Return a partition.

        Raises:
            PassingError: there is none, as far as a client knows.
        """
        topic = self.topics.get(name.topic)
        if topic is None or name.number >= len(topic.partitions):
            raise PassingError(f"unknown topic or partition {name}")
        return topic.partitions[name.number]

    def topic_ids(self, names: Iterable[str] | None) -> dict[str, bytes]:
        """Return the ids of those topics that exist; None: of all."""
        return {name: self.topics[name].id for name in (self.topics if names is None else names) if name in self.topics}

    # Records.

    def append(self, partition: PartitionLog, message: Message, transaction: PartitionTransaction | None = None) -> int:
        """Append a record; return its offset.

        Raises:
            RecordTooLargeError: it is larger than the topic takes.
            PassingError: the topic was deleted.
        """
        topic = self.topics.get(partition.name.topic)
        if topic is None or topic.partitions[partition.name.number] is not partition:
            raise PassingError(f"unknown topic {partition.name.topic}")
        if message.size > topic.largest_batch:
            raise RecordTooLargeError(f"{message.size} bytes; {partition.name.topic} takes {topic.largest_batch}")
        time_ms = self.time_ms(partition.leader) if topic.has_append_time else message.timestamp_ms
        return partition.append(message, time_ms, transaction)

    # Groups.

    def group(self, name: str) -> Group:
        """Return a group; one that nobody used is empty."""
        if name not in self._groups:
            self._groups[name] = Group(self, name)
        return self._groups[name]

    def partition_counts(self) -> Mapping[str, int]:
        """Return the number of partitions of each topic."""
        return {name: len(topic.partitions) for name, topic in self.topics.items()}

    def _spread_metadata(self) -> None:
        for group in self._groups.values():
            self.runtime.call_at(self.runtime.now() + self.timings.metadata_s(), group.metadata_changed)
