"""What memory is left is read from files like the kernel's: of the machine, and of the control groups."""

from pathlib import Path

import pytest

from stream_dedup.pool.memory import free_bytes

MIB = 1 << 20
MACHINE_MIB = 1000


@pytest.mark.parametrize(
    ("own", "files", "left_mib"),
    [
        ("0::/\n", {}, MACHINE_MIB),
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/b/memory.current": "5\n"}, MACHINE_MIB),
        ("0::/a/b\n", {"a/memory.max": f"{500 * MIB}\n", "a/memory.current": f"{200 * MIB}\n"}, 300),
        ("0::/\n", {"memory.max": f"{500 * MIB}\n", "memory.current": f"{501 * MIB}\n"}, 0),
        (
            "4:memory:/a\n0::/\n",
            {"memory/a/memory.limit_in_bytes": f"{9 * MIB}\n", "memory/a/memory.usage_in_bytes": f"{2 * MIB}\n"},
            7,
        ),
    ],
    ids=["no limit", "no limit of the group", "of the group above", "more than the limit", "version 1"],
)
def test_the_least_that_machine_and_groups_have_left(
    own: str, files: dict[str, str], left_mib: int, tmp_path: Path
) -> None:
    """The limit of any group above the process counts."""
    (tmp_path / "own").write_text(own)
    (tmp_path / "machine").write_text(f"MemTotal: 9999999 kB\nMemAvailable:   {MACHINE_MIB * 1024} kB\n")
    for name, text in files.items():
        (tmp_path / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "groups" / name).write_text(text)
    assert free_bytes(tmp_path / "machine", tmp_path / "own", tmp_path / "groups") == left_mib * MIB


def test_a_system_that_does_not_say_has_none(tmp_path: Path) -> None:
    """Nothing is started there that is not needed."""
    assert free_bytes(tmp_path / "no file", tmp_path / "no file", tmp_path) == 0


def test_this_machine_has_memory() -> None:
    """The kernel's own files are read."""
    assert free_bytes() > 0
