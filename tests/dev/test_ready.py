"""Ready means that an admin request was answered."""

import socket

import pytest

from stream_dedup.dev.broker import ports, ready
from stream_dedup.dev.broker.base import DevBroker
from stream_dedup.dev.broker.ready import wait_until_ready


def test_one_that_answers(broker: DevBroker) -> None:
    """A started broker is ready at once."""
    assert wait_until_ready(broker.bootstrap, lambda: True, limit_s=10)


def test_one_that_ended() -> None:
    """There is no wait for a broker that has ended."""
    assert not wait_until_ready("127.0.0.1:1", lambda: False, limit_s=3600)


def test_one_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that takes connections and never answers is not ready, and the wait ends in its time."""
    monkeypatch.setattr(ready, "PROBE_LIMIT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert not wait_until_ready(f"127.0.0.1:{silent.getsockname()[1]}", lambda: True, limit_s=0.3)


def test_ports_are_free_and_different() -> None:
    """Ports are handed out that can be listened on, below the range of outgoing connections."""
    first, second = ports.free_ports(2)
    assert first != second
    for port in (first, second):
        assert port < 32_768
        socket.create_server(("127.0.0.1", port)).close()


def test_a_taken_port_is_not_free() -> None:
    """A port that somebody listens on is not handed out."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert not ports._is_free(taken.getsockname()[1])
