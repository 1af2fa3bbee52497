"""What processes use, and functions in processes of their own."""

from __future__ import annotations

import multiprocessing
import os
import resource
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class Memory(NamedTuple):
    """Resident memory of a process, MiB: pages of its own, and pages of mapped files, which the system can drop."""

    anonymous: float
    files: float

    def beyond(self, before: Memory) -> Memory:
        """What was added since."""
        return Memory(self.anonymous - before.anonymous, self.files - before.files)


class Took(NamedTuple):
    """Seconds of one call, by the wall and by the processor, and the most resident memory, MiB."""

    wall_s: float
    processor_s: float
    memory_mib: float = 0.0

    def without(self, start: Took) -> Took:
        """What is left beside a start."""
        return self._replace(wall_s=self.wall_s - start.wall_s, processor_s=self.processor_s - start.processor_s)


def call(arguments: Sequence[str], **streams: Any) -> Took:  # noqa: ANN401 - as Popen's
    """Run a command until it ends well."""
    begun = time.monotonic()
    used = used_by(subprocess.Popen(arguments, **streams))
    return Took(time.monotonic() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def used_by(process: subprocess.Popen[bytes]) -> resource.struct_rusage:
    """Wait for a process to end well, and return what it used, its own processes included."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{process.args!r} ended with status {process.returncode}")
    return used


def in_new_process(work: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """Call a function in a new interpreter.

    Raises:
        BrokenProcessPool: it was killed, which the system does where memory is used up.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *args, **kwargs).result()


def memory_of(pid: int) -> Memory:
    """Return the memory of a process, without its children."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text("ascii").splitlines())
    return Memory(*(int(lines[name].split()[0]) / 1024 for name in ("RssAnon", "RssFile")))


def processor_s_of(pid: int) -> float:
    """Return the processor time of a process and its children that live, in seconds."""
    return sum(own_processor_s_of(each) for each in (pid, *children_of(pid)))


def children_of(pid: int) -> list[int]:
    """Return the children of a process that live."""
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError):  # the thread has ended since
            children += map(int, (task / "children").read_text().split())
    return children


def own_processor_s_of(pid: int) -> float:
    """Return the processor time of a process without its children, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND
