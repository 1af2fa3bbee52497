"""What the sources do at a pause and at rest, with clients in their place."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import pytest
from confluent_kafka import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.config.load import load_config
from stream_dedup.core.model import SourceOffset
from stream_dedup.kafka.admin import AdminConnection
from stream_dedup.kafka.confluent import source as confluent_source
from stream_dedup.kafka.confluent.client import ConsumedRecord, PartitionEnd
from stream_dedup.kafka.confluent.source import PROOF_MAGIC, ConfluentSource
from stream_dedup.ports import CommittedOffset, Partition

MOST = 5
MARKERS = 1
"""Offsets behind the last record of a partition: the marker of a transaction."""
PARTITIONS = [Partition("articles", number) for number in range(3)]


class ClientInPlace:
    """A consumer of confluent-kafka as the source sees it: a pause drops what it has fetched."""

    def __init__(self, ends: dict[Partition, int]) -> None:
        self._ends = ends
        self._next: dict[Partition, int] = {}
        self._paused: set[Partition] = set()
        self._said: set[Partition] = set()
        self.pauses = 0

    def assign(self, positions: list[TopicPartition]) -> None:
        self._next = {Partition(at.topic, at.partition): at.offset for at in positions}
        self._said.clear()

    def pause(self, partitions: list[TopicPartition]) -> None:
        self._paused |= {Partition(at.topic, at.partition) for at in partitions}
        self.pauses += len(partitions)

    def resume(self, partitions: list[TopicPartition]) -> None:
        self._paused -= {Partition(at.topic, at.partition) for at in partitions}

    def consumer_group_metadata(self) -> bytes:
        return PROOF_MAGIC + (7).to_bytes(4, sys.byteorder)

    def events(self, most: int) -> Iterable[ConsumedRecord | PartitionEnd]:
        """Yield what comes next, of one partition after the other."""
        for at in [at for at in self._next if at not in self._paused]:
            while most and self._next[at] < self._ends[at]:
                yield ConsumedRecord(*at, self._next[at], 0, 0, None, b"", [])
                self._next[at] += 1
                most -= 1
            if most and at not in self._said:
                self._said.add(at)
                yield PartitionEnd(at, self._next[at] + MARKERS)


def begun(monkeypatch: pytest.MonkeyPatch, ends: dict[Partition, int]) -> tuple[ConfluentSource, ClientInPlace]:
    """Return a source of which every partition has begun at offset 0."""
    client = ClientInPlace(ends)
    monkeypatch.setattr(confluent_source, "make_member", lambda *_args, **_settings: client)
    monkeypatch.setattr(confluent_source, "next_events", lambda _client, _wait_s, most: list(client.events(most)))
    monkeypatch.setattr("stream_dedup.kafka.confluent.source.time.sleep", lambda _seconds: None)
    config = load_config(None, {"worker": {"batch_records": MOST}}, {})
    source = ConfluentSource(config, "member", AdminConnection(config.kafka))
    source._begin_membership(client, [TopicPartition(*at) for at in PARTITIONS])  # type: ignore[arg-type]
    for at in PARTITIONS:
        source.begin(at, CommittedOffset(SourceOffset(0), None))
    return source, client


@given(
    ends=st.lists(st.integers(0, 30), min_size=3, max_size=3),
    pauses=st.lists(st.sets(st.sampled_from(PARTITIONS)), max_size=25),
)
def test_every_record_is_returned_once_in_order_whatever_is_paused(
    ends: list[int], pauses: list[set[Partition]]
) -> None:
    """No paused partition returns a record, no poll more than a batch, and the lag reaches 0."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        source, _ = begun(monkeypatch, dict(zip(PARTITIONS, ends, strict=True)))
        returned: dict[Partition, list[int]] = {at: [] for at in PARTITIONS}
        for paused in [*pauses, *[set[Partition]()] * (sum(ends) + 2)]:
            source.pause(paused)
            polled = source.poll(0.1)
            assert not polled.keys() & paused
            assert sum(map(len, polled.values())) <= MOST
            for at, records in polled.items():
                returned[at] += [record.offset for record in records]
    assert returned == {at: list(range(end)) for at, end in zip(PARTITIONS, ends, strict=True)}
    assert [int(source._positions[at].offset) for at in PARTITIONS] == [end + MARKERS for end in ends]


def test_a_pause_of_everything_drops_nothing_that_was_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker under full load pauses and goes on many times a second: the client does not fetch anew each time."""
    source, client = begun(monkeypatch, dict.fromkeys(PARTITIONS, 100))
    returned = 0
    while returned < 300:
        source.pause(PARTITIONS)
        assert not source.poll(0.1)
        source.pause([])
        returned += sum(map(len, source.poll(0.1).values()))
    assert client.pauses == 0


def test_little_is_kept_of_a_partition_that_stays_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a batch is kept the client is paused, too; the others go on."""
    source, client = begun(monkeypatch, dict.fromkeys(PARTITIONS, 1_000))
    source.pause(PARTITIONS[:1])
    for _ in range(100):
        source.poll(0.1)
    assert client.pauses == 1
    assert len(source._kept[PARTITIONS[0]]) < 2 * MOST
