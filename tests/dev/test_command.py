"""``stream-dedup broker`` as a user sees it."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from stream_dedup.dev.broker import DevBroker
from stream_dedup.dev.broker.base import free_ports, wait_until_ready
from stream_dedup.errors import EXIT_UNAVAILABLE

END_S = 60.0
"""For the command to end after a signal, seconds."""


@pytest.fixture
def command(broker: DevBroker) -> Iterator[subprocess.Popen[str]]:
    """Return the command on a chosen port; asking for ``broker`` says that this machine can run it."""
    assert broker.running()
    port = free_ports(1)[0]
    started = subprocess.Popen(
        [sys.executable, "-m", "stream_dedup", "broker", "--port", str(port)], stdout=subprocess.PIPE, text=True
    )
    started.port = port  # type: ignore[attr-defined]
    yield started
    started.kill()
    started.communicate()


@pytest.mark.full
def test_prints_its_address_and_ends_on_ctrl_c(command: subprocess.Popen[str]) -> None:
    """The address is the first line, the broker answers there, SIGINT ends it with 0 and nobody listens on."""
    assert command.stdout is not None
    address = command.stdout.readline().strip()
    assert address == f"127.0.0.1:{command.port}"  # type: ignore[attr-defined]
    assert wait_until_ready(address, lambda: True, limit_s=END_S)
    command.send_signal(signal.SIGINT)
    assert command.wait(END_S) == 0
    assert not wait_until_ready(address, lambda: True, limit_s=0.5)


STAND_IN = """
import sys
from contextlib import contextmanager
from types import SimpleNamespace
from stream_dedup.cli import run
from stream_dedup.dev import command
@contextmanager
def stand_in(*_, **__):
    yield SimpleNamespace(
        bootstrap="127.0.0.1:1", description="a stand-in", running=lambda: False, log_tail=lambda: "no disk"
    )
    print("closed", flush=True)
command.find_broker, command.LOOK_S = stand_in, 60 if len(sys.argv) == 1 else 0.01
sys.exit(run(["broker"]))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(number: signal.Signals) -> None:
    """The address is the first line; Ctrl-C, or a service manager's signal, closes the broker; the exit code is 0."""
    with subprocess.Popen([sys.executable, "-c", STAND_IN], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "127.0.0.1:1\n"
        started.send_signal(number)
        assert started.stdout.read() == "closed\n"
    assert started.returncode == 0


def test_a_broker_that_ends_by_itself_ends_it() -> None:
    """The error has the end of the broker's log."""
    command = [sys.executable, "-c", STAND_IN, "ended"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=END_S, check=False)
    assert done.returncode == EXIT_UNAVAILABLE
    assert done.stderr.endswith("error: the development broker ended by itself; its log ends:\n  no disk\n")
