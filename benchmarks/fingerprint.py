"""Text to log entry (normalise to margins), one process, beside MinHash, the simhash package and segmenting.

    python -m benchmarks.fingerprint [--texts N] [--comments N] [--turns R] [--fastest] [--sweep]

In one run, on the same texts, taking turns, by processor time:

* **profile NAME**: what a worker's process does with a decoded text: signature of 256 bits, margins, sketch.
* **rensa**, **datasketch**: MinHash of 128 values, of the set of every five neighbouring characters, which Python
  makes: what this alone takes has a row of its own. The fastest peer is rensa's RMinHash; ratios are to it.
* **rjieba.cut**, **jieba.cut**: the Chinese texts cut as they are, nothing else done.
* **simhash package**: a value of 64 bits of the same characters; with **jieba** what one writes without this program:
  words, weights by term frequency, a value of 64 bits.

The points: Chinese news of 2,000 and 1,000 characters (paragraphs of prose of the articles, joined and cut to length),
Chinese articles as they are, English articles, comments of 76 and of 126 characters on the mean. ``--fastest`` leaves
out what takes ten times as long as all others: jieba, datasketch and the simhash package.

``--sweep`` measures over length and script (``fingerprint_sweep``).

A figure is the median over the turns; a ratio is the median of the ratios in the same turn.
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Callable

from benchmarks.fingerprint_figures import print_point, print_sweep, timed
from benchmarks.fingerprint_peers import (
    RENSA,
    Work,
    is_slow,
    microseconds,
    minhash_peers,
    package_peers,
    segmenting_floor,
    segmenting_peers,
    warm,
)
from benchmarks.fingerprint_sweep import sweep
from benchmarks.texts import articles, comments_about, described, english_articles, news
from stream_dedup.core.profiles import PROFILES

CHARACTERS, FEWER_CHARACTERS = 2_000, 1_000
"""Of Chinese news: some 6 and 3 kB."""
COMMENT_CHARACTERS, MORE_CHARACTERS = 76, 126


def main() -> None:
    options = _options()
    print(
        f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, one process, processor time"
    )
    print(f"Chinese and English from {described()}; {options.turns} turns")
    if options.sweep:
        print_sweep(sweep(options.turns, _say))
    else:
        _points(options)


def _points(options: argparse.Namespace) -> None:
    """Measure each point and print its table."""
    points: tuple[tuple[str, list[str], Callable[[], dict[str, Work]]], ...] = (
        ("Chinese news", news(CHARACTERS, options.texts), _on_chinese),
        ("Chinese news", news(FEWER_CHARACTERS, options.texts), _on_chinese),
        ("Chinese articles", articles(options.texts), _on_chinese),
        ("English articles", english_articles(options.texts), _on_articles),
        ("comments", comments_about(COMMENT_CHARACTERS, options.comments), _on_comments),
        ("comments", comments_about(MORE_CHARACTERS, options.comments), _on_comments),
    )
    for point, texts, contenders in points:
        chosen = {name: work for name, work in contenders().items() if not (options.fastest and is_slow(name))}
        print_point(timed(point, texts, microseconds(chosen, texts, options.turns), RENSA), ("rjieba.cut",))


def _on_chinese() -> dict[str, Work]:
    return segmenting_floor() | _on_articles() | segmenting_peers()


def _on_articles() -> dict[str, Work]:
    ways = {f"profile {name}": warm(one.settings) for name, one in PROFILES.items()}
    return ways | minhash_peers() | package_peers()


def _on_comments() -> dict[str, Work]:
    return {"profile comment": warm(PROFILES["comment"].settings)} | minhash_peers() | package_peers()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=200, help="texts of a point (default 200)")
    parser.add_argument("--comments", type=int, default=5000, help="comments of a point (default 5000)")
    parser.add_argument("--turns", type=int, default=5, help="turns of each contender (default 5)")
    parser.add_argument("--fastest", action="store_true", help="without jieba, datasketch and the simhash package")
    parser.add_argument("--sweep", action="store_true", help="over length and script")
    return parser.parse_args()


if __name__ == "__main__":
    main()
