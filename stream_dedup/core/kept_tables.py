"""Tables that take long to make, kept as arrays: later processes map them, and share their memory.

A table's bytes are the length of its head in 8 bytes, the head (JSON: name, type, shape and place of each array), and
the arrays, each at a multiple of ``ALIGN`` bytes. ``table_store`` keeps them.

A table is made again if the source by which tables are made changes, or Python or numpy, or what its own ``made_from``
names. Without the program's source none is kept: nobody would know when to make it anew.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.table_store import table_store

ALIGN = 64
"""Bytes of a cache line."""
_HEAD_BYTES = 8
_SOURCES = ("text/*.py", "fingerprint/*.py", "kept_tables.py")
"""The files of the core by which tables are made."""

TableArrays = dict[str, NDArray[Any]]
Table = TypeVar("Table")


def kept_arrays(kind: str, made_from: Iterable[str | bytes], make: Callable[[], TableArrays]) -> TableArrays:
    """Return read-only arrays by their names: those that were kept if there are any, else made, and kept for later."""
    store = table_store()
    if store is None or not _sources():
        return _read_only(make())
    parts = (*_sources(), *_versions(), *made_from)
    found = store.find(kind, parts)
    if found is None:
        made = _read_only(make())
        with suppress(OSError):
            store.keep(kind, parts, _content(made))
        found = store.find(kind, parts)
        if found is None:
            return made
    return _arrays_in(found)


def kept_table(
    build: Callable[[Iterable[NDArray[Any]]], Table],
) -> Callable[[Callable[..., Table]], Callable[..., Table]]:
    """Return a decorator of a function that makes a table; ``build`` makes one of its arrays."""

    def decorate(function: Callable[..., Table]) -> Callable[..., Table]:
        @wraps(function)
        def kept(**given: Any) -> Table:  # noqa: ANN401
            def make() -> TableArrays:
                made: Any = function(**given)
                return {str(at): one for at, one in enumerate(made if isinstance(made, tuple) else (made,))}

            kind = ".".join((function.__module__, function.__qualname__, *(f"{k}_{v}" for k, v in given.items())))
            return build(kept_arrays(kind, (), make).values())

        return kept

    return decorate


def only(arrays: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """Return the only array."""
    (one,) = arrays
    return one


@cache
def _sources() -> tuple[str, ...]:
    """Return the source by which tables are made; nothing if the program is installed without it."""
    files = sorted(path for pattern in _SOURCES for path in Path(__file__).parent.glob(pattern))
    return tuple(f"{path.name}\n{path.read_text('utf-8')}" for path in files)


@cache
def _versions() -> tuple[str, ...]:
    """Return what all tables are made from beside the program's source."""
    return (sys.version, np.__version__, unicodedata.unidata_version)


def _read_only(arrays: TableArrays) -> TableArrays:
    for one in arrays.values():
        one.setflags(write=False)
    return arrays


def _content(arrays: TableArrays) -> list[bytes]:
    """Return the bytes of arrays, in parts."""
    places, at = [], 0
    for name, one in arrays.items():
        places.append((name, one.dtype.str, one.shape, at))
        at += -(-one.nbytes // ALIGN) * ALIGN
    head = json.dumps(places).encode()
    head += b" " * (-(_HEAD_BYTES + len(head)) % ALIGN)
    parts = [len(head).to_bytes(_HEAD_BYTES, "little"), head]
    for one in arrays.values():
        raw = np.ascontiguousarray(one).tobytes()
        parts.append(raw + bytes(-len(raw) % ALIGN))
    return parts


def _arrays_in(content: memoryview) -> TableArrays:
    """Return the arrays, which stay in the memory that they are in."""
    begin = _HEAD_BYTES + int.from_bytes(content[:_HEAD_BYTES], "little")
    return {
        name: cast("NDArray[Any]", np.frombuffer(content, kind, int(np.prod(shape)), begin + at).reshape(shape))
        for name, kind, shape, at in json.loads(bytes(content[_HEAD_BYTES:begin]))
    }
