"""How long a command waits for a broker."""

import socket
import time

import pytest

from stream_dedup.config.model import KafkaConfig
from stream_dedup.errors import UnavailableError
from stream_dedup.kafka.connection import BOOTSTRAP_TIMEOUT_MS, wait_for_broker


@pytest.mark.expect_log("no Kafka broker answers at .* yet")
def test_a_broker_is_waited_for_no_longer_than_is_configured() -> None:
    """Also where that is shorter than one try of any other client."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        kafka = KafkaConfig(brokers=f"127.0.0.1:{silent.getsockname()[1]}", broker_wait_s=1)
        began = time.monotonic()
        with pytest.raises(UnavailableError, match="within 1 s"):
            wait_for_broker(kafka)
    assert time.monotonic() - began < BOOTSTRAP_TIMEOUT_MS / 2_000
