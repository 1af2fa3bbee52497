"""Refuses outputs that are inputs of the same call: writing them would destroy the input.

A file is identified by device and inode, so that its other names (a hard link, a symbolic link, ``/dev/stdin``, a
redirection) are recognised, and also by its path, for file systems without stable inodes. Character devices, such as
terminals, and sockets may be input and output at the same time.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from stream_dedup.errors import UserError

STREAM = "-"
"""Standard input among inputs, standard output among outputs."""

_Where = str | Path


class _File(NamedTuple):
    """An existing file: resolved path, device, inode."""

    real: str
    device: int
    inode: int


def refuse_inputs_as_outputs(outputs: Iterable[_Where], inputs: Iterable[_Where]) -> None:
    """Check that no output is an input.

    Args:
        outputs: paths, ``-`` for standard output.
        inputs: paths, ``-`` for standard input.

    Raises:
        UserError: an output is an input.
    """
    read = {str(name): found for name in inputs if (found := _file(name, 0)) is not None}
    for output in outputs:
        written = _file(output, 1)
        same = [name for name, found in read.items() if written is not None and _same(written, found)]
        if same:
            named = _shown(same[0], "standard input")
            msg = f"output {_shown(output, 'standard output')}: it is also an input ({named}); name another file"
            raise UserError(msg)


def refuse_outputs_inside(outputs: Iterable[_Where], folder: Path) -> None:
    """Check that no output is this folder or inside it.

    Raises:
        UserError: an output is.
    """
    real = Path(os.path.realpath(folder))
    for output in outputs:
        at = Path(_real(output, 1))
        if real == at or real in at.parents:
            msg = f"output {_shown(output, 'standard output')}: it is in the folder of the index; name a file elsewhere"
            raise UserError(msg)


def _file(name: _Where, stream: int) -> _File | None:
    """Return the file of a name; None where it does not exist, or may be input and output at the same time."""
    try:
        found = os.fstat(stream) if str(name) == STREAM else Path(name).stat()
    except OSError:
        return None
    if stat.S_ISCHR(found.st_mode) or stat.S_ISSOCK(found.st_mode):
        return None
    return _File(_real(name, stream), found.st_dev, found.st_ino)


def _real(name: _Where, stream: int) -> str:
    return os.path.realpath(f"/dev/fd/{stream}" if str(name) == STREAM else name)


def _same(one: _File, other: _File) -> bool:
    return one[1:] == other[1:] or one.real == other.real


def _shown(name: _Where, stream: str) -> str:
    return stream if str(name) == STREAM else str(name)
