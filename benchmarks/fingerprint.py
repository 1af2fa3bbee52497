"""Text to log entry (normalise to margins), one process, beside segmenting alone and the simhash package.

    python -m benchmarks.fingerprint [--articles N] [--comments N] [--repetitions R]

In one run, on the same texts, taking turns:

* **rjieba.cut**: the floor. The texts cut as they are, nothing else done.
* **stream-dedup**: what a worker's process does with a decoded text: signature of 256 bits and margins, by each
  profile; by the article profile once more with a table of words that is empty when the turn begins.
* **jieba.cut**: what the reference segmenter takes.
* **jieba + simhash package**: what one writes without this program: words by jieba, weights by term
  frequency, a value of 64 bits. The package gets its weights as floats: version 2.1.2 raises with whole ones
  on long texts under NumPy 2.

Then, on comments:

* **stream-dedup** by the profile of comments, and once more without anything met before.
* **rensa**, **datasketch**: MinHash of 128 values, of the set of every three neighbouring characters.
* **simhash package**: a value of 64 bits of the same, as its documentation shows.

A figure is the median over the repetitions; a ratio is the median of the ratios to the first
contender in the same repetition.
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

import rensa
import rjieba
from datasketch import MinHash

from benchmarks.texts import articles, comments, described
from benchmarks.turns import Work, in_chunks, microseconds
from stream_dedup.core.fingerprint.fingerprinter import Fingerprinter
from stream_dedup.core.profiles import PROFILES

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import jieba
    from simhash import Simhash


VALUES, SHINGLE = 128, 3
"""Of MinHash: its values, and the characters of a shingle."""


def main() -> None:
    options = _options()
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, one process\n")
    texts = articles(options.articles)
    print(f"{len(texts)} {described()}, {_mean_bytes(texts):,.0f} bytes each; {options.repetitions} repetitions\n")
    _report(microseconds(_contenders(), texts, options.repetitions), texts)
    texts = comments(options.comments)
    characters = sum(map(len, texts)) / len(texts)
    print(f"\n{len(texts)} comments of {characters:.0f} characters; {options.repetitions} repetitions\n")
    _report(microseconds(_contenders_on_comments(), texts, options.repetitions), texts)


def _report(times: dict[str, list[float]], texts: Sequence[str]) -> None:
    name, floor = next(iter(times.items()))
    print(f"| | microseconds a text | MB/s | x {name} |\n| --- | ---: | ---: | ---: |")
    for name, own in times.items():
        ratio = median(mine / base for mine, base in zip(own, floor, strict=True))
        print(f"| {name} | {median(own):,.1f} | {_mean_bytes(texts) / median(own):.1f} | {ratio:.2f} |")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--articles", type=int, default=500, help="texts (default 500)")
    parser.add_argument("--comments", type=int, default=5000, help="comments (default 5000)")
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


def _contenders_on_comments() -> dict[str, Work]:
    comment = PROFILES["comment"].settings
    return {
        "stream-dedup, profile comment": _in_chunks(Fingerprinter(comment)),
        "stream-dedup, profile comment, nothing met before": _comments_anew,
        "rensa, MinHash of 128 values": _each(_rensa),
        "datasketch, MinHash of 128 values": _each(_datasketch),
        "simhash package": _each(lambda text: Simhash(_shingles(text)).value),
    }


def _shingles(text: str) -> list[str]:
    """Return every three neighbouring characters."""
    return [text[at : at + SHINGLE] for at in range(max(1, len(text) - SHINGLE + 1))]


def _rensa(text: str) -> object:
    made = rensa.RMinHash(num_perm=VALUES, seed=1)
    made.update(_shingles(text))
    return made.digest()


def _datasketch(text: str) -> object:
    made = MinHash(num_perm=VALUES, seed=1)
    made.update_batch([one.encode("utf-8", "surrogatepass") for one in set(_shingles(text))])
    return made.digest()


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


def _comments_anew(texts: Sequence[str]) -> None:
    _in_chunks(Fingerprinter(PROFILES["comment"].settings))(texts)


def _simhash_package(text: str) -> int:
    counts = Counter(word for word in jieba.cut(text) if not word.isspace())
    value: int = Simhash({word: float(count) for word, count in counts.items()}).value
    return value


def _mean_bytes(texts: Sequence[str]) -> float:
    return sum(len(text.encode()) for text in texts) / len(texts)


if __name__ == "__main__":
    main()
