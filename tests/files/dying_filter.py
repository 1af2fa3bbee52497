"""The program in a forked process, which may end itself at one effect of `filter`: at the Nth of those at a call's end.

The effects are counted from 0, each when it has happened: a file that reaches the disk or gets its name, the commit
of the index. Where N is greater than their number, the call comes to its end.
"""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any, TypedDict

from stream_dedup.cli import main as program
from stream_dedup.index import LogIndex


class SetUp(TypedDict, total=False):
    """What is set in the process before the program runs."""

    dies_at: int
    """The effect at which it ends itself."""
    most_bytes: int
    """Largest file that it can write."""
    ignores: int
    """A signal that it ignores, as under `nohup`."""
    unbuffered: bool
    """Standard output without a buffer, as PYTHONUNBUFFERED makes it."""
    no_output: bool
    """Standard output is closed: Python has None for it."""


_EFFECTS = ((os, "fsync"), (os, "replace"), (LogIndex, "commit"))


def _dying(effect: Callable[..., Any], reached: Callable[[], None]) -> Callable[..., Any]:
    def run(*args: Any, **more: Any) -> Any:  # noqa: ANN401 - whatever the effect takes and gives
        done = effect(*args, **more)
        reached()
        return done

    return run


def main(set_up: str, *args: str) -> None:
    """Run the program with these arguments; ``set_up`` is a ``SetUp`` in JSON."""
    wanted: SetUp = json.loads(set_up)
    _set_up(wanted)
    sys.argv = ["stream-dedup", *args]
    program()


def _set_up(wanted: SetUp) -> None:
    if "dies_at" in wanted:
        die_at(wanted["dies_at"])
    if "most_bytes" in wanted:
        resource.setrlimit(resource.RLIMIT_FSIZE, (wanted["most_bytes"],) * 2)
    if "ignores" in wanted:
        signal.signal(wanted["ignores"], signal.SIG_IGN)
    if wanted.get("unbuffered"):
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), write_through=True)
    if wanted.get("no_output"):
        os.close(1)
        sys.stdout = None


def die_at(number: int) -> None:
    """Let this process kill itself when so many effects were reached."""
    left = number

    def reached() -> None:
        nonlocal left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

    for owner, name in _EFFECTS:
        setattr(owner, name, _dying(getattr(owner, name), reached))
