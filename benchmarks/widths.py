"""What keys of 16, 20 and 24 bits find in real text, and how many entries they compare: counted up to 100 million.

    python -m benchmarks.widths [--seeds 10] [--sizes 1000000,10000000,100000000] [--output FILE]

Needs the folder of labelled texts in ``STREAM_DEDUP_DATA``. Writes ``benchmarks/widths.md``. Progress goes to standard
error.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality import data, report
from benchmarks.quality.ours import Entries, Maker, Way, joined, settings_of
from benchmarks.quality.seeds import for_each, one_thread
from stream_dedup.calibrate.nearest import MeasuredSearch
from stream_dedup.core import probes
from stream_dedup.core.model import BLOCKS_PER_WORD, BlockBits, TableCount
from stream_dedup.core.near import NO_PLACE
from stream_dedup.core.rules import Rules
from stream_dedup.core.scheme import scheme_of
from tests.calibrate.entries import entries_of

OUTPUT = Path(__file__).with_name("widths.md")
PROFILE = "article"
TABLES: TableCount = 4
WIDTHS: tuple[BlockBits, ...] = get_args(BlockBits)
Setting = tuple[BlockBits, TableCount]
SETTINGS: tuple[Setting, ...] = ((16, 4), (20, 4), (20, 8), (24, 4), (24, 8), (24, 16))
"""Bits of a key, and tables."""
LOOKUPS = (64, 256, 768, 1_536, 2_560)
SIZES = (1_000_000, 10_000_000, 100_000_000)
EDITED = (0.10, 0.20, 0.30)
SHOWN = ("10–20 %", "20–30 %")
"""Classes of edited revisions, and their borders; the last border belongs to its class."""
PORTION = 10_000_000
"""Made entries that are in memory at once."""

U32 = NDArray[np.uint32]
I64 = NDArray[np.int64]


class Found(NamedTuple):
    """Near pairs, each with the look-up that finds it first, from 0."""

    asking: I64
    held: I64
    first: I64


class Side(NamedTuple):
    """Texts that are held, texts that ask, and their entries."""

    name: str
    held: list[str]
    asking: list[str]


class OfSeed(NamedTuple):
    """What one seed gives: pairs by set and setting, and means of entries compared by width."""

    found: dict[str, dict[Setting, Found]]
    of_articles: dict[BlockBits, list[float]]
    """Entries compared among the real articles, by the number of look-ups."""
    of_made: dict[int, dict[BlockBits, list[float]]]
    """By size, then width: the same among made entries."""


def main() -> None:
    options = _options()
    data.check()
    one_thread()
    begun = time.monotonic()
    every = for_each(range(options.seeds), partial(_of_seed, options.sizes), "widths")
    text = "\n".join([_head(options.seeds), *_recall(every), *_compared(every, options.sizes)])
    took = f"\n\nTaken in {(time.monotonic() - begun) / 60:.0f} minutes.\n"
    options.output.write_text(text + took, encoding="utf-8")
    print(f"{text}{took}written: {options.output}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, metavar="N", help="hash seeds 0 to N - 1 (10)")
    parser.add_argument("--sizes", type=_sizes, default=SIZES, metavar="N,…", help="made entries (1, 10, 100 million)")
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="FILE", help="where the report is written")
    return parser.parse_args()


def _sizes(given: str) -> tuple[int, ...]:
    return tuple(map(int, given.split(",")))


def _sides() -> list[Side]:
    revisions = {language: data.revisions(language) for language in data.LANGUAGES}
    sides = [Side(name, one.old, one.new) for name, one in revisions.items()]
    return [*sides, Side("articles", data.articles(), [text for one in revisions.values() for text in one.new])]


def _of_seed(sizes: tuple[int, ...], seed: int) -> OfSeed:
    """Return the pairs and the entries compared with one seed of the features' hash."""
    maker = Maker(PROFILE, seed)
    found: dict[str, dict[Setting, Found]] = {}
    entries = {side.name: (maker.entries(side.held), maker.entries(side.asking)) for side in _sides()}
    for name, (held, asking) in entries.items():
        found[name] = {
            (bits, tables): _found(held.of_tables(tables), asking.of_tables(tables), _rules(seed, bits, tables))
            for bits, tables in SETTINGS
        }
    articles, revisions = (side.of_tables(TABLES) for side in entries["articles"])
    looked_up = {bits: _looked_up(revisions, bits) for bits in WIDTHS}
    words = _words(articles)
    of_articles = {bits: _means(looked_up[bits], _histogram([words], bits)) for bits in WIDTHS}
    # The lengths of the lists of made entries are the same with every seed but by chance: the largest are counted once.
    of_made = {
        size: {bits: _means(looked_up[bits], _histogram(_made(seed, size), bits)) for bits in WIDTHS}
        for size in sizes
        if seed == 0 or size < PORTION
    }
    return OfSeed(found, of_articles, of_made)


def _rules(seed: int, block_bits: BlockBits, tables: TableCount) -> Rules:
    """Return the profile's rules with keys of this width."""
    scheme = scheme_of(replace(settings_of(PROFILE, seed, tables), block_bits=block_bits))
    return replace(Way(PROFILE, PROFILE).rules(seed), scheme=scheme, probes=LOOKUPS[-1])


def _found(held: Entries, asking: Entries, rules: Rules) -> Found:
    """Return the pairs that are near, by the definition of near, whatever the number of look-ups up to the greatest."""
    every = joined([held, asking])
    made = every.made
    entries = entries_of(made.statuses, every.scope_hashes, made.signatures, made.margins, made.sketches)
    search = MeasuredSearch(entries, rules, LOOKUPS)
    first = len(held.texts)
    numbers: list[tuple[int, I64, I64]] = []
    for query in range(first, len(made.statuses)):
        others = np.flatnonzero(every.scope_hashes[:first] == every.scope_hashes[query])
        others = others[search.accounts(query, others, rules.reach(made.statuses[query]))["near"]]
        if len(others):
            search.prepare(np.array([query]))
            numbers.append((query, others, search.ranks(query, others).astype(np.int64)))
    asked = [np.full(len(others), query - first) for query, others, _ in numbers]
    pairs = Found(*map(_joined, (asked, [others for _, others, _ in numbers], [ranks for *_, ranks in numbers])))
    reached = pairs.first < NO_PLACE
    return Found(asking.texts[pairs.asking[reached]], held.texts[pairs.held[reached]], pairs.first[reached])


def _joined(parts: Sequence[I64]) -> I64:
    return np.concatenate([np.empty(0, np.int64), *parts])


def _words(entries: Entries) -> NDArray[np.uint64]:
    """Return word 0 of the keys, which has the blocks of all four tables."""
    return probes.keys(entries.made.signatures, entries.scope_hashes)[:, 0]


def _looked_up(asking: Entries, block_bits: int) -> U32:
    """Return the posting lists that each text looks up, ``table << block_bits | value``, in the order of its plan."""
    plans = probes.directed(asking.made.margins, LOOKUPS[-1], block_bits)
    own = probes.blocks(_words(asking), block_bits)
    return plans ^ np.take_along_axis(own, (plans >> block_bits).astype(np.int64), axis=1)


def _made(seed: int, size: int) -> Iterator[NDArray[np.uint64]]:
    """Yield random words, some at a time."""
    rng = np.random.default_rng([size, seed])
    for start in range(0, size, PORTION):
        yield rng.integers(0, 1 << 64, min(PORTION, size - start), np.uint64, endpoint=False)


def _histogram(words: Iterator[NDArray[np.uint64]] | list[NDArray[np.uint64]], block_bits: int) -> I64:
    """Return the length of each posting list of the four tables."""
    lengths = np.zeros((BLOCKS_PER_WORD, 1 << block_bits), np.int64)
    for some in words:
        for table in range(BLOCKS_PER_WORD):
            lengths[table] += np.bincount(probes.block_of(some, table, block_bits), minlength=1 << block_bits)
    return lengths.reshape(-1)


def _means(looked_up: U32, lengths: I64) -> list[float]:
    """Return the mean number of entries compared, by the number of look-ups."""
    compared = np.cumsum(lengths[looked_up], axis=1).mean(axis=0)
    return [float(compared[count - 1]) for count in LOOKUPS]


def _head(seeds: int) -> str:
    return (
        "# Widths of keys\n\n"
        f"Written by `{' '.join(('python -m benchmarks.widths', *sys.argv[1:]))}` on {dt.datetime.now(dt.UTC).date()}; "
        f"{os.cpu_count()} cores ({platform.processor() or platform.machine()}), Python {platform.python_version()}, "
        f"numpy {np.__version__}; hash seeds 0 to {seeds - 1}, means with the least and the most.\n\n"
        f"Profile `{PROFILE}` with other `features.block_bits` and `features.tables`; its default is 16 bits, "
        "4 tables and 768 look-ups. The old revisions are held, the new ones ask."
    )


def _recall(every: list[OfSeed]) -> Iterator[str]:
    """Yield the tables of what is found, and of the false pairs."""
    for language in data.LANGUAGES:
        for number, edited in enumerate(SHOWN):
            counted = _classes(language) == number
            yield f"\n## {data.NAMES[language]}, {edited} edited: found of {int(counted.sum())} pairs\n"
            yield _table(every, LOOKUPS, partial(_shown_share, language, counted))
    sides = {side.name: side for side in _sides()}
    unlike = {name: data.Similarity(side.asking, side.held, data.ARTICLE_SHINGLE) for name, side in sides.items()}
    tried = sum(len(side.held) * len(side.asking) for side in sides.values())
    yield "\n## False pairs\n"
    yield (
        f"Pairs of different articles that are found, with an exact Jaccard similarity below {data.REALLY_NEAR} over "
        f"shingles of five characters, of {tried:,} pairs: revisions with those of other articles, and new revisions "
        "with other Chinese articles. Fewer look-ups find no more of them.\n"
    )
    yield _table(every, LOOKUPS[-1:], partial(_shown_false, unlike))


def _table(every: list[OfSeed], rows: Sequence[int], shown: Callable[[list[dict[str, Found]], int], str]) -> str:
    """Return a table with a row for each number of look-ups and a column for each setting."""
    head = ("look-ups", *(f"{bits} bits, {tables} tables" for bits, tables in SETTINGS))
    columns = [[{name: found[setting] for name, found in one.found.items()} for one in every] for setting in SETTINGS]
    return report.table(head, ([f"{lookups:,}", *(shown(column, lookups) for column in columns)] for lookups in rows))


def _shown_share(language: str, counted: NDArray[np.bool_], seeds: list[dict[str, Found]], lookups: int) -> str:
    return report.shares([_share(one[language], lookups, counted) for one in seeds])


def _shown_false(unlike: dict[str, data.Similarity], seeds: list[dict[str, Found]], lookups: int) -> str:
    counts = [sum(_false(found, lookups, unlike[name], name) for name, found in one.items()) for one in seeds]
    return report.numbers(counts)


def _classes(language: str) -> I64:
    """Return the number of the class of ``SHOWN`` of each revision, or -1."""
    change = data.revisions(language).change
    return np.minimum(np.searchsorted(EDITED, change, side="right"), len(EDITED) - 1) - 1


def _share(found: Found, lookups: int, counted: NDArray[np.bool_]) -> float:
    """Return the share of these revisions that find their own old one."""
    hit = np.zeros(len(counted), bool)
    own = (found.asking == found.held) & (found.first < lookups)
    hit[found.asking[own]] = True
    return float(hit[counted].mean())


def _false(found: Found, lookups: int, similarity: data.Similarity, name: str) -> int:
    counts = found.first < lookups
    if name in data.LANGUAGES:
        counts &= found.asking != found.held
    return similarity.unlike(list(zip(found.asking[counts].tolist(), found.held[counts].tolist(), strict=True)))


def _compared(every: list[OfSeed], sizes: Sequence[int]) -> Iterator[str]:
    """Yield the table of the entries compared."""
    articles = len(data.articles())
    yield "\n## Entries compared for an article\n"
    yield (
        "Counted in the posting lists that the real revisions look up, before any sieve, without a bucket limit. Made "
        f"entries have random signatures; from {PORTION:,} on they are counted with seed 0. Real articles share words: "
        f"among {articles:,} of them, the last column times as many were compared as among random ones.\n"
    )
    rows = []
    for bits in WIDTHS:
        for at, lookups in enumerate(LOOKUPS):
            made = [fmean(one.of_made[size][bits][at] for one in every if size in one.of_made) for size in sizes]
            real = fmean(one.of_articles[bits][at] for one in every) / (articles * lookups / (1 << bits))
            rows.append([f"{bits}", f"{lookups:,}", *(f"{count:,.0f}" for count in made), f"{real:.2f}"])
    yield report.table(("bits", "look-ups", *(f"{size:,}" for size in sizes), "real / random"), rows)


if __name__ == "__main__":
    main()
