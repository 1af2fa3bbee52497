"""The runs of a table: however they are merged, trimmed and read again, they are the posting lists of the rows."""

from __future__ import annotations

import math
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.index.chains import Merge
from tests.amount import examples
from tests.index.run_cases import FANOUT, TableWorld

pytestmark = pytest.mark.usefixtures("small_runs")


STEPS = ["append"] * 6 + [
    "one block",
    "steps",
    "trim",
    "trim runs",
    "merge all",
    "remove trimmed",
    "close",
    "crash",
    "read",
]


@examples(400)
@given(
    seed=st.integers(0, 2**32),
    bits=st.sampled_from([16, 20, 24]),
    tables=st.sampled_from([4, 8, 16]),
    fold_entries=st.sampled_from([1, 2, 15, 16, 17, 33]),
    steps=st.lists(st.sampled_from(STEPS), min_size=1, max_size=30),
)
def test_whatever_happens_to_runs_the_lists_are_those_of_the_rows(
    seed: int, bits: int, tables: int, fold_entries: int, steps: list[str]
) -> None:
    """Each list whole, in order, once; a reader changes no file; an opening leaves no file but those in use."""
    with tempfile.TemporaryDirectory() as folder:
        world = TableWorld(Path(folder), bits, tables, fold_entries, rng=np.random.default_rng(seed))
        past = [(0, 0)]
        for step in steps:
            _take(world, step, past)
            world.check()
            past.append((world.rows.first, world.rows.after))
        world.close()
        world.opened = world.open()
        world.check()
        assert world.names() == world.names_in_use()
        world.close()


def _take(world: TableWorld, step: str, past: list[tuple[int, int]]) -> None:
    """Take a step of a history; ``past`` are the first and the last document number after each one before it."""
    rng, opened, rows = world.rng, world.opened, world.rows
    if step in {"append", "one block"}:
        # What is not durable yet keeps files that no run has any more.
        durable = bool(rng.integers(2))
        world.append(int(rng.choice([1, 3, 40, 100])), one_block=step == "one block", durable=durable)
    elif step == "steps":
        for merge in [merge for chain in opened.chains for merge in chain.merges]:
            merge.merging.step(int(rng.integers(1, 1 + merge.left)))
    elif step == "trim runs":
        ends = [kept.after for chain in opened.chains for kept in chain.kept] or [rows.first]
        world.trim(max(rows.first, int(rng.choice(ends))))
    elif step == "trim":
        world.trim(int(rng.integers(rows.first, rows.after + 1)))
        assert all((chain.newest.doc_numbers >= rows.first).all() for chain in opened.chains)
    elif step == "merge all":
        opened.merge_all()
        _check_lengths(world)
    elif step == "remove trimmed":
        opened.remove_trimmed()
        assert all(kept.first >= rows.first for chain in opened.chains for kept in chain.kept)
    elif step == "close":
        world.close()
        assert world.names() == world.names_in_use()
        world.opened = world.open()
        assert world.names() == world.names_in_use()
    elif step == "crash":
        # The rows lose their end, and with it the trims that came last.
        at = int(rng.integers(len(past)))
        del past[at + 1 :]
        world.crash(*past[at])
        assert world.names() == world.names_in_use()
    else:
        _read(world)


def _read(world: TableWorld) -> None:
    """Read the same files, as a reader does beside a writer that is killed."""
    before = world.contents()
    reader = world.open(writable=False)
    world.check(reader)
    reader.close()
    assert world.contents() == before


def _check_lengths(world: TableWorld) -> None:
    """Each run is more than FANOUT times as long as the next."""
    for chain in world.opened.chains:
        assert not len(chain.newest)
        assert all(len(older) > FANOUT * len(newer) for older, newer in pairwise(chain.kept))


def test_a_run_may_get_the_name_of_a_file_that_waits_to_be_removed(tmp_path: Path) -> None:
    """A trim leaves it the document numbers of one that it was merged from: the file of the new one stays whole."""
    world = TableWorld(tmp_path)
    for count, durable in ((100, True), (100, True), (20, True), (20, False), (40, False)):
        world.append(count, durable=durable)
        world.opened.merge_all()
    assert {f"{table}-200-280" for table in range(4)} <= world.names()
    assert {f"{table}-0-280" for table in range(4)} <= world.names()
    world.trim(200)
    world.opened.remove_trimmed()
    assert all(path.name.endswith("-200-280") for chain in world.opened.chains for path in chain.paths)
    world.opened.note_flush(durable=True)
    world.append(1)
    assert world.names() == world.names_in_use() == {f"{table}-200-280" for table in range(4)}
    world.check()
    world.close()
    world.opened = world.open()
    assert world.names() == {f"{table}-200-280" for table in range(4)}
    world.check()
    world.close()


def test_what_is_kept_is_little_and_long(tmp_path: Path) -> None:
    """Of 5,000 entries that come by 50, a table has a few runs and files; the largest has most of the entries."""
    world = TableWorld(tmp_path)
    most = 0
    for _ in range(100):
        world.append(50)
        most = max(most, world.opened.most_runs)
    assert most <= 9
    world.opened.merge_all()
    world.check()
    assert world.opened.most_runs <= 5
    assert all(max(map(len, chain.kept)) > 3_000 for chain in world.opened.chains)
    assert world.opened.counters.folds > 4 * 20
    world.close()
    assert world.names() == world.names_in_use()


def test_merges_end_before_the_next_is_due(tmp_path: Path) -> None:
    """However large the index grows: a merge ends before as many entries follow as its newer run has, in even steps."""
    world = TableWorld(tmp_path)
    begun: dict[int, tuple[Merge, int]] = {}
    before: list[tuple[Merge, int]] = []
    pace = 2 * (FANOUT + 1)
    for _ in range(200):
        world.append(16)
        merges = [merge for chain in world.opened.chains for merge in chain.merges]
        begun |= {id(merge): (merge, world.rows.after) for merge in merges if id(merge) not in begun}
        for merge, left in before:
            assert left - merge.merging.left <= 16 * pace + 1
        before = [(merge, merge.merging.left) for merge in merges]
        for merge, at in begun.values():
            assert merge.merging.done or world.rows.after - at <= len(merge.newer)
        # Runs and merges of a level: an older one and the next, which is made.
        levels = math.log(world.rows.after / world.fold_entries, FANOUT) + 1
        assert all(len(chain.kept) <= 2 * levels and len(chain.merges) <= levels for chain in world.opened.chains)
    assert len(begun) > 100
    world.close()


def test_closing_gives_up_the_merges_under_way(tmp_path: Path) -> None:
    """Their drafts go, and their runs stay."""
    world = TableWorld(tmp_path)
    while not any(merge.draft for chain in world.opened.chains for merge in chain.merges):
        world.append(16)
    assert any(name.endswith(".new") for name in world.names())
    in_use = {path.name for chain in world.opened.chains for path in chain.paths}
    world.close()
    assert world.names() == in_use
    world.opened = world.open()
    world.check()
    world.close()


def test_a_reader_leaves_run_files_as_they_are(tmp_path: Path) -> None:
    """Rows that no file has become runs in its memory; a file is merged with none of them, and not copied."""
    world = TableWorld(tmp_path)
    world.append(100)
    world.append(100)
    world.opened.merge_all()
    world.close()
    before, mapped = world.contents(), world.opened.file_bytes
    assert len(before) == 4
    world.rows.rows_written(world.rows.all_rows.copy())
    reader = world.open(writable=False)
    world.check(reader)
    assert reader.file_bytes == mapped
    assert not any(chain.merges for chain in reader.chains)
    reader.close()
    assert world.contents() == before
