"""The child's side: receives records, sends back their columns, and ends with its parent."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from stream_dedup.article_limit import ended_after

if TYPE_CHECKING:
    from stream_dedup.pool.process import ChildRecipe

OUT_OF_MEMORY = 12
"""Exit code of a process whose memory ran out: ENOMEM."""


def serve(connection: int, lifeline: int) -> None:
    """Receive the recipe, then answer each piece of work, until the parent closes the connection.

    Args:
        connection: file descriptor of the child's end of the connection.
        lifeline: file descriptor of the pipe that closes when the parent ends.
    """
    threading.Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()
    parent = Connection(connection)
    try:
        recipe: ChildRecipe = parent.recv()
        maker = recipe.maker()
        outcome = _outcome(maker.warm)
        gc.collect()
        gc.freeze()  # what is loaded stays: a full collection would take some 100 ms for it, while an article waits
        parent.send(outcome)
        while True:
            work = parent.recv()
            with ended_after(recipe.article_limit_s):
                outcome = _outcome(partial(maker, work))
            parent.send(outcome)
    except (EOFError, OSError):
        return  # the parent closed the pool, or has ended


def _end_with_parent(lifeline: int) -> None:
    os.read(lifeline, 1)
    os._exit(0)


def _outcome(work: Callable[[], object]) -> tuple[bool, object]:
    """Return whether the work succeeded, and its result or its exception; end the process if memory runs out.

    The parent then finds the record that needs too much, as after any other end of a process.
    """
    try:
        return True, work()
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    except Exception as error:  # noqa: BLE001 - raised again in the parent
        return False, error
