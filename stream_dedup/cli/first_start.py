"""Other processes help a first start, which finds no machine code: they compile what it will come to later.

1. The process that compiles its first function starts a helper for each further core, as far as there is memory.
2. Each helper imports all modules with compiled functions, from another one on, and in another order than a start does.
   Whoever comes to a function first compiles it and keeps its code; the others wait for it (``kept_code``), or find it.
3. A helper ends when it has imported all, or with the process that started it, however that ends.

A helper is not needed: what it does not do, or cannot keep, the process does itself. The system kills it first where
memory runs out.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from stream_dedup.cli.compile import MOST_PROCESSES, kernel_modules
from stream_dedup.pool import process_count
from stream_dedup.pool.memory import free_bytes
from stream_dedup.startup import keep_tables

HELPER_BYTES = 500 << 20
"""Memory that there must be for each process, this one included. One takes some 400 MB."""
LAST_FIRST = ("words", "clean", "learn", "sketch", "tricks", "grams", "sums", "short", "segment")
"""Modules that take long to compile: those first to which ``filter`` comes last, then the longer ones."""
_CODE = """\
import sys
sys.path[:] = {path!r}
from stream_dedup.cli.first_start import help_with
help_with({number}, {helpers}, {lifeline})
"""
_KILLED_FIRST = Path("/proc/self/oom_score_adj")
_lifelines: list[int] = []
"""Ends of the pipes that close with this process."""


def start_helpers() -> None:
    """Start the helpers. What cannot be started is not: nothing is raised."""
    helpers = helper_count(process_count(None), free_bytes())
    if not sys.executable:
        return  # an interpreter inside another program
    with suppress(OSError, RuntimeError):  # no process, no thread
        for number in range(helpers):
            _start(number, helpers)


def helper_count(cores: int, free: int) -> int:
    """Return how many helpers to start where there are so many cores for this process, and so many bytes of memory."""
    return max(0, min(cores, MOST_PROCESSES, free // HELPER_BYTES) - 1)


def help_with(number: int, helpers: int, lifeline: int) -> None:
    """Compile all modules: what one of several helpers does. ``lifeline``: the pipe that closes when the first ends."""
    threading.Thread(target=_end_with_first, args=(lifeline,), daemon=True).start()
    with suppress(OSError):
        _KILLED_FIRST.write_text("1000")
    keep_tables()
    for name in modules_of_helper(number, helpers):
        import_module(name)


def modules_of_helper(number: int, helpers: int) -> list[str]:
    """Return the order in which a helper imports the modules: the only one begins where a start ends."""
    names = sorted(kernel_modules(), key=_place)
    begin = number * len(names) // helpers
    return names[begin:] + names[:begin]


def _place(name: str) -> int:
    """Return the place of a module in the order; the others are imported by these, or compile in no time."""
    return next((at for at, end in enumerate(LAST_FIRST) if name.endswith(f".{end}_kernel")), len(LAST_FIRST))


def _start(number: int, helpers: int) -> None:
    theirs, ours = os.pipe()
    path = [entry for entry in map(str, sys.path) if os.path.normpath(entry) != os.curdir]
    code = _CODE.format(path=path, number=number, helpers=helpers, lifeline=theirs)
    try:
        process = subprocess.Popen(  # noqa: S603 - this program itself
            [sys.executable, "-P", "-c", code],  # -P: nothing is imported from the current folder
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs,),
            process_group=0,  # out of a terminal's reach
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    _lifelines.append(ours)
    threading.Thread(target=process.wait, daemon=True).start()  # else its entry would stay as long as this process


def _end_with_first(lifeline: int) -> None:
    os.read(lifeline, 1)
    os._exit(0)
