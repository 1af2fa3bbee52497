"""The control groups of this process: what limits a container. Version 1 and version 2 of them, or both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

OWN_GROUPS = Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")


def group_folders(controller: str, own_groups: Path = OWN_GROUPS, groups: Path = GROUPS) -> Iterator[Path]:
    """Yield the folders of the groups in which this controller can have a limit, from the process's own to the root.

    Args:
        controller: as version 1 names it.
        own_groups: the file in which the kernel names the control groups of the process.
        groups: where they are mounted.
    """
    for line in read_setting(own_groups).splitlines():
        _, controllers, path = line.split(":", 2)
        for root in _roots(controller, controllers, groups):
            inner = PurePosixPath(path).relative_to("/")
            for folder in (inner, *inner.parents):
                yield root / folder


def read_setting(path: Path) -> str:
    """Return the text of a file, or nothing where there is none: not every group and machine has a limit."""
    try:
        return path.read_text("ascii", "surrogateescape")
    except OSError:
        return ""


def _roots(controller: str, controllers: str, groups: Path) -> list[Path]:
    """Return where the hierarchy with these controllers is mounted, if it has the one. Version 2 names none."""
    if not controllers:
        return [groups]
    return [groups / controllers, groups / controller] if controller in controllers.split(",") else []
