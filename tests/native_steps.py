"""The optional steps of normalising as the native core takes them, to be held against ``tests.reference.clean``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stream_dedup import _native
from stream_dedup.core.scheme import Normalisation

simplify = _native.simplify
has_symbol = _native.has_symbol
drop_schemes = _native.without_schemes


class Cleaned(NamedTuple):
    """Texts after the steps before NFKC."""

    texts: list[str]
    """Without half surrogates: they are joined, or spaces."""
    addressed: list[int]
    """Rows that the steps of addresses changed: an address was replaced, or a full-width character."""
    simplified: list[int]
    """Rows that simplified characters may have changed."""


def clean(texts: Sequence[str], steps: Normalisation) -> Cleaned:
    """Take the steps before NFKC."""
    found = _native.before_nfkc(texts, steps)
    return Cleaned(
        [text for text, _, _ in found],
        [row for row, (_, addressed, _) in enumerate(found) if addressed],
        [row for row, (_, _, simplified) in enumerate(found) if simplified],
    )


def before_nfkc(text: str, steps: Normalisation) -> str:
    """Take the steps before NFKC."""
    return _native.before_nfkc([text], steps)[0][0]


def after_nfkc(text: str, steps: Normalisation) -> str:
    """Take the steps after NFKC and case folding but that of numbers; white space stays single spaces."""
    return _native.after_nfkc([text], steps, numbers=False)[0]


def after_nfkc_and_numbers(texts: Sequence[str], steps: Normalisation) -> list[str]:
    """Take the steps after NFKC and case folding, then that of numbers."""
    return _native.after_nfkc(texts, steps, numbers=True)
