"""Run as a forked process: does something to an index, dying after its first effect, its second, and so on.

Every effect on the names of files and every flush counts; a sample takes every other one. Each time a child is forked,
which ends without any clearing up; what it leaves stands in a folder of its own, PATH/1, PATH/3, ... The last child
comes to its end.
"""

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stream_dedup.index import LogIndex
from stream_dedup.index.store import Store
from tests.amount import FULL
from tests.index.checks import build
from tests.logs import SCHEME, START_TIME, batch_record, rules_record

RECORDS = [rules_record(0), batch_record(1, START_TIME, [3, 3], [0, 1])]
EXTRA = batch_record(2, START_TIME, [3], [2])

STEP = 1 if FULL else 2
"""Effects between two deaths."""
EFFECTS = [
    *((Path, name) for name in ("mkdir", "touch", "replace", "unlink", "rmdir")),
    (os, "rename"),
    (os, "ftruncate"),
    (os, "fsync"),
    (shutil, "rmtree"),
    (Store, "flush"),
    (Store, "checkpoint"),
]


def kept(path: Path) -> None:
    """Keep an index there."""
    build(LogIndex.open(path, scheme=SCHEME), RECORDS).close()


def make(path: Path) -> None:
    kept(path)


def stage_the_first(path: Path) -> None:
    index = build(LogIndex.open(path, scheme=SCHEME, staged=True), RECORDS)
    index.commit()
    index.close()


def stage(path: Path) -> None:
    index = LogIndex.open(path, scheme=SCHEME, staged=True)
    index.apply([EXTRA])
    index.commit()
    index.close()


def give_up(path: Path) -> None:
    LogIndex.open(path, scheme=SCHEME, staged=True).close()


def empty(path: Path) -> None:
    LogIndex.open(path, scheme=SCHEME, emptied=True).close()


CALLS: dict[str, tuple[Callable[[Path], None], bool]] = {
    "make": (make, False),
    "stage the first": (stage_the_first, False),
    "give up the first": (give_up, False),
    "stage": (stage, True),
    "give up": (give_up, True),
    "empty": (empty, True),
}
"""What is called, and whether there is an index before."""


def counting(effects: int, end: Callable[[], object]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a wrapper: once the functions that it wraps were called so often, all together, ``end`` is called.

    They may be called on several threads.
    """
    left = effects
    lock = threading.Lock()

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def effect(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - of any function
            nonlocal left
            done = real(*args, **options)
            with lock:
                left -= 1
                ending = left == 0
            if ending:
                end()
            return done

        return effect

    return counted


def die_after(effects: int) -> None:
    """From now on this process ends after so many effects."""
    counted = counting(effects, lambda: os._exit(9))
    for where, name in EFFECTS:
        setattr(where, name, counted(getattr(where, name)))


def run(call: Callable[[Path], None], path: Path, *, before: bool, effects: int) -> int:
    """Fork a child that dies; its exit code."""
    for work in ([kept] if before else []) + [call]:
        pid = os.fork()
        if pid == 0:
            if work is call:
                die_after(effects)
            work(path)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def main(name: str, path: str) -> int:
    """Called in a forked process; returns its exit code, the number of effects."""
    call, before = CALLS[name]
    effects = 1
    while run(call, Path(path) / str(effects), before=before, effects=effects) != 0:
        effects += STEP
    return effects
