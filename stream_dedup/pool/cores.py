"""How many fingerprinting processes to start where the configuration does not say.

The number is what this process may use, not what the machine has: the cores of its affinity (``taskset``, cpusets), and
no more than the quota of its control groups (``docker run --cpus``, a limit of Kubernetes) pays for.

* A quota holds for a group and everything below it, so the smallest one from the process's group up to the root counts.
  A container sees its own group as the root.
* A fraction is rounded down: 1.5 cores are one process, and the half is for the worker's main process. One process more
  would use up the quota in the middle of each period, and the kernel would then stop them all, heartbeats included.
* At least one process is started. Shares and weights (a request of Kubernetes) are no limit and do not count.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from stream_dedup.pool.control_groups import GROUPS, OWN_GROUPS, group_folders, read_setting

SMALL_INPUT_BYTES = 2_000_000
"""Below this size, starting processes takes longer than fingerprinting without them."""
_NO_QUOTA = ("max", "-1")
"""In place of a quota, in version 2 and in version 1 of control groups."""


def process_count(configured: int | None, input_bytes: int | None = None) -> int:
    """Return the configured number of fingerprinting processes.

    Else 0 for a small input, or one for each core that may be used. ``input_bytes``: None of an input without end, or
    of unknown size.
    """
    if configured is not None:
        return configured
    if input_bytes is not None and input_bytes < SMALL_INPUT_BYTES:
        return 0
    return usable_cores(len(os.sched_getaffinity(0)))


def usable_cores(affinity: int, own_groups: Path = OWN_GROUPS, groups: Path = GROUPS) -> int:
    """Return the whole cores that affinity and quota leave, at least 1.

    Args:
        affinity: cores that the process may run on.
        own_groups: the file in which the kernel names the control groups of the process.
        groups: where they are mounted.
    """
    return max(1, min([affinity, *_quotas(own_groups, groups)]))


def _quotas(own_groups: Path, groups: Path) -> Iterator[int]:
    """Yield each quota on the way from the process's groups to the root, in whole cores."""
    for folder in group_folders("cpu", own_groups, groups):
        yield from _quota(folder)


def _quota(folder: Path) -> Iterator[int]:
    """Yield the quota of one group, if it has one: microseconds of each period, in cores."""
    words = read_setting(folder / "cpu.max").split()
    if not words:
        words = [
            *read_setting(folder / "cpu.cfs_quota_us").split(),
            *read_setting(folder / "cpu.cfs_period_us").split(),
        ]
    if words and words[0] not in _NO_QUOTA:
        quota, period = words
        yield int(quota) // int(period)
