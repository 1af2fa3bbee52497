"""One child process that does one piece of work after the other, each within the limit of its recipe."""

from __future__ import annotations

import os
from typing import Any

from stream_dedup.pool.process import ChildProcess, ChildRecipe, DeathError


class LimitedProcess:
    """Starts its process at the first work, and again after one that ended. One thread, except for ``kill``.

    The kernel kills the process when that thread ends (``pool``).
    """

    def __init__(self) -> None:
        """Start nothing yet."""
        self._lifeline = os.pipe()
        self._recipe: ChildRecipe | None = None
        self._process: ChildProcess | None = None

    def ask(self, recipe: ChildRecipe, work: object) -> Any:  # noqa: ANN401 - what the recipe's maker returns
        """Return what the maker of the recipe makes of the work; blocks.

        Raises:
            DeathError: the process ended, ``late`` if the limit ended it; the next work gets a new one.
            UnavailableError: no process could be started.
            Exception: what the maker raised.
        """
        if self._process is not None and (recipe != self._recipe or self._process.has_died()):
            self._process.end()
            self._process = None
        if self._process is None:
            process = ChildProcess(self._lifeline[0], recipe)
            process.load()
            self._recipe, self._process = recipe, process
        try:
            return self._process.ask(work)
        except DeathError:
            self._process = None
            raise

    @property
    def pid(self) -> int | None:
        """The id of the process; None of none."""
        return None if self._process is None else self._process.pid

    def kill(self) -> None:
        """End the process, whatever it does. Any thread; nothing may be asked afterwards."""
        process = self._process
        if process is not None:
            process.kill()
            process.death()
        for end in self._lifeline:
            os.close(end)
