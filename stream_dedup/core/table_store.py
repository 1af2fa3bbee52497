"""The port by which what takes long to make is kept for other processes, and where a process registers it.

That is tables and machine code. The core keeps no files of its own: ``startup`` does. Every program registers a store
at its start, before the first table is made or function compiled; without one, each process makes all for itself, in
memory. That costs time and changes no result.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

MadeFrom = Sequence[str | bytes]
"""Whatever something is made from, the program's source included: the digest is that of all parts and their bounds."""


class TableStore(Protocol):
    """Keeps bytes of several kinds. All methods may block for reading and writing; any thread may call them."""

    def find(self, kind: str, made_from: MadeFrom) -> memoryview | None:
        """Return the bytes of this kind, read-only, or None if there are no whole ones made from exactly this.

        The bytes stay as they are while they are referred to. What cannot be read counts as missing.
        """

    def keep(self, kind: str, made_from: MadeFrom, parts: Sequence[bytes]) -> None:
        """Keep bytes.

        Those of the same kind that were made from something else are removed. Processes may keep them at once: all of
        them keep what does the same. A normal return does not promise that a later ``find`` finds them.

        Raises:
            OSError: they cannot be kept.
        """

    def alone(self, path: str) -> AbstractContextManager[None]:
        """Hold off other processes that ask for the same file while the block runs, if one after the other is quicker.

        Waits for the process that was first, within a limit. Whatever happens the block runs, and nothing is raised: a
        normal return does not promise that nobody else does the same.
        """

    def note_compiling(self) -> None:
        """Note that this process begins to compile a function.

        Called before each of them. Whoever waits for the program learns from the first one why it takes so long.
        """


_registered: list[TableStore] = []


def keep_tables_in(store: TableStore | None) -> None:
    """Register where this process keeps tables from now on, in place of what was registered before; None: nowhere."""
    _registered[:] = [] if store is None else [store]


def table_store() -> TableStore | None:
    """Return where this process keeps tables; None if nothing is registered."""
    return _registered[0] if _registered else None
