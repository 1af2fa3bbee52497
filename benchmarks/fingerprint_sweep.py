"""Microseconds a text over its length and its script: the texts of ``benchmarks.fingerprint --sweep``.

Chinese and English text is that of ``STREAM_DEDUP_DATA``, or made text. Mixed text has a Chinese paragraph, then an
English one. Text in other scripts is made: words of two to eight letters, each language with 3,000 of its own,
of which the common ones come often (the n-th as often as 1/n), in sentences; Thai and Japanese without spaces.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from benchmarks.fingerprint_figures import Timed, timed
from benchmarks.fingerprint_peers import RENSA, Work, microseconds, minhash_peers, warm
from benchmarks.texts import SEED, english_articles, paragraphs, passages
from stream_dedup.core.profiles import PROFILES

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


def sweep(turns: int, say: Callable[[str], None]) -> list[Timed]:
    """Measure every point; ``say`` is told of each."""
    figures = []
    for point, texts in _points():
        texts[0].encode()
        figures += timed(point, texts, microseconds(_contenders(), texts, turns), RENSA)
        say(f"{point}, {figures[-1].characters:,} characters: {len(texts)} texts")
    return figures


def _contenders() -> dict[str, Work]:
    profiles = {f"profile {name}": warm(one.settings) for name, one in PROFILES.items()}
    return {RENSA: minhash_peers()[RENSA], **profiles}


def _points() -> Iterator[tuple[str, list[str]]]:
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
