"""Text to log entry (normalise to margins), one process, beside MinHash, the simhash package and segmenting.

    python -m benchmarks.fingerprint [--texts N] [--comments N] [--turns R] [--fastest] [--sweep [--picture]]
        [--jsonl FILE] [--compare BEFORE AFTER]

In one run, on the same texts, taking turns, by processor time:

* **profile NAME**: what a worker's process does with a decoded text: signature of 256 bits, margins, sketch. Articles
  are also read with a table of words that is empty when the turn begins, comments with nothing met before.
* **rensa**, **datasketch**: MinHash of 128 values, of the set of every five neighbouring characters, which Python
  makes: what this alone takes has a row of its own. The fastest peer is rensa's RMinHash; ratios are to it.
* **rjieba.cut**, **jieba.cut**: the Chinese texts cut as they are, nothing else done.
* **simhash package**: a value of 64 bits of the same characters; with **jieba** what one writes without this program:
  words, weights by term frequency, a value of 64 bits.

The points: Chinese news of 2,000 and 1,000 characters (paragraphs of prose of the articles, joined and cut to length),
Chinese articles as they are, English articles, comments of 76 and of 126 characters on the mean. ``--fastest`` leaves
out what takes ten times as long as all others: jieba, datasketch and the simhash package.

``--sweep`` measures over length and script (``fingerprint_sweep``) and prints a table; ``--picture`` also draws
docs/images/fingerprint-length.svg. ``--jsonl`` keeps the figures; ``--compare`` prints two such files, of two
versions of the program, side by side, with the ratio at each point, and the points that got slower.

A figure is the median over the turns; a ratio is the median of the ratios in the same turn.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.fingerprint_figures import (
    Timed,
    compare,
    draw,
    print_point,
    print_sweep,
    read_figures,
    timed,
    write_figures,
)
from benchmarks.fingerprint_peers import (
    RENSA,
    cold,
    is_slow,
    minhash_peers,
    package_peers,
    segmenting_floor,
    segmenting_peers,
    warm,
)
from benchmarks.fingerprint_sweep import KINDS, sweep
from benchmarks.texts import articles, comments_about, described, english_articles, news
from benchmarks.turns import Work, microseconds
from stream_dedup.core.profiles import PROFILES
from stream_dedup.extras import need_packages

CHARACTERS, FEWER_CHARACTERS = 2_000, 1_000
"""Of Chinese news: some 6 and 3 kB."""
COMMENT_CHARACTERS, MORE_CHARACTERS = 76, 126
SHOWN = 5
"""Points that are named as the least and the most changed."""


def main() -> None:
    options = _options()
    if options.compare:
        before, after = (list(read_figures(path)) for path in options.compare)
        rows = compare(before, after, RENSA)
        for ratio, where in dict.fromkeys((*rows[:SHOWN], *rows[-SHOWN:])):
            print(f"{ratio:.2f}  {where}")
        return
    if options.picture:
        need_packages("benchmarks.fingerprint --picture", "bench", "matplotlib")
    print(
        f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, one process, processor time"
    )
    print(f"Chinese and English from {described()}; {options.turns} turns")
    figures = sweep(options.turns, _say) if options.sweep else _points(options)
    if options.sweep:
        print_sweep(figures)
    if options.jsonl:
        write_figures(options.jsonl, figures)
    if options.picture:
        print(draw(figures, RENSA, KINDS))


def _points(options: argparse.Namespace) -> list[Timed]:
    """Measure each point and print its table."""
    points: tuple[tuple[str, list[str], Callable[[], dict[str, Work]]], ...] = (
        ("Chinese news", news(CHARACTERS, options.texts), _on_chinese),
        ("Chinese news", news(FEWER_CHARACTERS, options.texts), _on_chinese),
        ("Chinese articles", articles(options.texts), _on_chinese),
        ("English articles", english_articles(options.texts), _on_articles),
        ("comments", comments_about(COMMENT_CHARACTERS, options.comments), _on_comments),
        ("comments", comments_about(MORE_CHARACTERS, options.comments), _on_comments),
    )
    figures = []
    for point, texts, contenders in points:
        chosen = {name: work for name, work in contenders().items() if not (options.fastest and is_slow(name))}
        times = microseconds(chosen, texts, options.turns, time.process_time)
        figures += (own := timed(point, texts, times, RENSA))
        print_point(own, ("rjieba.cut",))
    return figures


def _on_chinese() -> dict[str, Work]:
    return segmenting_floor() | _on_articles() | segmenting_peers()


def _on_articles() -> dict[str, Work]:
    ways = {f"profile {name}": warm(one.settings) for name, one in PROFILES.items()} | {
        f"profile {name}, no word met before": cold(PROFILES[name].settings) for name in ("article", "simhash")
    }
    return ways | minhash_peers() | package_peers()


def _on_comments() -> dict[str, Work]:
    comment = PROFILES["comment"].settings
    ways = {"profile comment": warm(comment), "profile comment, nothing met before": cold(comment)}
    return ways | minhash_peers() | package_peers()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=200, help="texts of a point (default 200)")
    parser.add_argument("--comments", type=int, default=5000, help="comments of a point (default 5000)")
    parser.add_argument("--turns", type=int, default=5, help="turns of each contender (default 5)")
    parser.add_argument("--fastest", action="store_true", help="without jieba, datasketch and the simhash package")
    parser.add_argument("--sweep", action="store_true", help="over length and script")
    parser.add_argument("--picture", action="store_true", help="with --sweep: draw it")
    parser.add_argument("--jsonl", type=Path, metavar="FILE", help="write the figures to this file")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("BEFORE", "AFTER"), help="print two such files")
    return parser.parse_args()


if __name__ == "__main__":
    main()
