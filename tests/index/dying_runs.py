"""Run as a forked process: tables are filled, trimmed and merged, dying after the first effect, the second, and so on.

Every effect on a run file counts, and every step of a merge. Each time a child is forked, which ends without any
clearing up; what it leaves stands in a folder of its own: PATH/1, PATH/2, ... The last child comes to its end.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from stream_dedup.index import run_files
from stream_dedup.index.runs import Merging
from tests.index.dying import counting
from tests.index.run_cases import TableWorld, set_small_runs

EFFECTS = [
    *((Path, name) for name in ("mkdir", "replace", "unlink")),
    *((os, name) for name in ("posix_fallocate", "truncate", "pwrite", "ftruncate")),
    (Merging, "step"),
]
STAGED_ENTRIES = 256
"""Entries that are written at once. Fewer make a run file many effects of one kind."""
AT = "at"
"""File beside the runs: as many bytes as stages were begun."""


def stages(world: TableWorld) -> Iterator[tuple[int, int]]:
    """What happens; yields before each stage the document numbers that rows have from then on, first and after."""
    for at in range(12):
        yield world.rows.first, world.rows.after + 70
        world.append(70)
        if at in {4, 9}:
            low_watermark = world.rows.first + 150
            yield low_watermark, world.rows.after
            world.trim(low_watermark)
    yield world.rows.first, world.rows.after
    world.opened.remove_trimmed()
    yield world.rows.first, world.rows.after
    world.opened.merge_all()
    yield world.rows.first, world.rows.after
    world.close()
    world.opened = world.open()


def live(path: Path, effects: int) -> None:
    """Go through every stage, or end after so many effects."""
    world = TableWorld(path)
    counted = counting(effects, lambda: os._exit(9))
    for where, name in EFFECTS:
        setattr(where, name, counted(getattr(where, name)))
    with (path / AT).open("ab", buffering=0) as begun:
        for _ in stages(world):
            begun.write(b".")


def main(path: str, step: str) -> int:
    """Called in a forked process; returns its exit code, 0. Dies after every ``step``-th effect."""
    set_small_runs()
    run_files._STAGED = STAGED_ENTRIES
    effects, status = 1, 9
    while status:
        pid = os.fork()
        if pid == 0:
            live(Path(path) / str(effects), effects)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert status in {0, 9}
        effects += int(step)
    return 0
