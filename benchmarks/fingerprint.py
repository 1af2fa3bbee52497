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

``--sweep`` measures over length and script. Mixed text has a Chinese paragraph, then an English one. Text in other
scripts is made: words of two to eight letters, each language with 3,000 of its own, of which the common ones come often
(the n-th as often as 1/n), in sentences; Thai and Japanese without spaces.

Peers are called as their documentation shows, and take the text as it is: none normalises. rensa was also tried with
many texts in one call, which took no less: most of its time makes the shingles, a string for each character.

A figure is the median over the turns; a ratio is the median of the ratios in the same turn.
"""

from __future__ import annotations

import argparse
import logging
import platform
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from statistics import median

import rensa
import rjieba
from datasketch import MinHash

from benchmarks.texts import (
    SEED,
    SHINGLE,
    VALUES,
    articles,
    comments_about,
    described,
    english_articles,
    news,
    paragraphs,
    passages,
    shingles,
)
from stream_dedup.core.fingerprinter import Fingerprinter
from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.scheme import FingerprintSettings
from stream_dedup.threads import chunks

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import jieba
    from simhash import Simhash

CHARACTERS, FEWER_CHARACTERS = 2_000, 1_000
"""Of Chinese news: some 6 and 3 kB."""
COMMENT_CHARACTERS, MORE_CHARACTERS = 76, 126
LENGTHS = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
SCRIPT_LENGTHS = (100, 1_000, 10_000)
KINDS = ("Chinese", "English", "mixed")
"""What is measured at every length."""
TOTAL_CHARACTERS, LEAST_TEXTS, MOST_TEXTS = 400_000, 4, 2_000
"""Of one point: so many texts that a turn takes some tens of milliseconds."""
VOCABULARY = 3_000

_ALPHABETS = {
    "Japanese": (
        tuple(map(chr, (*range(0x3042, 0x3094), *range(0x30A2, 0x30F0), *range(0x4E00, 0x4F00, 3)))),
        "",
        "。",
    ),
    "Korean": (tuple(map(chr, range(0xAC00, 0xD7A4, 28))), " ", ". "),
    "Thai": (tuple(map(chr, (*range(0x0E01, 0x0E2F), *range(0x0E30, 0x0E3A), *range(0x0E40, 0x0E4D)))), "", " "),
    "Arabic": (tuple("ابتثجحخدذرزسشصضطظعغفقكلمنهويةىءأإ"), " ", "، "),
    "Russian": (tuple("оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфё" + "оеаинтс" * 3), " ", ". "),
}
"""Of each script its letters, and what stands between its words and its sentences."""
Work = Callable[[Sequence[str]], None]
RENSA = f"rensa RMinHash, {VALUES} values"
"""The fastest peer, which ratios are taken to."""


@dataclass(frozen=True)
class Timed:
    """Processor time of one contender at one point: the median of its turns."""

    point: str
    """What texts these are."""
    characters: int
    """Mean of them."""
    bytes: int
    """Mean of them, in UTF-8."""
    contender: str
    us: float
    """Microseconds a text."""
    beside: float
    """Median of the ratios to the peer in the same turn."""


def timed(point: str, texts: Sequence[str], times: dict[str, list[float]], peer: str) -> list[Timed]:
    """Return the figures of one point: microseconds a text of each contender by turns."""
    characters, size = (round(sum(each) / len(texts)) for each in (map(len, texts), map(_size, texts)))
    return [
        Timed(point, characters, size, name, median(own), median(a / b for a, b in zip(own, times[peer], strict=True)))
        for name, own in times.items()
    ]


def print_point(figures: Sequence[Timed], others: Sequence[str] = ()) -> None:
    """Print the contenders of one point; ``others``: contenders that ratios are printed to besides the peer."""
    bases = {one.contender: one.us for one in figures}
    names = [name for name in others if name in bases]
    peer = next(one.contender for one in figures if one.beside == 1.0)
    print(f"\n{figures[0].point}: {figures[0].characters:,} characters, {figures[0].bytes:,} bytes each\n")
    print(
        f"| | µs a text | MB/s | x {' | x '.join((peer, *names))} |\n| --- | ---: | ---: |"
        + " ---: |" * (1 + len(names))
    )
    for one in figures:
        ratios = [f"{one.beside:.2f}", *(f"{one.us / bases[name]:.2f}" for name in names)]
        print(f"| {one.contender} | {one.us:,.1f} | {one.bytes / one.us:.1f} | {' | '.join(ratios)} |", flush=True)


def print_sweep(figures: Sequence[Timed]) -> None:
    """Print a row for each text and length, with the microseconds of each contender and its ratio to the peer."""
    names = list(dict.fromkeys(one.contender for one in figures))
    print(f"\n| text | characters | {' | '.join(names)} |\n| --- | ---: |" + " ---: |" * len(names))
    points = dict.fromkeys((one.point, one.characters) for one in figures)
    for point, characters in points:
        own = {one.contender: one for one in figures if (one.point, one.characters) == (point, characters)}
        cells = [f"{own[name].us:,.1f} ({own[name].beside:.2f})" if name in own else "" for name in names]
        print(f"| {point} | {characters:,} | {' | '.join(cells)} |", flush=True)


def microseconds(contenders: dict[str, Work], texts: Sequence[str], turns: int) -> dict[str, list[float]]:
    """Return microseconds of processor time a text of each contender's turns.

    A turn before them loads dictionaries and meets the words.
    """
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(turns + 1):
        for name, work in contenders.items():
            start = time.process_time()
            work(texts)
            if turn:
                times[name].append((time.process_time() - start) * 1e6 / len(texts))
    return times


def minhash_peers() -> dict[str, Work]:
    """Return the ways to make a MinHash of a text, the fastest first; its shingles are made in Python."""
    return {
        RENSA: each(_rensa),
        f"rensa CMinHash, {VALUES} values": each(_rensa_circulant),
        f"its shingles alone, of {SHINGLE} characters": each(shingles),
        f"datasketch MinHash, {VALUES} values": each(_datasketch),
    }


def package_peers() -> dict[str, Work]:
    """Return SimHash by the simhash package, of the same shingles."""
    return {"simhash package": each(lambda text: Simhash(shingles(text)).value)}


def segmenting_peers() -> dict[str, Work]:
    """Return segmenting by jieba, alone and with the simhash package."""
    jieba.setLogLevel(logging.CRITICAL)
    return {"jieba.cut": each(jieba.lcut), "jieba + simhash package": each(_words_by_the_package)}


def segmenting_floor() -> dict[str, Work]:
    """Return the fastest segmenting."""
    return {"rjieba.cut": each(rjieba.cut)}


def is_slow(name: str) -> bool:
    """Whether a contender takes ten times as long as the fastest."""
    return any(slow in name for slow in (" jieba", "datasketch", "simhash package")) or name.startswith("jieba")


def each(work: Callable[[str], object]) -> Work:
    """Return the work on one text after the other."""

    def run(texts: Sequence[str]) -> None:
        for text in texts:
            work(text)

    return run


def warm(settings: FingerprintSettings) -> Work:
    """Return the fingerprints of texts, which are handed over in chunks as by a worker."""
    fingerprinter = Fingerprinter(settings)

    def run(texts: Sequence[str]) -> None:
        for part in chunks(list(map(_size, texts))):
            fingerprinter.fingerprint(texts[part])

    return run


@cache
def _size(text: str) -> int:
    """Return the bytes of a text, which a worker knows before it decodes the text: counted once, in the first turn."""
    return len(text.encode("utf-8", "surrogatepass"))


def _rensa(text: str) -> object:
    made = rensa.RMinHash(num_perm=VALUES, seed=1)
    made.update(shingles(text))
    return made.digest()


def _rensa_circulant(text: str) -> object:
    made = rensa.CMinHash(num_perm=VALUES, seed=1)
    made.update(shingles(text))
    return made.digest()


def _datasketch(text: str) -> object:
    made = MinHash(num_perm=VALUES, seed=1)
    made.update_batch([one.encode("utf-8", "surrogatepass") for one in set(shingles(text))])
    return made.digest()


def _words_by_the_package(text: str) -> int:
    # Weights as floats: version 2.1.2 raises with whole ones on long texts under NumPy 2.
    counts = Counter(word for word in jieba.cut(text) if not word.isspace())
    value: int = Simhash({word: float(count) for word, count in counts.items()}).value
    return value


def sweep(turns: int) -> list[Timed]:
    """Measure every point over length and script."""
    profiles = {f"profile {name}": warm(one.settings) for name, one in PROFILES.items()}
    contenders = {RENSA: minhash_peers()[RENSA], **profiles}
    figures = []
    for point, texts in _swept_points():
        figures += timed(point, texts, microseconds(contenders, texts, turns), RENSA)
        print(f"{point}, {figures[-1].characters:,} characters: {len(texts)} texts", file=sys.stderr, flush=True)
    return figures


def _swept_points() -> Iterator[tuple[str, list[str]]]:
    chinese, english = paragraphs(), [line for text in english_articles(282) for line in text.splitlines() if line]
    mixed = [piece for pair in zip(chinese, english, strict=False) for piece in pair]
    for kind, pieces in zip(KINDS, (chinese, english, mixed), strict=True):
        rng = random.Random(SEED)
        rng.shuffle(pieces)
        yield from ((kind, _texts(pieces, length)) for length in LENGTHS)
    for script in _ALPHABETS:
        sentences = _sentences(script)
        yield from ((f"{script} (made)", _texts(sentences, length)) for length in SCRIPT_LENGTHS)


def _texts(pieces: Sequence[str], length: int) -> list[str]:
    return passages(pieces, length, min(MOST_TEXTS, max(LEAST_TEXTS, TOTAL_CHARACTERS // length)))


def _sentences(script: str) -> list[str]:
    letters, space, stop = _ALPHABETS[script]
    rng = random.Random(f"{SEED} {script}")
    words = ["".join(rng.choices(letters, k=rng.randrange(2, 9))) for _ in range(VOCABULARY)]
    shares = list(accumulate(1 / number for number in range(1, VOCABULARY + 1)))
    return [
        space.join(rng.choices(words, cum_weights=shares, k=rng.randrange(5, 20))) + stop.strip() for _ in range(5_000)
    ]


def main() -> None:
    options = _options()
    print(
        f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, one process, processor time"
    )
    print(f"Chinese and English from {described()}; {options.turns} turns")
    if options.sweep:
        print_sweep(sweep(options.turns))
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
