"""Every length by half octaves, with every edit: ``length/<language> <profile>/<edit>/<characters>``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from random import Random

from benchmarks.quality.cells import declaration, edits, manuals, texts
from benchmarks.quality.cells.model import Cell, Pair, Pairs, Unlike

LONGEST = 20_000
LENGTHS = (*(round(2 ** (half / 2)) for half in range(6, 29)), LONGEST)
"""8 to 16,384 characters, and 20,000."""
OCTAVES = (*(2**whole for whole in range(3, 15)), LONGEST)
"""For languages other than Chinese and English."""
NUMBER, LEAST_NUMBER = 200, 20
"""Pairs of a cell, and of one of the longest texts."""
MOST_CHARACTERS = 200_000
"""Characters of a cell, beyond which it has fewer pairs."""
UNLIKE_NUMBER, UNLIKE_SHORTEST = 40, 32
"""Texts of a set of unrelated ones, and the length from which on they are: shorter ones may be the same word."""

Edit = Callable[[str, Random, str], str]


def _source_line(whole: str, rng: Random, language: str) -> str:
    return f"{whole}\n{rng.choice(edits.SOURCE_LINES[language if language == 'zh' else 'en'])}"


EDITS: dict[str, Edit] = {
    "1 % edited": lambda whole, rng, language: edits.edited(whole, 0.01, rng, language),
    "5 % edited": lambda whole, rng, language: edits.edited(whole, 0.05, rng, language),
    "10 % edited": lambda whole, rng, language: edits.edited(whole, 0.10, rng, language),
    "20 % edited": lambda whole, rng, language: edits.edited(whole, 0.20, rng, language),
    "one letter": edits.one_letter,
    "5 % of letters": lambda whole, rng, language: edits.scattered(whole, 0.05, rng, language),
    "10 % of words": lambda whole, rng, language: edits.words(whole, 0.10, rng, language),
    "20 % of sentences out": lambda whole, rng, _: edits.sentences_out(whole, 0.2, rng),
    "first 70 %": lambda whole, _, __: edits.first_part(whole, 0.7),
    "sentences in other order": lambda whole, rng, _: edits.reordered(whole, rng),
    "typography": lambda whole, rng, _: edits.typography(whole, rng),
    "source line": _source_line,
}
FEW = ("5 % edited", "10 % edited", "one letter", "first 70 %")
"""Edits of languages other than Chinese and English, and of the profile ``comment``."""
SOURCE_FROM, SENTENCES_FROM = 64, 256
"""Characters from which on a source line, or a lost sentence, leaves a copy."""
WHOLE = ("zh", "en")
OTHERS = tuple(sorted({*declaration.CODES, *manuals.PACKAGES} - {*WHOLE}))


def cells() -> Iterator[Cell]:
    """Languages one after another."""
    for language in WHOLE:
        yield from _series(language, "article", EDITS, LENGTHS)
        yield from _series(language, "comment", FEW, LENGTHS)
    for language in OTHERS:
        yield from _series(language, "article", FEW, OCTAVES)
        yield from _series(language, "comment", (), OCTAVES)


def _series(language: str, profile: str, named: Iterable[str], lengths: tuple[int, ...]) -> Iterator[Cell]:
    for name in named:
        for length in lengths:
            if length >= _least(name):
                number = min(max(MOST_CHARACTERS // length, LEAST_NUMBER), NUMBER)
                make = partial(_pair, language, length, EDITS[name])
                yield Pairs(f"length/{language} {profile}/{name}/{length}", profile, number, make, aim=None)
    for length in lengths:
        if length >= UNLIKE_SHORTEST:
            name = f"length/{language} {profile}/unrelated/{length}"
            yield Unlike(
                name, profile, partial(texts.apart, language, length, UNLIKE_NUMBER), aim=None, each_seed=False
            )


def _least(name: str) -> int:
    return {"source line": SOURCE_FROM, "20 % of sentences out": SENTENCES_FROM}.get(name, 0)


def _pair(language: str, length: int, edit: Edit, rng: Random) -> Pair:
    whole = texts.text(language, length, rng)
    return whole, edit(whole, rng, language)
