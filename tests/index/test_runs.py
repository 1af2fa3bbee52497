"""Runs: sorted and merged as their definition says, and searched in blocks of any width."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.core.arrays import U32, U64
from stream_dedup.core.model import DocNumber
from stream_dedup.core.probes import WORD_SIEVE_BITS, directed, exact_plan
from stream_dedup.index import run_files
from stream_dedup.index.posting_lists import ADDRESSES, FILTERED_ENTRIES, Blocks, Run
from stream_dedup.index.query import Query
from stream_dedup.index.run_files import RunDraft, map_run, read_header
from stream_dedup.index.runs import Merging, RoomInMemory, blocks_in, merged_runs, sorted_run
from stream_dedup.index.scan import scan
from tests.amount import examples
from tests.index.scan_cases import (
    BLOCK_WIDTHS,
    Found,
    World,
    ask,
    drawn_lists,
    make_world,
    numbered,
    plain_blocks,
    plain_run,
)

LAST = (1 << 32) - 1
"""Greatest document number."""


@dataclass(frozen=True)
class Entries:
    """Entries of two neighbouring runs, in order of document number."""

    blocks: Blocks
    words: U64
    doc_numbers: U32
    older: int
    """How many of them are in the older run."""

    def run(self, first: int, after: int | None = None) -> Run:
        """A run of some of them."""
        return sorted_run(self.blocks, self.words[first:after], self.doc_numbers[first:after])

    def plain(self, low_watermark: int, directory_bits: int) -> Run:
        """By definition: the run of those that are not trimmed."""
        live = self.doc_numbers >= low_watermark
        return plain_run(self.blocks, self.words[live], self.doc_numbers[live], directory_bits)


@st.composite
def entries(draw: st.DrawFn) -> Entries:
    """Up to 300 entries of many blocks, of few, or of one; the last document numbers of all, or some."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    count = draw(st.integers(0, 300))
    blocks = Blocks(draw(st.integers(0, 15)), draw(st.sampled_from(BLOCK_WIDTHS)))
    some = rng.integers(0, 1 << 64, draw(st.sampled_from([1, 5, 300])), np.uint64)
    some[: draw(st.integers(0, 2))] = draw(st.sampled_from([0, (1 << 64) - 1]))  # the first and the last block
    first = draw(st.sampled_from([0, 7, LAST + 1 - 2 * count]))
    doc_numbers = np.sort(rng.choice(2 * count, count, replace=False)) + first
    older = draw(st.sampled_from([0, count]) | st.integers(0, count))
    return Entries(blocks, rng.choice(some, count), doc_numbers.astype(np.uint32), older)


def assert_equal(found: Run, expected: Run) -> None:
    assert found.blocks == expected.blocks
    assert np.array_equal(found.starts, expected.starts)
    assert np.array_equal(found.keys, expected.keys)
    assert np.array_equal(found.doc_numbers, expected.doc_numbers)


def directory_bits(run: Run) -> int:
    return (len(run.starts) - 1).bit_length() - 1


@examples(300)
@given(case=entries())
def test_entries_are_sorted_by_block_then_document_number(case: Entries) -> None:
    """In every table and width, with the directory that so many entries have."""
    run = case.run(0)
    assert_equal(run, case.plain(0, case.blocks.directory_bits(len(run))))
    assert np.array_equal(blocks_in(case.blocks, case.words), plain_blocks(case.blocks, case.words))


@examples(200)
@given(case=entries())
def test_a_filter_has_a_bit_of_each_block_that_has_entries(case: Entries) -> None:
    """And no other. It is eight times as long as the run at least, up to a bit for each block."""
    run = case.run(0)
    assert run.filter is not None
    size = 64 * len(run.filter)
    bits = size.bit_length() - 1
    assert size >= min(8 * len(run), 1 << case.blocks.bits)
    noted = {64 * word + bit for word, value in enumerate(run.filter.tolist()) for bit in range(64) if value >> bit & 1}
    assert noted == set((plain_blocks(case.blocks, case.words) >> (case.blocks.bits - bits)).tolist())
    names = ("filter", "filter_shift")
    addresses = dict(zip(ADDRESSES.names or (), run.addresses, strict=True))
    assert [addresses[name] for name in names] == [run.filter.ctypes.data, case.blocks.bits - bits]


def test_a_run_of_most_blocks_has_no_filter() -> None:
    """It would say of nearly every block that it may have entries; the look-up reads the directory at once."""
    words = np.arange(FILTERED_ENTRIES + 1, dtype=np.uint64)
    numbers = np.arange(FILTERED_ENTRIES + 1, dtype=np.uint32)
    assert sorted_run(Blocks(3), words[1:], numbers[1:]).filter is not None
    large = sorted_run(Blocks(3), words, numbers)
    assert large.filter is None
    assert large.addresses[-2:] == (0, 0)


@examples(500)
@given(case=entries(), step=st.sampled_from([1, 2, 7, 50, 1000]), trimmed=st.integers(0, 300))
def test_merging_in_steps_gives_the_run_of_both(case: Entries, step: int, trimmed: int) -> None:
    """However small the steps, without the entries before the low watermark; what is left falls to the end."""
    low_watermark = DocNumber(int(case.doc_numbers[trimmed]) if trimmed < len(case.doc_numbers) else 0)
    merging = Merging(case.run(0, case.older), case.run(case.older), low_watermark, RoomInMemory)
    left = [merging.left]
    while not merging.done:
        merging.step(step)
        left.append(merging.left)
        assert left[-1] < left[-2] or merging.done
    merged = merging.merged()
    assert_equal(merged, case.plain(low_watermark, case.blocks.directory_bits(len(case.words))))
    at_once = merged_runs(case.run(0, case.older), case.run(case.older), low_watermark)
    assert at_once.keys.tolist() == merged.keys.tolist()
    assert at_once.doc_numbers.tolist() == merged.doc_numbers.tolist()


def test_a_step_takes_no_more_than_it_is_given() -> None:
    """A look-up waits for one step, however long the runs are: of 16 entries, or of 16 times as many buckets."""
    case = Entries(Blocks(0, 24), np.zeros(10_000, np.uint64), np.arange(10_000).astype(np.uint32), 8_000)
    merging = Merging(case.run(0, 8_000), case.run(8_000), DocNumber(0), RoomInMemory)
    closing = (1 << case.blocks.directory_bits(10_000)) // 16
    for left in range(10_000 + closing + 1 - 16, 0, -16):
        merging.step(16)
        assert (merging.left, merging.done) == (left, left == 1)


@examples(200)
@given(
    case=entries(), step=st.sampled_from([1, 7, 1000]), staged=st.sampled_from([2, 3, 64]), trimmed=st.integers(0, 300)
)
def test_a_file_is_the_run_that_is_made_in_memory(case: Entries, step: int, staged: int, trimmed: int) -> None:
    """However few entries are staged before they are written; its checksums are those of its arrays."""
    low_watermark = DocNumber(int(case.doc_numbers[trimmed]) if trimmed < len(case.doc_numbers) else 0)
    older, newer = case.run(0, case.older), case.run(case.older)
    with tempfile.TemporaryDirectory() as folder, patch.object(run_files, "_STAGED", staged):
        drafts: list[RunDraft] = []

        def make_room(buckets: int, room: int) -> RunDraft:
            drafts.append(RunDraft(Path(folder) / "0-0-9.new", buckets, room))
            return drafts[0]

        merging = Merging(older, newer, low_watermark, make_room)
        while not merging.done:
            merging.step(step)
        (draft,) = drafts
        kept = draft.finish(bytes(16), case.blocks, DocNumber(0), DocNumber(9), "row")
        assert kept.path is not None
        for run in (kept.run, map_run(kept.path, read_header(kept.path)).run):
            assert_equal(run, case.plain(low_watermark, case.blocks.directory_bits(len(case.words))))


@pytest.mark.parametrize("bits", BLOCK_WIDTHS)
def test_a_directory_is_as_wide_as_its_entries_ask_for(bits: int) -> None:
    """From 64 buckets to one for each block; that of a large run takes at most 2 bytes an entry."""
    widths = [Blocks(0, bits).directory_bits(1 << size) for size in range(33)]
    assert (widths[0], widths[-1], max(widths)) == (6, bits, bits)
    assert all(4 << width <= 2 << size for size, width in enumerate(widths) if size >= 20)
    assert all(1 << width >= min(1 << size, 1 << bits) for size, width in enumerate(widths) if size < 20)


def lookups_by_definition(world: World, query: Query) -> Found:
    """Of each article: the newest entries of every list of its plan that pass the sieve and the check."""
    tables = {lookup >> query.block_bits for lookup in query.plan.ravel().tolist()}
    blocks = {table: plain_blocks(Blocks(table, query.block_bits), world.keys[:, table // 4]) for table in tables}
    own = {table: plain_blocks(Blocks(table, query.block_bits), query.keys[:, table // 4]) for table in tables}
    found: Found = []
    for article in range(len(query)):
        near = set()
        for lookup in query.plan[article if len(query.plan) > 1 else 0].tolist():
            table, mask = lookup >> query.block_bits, lookup & ((1 << query.block_bits) - 1)
            earlier = blocks[table][: query.before[article]]
            for entry in np.flatnonzero(earlier == own[table][article] ^ mask)[-query.bucket_limit :].tolist():
                distance = _distance(world, query, article, entry, table // 4)
                if distance is not None and entry >= query.low_watermark:
                    near.add((distance, entry))
        found.append(sorted(near)[: query.best])
    return found


def _distance(world: World, query: Query, article: int, entry: int, word: int) -> int | None:
    """Distance of an entry that passes the sieve and the check, else None."""
    key = int(world.keys[entry, word]) ^ int(query.keys[article, word])
    if world.rows["group"][entry] != query.groups[article]:
        return None
    if not query.directed:
        return key.bit_count() if key.bit_count() <= query.reach[article] else None
    distance = sum(
        (int(one) ^ int(other)).bit_count() for one, other in zip(world.keys[entry], query.keys[article], strict=True)
    )
    return distance if key.bit_count() <= WORD_SIEVE_BITS and distance <= query.reach[article] else None


@examples(200)
@given(
    seed=st.integers(0, 2**32),
    bits=st.sampled_from(BLOCK_WIDTHS),
    tables=st.sampled_from([4, 8]),
    probes=st.none() | st.integers(1, 200),
    limit=st.sampled_from([1, 3, 1000]),
)
def test_a_search_of_several_runs_finds_what_the_definition_finds(
    seed: int, bits: int, tables: int, probes: int | None, limit: int
) -> None:
    """In blocks of every width, as of any document number, whatever the runs and their directories."""
    rng = np.random.default_rng(seed)
    world = make_world(rng, int(rng.integers(1, 120)), tables, int(rng.integers(0, 40)))
    n = len(world.rows)
    articles = rng.integers(0, n, 12)
    query = ask(
        world,
        articles,
        exact_plan(3, bits) if probes is None else directed(world.margins[articles], probes, bits),
        directed=probes is not None,
        before=rng.integers(0, n + 1, 12),
        reach=np.full(12, 3 if probes is None else 60),
        bucket_limit=limit,
        block_bits=bits,
        best=200,
    )
    lists = drawn_lists(rng, world, tables, bits)
    near = numbered(scan(query, lists, world.rows), 12)
    assert near == lookups_by_definition(world, query)


@pytest.mark.parametrize("bits", BLOCK_WIDTHS)
def test_the_last_table_of_a_word_goes_round_to_its_first_bits(bits: int) -> None:
    """Wider blocks have bits of two neighbours: the fourth table's are the last of the word and the first."""
    word = np.array([0x1234_5678_9ABC_DEF0], np.uint64)
    found = [f"{blocks_in(Blocks(table, bits), word)[0]:0{bits // 4}x}" for table in (0, 3, 7)]
    assert (
        found
        == {
            16: ["1234", "def0", "def0"],
            20: ["12345", "def01", "def01"],
            24: ["123456", "def012", "def012"],
        }[bits]
    )
