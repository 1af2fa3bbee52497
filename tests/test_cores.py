"""The number of fingerprinting threads is what affinity and quota allow, read from folders like the kernel's."""

import os
from pathlib import Path

import pytest

from stream_dedup.threads import thread_count, usable_cores

PERIOD_US = 100_000


class Kernel:
    """A mount of control groups and the file that names the process's own, in a temporary folder."""

    def __init__(self, folder: Path, own: str) -> None:
        self.groups = folder / "groups"
        self.own = folder / "own"
        self.own.write_text(own)

    def quota(self, group: str, cores: float | None) -> None:
        """Give a group of version 2 a quota, or say that it has none."""
        limit = "max" if cores is None else f"{cores * PERIOD_US:.0f}"
        self._write(group, "cpu.max", f"{limit} {PERIOD_US}\n")

    def old_quota(self, group: str, cores: float | None) -> None:
        """The same in version 1."""
        self._write(group, "cpu.cfs_quota_us", f"{-1 if cores is None else cores * PERIOD_US:.0f}\n")
        self._write(group, "cpu.cfs_period_us", f"{PERIOD_US}\n")

    def cores(self, affinity: int) -> int:
        return usable_cores(affinity, self.own, self.groups)

    def _write(self, group: str, name: str, text: str) -> None:
        folder = self.groups / group
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("quota", "affinity", "expected"),
    [(2, 8, 2), (1, 8, 1), (1.5, 8, 1), (2.9, 8, 2), (0.25, 8, 1), (None, 8, 8), (16, 8, 8), (4, 2, 2)],
)
def test_quota_and_affinity(tmp_path: Path, quota: float | None, affinity: int, expected: int) -> None:
    """The smaller of both counts, in whole cores, and is at least 1; the root group of a container has its quota."""
    kernel = Kernel(tmp_path, "0::/\n")
    kernel.quota("", quota)
    assert kernel.cores(affinity) == expected


@pytest.mark.parametrize("limited", ["", "kubepods.slice", "kubepods.slice/pod7", "kubepods.slice/pod7/worker"])
def test_quota_of_any_parent(tmp_path: Path, limited: str) -> None:
    """The smallest quota between the process's own group and the root counts, whichever group has it."""
    kernel = Kernel(tmp_path, "0::/kubepods.slice/pod7/worker\n")
    for group in ("kubepods.slice", "kubepods.slice/pod7", "kubepods.slice/pod7/worker"):
        kernel.quota(group, 6)
    kernel.quota(limited, 3)
    assert kernel.cores(8) == 3


def test_quota_of_another_group(tmp_path: Path) -> None:
    """The quota of a group that the process is not in does not count."""
    kernel = Kernel(tmp_path, "0::/mine\n")
    kernel.quota("mine", None)
    kernel.quota("other", 1)
    assert kernel.cores(8) == 8


OLD = "12:memory:/docker/7\n4:cpu,cpuacct:/docker/7\n3:cpuset:/docker/7\n1:name=systemd:/docker/7\n0::/docker/7\n"


@pytest.mark.parametrize("mount", ["cpu,cpuacct", "cpu"])
@pytest.mark.parametrize("group", ["docker/7", "docker", ""])
def test_version_1(tmp_path: Path, mount: str, group: str) -> None:
    """Version 1: the hierarchy of the processor time alone, under either name; in a container the root is its own."""
    kernel = Kernel(tmp_path, OLD)
    kernel.old_quota(f"{mount}/{group}", 2.5)
    kernel.old_quota("memory/docker/7", 1)
    kernel.old_quota("cpuset/docker/7", 1)
    assert kernel.cores(8) == 2


def test_version_1_without_quota(tmp_path: Path) -> None:
    """Version 1: -1 is no quota."""
    kernel = Kernel(tmp_path, OLD)
    kernel.old_quota("cpu/docker/7", None)
    assert kernel.cores(8) == 8


@pytest.mark.parametrize("own", ["0::/\n", "0::/../other\n", OLD, ""])
def test_no_control_groups(tmp_path: Path, own: str) -> None:
    """Without control groups, or with a group that cannot be seen, the affinity alone counts."""
    assert Kernel(tmp_path, own).cores(8) == 8
    assert usable_cores(8, tmp_path / "missing", tmp_path) == 8


def test_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A configured number counts whatever the machine allows; without one, the affinity is the process's own."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {3})
    assert thread_count(7) == 7
    assert thread_count(None) == 1
