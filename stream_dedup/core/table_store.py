"""The port by which what takes long to make is kept for other processes, and where a process registers it.

The core keeps no files of its own: ``startup`` does. Every program registers a store at its start, before the first
table is made; without one, each process makes the tables for itself, in memory. That costs time and changes no table.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

MadeFrom = Sequence[str | bytes]
"""Whatever else but the program's own source a table is made from: its digest is that of all parts and their bounds."""


class TableStore(Protocol):
    """Keeps the bytes of tables. All methods may block for reading and writing; any thread may call them."""

    def find(self, kind: str, made_from: MadeFrom) -> memoryview | None:
        """Return the bytes of a table, read-only, or None if there is no whole one made from exactly this.

        The bytes stay as they are while they are referred to. What cannot be read counts as missing.
        """

    def keep(self, kind: str, made_from: MadeFrom, parts: Sequence[bytes]) -> memoryview | None:
        """Keep the bytes of a table and return them as ``find`` does, or None if they cannot be kept.

        Tables of the same kind that were made from something else are removed. Processes may keep a table at once:
        all of them keep the same bytes. A normal return does not promise that a later ``find`` finds it.
        """

    def alone(self, path: str) -> AbstractContextManager[None]:
        """Hold off other processes that ask for the same file while the block runs, if one after the other is quicker.

        Waits for the process that was first, within a limit. Whatever happens the block runs, and nothing is raised: a
        normal return does not promise that nobody else does the same.
        """

    def note_compiling(self, folder: str) -> None:
        """Note that this process begins to compile a function whose machine code is kept in a folder.

        Called before each of them. Whoever waits for the program learns from the first one why it takes so long.
        """


_registered: list[TableStore] = []


def keep_tables_in(store: TableStore | None) -> None:
    """Register where this process keeps tables from now on, in place of what was registered before; None: nowhere."""
    _registered[:] = [] if store is None else [store]


def table_store() -> TableStore | None:
    """Return where this process keeps tables; None if nothing is registered."""
    return _registered[0] if _registered else None
