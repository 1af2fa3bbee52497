"""Whether an output is a file that the call reads: to write it would destroy what is read.

A file is known by device and inode, so that a second name of it (a hard link, a symbolic link, ``/dev/stdin``, a
redirection) is found, and by its path beside that, for file systems whose inodes say nothing. Terminals and other
character devices, and sockets, may be read and written at once: nothing of them is lost.
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
    """A file that is there: where its path leads, device, inode."""

    real: str
    device: int
    inode: int


def refuse_inputs_as_outputs(outputs: Iterable[_Where], inputs: Iterable[_Where]) -> None:
    """See that no output is an input.

    Args:
        outputs: paths, ``-`` for standard output.
        inputs: paths, ``-`` for standard input.

    Raises:
        UserError: one is.
    """
    read = {str(name): found for name in inputs if (found := _file(name, 0)) is not None}
    for output in outputs:
        written = _file(output, 1)
        same = [name for name, found in read.items() if written is not None and _same(written, found)]
        if same:
            named = _shown(same[0], "standard input")
            msg = f"output {_shown(output, 'standard output')}: it is an input too ({named}); name another file"
            raise UserError(msg)


def refuse_outputs_inside(outputs: Iterable[_Where], folder: Path) -> None:
    """See that no output is this folder or a file in it, at any depth.

    Raises:
        UserError: one is.
    """
    real = Path(os.path.realpath(folder))
    for output in outputs:
        at = Path(_real(output, 1))
        if real == at or real in at.parents:
            msg = f"output {_shown(output, 'standard output')}: it is in the folder of the index; name a file elsewhere"
            raise UserError(msg)


def _file(name: _Where, stream: int) -> _File | None:
    """What a name leads to; None where nothing is, or what may be read and written at once."""
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
