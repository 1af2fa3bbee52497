"""``stream-dedup filter`` beside a plain loop over rensa's index, on files with planted copies.

    python -m benchmarks.filter_beside [--sizes 10000,100000] [--turns R] [--comments]

The texts are short news of 500 characters, made of the sentences of real articles (``made_news``); one in five is a
copy of an earlier one with one sentence edited or dropped, or with a header. Each way is a process of its own, in
turns:

* **filter**: profile article, or comment, one process, as it comes.
* **rensa**: ``filter_loops``: RMinHash of 128 values of five neighbouring characters, RMinHashLSH with 16 bands,
  candidates of an estimated Jaccard similarity of .5 and more; reads and writes the same JSON Lines by orjson.

Seconds are those of the wall and of the processor, the least of the turns; without start-up: those of a call with one
line are taken off. Memory is the most that the process had resident. *Found*: copies marked as duplicates; *of the
right text*: with a match that is the text or another copy of it. *Confused*: other texts marked as duplicates.

With ``--comments`` the texts are real comments of 126 characters on the mean, of which nobody has said which are
copies: ``benchmarks.quality`` says what is found among labelled ones.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import orjson

from benchmarks.made_news import made_text
from benchmarks.processes import Took, call
from benchmarks.texts import comments_about
from stream_dedup.extras import need_packages

SIZES = "10000,100000"
COMMENT_CHARACTERS = 126
Command = Callable[[Path, Path], list[str]]


class Truth(NamedTuple):
    """The family of each text: the number of the text that it is a copy of, or its own; and how copies were made."""

    families: list[int]
    changes: list[str]


def by_filter(given: Path, _marked: Path, profile: str = "article") -> list[str]:
    """Return the command of filter, which writes to standard output."""
    flags = ["--profile", profile, "--log-level", "warning"]
    return [sys.executable, "-m", "stream_dedup", "filter", *flags, str(given)]


def by_loop(given: Path, marked: Path) -> list[str]:
    """Return the command of the loop."""
    return [sys.executable, "-m", "benchmarks.filter_loops", str(given), str(marked)]


PEER = "loop, rensa"
WAYS: dict[str, Command] = {"filter": by_filter, PEER: by_loop}
COMMENT_WAYS: dict[str, Command] = {"filter": partial(by_filter, profile="comment"), PEER: by_loop}


def write_texts(path: Path, size: int) -> Truth:
    """Write the texts of a run."""
    truth = Truth([], [])
    with path.open("wb") as lines:
        for number in range(size):
            made = made_text(number)
            lines.write(orjson.dumps({"id": str(number), "text": made.text}) + b"\n")
            truth.families.append(number if made.origin is None else made.origin)
            truth.changes.append(made.change)
    return truth


def write_comments(path: Path, size: int) -> None:
    """Write the comments of a run."""
    with path.open("wb") as lines:
        for number, text in enumerate(comments_about(COMMENT_CHARACTERS, size)):
            lines.write(orjson.dumps({"id": str(number), "text": text}) + b"\n")


def timed(command: Command, given: Path, marked: Path) -> Took:
    """Run one way in a process of its own."""
    with (Path(os.devnull) if command is by_loop else marked).open("wb") as out:
        return call(command(given, marked), stdout=out)


def judged(marked: Path, truth: Truth) -> dict[str, str]:
    """Return the shares of copies found and of others confused, by what was done to the copies."""
    copies, found, right = Counter(truth.changes), Counter[str](), 0
    for number, match in enumerate(_matches(marked)):
        if match is not None:
            found[truth.changes[number]] += 1
            right += truth.changes[number] != "" and truth.families[match] == truth.families[number]
    others, confused = copies.pop(""), found.pop("", 0)
    shares = {change: f"{found[change] / copies[change]:.4f}" for change in sorted(copies)}
    return shares | {
        "found": f"{found.total() / copies.total():.4f}",
        "of the right text": f"{right / copies.total():.4f}",
        "confused": f"{confused / others:.6f}",
    }


def _matches(marked: Path) -> Iterator[int | None]:
    with marked.open("rb") as lines:
        for line in lines:
            dedup = orjson.loads(line)["dedup"]
            yield int(dedup["match"]["id"]) if dedup["verdict"] == "duplicate" else None


def main() -> None:
    options = _options()
    need_packages("benchmarks.filter_beside", "bench", "rensa")
    sizes = [int(size) for size in options.sizes.split(",")]
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        folder = Path(temporary)
        write_texts(folder / "one.jsonl", 1)
        ways = COMMENT_WAYS if options.comments else WAYS
        starts = {
            name: _least([timed(way, folder / "one.jsonl", folder / "out") for _ in range(3)])
            for name, way in ways.items()
        }
        _print_head(of_comments=options.comments)
        for size in sizes:
            given = folder / "in.jsonl"
            truth = write_comments(given, size) if options.comments else write_texts(given, size)
            _measure(ways, starts, folder, size, truth, options.turns)


def _measure(
    ways: dict[str, Command], starts: dict[str, Took], folder: Path, size: int, truth: Truth | None, turns: int
) -> None:
    """Run the ways in turns, and print a row for each."""
    taken: dict[str, list[Took]] = {name: [] for name in ways}
    verdicts: dict[str, dict[str, str]] = {}
    for _ in range(turns):
        for name, command in ways.items():
            marked = folder / "marked.jsonl"
            taken[name].append(timed(command, folder / "in.jsonl", marked))
            if truth is not None and name not in verdicts:
                verdicts[name] = judged(marked, truth)
            print(f"{size:,} texts, {name}: {taken[name][-1]}", file=sys.stderr, flush=True)
    peer = _least(taken[PEER]).without(starts[PEER])
    for name, every in taken.items():
        least = _least(every)
        alone = least.without(starts[name])
        cells = [
            *(f"{one.wall_s:,.1f}" for one in (least, alone)),
            *(f"{one.processor_s:,.1f}" for one in (least, alone)),
            f"{alone.processor_s * 1e6 / size:,.0f}",
            f"{alone.processor_s / peer.processor_s:.2f}",
            f"{least.memory_mib:,.0f}",
            *verdicts.get(name, {}).values(),
        ]
        print(f"| {size:,} | {name} | {' | '.join(cells)} |", flush=True)


def _print_head(*, of_comments: bool) -> None:
    columns = ["wall, s", "without start-up", "processor, s", "without start-up", "µs a text", "x rensa", "memory, MiB"]
    if not of_comments:
        columns += ["header added: found", "sentence dropped", "sentence edited"]
        columns += ["all copies", "of the right text", "confused"]
    print(f"| texts | | {' | '.join(columns)} |\n| ---: | --- |" + " ---: |" * len(columns), flush=True)


def _least(every: list[Took]) -> Took:
    return Took(*map(min, zip(*every, strict=True)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=SIZES, help=f"texts of each run (default {SIZES})")
    parser.add_argument("--turns", type=int, default=1, help="turns of each way (default 1)")
    parser.add_argument("--comments", action="store_true", help="comments in place of news")
    parser.add_argument("--folder", type=Path, help="where the files are (1,000,000 texts: 5 GB)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
