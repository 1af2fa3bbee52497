"""What a spam campaign costs: comments of one campaign through ``filter`` or a worker, beside ordinary comments.

    python -m benchmarks.flood [--size N] [--mixture] [--worker]

A campaign is one comment of 67 characters, of which up to four are changed, with a number of six digits added.
Ordinary comments are those of the folder ``STREAM_DEDUP_DATA``, or made ones, with random changes where there are not
enough. Each run is a process of its own with a new index. A row has the comments that took a second of processor time
of all its processes, that speed as a share of the one of as many ordinary comments, the comments that took a second
of time (of a worker from the first output to the last, of ``filter`` with its start), and the memory of the largest
process (of a worker's own). A worker reads a topic that was filled beforehand. What is written is deleted.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks import pipeline
from benchmarks.processes import call, used_by
from benchmarks.texts import as_json, comments
from stream_dedup.dev.broker import BrokerSettings, find_broker

PROFILE = "comment"
SEED = 67
CAMPAIGN_SIZE = 67
"""Characters of a campaign's comment, before its number."""
MOST_CHANGED = 4
"""Characters of it that differ in each comment."""
NINE_OF_TEN = 0.9


class Took(NamedTuple):
    """What one run took, and its verdicts."""

    seconds: float
    """Of processor time, of all processes."""
    rate: float
    """Comments a second of time."""
    memory_mib: float
    """Of the largest process."""
    verdicts: Counter[str]


Way = Callable[[Sequence[str]], Took]
"""A way through which comments are sent."""


def flood(size: int) -> Iterator[str]:
    """Yield the comments of a campaign."""
    rng = random.Random(SEED)
    letters = sorted(set("".join(comments(2_000))) - set(" \t\r\n"))
    base = rng.choices(letters, k=CAMPAIGN_SIZE)
    for _ in range(size):
        text = list(base)
        for at in rng.sample(range(CAMPAIGN_SIZE), rng.randrange(MOST_CHANGED + 1)):
            text[at] = rng.choice(letters)
        yield f"{''.join(text)}{rng.randrange(10**6):06d}"


def mixed(size: int) -> Iterator[str]:
    """Yield nine ordinary comments to one of a campaign, in random order."""
    rng = random.Random(SEED)
    usual, spam = iter(comments(size)), flood(size)
    for _ in range(size):
        yield next(usual if rng.random() < NINE_OF_TEN else spam)


def through_filter(texts: Sequence[str]) -> Took:
    """Send comments through ``filter``."""
    with tempfile.TemporaryDirectory() as folder:
        given, marked = Path(folder) / "in.jsonl", Path(folder) / "out.jsonl"
        with given.open("w", encoding="utf-8") as lines:
            lines.writelines(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts)
        command = [sys.executable, "-m", "stream_dedup", "filter", "--profile", PROFILE, str(given)]
        with marked.open("wb") as out:
            used = call(command, stdout=out)
        with marked.open("rb") as lines_out:
            verdicts = Counter(json.loads(line)["dedup"]["verdict"] for line in lines_out)
    return Took(used.processor_s, len(texts) / used.wall_s, used.memory_mib, verdicts)


def through_worker(bootstrap: str, texts: Sequence[str]) -> Took:
    """Send comments through one worker on the broker."""
    with tempfile.TemporaryDirectory() as folder:
        bench = pipeline.Bench(bootstrap, "flood", PROFILE)
        bench.feed([as_json(number, text) for number, text in enumerate(texts)])
        worker = pipeline.start_worker(bench, Path(folder), pipeline.PARTITIONS)
        records = bench.drain(len(texts))
        memory_mib = _peak_mib(worker.pid)
        worker.send_signal(signal.SIGTERM)
        used = used_by(worker)
    if len(records) < len(texts):
        raise SystemExit(f"{len(records):,} of {len(texts):,} comments came through in {pipeline.PATIENCE_S:g} s")
    verdicts = Counter(dict(record.headers)["dedup.verdict"].decode() for record in records)
    return Took(used.ru_utime + used.ru_stime, pipeline.rate_of(records), memory_mib, verdicts)


def _peak_mib(pid: int) -> float:
    """Return the most memory that a running process had; ``wait4`` counts that of its parent at the start too."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def main() -> None:
    options = _options()
    with ExitStack() as stack:
        way: Way = through_filter
        if options.worker:
            way = partial(through_worker, stack.enter_context(find_broker(BrokerSettings())).bootstrap)
        head = ("comments", "of them", "a second of processor", "of ordinary", "a second", "memory, MiB", "duplicates")
        print(f"| {' | '.join(head)} |\n| ---: | --- | ---: | ---: | ---: | ---: | ---: |")
        usual = _row(way, "ordinary", comments(options.size), None)
        _row(way, "one campaign", list(flood(options.size)), usual)
        if options.mixture:
            _row(way, "nine ordinary, one of a campaign", list(mixed(options.size)), usual)


def _row(way: Way, name: str, texts: Sequence[str], usual: Took | None) -> Took:
    took, size = way(texts), len(texts)
    share = "" if usual is None else f"{usual.seconds / took.seconds:.2f}"
    cells = (f"{size:,}", name, f"{size / took.seconds:,.0f}", share, f"{took.rate:,.0f}")
    print(f"| {' | '.join(cells)} | {took.memory_mib:,.0f} | {took.verdicts['duplicate']:,} |", flush=True)
    return took


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=200_000, help="comments of a run (default 200000)")
    parser.add_argument("--mixture", action="store_true", help="also nine ordinary comments to one of a campaign")
    parser.add_argument("--worker", action="store_true", help="through a worker and a broker, not through filter")
    return parser.parse_args()


if __name__ == "__main__":
    main()
