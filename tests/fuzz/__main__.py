"""Malformed input by the million; the command says what is wrong with what came out, and names the slowest.

    python -m tests.fuzz [--lines N] [--records N] [--worker N] [--values [N]] [--pages [N]] [--texts [N]]
                         [--seed 7] [--first-shard 0] [--jobs 2]

``--lines``: lines through `filter`. ``--records``: records through decoding and fingerprinting, in shards.
``--worker``: records through a real worker on a real broker. ``--values``: JSON values, 200,000 of them, by the native
core and by the definition. ``--pages``: pages of HTML, 50,000 of them, by both. Without any of them: 200,000 lines.

``--texts``: texts, a million of them, and every real text, by the native core and by the definition, whose entries
must be equal. ``--write-digests FILE`` keeps hashes of these entries; ``--same-digests FILE`` compares them with those
of another version of the program, in the same shards: the definition may have changed, too.
"""

from __future__ import annotations

import argparse
import heapq
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from tests.cli import fuzzed
from tests.fuzz.core import SHARD_RECORDS, SLOWEST, WAYS, ShardReport, run_shard, say
from tests.fuzz.entries import fuzz_entries, other_digests, write_digests
from tests.fuzz.pages import fuzz_pages
from tests.fuzz.values import fuzz_values
from tests.fuzz.worker import fuzz_worker

DEFAULT_LINES = 200_000
DEFAULT_TEXTS = 1_000_000
DEFAULT_VALUES = 200_000
DEFAULT_PAGES = 50_000
SHOWN_FAULTS = 20


def fuzz_records(count: int, seed: int, first: int, jobs: int) -> list[str]:
    """Take records through decoding and fingerprinting; print what became of them, and return the faults."""
    shards = range(first, first + -(-count // SHARD_RECORDS))
    sizes = [min(SHARD_RECORDS, count - number * SHARD_RECORDS) for number in range(len(shards))]
    begun = time.monotonic()
    # A crash of the interpreter ends the run with an error that names the pool; --jobs 1 then finds the shard.
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        reports = list(_shown(pool.map(partial(run_shard, seed), shards, sizes)))
    for way in WAYS:
        outcomes: Counter[str] = sum((report.outcomes for report in reports if report.way == way), Counter())
        say(f"{way}: {outcomes.total():,} records: {dict(outcomes.most_common())}")
    say("slowest:")
    for timed in heapq.nlargest(SLOWEST, (timed for report in reports for timed in report.slowest)):
        say(f"  {timed}")
    say(f"{count:,} records, {time.monotonic() - begun:.0f} s")
    return [fault for report in reports for fault in report.faults]


def _shown(reports: Iterator[ShardReport]) -> Iterator[ShardReport]:
    for report in reports:
        say(f"shard {report.shard}: {report.outcomes.total()} records, {len(report.faults)} faults")
        yield report


def fuzz_texts(args: argparse.Namespace) -> list[str]:
    """Compare entries with those of the definition, and with those of another version; return the differences."""
    begun = time.monotonic()
    reports = fuzz_entries(args.texts, args.seed, args.first_shard, args.jobs)
    say(f"{sum(report.texts for report in reports):,} texts, {time.monotonic() - begun:.0f} s")
    if args.write_digests:
        write_digests(args.write_digests, reports)
    others = other_digests(args.same_digests, reports) if args.same_digests else []
    return [*(fault for report in reports for fault in report.faults), *others]


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("--lines", "--records", "--worker", "--first-shard"):
        parser.add_argument(name, type=int, default=0)
    parser.add_argument("--texts", type=int, nargs="?", default=0, const=DEFAULT_TEXTS)
    parser.add_argument("--values", type=int, nargs="?", default=0, const=DEFAULT_VALUES)
    parser.add_argument("--pages", type=int, nargs="?", default=0, const=DEFAULT_PAGES)
    for name in ("--write-digests", "--same-digests"):
        parser.add_argument(name, type=Path, metavar="FILE")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    faults: list[str] = []
    if args.records:
        faults += fuzz_records(args.records, args.seed, args.first_shard, args.jobs)
    if args.worker:
        with tempfile.TemporaryDirectory() as folder:
            faults += fuzz_worker(args.worker, args.seed, Path(folder))
    if args.values:
        faults += fuzz_values(args.values, args.seed)
    if args.pages:
        faults += fuzz_pages(args.pages, args.seed)
    if args.texts:
        faults += fuzz_texts(args)
    if args.lines or not (args.records or args.worker or args.values or args.pages or args.texts):
        faults += fuzzed.fuzz_lines(args.lines or DEFAULT_LINES, args.seed)
    say("\n  ".join([f"{len(faults)} faults", *faults[:SHOWN_FAULTS]]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
