"""Records that are damaged on a broker's disk: every port that reads names them, and yields none behind them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from stream_dedup.core.model import LogOffset
from stream_dedup.dev.broker import DevBroker
from stream_dedup.ports import Partition, UnreadableError
from tests.contract.kafka_world import CLIENTS, KafkaWorld
from tests.contract.members import join, read, start_at, values
from tests.contract.test_following import POLL_S, follow
from tests.contract.test_log import append_all
from tests.contract.test_log import read as read_log
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.full]

OFFSET_AND_LENGTH = struct.Struct(">qi")
VALUE_AT = 67
"""A byte of the value of a record, behind the header of its batch."""
LIMIT_S = 60


def damage(data: Path, partition: Partition, offset: int) -> None:
    """Flip a byte of the batch that begins at an offset."""
    path = data / str(partition) / f"{0:020}.log"
    raw, at = bytearray(path.read_bytes()), 0
    while (found := OFFSET_AND_LENGTH.unpack_from(raw, at))[0] != offset:
        at += OFFSET_AND_LENGTH.size + found[1]
    with path.open("r+b") as file:
        file.seek(at + VALUE_AT)
        file.write(bytes([raw[at + VALUE_AT] ^ 0xFF]))


def refuse(act: Callable[[], object], partition: Partition) -> None:
    """Twice: the client is asked again, and neither reads on nor looks for a record for ever."""
    for _ in range(2):
        with pytest.raises(
            UnreadableError, match=rf"topic {partition.topic}, partition 0: .*offset 1 .*in-sync replica"
        ):
            act()


def test_records_that_are_damaged_on_a_disk(disk_broker: DevBroker, data: Path) -> None:
    """By the sources of both clients, by the log, by a reader and by a follower."""
    with ExitStack() as stack:
        worlds = [KafkaWorld(disk_broker.bootstrap, stack, client=client) for client in CLIENTS]
        at = Partition(worlds[0].name("articles"), 0)
        worlds[0].make_topic(at.topic)
        for value in (b"0", b"1", b"2"):
            worlds[0].write(at, [value])
        damage(data, at, 1)
        reader = stack.enter_context(closing(worlds[0].topic_reader()))
        assert values(reader.read({at: (0, 1)})) == [b"0"]
        refuse(lambda: list(reader.read({at: (0, 3)})), at)
        follower = follow(worlds[0], at, 1)
        refuse(lambda: wait_until(lambda: bool(follower.poll(POLL_S)), LIMIT_S, "something is followed"), at)
        for world in worlds:
            group = world.name("group")
            world.make_log(group)
            ports = world.ports(group, f"{group}-member")
            join(world, ports.source, [at])
            ports.source.begin(at, start_at(0))
            with pytest.raises(UnreadableError, match=rf"topic {at.topic}, partition 0: .*offset 1 "):
                read(world, ports.source, 3)
        for revision in (1, 2, 3):
            append_all(ports.log, [revision])
        damage(data, Partition(world.log_topic(group), 0), 1)
        ports.log.seek(LogOffset(0))
        with pytest.raises(UnreadableError, match=rf"topic {group}\..*, partition 0: .*offset 1 "):
            read_log(world, ports.log, 3)
