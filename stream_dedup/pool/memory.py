"""How much memory this process and those that it starts may take besides, before the system kills one of them.

That is what the machine has left, and no more than any control group above the process has left of its limit. Files
that the system holds in memory count as used in a group: the number is rather too small than too large.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from stream_dedup.pool.control_groups import GROUPS, OWN_GROUPS, group_folders, read_setting

MACHINE = Path("/proc/meminfo")
_LIMITS = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
"""The limit of a group and its use, in version 2 and in version 1 of control groups."""
_KIB = 1024


def free_bytes(machine: Path = MACHINE, own_groups: Path = OWN_GROUPS, groups: Path = GROUPS) -> int:
    """Return the bytes that are left; 0 where the system does not say.

    Args:
        machine: the file in which the kernel describes the memory of the machine.
        own_groups: the file in which the kernel names the control groups of the process.
        groups: where they are mounted.
    """
    available = re.search(r"^MemAvailable:\s+(\d+) kB$", read_setting(machine), re.MULTILINE)
    if available is None:
        return 0
    left = (each for folder in group_folders("memory", own_groups, groups) for each in _left(folder))
    return max(0, min([int(available[1]) * _KIB, *left]))


def _left(folder: Path) -> Iterator[int]:
    """Yield what is left of the limit of a group, if it has one."""
    for limit, use in _LIMITS:
        most, used = read_setting(folder / limit).strip(), read_setting(folder / use).strip()
        if most.isdigit() and used.isdigit():
            yield int(most) - int(used)
