"""The contract of a development broker, on every way that this machine has."""

import os
import socket
import stat
import tempfile
import uuid
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

from stream_dedup.dev.broker import DevBroker
from stream_dedup.errors import UnavailableError
from tests.dev.conftest import MakeBroker

SILENCE_S = 1.0
"""How long a frozen broker is listened to, seconds: one that runs answers in milliseconds."""
ANSWER_S = 60.0
"""For an answer to one request, seconds."""


def new_topic(broker: DevBroker) -> str:
    name = f"contract-{uuid.uuid4().hex[:12]}"
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        admin.create_topics({name: {"num_partitions": 1, "replication_factor": 1}})
    return name


def write(broker: DevBroker, topic: str, value: bytes) -> None:
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        producer.send(topic, value).get(timeout=ANSWER_S)


def read(broker: DevBroker, topic: str, count: int) -> list[bytes]:
    """Return ``count`` records, or those that came until none came any more."""
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        auto_offset_reset="earliest",
        group_id=None,
        consumer_timeout_ms=int(ANSWER_S * 1_000),
    )
    with closing(consumer):
        return [record.value for record in islice(consumer, count)]


def answers(broker: DevBroker, limit_s: float) -> bool:
    """Ask for the API versions on a bare socket."""
    host, _, port = broker.bootstrap.partition(":")
    with socket.create_connection((host, int(port)), timeout=limit_s) as connection:
        connection.sendall(bytes.fromhex("0000000a 0012 0000 00000001 ffff"))
        try:
            return len(connection.recv(4)) > 0
        except TimeoutError:
            return False


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_life_of_a_broker(way: MakeBroker, tmp_path: Path) -> None:
    """Records are there after an orderly stop, after a kill, and for the next broker on a folder of the caller."""
    data = tmp_path / "a:b"
    data.mkdir(0o700)
    with way(data=data) as first:
        # 1  running: records are read back, and nobody else reaches it
        topic, address = new_topic(first), first.bootstrap
        write(first, topic, b"one")
        assert read(first, topic, 1) == [b"one"]
        assert_on_loopback_alone(first)
        # 2  frozen: it takes a connection and says nothing; thawed it goes on
        first.freeze()
        assert first.running()
        assert not answers(first, SILENCE_S)
        first.thaw()
        assert answers(first, ANSWER_S)
        write(first, topic, b"two")
        # 3  restarted while it is frozen, at the same address
        first.freeze()
        first.restart()
        assert first.bootstrap == address
        assert read(first, topic, 2) == [b"one", b"two"]
        # 4  killed
        write(first, topic, b"three")
        first.kill()
        assert not first.running()
    with way(data=data) as second:
        assert read(second, topic, 3) == [b"one", b"two", b"three"]
    assert_own_files(data)


def assert_on_loopback_alone(broker: DevBroker) -> None:
    """Every listening socket of its port is bound to 127.0.0.1."""
    port = int(broker.bootstrap.rpartition(":")[2])
    sockets = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    wide = [line.split() for line in Path("/proc/net/tcp6").read_text().splitlines()[1:]]
    listening = [row[1] for row in sockets + wide if row[3] == "0A" and row[1].endswith(f":{port:04X}")]
    loopback = {f"0100007F:{port:04X}", f"0000000000000000FFFF00000100007F:{port:04X}"}
    assert len(listening) == 1
    assert set(listening) <= loopback


def assert_own_files(data: Path) -> None:
    """The folder keeps its mode and owner; files in it are the caller's, and nobody else may write to them."""
    inside = [path.stat() for path in data.rglob("*")]
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert {info.st_uid for info in [data.stat(), *inside]} == {os.geteuid()}
    assert inside
    assert not any(info.st_mode & stat.S_IWOTH for info in inside)


def test_a_broker_that_cannot_start_says_why(way: MakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker with a property that Kafka refuses ends at once with Kafka's reason, and leaves nothing."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(UnavailableError, match=r"num\.partitions"), way(properties={"num.partitions": "none"}):
        pass
    assert not list(tmp_path.iterdir())


def test_closed_twice(way: MakeBroker) -> None:
    """Closing a broker that never started, and again, does nothing and raises nothing."""
    never = way()
    never.close()
    never.close()
    assert not never.running()
