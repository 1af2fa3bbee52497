"""A small disk of a test's own: a tmpfs that can be filled, freed, and made read only.

    disk = stack.enter_context(small_disk())
    disk.folder           any process of this user may use it
    disk.fill(); disk.free()

A shell in a user and mount namespace of its own mounts it, which needs no rights on most machines. Nobody else sees the
mount; its files are reached through ``/proc/PID/root``, which asks for no more than to be the same user.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

MIB = 8
_NAMESPACES = (("unshare", "--map-root-user", "--mount"), ("unshare", "--mount"))
"""Ways to a mount of one's own: for a user, and for root where users may have none."""
_MOUNTED = "mounted"
_BALLAST = "ballast"


class SmallDisk:
    """A mounted tmpfs."""

    def __init__(self, shell: subprocess.Popen[str], mount: Path) -> None:
        self._shell = shell
        self._mount = mount
        self.folder = Path(f"/proc/{shell.pid}/root{mount}")

    def fill(self, but_bytes: int = 0) -> None:
        """Take all its space, but so many bytes (rounded to its pages); others may be writing."""
        with (self.folder / _BALLAST).open("ab", buffering=0) as ballast, suppress(OSError):
            ballast.write(bytes(max(self.left() - but_bytes, 0)))

    def left(self) -> int:
        """Return how many bytes can still be written."""
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize

    def free(self) -> None:
        """Give the space back that ``fill`` took."""
        (self.folder / _BALLAST).unlink()

    def set_writable(self, writable: bool) -> None:
        """Mount it again, read only or not; no file may be open for writing."""
        self._do(f"mount -o remount,bind,{'rw' if writable else 'ro'} {self._mount}")

    def _do(self, command: str) -> None:
        stdin, stdout = self._shell.stdin, self._shell.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{command} 2>&1; echo $?\n")
        stdin.flush()
        said = stdout.readline().strip()
        assert said == "0", f"{command}: {said}"


@contextmanager
def small_disk(folder: Path, mib: int = MIB) -> Iterator[SmallDisk]:
    """Mount a disk of this size over a folder, which stays empty for everyone else; unmount it at the end.

    The test is skipped where this machine lets nobody mount: in a container without that right.
    """
    reasons = [] if shutil.which("unshare") else ["there is no program unshare"]
    for namespace in () if reasons else _NAMESPACES:
        shell = subprocess.Popen(
            [*namespace, "sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        with shell:
            disk, said = SmallDisk(shell, folder), _mounted(shell, folder, mib)
            try:
                if said == _MOUNTED:
                    yield disk
                    return
            finally:
                shell.kill()
        reasons.append(said)
    pytest.skip(f"no disk can be mounted here: {'; '.join(reasons)}")


def _mounted(shell: subprocess.Popen[str], folder: Path, mib: int) -> str:
    """Return ``_MOUNTED``, or what the shell said instead."""
    assert shell.stdin is not None
    assert shell.stdout is not None
    try:
        shell.stdin.write(f"mount -t tmpfs -o size={mib}m stream-dedup-test {folder} && echo {_MOUNTED} || exit 1\n")
        shell.stdin.flush()
    except BrokenPipeError:
        return "no namespace"
    return shell.stdout.readline().strip()
