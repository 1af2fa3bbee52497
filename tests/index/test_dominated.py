"""Texts of which one feature decides the signature: their sketches tell them apart."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from stream_dedup import Index
from stream_dedup.core.fingerprinter import Fingerprinter
from stream_dedup.core.near import PairCheck
from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.rules import DIRECTED, Rules
from tests.logs import scheme_of
from tests.quality.cases import TEXTS

SEEDS = range(10)
TEXTS_OF_A_KIND = 6
_CHINESE = re.findall("[\u4e00-\u9fff]{2}", TEXTS["bridge"])
WORDS = {"0000": [], "0.00": TEXTS["keyboard"].split(), "1900-01-01": _CHINESE}
"""What fills nine tenths of a text, and where the rest is from; hexadecimal numbers if there are no words."""


def filled(filler: str, rng: Random, tokens: list[str] | None = None) -> str:
    """Return a text of 400 tokens, of which the given ones, or 40 drawn ones, are not the filler."""
    given = tokens or drawn(filler, 40, rng)
    made = [filler] * 400
    for at, token in zip(sorted(rng.sample(range(400), len(given))), given, strict=True):
        made[at] = token
    return " ".join(made)


def drawn(filler: str, number: int, rng: Random) -> list[str]:
    """Return so many other tokens."""
    words = WORDS[filler]
    return rng.sample(words, number) if words else [f"{rng.getrandbits(16):04x}" for _ in range(number)]


@pytest.mark.parametrize("filler", WORDS)
def test_what_fills_a_text_makes_no_duplicate(filler: str) -> None:
    """Different texts have signatures within the distance that is certain elsewhere; under no seed one is found."""
    rng, certain = Random(filler), 0
    every = [filled(filler, rng) for _ in range(TEXTS_OF_A_KIND)]
    for seed in SEEDS:
        profile = PROFILES["article"]
        profile = replace(profile, settings=replace(profile.settings, seed=seed))
        made = Fingerprinter(profile.settings).fingerprint(every)
        check = PairCheck(Rules(scheme_of(4, 8), search=DIRECTED, dominated=profile.dominated))
        assert check.dominated(made.statuses, made.margins).tolist() == [2] * TEXTS_OF_A_KIND
        apart = np.bitwise_count(made.signatures[1:] ^ made.signatures[:-1]).sum(axis=1)
        certain += int((apart <= (profile.certain or 0)).sum())
        with Index(profile=profile) as index:
            for number, text in enumerate(every):
                assert index.search(text) == []
                index.add(str(number), text)
    assert certain


@pytest.mark.parametrize("filler", WORDS)
def test_copies_of_a_filled_text_are_found(filler: str) -> None:
    """Two of its forty other tokens are exchanged: the sketches of such copies agree."""
    for seed in SEEDS:
        rng = Random(f"{filler} {seed}")
        tokens = drawn(filler, 40, rng)
        edited = [*tokens[:38], *drawn(filler, 2, rng)]
        profile = PROFILES["article"]
        with Index(profile=replace(profile, settings=replace(profile.settings, seed=seed))) as index:
            index.add("first", filled(filler, Random(seed), tokens))
            assert [one.id for one in index.search(filled(filler, Random(seed), edited))] == ["first"]
