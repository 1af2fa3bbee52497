"""What a spam campaign costs: comments of one campaign through ``filter``, beside ordinary comments.

    python -m benchmarks.flood [--size N ...] [--bound C ...] [--campaigns N] [--mixture]

A campaign is one comment of 67 characters, of which up to four are changed, with a number of six digits added.
Ordinary comments are those of the folder ``STREAM_DEDUP_DATA``, or made ones, with random changes where there are not
enough. Each run is a process of its own with a new index. A row has the comments that took a second of processor time
of all its processes, that speed as a share of the one of as many ordinary comments, and the memory of the largest
process. The lines go to a file that is deleted.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.texts import comments

SEED = 67
CAMPAIGN_SIZE = 67
"""Characters of a campaign's comment, before its number."""
MOST_CHANGED = 4
"""Characters of it that differ in each comment."""
BOUNDS = (1024,)
NINE_OF_TEN = 0.9


class Took(NamedTuple):
    """What one run took: seconds of processor time, and KiB of the largest process; and its verdicts."""

    seconds: float
    memory: int
    verdicts: Counter[str]


def flood(size: int, campaigns: int, seed: int = SEED) -> Iterator[str]:
    """Yield the comments of campaigns that run at the same time."""
    rng = random.Random(seed)
    letters = sorted(set("".join(comments(2_000))) - set(" \t\r\n"))
    bases = ["".join(rng.choices(letters, k=CAMPAIGN_SIZE)) for _ in range(campaigns)]
    for _ in range(size):
        text = list(rng.choice(bases))
        for at in rng.sample(range(CAMPAIGN_SIZE), rng.randrange(MOST_CHANGED + 1)):
            text[at] = rng.choice(letters)
        yield f"{''.join(text)}{rng.randrange(10**6):06d}"


def ordinary(size: int) -> list[str]:
    """Return comments that have nothing to do with each other, but for some that people write again."""
    return comments(size)


def mixed(size: int, campaigns: int) -> Iterator[str]:
    """Yield nine ordinary comments to one of a campaign, in random order."""
    rng = random.Random(SEED)
    usual, spam = iter(ordinary(size)), flood(size, campaigns)
    for _ in range(size):
        yield next(usual if rng.random() < NINE_OF_TEN else spam)


def run(texts: Iterator[str] | list[str], settings: dict[str, str]) -> Took:
    """Filter these comments under the settings, environment variables of the configuration."""
    with tempfile.TemporaryDirectory() as folder:
        given, marked = Path(folder) / "in.jsonl", Path(folder) / "out.jsonl"
        with given.open("w", encoding="utf-8") as lines:
            lines.writelines(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts)
        command = [sys.executable, "-m", "stream_dedup", "filter", "--profile", "comment", str(given)]
        with marked.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, env=os.environ | settings)
            _, status, used = os.wait4(process.pid, 0)
        if status:
            msg = f"filter ended with status {os.waitstatus_to_exitcode(status)}"
            raise SystemExit(msg)
        with marked.open("rb") as lines_out:
            verdicts = Counter(json.loads(line)["dedup"]["verdict"] for line in lines_out)
    return Took(used.ru_utime + used.ru_stime, used.ru_maxrss, verdicts)


def main() -> None:
    options = _options()
    print("| comments | of them | match.candidates | a second of processor | of ordinary | memory, MiB | duplicates |")
    print("| ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    for size in options.size:
        for bound in options.bound:
            usual = _row(size, "ordinary", bound, ordinary(size), None)
            name = "one campaign" if options.campaigns == 1 else f"{options.campaigns} campaigns"
            _row(size, name, bound, flood(size, options.campaigns), usual)
            if options.mixture:
                _row(size, "nine ordinary, one of a campaign", bound, mixed(size, options.campaigns), usual)


def _row(size: int, name: str, bound: int, texts: Iterator[str] | list[str], usual: Took | None) -> Took:
    took = run(texts, {"STREAM_DEDUP_MATCH__CANDIDATES": str(bound)})
    share = "" if usual is None else f"{usual.seconds / took.seconds:.2f}"
    cells = (f"{size:,}", name, f"{bound or 'none'}", f"{size / took.seconds:,.0f}", share)
    print(f"| {' | '.join(cells)} | {took.memory / 1024:,.0f} | {took.verdicts['duplicate']:,} |", flush=True)
    return took


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, nargs="+", default=[200_000], help="comments of a run (default 200000)")
    parser.add_argument("--bound", type=int, nargs="+", default=BOUNDS, help="match.candidates, 0: none (default 1024)")
    parser.add_argument("--campaigns", type=int, default=1, help="campaigns at the same time (default 1)")
    parser.add_argument("--mixture", action="store_true", help="also nine ordinary comments to one of a campaign")
    return parser.parse_args()


if __name__ == "__main__":
    main()
