"""Processes of the program forked from a process that has loaded everything: a start takes milliseconds, not seconds.

    python -m tests.forks SOCKET

The forking process has one thread. It reads requests from a socket, one JSON object each with the standard streams of a
new process, and ends when the socket closes, after killing the processes that still run. A forked process runs the
program from ``main`` on; tests of what Python does before that start a new interpreter instead.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stream_dedup.cli import main as program_main
from tests.waiting import wait_until

ROOT = Path(__file__).parents[1]
MAX_REQUEST_BYTES = 65_536
NEVER = -1
"""The process comes to its end."""


class ForkedProcess:
    """A forked process; the part of ``subprocess.Popen`` that the tests use."""

    def __init__(self, forks: ProgramForks, pid: int, stderr: int) -> None:
        self._forks = forks
        self.pid = pid
        self._stderr = os.fdopen(stderr, "rb")
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, or None while the process runs."""
        if self.returncode is None:
            self.returncode = self._forks.request({"poll": self.pid})
        return self.returncode

    def communicate(self, timeout: float = 60) -> tuple[None, bytes]:
        """Return what the process wrote to standard error, after its end."""
        wait_until(lambda: self.poll() is not None, timeout, f"process {self.pid} ends")
        with self._stderr:
            return None, self._stderr.read()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process, if it still runs, and close its pipe."""
        self.send_signal(signal.SIGKILL)
        self._stderr.close()


class ProgramForks:
    """The forking process, seen from the tests."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-m", "tests.forks", str(theirs.fileno())]
            threads = {"OPENBLAS_NUM_THREADS": "1"}
            self._process = subprocess.Popen(command, cwd=ROOT, env=os.environ | threads, pass_fds=[theirs.fileno()])

    def start(self, args: Sequence[str], stdin: int, stdout: int, dies_at: int = NEVER) -> ForkedProcess:
        """Start a process; see ``dying_filter`` for ``dies_at``."""
        reader, writer = os.pipe()
        try:
            pid = self.request({"args": list(args), "dies_at": dies_at}, [stdin, stdout, writer])
        finally:
            os.close(writer)
        return ForkedProcess(self, pid, reader)

    def request(self, request: dict[str, Any], files: Sequence[int] = ()) -> Any:  # noqa: ANN401 - an answer in JSON
        socket.send_fds(self._socket, [json.dumps(request).encode()], files)
        return json.loads(self._socket.recv(MAX_REQUEST_BYTES))

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


def serve(connection: socket.socket) -> None:
    """Answer requests until the connection closes, then kill the processes that still run."""
    running: set[int] = set()
    while True:
        message, files, _, _ = socket.recv_fds(connection, MAX_REQUEST_BYTES, 3)
        if not message:
            break
        request = json.loads(message)
        if "args" in request:
            answer: int | None = _fork(request["args"], request["dies_at"], files, connection)
            running.add(answer or 0)
        else:
            answer = _exit_code(request["poll"])
            if answer is not None:
                running.discard(request["poll"])
        connection.send(json.dumps(answer).encode())
    for pid in running:
        os.kill(pid, signal.SIGKILL)


def _fork(args: Sequence[str], dies_at: int, files: Sequence[int], connection: socket.socket) -> int:
    pid = os.fork()
    if pid:
        for descriptor in files:
            os.close(descriptor)
        return pid
    code: object = 70
    try:
        connection.close()
        for number, descriptor in enumerate(files):
            os.dup2(descriptor, number)
            os.close(descriptor)
        sys.stdin, sys.stdout, sys.stderr = (open(number, mode, closefd=False) for number, mode in enumerate("rww"))  # noqa: SIM115 - standard streams
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.argv = ["stream-dedup", *args]
        if dies_at != NEVER:
            from tests.files.dying_filter import die_at  # noqa: PLC0415 - loads RocksDB

            die_at(dies_at)
        program_main()
    except SystemExit as ended:
        code = ended.code
    except BaseException:  # noqa: BLE001 - as an interpreter that ends with a traceback
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 70)


def _exit_code(pid: int) -> int | None:
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def main(descriptor: str) -> None:
    from stream_dedup.core.fingerprint.entry_maker import EntryMaker  # noqa: PLC0415 - as above
    from stream_dedup.index.scan import warm  # noqa: PLC0415 - as above

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which close the socket
    warm()
    EntryMaker().warm()
    with socket.socket(fileno=int(descriptor)) as connection:
        serve(connection)


if __name__ == "__main__":
    main(*sys.argv[1:])
