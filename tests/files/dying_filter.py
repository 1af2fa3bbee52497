"""A process that ends itself at one effect of `filter`: at the Nth of those that make the end of a call.

The effects are counted from 0, each when it has happened: a file that reaches the disk or gets its name, the commit
of the index. Where N is greater than their number, the call comes to its end.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from stream_dedup.cli import main as program
from stream_dedup.index import LogIndex

_EFFECTS = ((os, "fsync"), (os, "replace"), (LogIndex, "commit"))


def _dying(effect: Callable[..., Any], reached: Callable[[], None]) -> Callable[..., Any]:
    def run(*args: Any, **more: Any) -> Any:  # noqa: ANN401 - whatever the effect takes and gives
        done = effect(*args, **more)
        reached()
        return done

    return run


def main(dies_at: str, *args: str) -> None:
    """Run the program with these arguments; unless ``dies_at`` is empty, kill it at that effect."""
    if dies_at:
        die_at(int(dies_at))
    sys.argv = ["stream-dedup", *args]
    program()


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
