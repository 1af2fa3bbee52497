"""Worker processes forked from a process that has loaded everything: a start takes milliseconds, not seconds.

    python -m tests.worker.forks SOCKET

The forking process has one thread. It reads requests from a socket, one JSON object on a line, and ends when the socket
closes, after killing the workers that still run. A worker is a process of its own: it can be killed, stopped and
continued by its pid.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from stream_dedup.core.fingerprint.entry_maker import EntryMaker
from stream_dedup.index.scan import warm
from stream_dedup.worker.steps import Step, TrimStep
from tests.waiting import wait_until
from tests.worker import dying_worker

ROOT = Path(__file__).parents[2]


class WorkerProcess:
    """A forked worker; the part of ``subprocess.Popen`` that the tests use."""

    def __init__(self, forks: Forks, pid: int) -> None:
        self._forks = forks
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, or None while the worker runs."""
        if self.returncode is None:
            self.returncode = self._forks.request({"poll": self.pid})
        return self.returncode

    def wait(self, limit_s: float = 60) -> int:
        """Return the exit code.

        Raises:
            AssertionError: the worker still runs after ``limit_s``.
        """
        wait_until(lambda: self.poll() is not None, limit_s, f"worker {self.pid} ends")
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Forks:
    """The forking process, seen from the tests."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "tests.worker.forks", str(theirs.fileno())]
            threads = {"OPENBLAS_NUM_THREADS": "1"}
            self._process = subprocess.Popen(command, cwd=ROOT, env=os.environ | threads, pass_fds=[theirs.fileno()])
        self._socket = ours
        self._lines = ours.makefile("r", encoding="utf-8")

    def start(self, config: Path, log: Path, die_at: Step | TrimStep, times: int) -> WorkerProcess:
        """Start a worker; see ``dying_worker`` for ``die_at`` and ``times``."""
        arguments = [str(config), die_at.value, str(times)]
        return WorkerProcess(self, int(self.request({"start": arguments, "log": str(log)})))

    def request(self, request: dict[str, Any]) -> Any:  # noqa: ANN401 - an answer in JSON
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        return json.loads(self._lines.readline())

    def close(self) -> None:
        self._lines.close()
        self._socket.close()
        self._process.wait()


def serve(connection: socket.socket) -> None:
    """Answer requests until the connection closes, then kill the workers that still run."""
    running: set[int] = set()
    with connection.makefile("r", encoding="utf-8") as lines:
        for line in lines:
            request = json.loads(line)
            if "start" in request:
                pid = _fork(request["start"], request["log"], connection)
                answer: int | None = pid
                running.add(pid)
            else:
                answer = _exit_code(request["poll"])
                if answer is not None:
                    running.discard(request["poll"])
            connection.sendall(json.dumps(answer).encode() + b"\n")
    for pid in running:
        os.kill(pid, signal.SIGKILL)


def _fork(arguments: list[str], log: str, connection: socket.socket) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        connection.close()
        out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(out, 1)
        os.dup2(out, 2)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = dying_worker.main(*arguments)
    except BaseException:  # noqa: BLE001 - as an interpreter that ends with a traceback
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _exit_code(pid: int) -> int | None:
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def main(descriptor: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which close the socket
    warm()
    EntryMaker().warm()
    with socket.socket(fileno=int(descriptor)) as connection:
        serve(connection)


if __name__ == "__main__":
    main(*sys.argv[1:])
