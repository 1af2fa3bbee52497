"""Texts after the steps of normalising, as the native core explains entries of them, beside ``tests.reference``.

Many texts are read at once, as the fields of one text: the steps are taken of each field by itself. One more field has
letters, so that the text has features whatever the others are.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from stream_dedup.core.fingerprinter import Fingerprinter
from stream_dedup.core.scheme import Features, FingerprintSettings, Normalisation, Treatment
from tests.reference import clean
from tests.reference.normalise import normalise
from tests.reference.reader import normalise_by, units_that_count, with_addresses

LETTERS, ADDRESS = "with letters", "a.cn"
_WORDS, _CHARACTERS = Features(weights="tf", top_k=1), Features("chars", weights="tf", top_k=1)


def as_long(texts: Sequence[str], steps: Normalisation) -> list[str]:
    """Return long texts after all steps but that of numbers."""
    return _explained(FingerprintSettings(long=Treatment(steps, _WORDS)), texts, LETTERS)


def as_exact(texts: Sequence[str], steps: Normalisation) -> list[str]:
    """Return texts that are compared whole, after all steps; no address of a page may become a token."""
    assert steps.urls != "token"
    return _explained(_exact(steps), texts, LETTERS)


def as_addresses(texts: Sequence[str]) -> list[str]:
    """Return texts that are compared whole with the addresses of their pages, which have no schemes."""
    return _explained(_exact(Normalisation(urls="token")), texts, ADDRESS)


def as_units(texts: Sequence[str]) -> list[str]:
    """Return what counts of short texts, separated by spaces."""
    settings = FingerprintSettings(article_size=None, short=Treatment(features=_CHARACTERS))
    return _explained(settings, texts, LETTERS)


def simplified(text: str) -> str:
    """Return a text after the step of traditional characters alone, normalised."""
    return as_long([text], Normalisation(simplify=True))[0]


def assert_cleaned(steps: Normalisation, texts: Sequence[str]) -> None:
    """Each text after the steps before NFKC is that of the definition, once both are normalised."""
    steps = replace(steps, unspace=False, lookalikes=False, repeats=False)
    _assert_equal(texts, as_long(texts, steps), [normalise_by(one, steps) for one in texts])


def assert_undone(steps: Normalisation, texts: Sequence[str]) -> None:
    """Each text after the steps against spam, without and with that of numbers, is that of the definition."""
    after = Normalisation(
        unspace=steps.unspace, lookalikes=steps.lookalikes, repeats=steps.repeats, numbers=steps.numbers
    )
    undone = [normalise_by(one, after) for one in texts]
    _assert_equal(texts, as_long(texts, after), undone)
    _assert_equal(texts, as_exact(texts, after), [clean.replace_numbers(one, after.numbers) for one in undone])


def assert_addresses(texts: Sequence[str]) -> None:
    """Each text with its addresses is that of the definition."""
    _assert_equal(texts, as_addresses(texts), [with_addresses(one, Normalisation()) for one in texts])


def assert_units(texts: Sequence[str]) -> None:
    """What counts of each text is what the definition says."""
    units = [" ".join(units_that_count(normalise(one))) for one in texts]
    _assert_equal(texts, as_units(texts), units)


def _exact(steps: Normalisation) -> FingerprintSettings:
    return FingerprintSettings(article_size=None, exact_size=sys.maxsize, short=Treatment(steps, _CHARACTERS))


def _explained(settings: FingerprintSettings, texts: Sequence[str], last: str) -> list[str]:
    """Return the texts that explain the entry of these, and of a last one."""
    names = tuple((str(at), 1) for at in range(len(texts) + 1))
    lines = Fingerprinter(replace(settings, fields=names)).features((*texts, last)).text.split("\n")
    assert (len(lines), lines[-1].replace(" ", "")) == (len(names), last.replace(" ", ""))
    return lines[:-1]


def _assert_equal(texts: Sequence[str], made: Sequence[str], expected: Sequence[str]) -> None:
    for text, one, other in zip(texts, made, expected, strict=True):
        assert one == named(other), text


def named(text: str) -> str:
    """Return a text with the names of tokens, as people are shown them."""
    return reduce(lambda text, token: text.replace(*token), clean.TOKEN_NAMES.items(), text)
