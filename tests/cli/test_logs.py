"""Log lines on standard error: ours all, the Kafka client's thinned."""

import inspect
import logging
import subprocess
import sys
from types import ModuleType

import pytest
from kafka import cluster
from kafka.net import selector
from kafka.producer import sender

from stream_dedup.cli.logs import QUIET_S, ClientThinned, set_up_logging
from stream_dedup.dev.broker.base import free_ports
from stream_dedup.errors import EXIT_UNAVAILABLE


def record(name: str, line: int, text: str = "broker away") -> logging.LogRecord:
    return logging.LogRecord(name, logging.ERROR, "client.py", line, text, (), None)


def test_the_clients_lines_come_once_in_a_while() -> None:
    """One from each place in the client's code in QUIET_S; other places and ours are not held back."""
    now = 0.0
    thinned = ClientThinned(lambda: now)
    assert thinned.filter(record("kafka.net.manager", 1))
    assert not thinned.filter(record("kafka.net.manager", 1, "the same place, another port"))
    assert thinned.filter(record("kafka.net.manager", 2))
    assert all(thinned.filter(record("stream_dedup.worker.worker", 1)) for _ in range(3))
    now = QUIET_S - 1
    assert not thinned.filter(record("kafka.net.manager", 1))
    now = QUIET_S
    assert thinned.filter(record("kafka.net.manager", 1))


PRODUCE = "<Sender>: Got error produce response on topic-partition log-0, retrying (inf attempts left):"


@pytest.mark.parametrize(
    "text",
    [
        f"{PRODUCE} NotLeaderForPartitionError",
        "No broker metadata found in MetadataResponse -- ignoring.",
        "Task <kafka.net.selector.Task object at 0x7f> ran for 0.124s (>0.100s threshold).",
        "Connection failed: KafkaConnectionError: 111 ECONNREFUSED",
    ],
)
def test_what_the_client_mends_by_itself_is_not_written(text: str) -> None:
    """The same words of the program are."""
    thinned = ClientThinned()
    assert not thinned.filter(record("kafka.producer.sender", 1, text))
    assert thinned.filter(record("kafka.producer.sender", 1, f"{PRODUCE} NotEnoughReplicasError"))
    assert thinned.filter(record("stream_dedup.worker.worker", 1, text))


@pytest.mark.parametrize(
    ("module", "text"),
    [
        (sender, "%s: Got error produce response on topic-partition %s, retrying (%s attempts left): %s%s"),
        (cluster, "No broker metadata found in MetadataResponse"),
        (selector, "Task %r ran for"),
    ],
)
def test_the_client_still_writes_these_lines(module: ModuleType, text: str) -> None:
    """A new version of the client that words them otherwise would write them again."""
    assert text in inspect.getsource(module)


@pytest.mark.slow
def test_a_broker_that_is_not_there_is_one_error() -> None:
    """It names the address; beside it there is no line of the client, which tries again for some seconds."""
    (port,) = free_ports(1)
    done = subprocess.run(
        [sys.executable, "-m", "stream_dedup", "status", "--brokers", f"127.0.0.1:{port}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (EXIT_UNAVAILABLE, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"stream-dedup: error: cannot reach a Kafka broker at 127.0.0.1:{port}: ")


def test_lines_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Each once, however often it is set up, from the level on; of the client's from WARNING on."""
    set_up_logging("debug")
    set_up_logging("info")
    logging.getLogger("stream_dedup.test").debug("not this")
    logging.getLogger("stream_dedup.test").info("this")
    for _ in range(3):
        logging.getLogger("kafka.test").error("away")
    logging.getLogger("kafka.test").info("nor this")
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.partition(": ")[2] for line in err.splitlines()] == ["this", "away"]
