"""How long the interpreter may keep threads waiting."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SWITCH_S = 0.0005
"""After so many seconds a thread lets another one go on. A worker's batch passes some twenty times from one thread to
the next, and each may wait so long for the thread that judges: with 5 ms, the default of Python, a batch took a fifth
longer at a sixth of full load."""
YOUNG_OBJECTS = 10_000
"""New objects after which they are searched for garbage. Python's 700 are those of a few records: a worker at half load
made thirty searches a second, of half a millisecond each."""


@contextmanager
def short_turns() -> Iterator[None]:
    """Let no thread wait longer than ``SWITCH_S`` for one that is not in native code."""
    former = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(former)


@contextmanager
def short_pauses(*, collects: bool = True) -> Iterator[None]:
    """Keep the interpreter's own pauses short while a worker or a filter runs.

    What is loaded by now (modules, a user's words, clients) stays as long as it runs, and is left out of garbage
    collections: with it, a full one stops every thread for some 50 to 200 ms.

    ``collects``: first free what is loaded in vain; a process that ends soon is done before that pays.
    """
    if collects:
        gc.collect()
    was_frozen = gc.get_freeze_count() > 0
    gc.freeze()
    thresholds = gc.get_threshold()
    if 0 < thresholds[0] < YOUNG_OBJECTS:  # a caller may want fewer searches, or none
        gc.set_threshold(YOUNG_OBJECTS, *thresholds[1:])
    try:
        with short_turns():
            yield
    finally:
        gc.set_threshold(*thresholds)
        if not was_frozen:  # else what a caller has left out stays out, and this with it
            gc.unfreeze()
