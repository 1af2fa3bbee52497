"""How many cores this process may use: as many threads fingerprint where the configuration does not say.

The number is what this process may use, not what the machine has: the cores of its affinity (``taskset``, cpusets), and
no more than the quota of its control groups (``docker run --cpus``, a limit of Kubernetes) pays for.

* A quota holds for a group and everything below it, so the smallest one from the process's group up to the root counts.
  A container sees its own group as the root.
* A fraction is rounded down: with 1.5 cores one thread fingerprints, and the half is for the others. One more would use
  up the quota in the middle of each period, and the kernel would then stop them all, heartbeats included.
* Shares and weights (a request of Kubernetes) are no limit and do not count.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

OWN_GROUPS = Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")
_CONTROLLER = "cpu"
_NO_QUOTA = ("max", "-1")
"""In place of a quota, in version 2 and in version 1 of control groups."""


def thread_count(configured: int | None) -> int:
    """Return the configured number of fingerprinting threads, or one for each core that may be used."""
    return usable_cores(len(os.sched_getaffinity(0))) if configured is None else configured


def usable_cores(affinity: int, own_groups: Path = OWN_GROUPS, groups: Path = GROUPS) -> int:
    """Return the whole cores that affinity and quota leave, at least 1.

    Args:
        affinity: cores that the process may run on.
        own_groups: the file in which the kernel names the control groups of the process.
        groups: where they are mounted.
    """
    quotas = (quota for folder in _group_folders(own_groups, groups) for quota in _quota(folder))
    return max(1, min([affinity, *quotas]))


def _group_folders(own_groups: Path, groups: Path) -> Iterator[Path]:
    """Yield the folders of the groups that can have a quota, from the process's own to the root."""
    for line in _setting(own_groups).splitlines():
        _, controllers, path = line.split(":", 2)
        for root in _roots(controllers, groups):
            inner = PurePosixPath(path).relative_to("/")
            for folder in (inner, *inner.parents):
                yield root / folder


def _roots(controllers: str, groups: Path) -> list[Path]:
    """Return where the hierarchy with these controllers is mounted, if it has ours. Version 2 names none."""
    if not controllers:
        return [groups]
    return [groups / controllers, groups / _CONTROLLER] if _CONTROLLER in controllers.split(",") else []


def _quota(folder: Path) -> Iterator[int]:
    """Yield the quota of one group, if it has one: microseconds of each period, in cores."""
    words = _setting(folder / "cpu.max").split()
    if not words:
        words = [*_setting(folder / "cpu.cfs_quota_us").split(), *_setting(folder / "cpu.cfs_period_us").split()]
    if words and words[0] not in _NO_QUOTA:
        quota, period = words
        yield int(quota) // int(period)


def _setting(path: Path) -> str:
    """Return the text of a file, or nothing where there is none: not every group and machine has a limit."""
    try:
        return path.read_text("ascii", "surrogateescape")
    except OSError:
        return ""
