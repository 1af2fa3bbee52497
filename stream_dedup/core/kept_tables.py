"""Tables that take long to make, kept as arrays: later processes map them, and share their memory.

A file has the length of its head in 8 bytes, the head (JSON: name, type, shape and place of each array), and the
arrays, each at a multiple of ``ALIGN`` bytes. ``kept_files`` says where it is kept, and how damage is noticed. Where no
folder can be written, each process makes the tables for itself.

A table is made again if any source of ``core.text`` or ``core.fingerprint`` changes, or Python, numpy or OpenCC's
dictionaries, or what its own ``made_from`` names.
"""

from __future__ import annotations

import json
import mmap
import sys
import unicodedata
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.kept_files import digest_of, keep, kept_file
from stream_dedup.core.scheme import content_hash, opencc_paths
from stream_dedup.errors import UserError

ALIGN = 64
"""Bytes of a cache line."""
_HEAD_BYTES = 8
_FOLDERS = ("text", "fingerprint")

TableArrays = dict[str, NDArray[Any]]
Table = TypeVar("Table")


def kept_arrays(kind: str, made_from: Iterable[str | bytes], make: Callable[[], TableArrays]) -> TableArrays:
    """Return read-only arrays by their names, mapped from a file if there is one, else made, and kept for later."""
    sources = _sources()
    if not sources:
        return _read_only(make())
    digest = digest_of([*sources, *made_from])
    path = kept_file(kind, digest)
    if path is not None:
        with suppress(OSError):
            return _mapped(path)
    made = _read_only(make())
    with suppress(OSError):
        return _mapped(keep(kind, digest, _content(made)))
    return made


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
    """Return what all tables are made from; nothing if the program is installed without its source."""
    core = Path(__file__).parent
    files = sorted(path for folder in _FOLDERS for path in (core / folder).glob("*.py"))
    if not files:
        return ()
    found = [f"{path.name}\n{path.read_text('utf-8')}" for path in (*files, Path(__file__))]
    with suppress(UserError):
        found += map(content_hash, opencc_paths())
    return (*found, sys.version, np.__version__, unicodedata.unidata_version)


def _read_only(arrays: TableArrays) -> TableArrays:
    for one in arrays.values():
        one.setflags(write=False)
    return arrays


def _content(arrays: TableArrays) -> list[bytes | memoryview]:
    """Return the parts of a file."""
    places, at = [], 0
    for name, one in arrays.items():
        places.append((name, one.dtype.str, one.shape, at))
        at += -(-one.nbytes // ALIGN) * ALIGN
    head = json.dumps(places).encode()
    head += b" " * (-(_HEAD_BYTES + len(head)) % ALIGN)
    parts: list[bytes | memoryview] = [len(head).to_bytes(_HEAD_BYTES, "little"), head]
    for one in arrays.values():
        raw = np.ascontiguousarray(one).tobytes()
        parts.append(raw + bytes(-len(raw) % ALIGN))
    return parts


def _mapped(path: Path) -> TableArrays:
    with path.open("rb", 0) as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    begin = _HEAD_BYTES + int.from_bytes(content[:_HEAD_BYTES], "little")
    return {
        name: cast("NDArray[Any]", np.frombuffer(content, kind, int(np.prod(shape)), begin + at).reshape(shape))
        for name, kind, shape, at in json.loads(content[_HEAD_BYTES:begin])
    }
