"""Text to log entry (normalise to margins), one process, beside segmenting alone and the simhash package.

    python -m benchmarks.fingerprint [--articles N] [--repetitions R]

In one run, on the same texts, taking turns:

* **rjieba.cut**: the floor. The texts cut as they are, nothing else done.
* **stream-dedup**: what a worker's process does with a decoded text: signature of 256 bits and margins, by each
  profile; by the article profile once more with a table of words that is empty when the turn begins.
* **jieba.cut**: what the reference segmenter takes.
* **jieba + simhash package**: what one writes without this program: words by jieba, weights by term
  frequency, a value of 64 bits. The package gets its weights as floats: version 2.1.2 raises with whole ones
  on long texts under NumPy 2.

A figure is the median over the repetitions; a ratio is the median of the ratios to rjieba.cut in the same repetition.
"""

from __future__ import annotations

import argparse
import logging
import platform
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median

import rjieba

from benchmarks.texts import articles, described
from benchmarks.turns import Work, in_chunks, microseconds
from stream_dedup.core.fingerprint.fingerprinter import Fingerprinter
from stream_dedup.core.profiles import PROFILES

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import jieba
    from simhash import Simhash


def main() -> None:
    options = _options()
    texts = articles(options.articles)
    times = microseconds(_contenders(), texts, options.repetitions)
    floor = times["rjieba.cut"]
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, one process; ", end="")
    print(f"{len(texts)} {described()}, {_mean_bytes(texts):,.0f} bytes each; {options.repetitions} repetitions\n")
    print("| | microseconds a text | MB/s | x rjieba.cut |\n| --- | ---: | ---: | ---: |")
    for name, own in times.items():
        ratio = median(mine / base for mine, base in zip(own, floor, strict=True))
        print(f"| {name} | {median(own):,.0f} | {_mean_bytes(texts) / median(own):.1f} | {ratio:.2f} |")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--articles", type=int, default=500, help="texts (default 500)")
    parser.add_argument("--repetitions", type=int, default=5, help="turns of each contender (default 5)")
    return parser.parse_args()


def _contenders() -> dict[str, Work]:
    jieba.setLogLevel(logging.CRITICAL)
    article = PROFILES["article"].settings
    profiles = {
        f"stream-dedup, profile {name}": _in_chunks(Fingerprinter(one.settings)) for name, one in PROFILES.items()
    }
    reference = Fingerprinter(replace(article, segmenter="jieba"))
    return {
        "rjieba.cut": _each(rjieba.cut),
        **profiles,
        "stream-dedup, profile article, no word met before": _in_chunks_anew,
        "jieba.cut": _each(jieba.lcut),
        "stream-dedup, profile article, segmenter jieba": _in_chunks(reference),
        "jieba + simhash package": _each(_simhash_package),
    }


def _each(work: Callable[[str], object]) -> Work:
    def run(texts: Sequence[str]) -> None:
        for text in texts:
            work(text)

    return run


def _in_chunks(fingerprinter: Fingerprinter) -> Work:
    def run(texts: Sequence[str]) -> None:
        for chunk in in_chunks(texts):
            fingerprinter.fingerprint(chunk)

    return run


def _in_chunks_anew(texts: Sequence[str]) -> None:
    _in_chunks(Fingerprinter(PROFILES["article"].settings))(texts)


def _simhash_package(text: str) -> int:
    counts = Counter(word for word in jieba.cut(text) if not word.isspace())
    value: int = Simhash({word: float(count) for word, count in counts.items()}).value
    return value


def _mean_bytes(texts: Sequence[str]) -> float:
    return sum(len(text.encode()) for text in texts) / len(texts)


if __name__ == "__main__":
    main()
