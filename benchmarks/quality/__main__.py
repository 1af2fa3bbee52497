"""Quality of the verdicts beside the best peers, all in one run.

    python -m benchmarks.quality [--only PART,…] [--seeds 10] [--output FILE]
    python -m benchmarks.quality --only sweep [--cells 'cut/*'] [--quick] [--jsonl FILE] [--compare FILE]

Needs the folder of labelled texts in ``STREAM_DEDUP_DATA``. A run of every part writes ``benchmarks/quality.md``; one
of some parts only prints, or writes where ``--output`` says. Progress goes to standard error.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import platform
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path

from benchmarks.quality import articles, cases, comments, data, report, sweep
from benchmarks.quality.report import Aim
from benchmarks.quality.seeds import one_thread

PARTS: dict[str, Callable[[list[int]], tuple[str, list[Aim]]]] = {
    "articles": articles.measure,
    "comments": comments.measure,
    "sweep": sweep.measure,
    "cases": cases.measure,
}
OUTPUT = Path(__file__).parents[1] / "quality.md"
SEEDS, QUICK_SEEDS = 10, 2
PEERS = ("datasketch", "simhash", "numpy")


def main() -> None:
    options = _options()
    data.check()
    one_thread()
    begun = time.monotonic()
    parts = {**PARTS, "sweep": partial(sweep.measure, choice=options.choice)}
    sections, aims = [], list[Aim]()
    for part in options.only:
        section, own = parts[part](list(range(options.seeds)))
        sections.append(section)
        aims += own
        print(f"{section}\n", flush=True)
    if aims:
        print(_aims(aims))
    output = options.output or (OUTPUT if set(options.only) == set(PARTS) else None)
    if output:
        whole = [_head(time.monotonic() - begun), _aims(aims), *sections]
        output.write_text("\n\n".join(part.strip() for part in whole) + "\n", encoding="utf-8")
        print(f"written: {output}", file=sys.stderr)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", type=_parts, default=list(PARTS), metavar="PART,…", help=f"parts, of {', '.join(PARTS)}"
    )
    parser.add_argument("--seeds", type=int, metavar="N", help="hash seeds 0 to N - 1 (10)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="where the report is written")
    parser.add_argument("--cells", default="*", metavar="GLOB", help="sweep: the cells with such names")
    parser.add_argument("--quick", action="store_true", help="sweep: every row, few pairs; two seeds unless --seeds")
    parser.add_argument("--jsonl", type=Path, metavar="FILE", help="sweep: where its figures are written")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="sweep: show what differs from these figures")
    options = parser.parse_args()
    options.seeds = options.seeds or (QUICK_SEEDS if options.quick else SEEDS)
    options.choice = sweep.Choice(options.cells, options.quick, options.jsonl, options.compare)
    return options


def _parts(given: str) -> list[str]:
    named = given.split(",")
    unknown = [name for name in named if name not in PARTS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no part {', '.join(unknown)}: there are {', '.join(PARTS)}")
    return named


def _head(took: float) -> str:
    command = " ".join(("python -m benchmarks.quality", *sys.argv[1:]))
    peers = ", ".join(f"{name} {version(name)}" for name in PEERS)
    return (
        "# Quality\n\n"
        f"Written by `{command}` (`make quality`) on {dt.datetime.now(dt.UTC).date()} in "
        f"{took / 60:.0f} minutes; {os.cpu_count()} cores ({platform.processor() or platform.machine()}), "
        f"Python {platform.python_version()}, {peers}.\n\n"
        "Figures are means over hash seeds, with the least and the most of them where they differ. Ours are "
        "through the whole index, what asks comes after all that is held; the peers compare every pair."
    )


def _aims(aims: list[Aim]) -> str:
    return f"## Aims\n\nWhat is missed is bold.\n\n{report.aims_table(aims)}"


if __name__ == "__main__":
    main()
