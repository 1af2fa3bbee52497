"""Processes forked from one that has loaded the program: a start takes milliseconds, not seconds.

    python -m tests.forks DESCRIPTOR

The forking process has one thread. It reads requests from a socket, one JSON object each with the standard streams of a
new process, and ends when the socket closes, after killing the processes that still run. A forked process calls one
function of the tests; tests of what Python does before that start a new interpreter instead.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.waiting import wait_until

ROOT = Path(__file__).parents[1]
MAX_REQUEST_BYTES = 150_000
MAX_DESCRIPTORS = 3
"""Standard streams."""
CRASHED = 70
"""Exit code of a process that ended with an exception."""


class ForkedProcess:
    """A forked process; the part of ``subprocess.Popen`` that the tests use."""

    def __init__(self, forks: Forks, pid: int, error: Path | None = None) -> None:
        """Standard error goes to the file ``error``, if ``communicate`` is to return it."""
        self._forks = forks
        self.pid = pid
        self._error = error
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, or None while the process runs."""
        with self._forks.lock:  # the exit code can be asked for once
            if self.returncode is None:
                self.returncode = self._forks.request({"poll": self.pid})
            return self.returncode

    def wait(self, limit_s: float = 60) -> int:
        """Return the exit code.

        Raises:
            AssertionError: the process still runs after ``limit_s``.
        """
        wait_until(lambda: self.poll() is not None, limit_s, f"process {self.pid} ends")
        assert self.returncode is not None
        return self.returncode

    def communicate(self, timeout: float = 60) -> tuple[None, bytes]:
        """Return what the process wrote to standard error, after its end."""
        self.wait(timeout)
        assert self._error is not None
        return None, self._error.read_bytes()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Forks:
    """A forking process, seen from the one that asks it. Any thread."""

    def __init__(self, connection: socket.socket) -> None:
        self.lock = threading.RLock()
        self._socket = connection

    def start(
        self, function: str, args: Sequence[str], streams: Sequence[int], error: Path | None = None
    ) -> ForkedProcess:
        """Start a process.

        Args:
            function: ``module:name``; called with the arguments, it returns the exit code.
            args: its arguments.
            streams: descriptors of its standard input, output and error; those of more are given as further arguments.
            error: the file behind the last of them, if it is one.
        """
        pid = self.request({"function": function, "args": list(args)}, streams)
        return ForkedProcess(self, int(pid), error)

    def request(self, request: dict[str, Any], streams: Sequence[int] = ()) -> Any:  # noqa: ANN401 - an answer in JSON
        with self.lock:
            socket.send_fds(self._socket, [json.dumps(request).encode()], streams)
            return json.loads(self._socket.recv(MAX_REQUEST_BYTES))

    def close(self) -> None:
        """Let it kill its processes, and end."""
        self._socket.close()


@cache
def forks() -> Forks:
    """Return the process that others are forked from: one for each test process, ended with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-m", "tests.forks", str(theirs.fileno())]
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        process = subprocess.Popen(command, cwd=ROOT, env=environment, pass_fds=[theirs.fileno()])
    made = Forks(ours)
    atexit.register(process.wait)
    atexit.register(made.close)  # before it, for the last comes first
    return made


def fork_forks() -> Forks:
    """Return a copy of this process, which forks others and ends with this one; call it before there are threads."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if not os.fork():
        try:
            ours.close()
            serve(theirs)
        finally:
            os._exit(0)
    theirs.close()
    return Forks(ours)


def serve(connection: socket.socket) -> None:
    """Answer requests until the connection closes, then kill the processes that still run."""
    running: set[int] = set()
    while True:
        message, streams, _, _ = socket.recv_fds(connection, MAX_REQUEST_BYTES, MAX_DESCRIPTORS)
        if not message:
            break
        request = json.loads(message)
        if "function" in request:
            answer: int | None = _fork(request["function"], request["args"], streams, connection)
            running.add(answer or 0)
        else:
            answer = _exit_code(request["poll"])
            if answer is not None:
                running.discard(request["poll"])
        connection.send(json.dumps(answer).encode())
    for pid in running:
        os.kill(pid, signal.SIGKILL)


def _fork(function: str, args: Sequence[str], streams: Sequence[int], connection: socket.socket) -> int:
    pid = os.fork()
    if pid:
        for descriptor in streams:
            os.close(descriptor)
        return pid
    code: object = CRASHED
    try:
        connection.close()
        _take_streams(streams[:3])
        signal.signal(signal.SIGINT, signal.default_int_handler)
        module, _, name = function.partition(":")
        code = getattr(importlib.import_module(module), name)(*args, *map(str, streams[3:]))
    except SystemExit as ended:
        code = ended.code
    except BaseException:  # noqa: BLE001 - as an interpreter that ends with a traceback
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else CRASHED)


def _take_streams(streams: Sequence[int]) -> None:
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin, sys.stdout, sys.stderr = (open(number, mode, closefd=False) for number, mode in enumerate("rww"))  # noqa: SIM115 - standard streams


def _exit_code(pid: int) -> int | None:
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def main(descriptor: str) -> None:
    from stream_dedup.config.effective import fingerprint_settings_of  # noqa: PLC0415 - the tests need not load it
    from stream_dedup.config.model import Config  # noqa: PLC0415 - as above
    from stream_dedup.core.fingerprinter import EntryMaker  # noqa: PLC0415 - as above
    from tests.files import dying_filter  # noqa: F401, PLC0415 - as above
    from tests.worker import dying_worker  # noqa: F401, PLC0415 - as above

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which close the socket
    # The dictionaries and tables of every scheme; those of short articles belong to no plain EntryMaker.
    EntryMaker(fingerprint_settings_of(Config())).fingerprinter.warm()
    with socket.socket(fileno=int(descriptor)) as connection:
        serve(connection)


if __name__ == "__main__":
    main(*sys.argv[1:])
