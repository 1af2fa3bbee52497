"""A panic of the index's native core, which is a defect of it, as an error of the program that names the record.

The native core catches the panic, so the process goes on; what it was working on refuses every further call. Whoever
calls it knows the record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stream_dedup import _native
from stream_dedup.errors import DefectError


@contextmanager
def naming_panics(name: Callable[[int | None], str]) -> Iterator[None]:
    """Raise a panic as DefectError.

    Args:
        name: returns what the panic came at: of a search given the number of the article, else given None.
    """
    try:
        yield
    except _native.PanicError as panic:
        msg = (
            f"{name(panic.article)}: {panic}; nothing was written after it, and what is stored is intact: report this "
            "message, and start again with another release"
        )
        raise DefectError(msg) from panic
