"""Takes the steps before NFKC on several texts at once, as ``text.clean`` defines them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from stream_dedup.core.arrays import U16
from stream_dedup.core.fingerprint import clean_kernel, markup_kernel
from stream_dedup.core.fingerprint.points import SIZE
from stream_dedup.core.fingerprint.spans import Spans, points_of
from stream_dedup.core.kept_tables import kept_table, only
from stream_dedup.core.scheme import Normalisation
from stream_dedup.core.text import clean
from stream_dedup.core.text.simplify import simplifiable, simplify

_HALVES = (0xD800, 0xDFFF)
"""Half surrogates, which some steps join to characters."""


class MostCleaned(NamedTuple):
    """Texts after the steps before NFKC."""

    texts: Spans
    left: list[int]
    """Rows of those that are left to the definition; they are empty here."""
    addressed: list[int]
    """Rows of the others that the steps of addresses changed: an address was replaced, or a full-width character."""
    simplified: list[int]
    """Rows of the others that simplified characters may have changed."""


class Cleaner:
    """Takes the steps before NFKC of one treatment."""

    def __init__(self, steps: Normalisation) -> None:
        """Load nothing yet."""
        self._steps = steps
        self._idle = steps == Normalisation(
            numbers=steps.numbers, unspace=steps.unspace, repeats=steps.repeats, lookalikes=steps.lookalikes
        )
        marks = {
            clean_kernel.SEEK_ESCAPED: steps.entities,
            clean_kernel.SEEK_TAGS: steps.tags,
            clean_kernel.SEEK_HOSTS: steps.urls != "keep",
            clean_kernel.SEEK_NAMES: (steps.emails, steps.users) != ("keep", "keep"),
        }
        self._taken = (
            sum(mark for mark, given in marks.items() if given),
            ord(clean.TOKENS["url"]) if steps.urls == "token" else 0,
            {"keep": clean_kernel.KEEP, "drop": 0, "token": ord(clean.TOKENS["emoji"])}[steps.emoji],
            steps.join_numbers,
            steps.rejoin,
        )

    def warm(self) -> None:
        """Make the tables now, not with the first text.

        Raises:
            UserError: a package that a step needs cannot be loaded.
        """
        if not self._idle:
            _traits(self._steps)

    def __call__(self, texts: Sequence[str], simplified: dict[str, str] | None = None) -> Spans:
        """Return the texts after the steps before NFKC; ``simplified``: see ``most``."""
        found = self.most(texts, simplified)
        return found.texts.replaced({row: clean.before_nfkc(texts[row], self._steps) for row in found.left})

    def most(self, texts: Sequence[str], simplified: dict[str, str] | None = None) -> MostCleaned:
        """Return the same without the texts that only the definition knows.

        ``simplified``: simplified forms by text. Those that are missing are added, so two cleaners that get the same
        dictionary convert a text once if their other steps leave the same of it, as they mostly do.
        """
        if self._idle:
            return MostCleaned(Spans.of(texts), [], [], [])
        points, lengths = points_of(texts)
        spans, notes = np.empty((len(texts), 2), np.int64), np.empty((3, len(texts)), np.bool_)
        found = (np.empty(len(points), np.uint32), spans, *notes)
        size = clean_kernel.take_steps(points, np.cumsum(lengths), _traits(self._steps), self._taken, found)
        left, addressed, traditional = (np.flatnonzero(each).tolist() for each in notes)
        cleaned = Spans(found[0][:size], spans)
        known = {} if simplified is None else simplified
        cleaned = cleaned.overwritten({row: _simplified(cleaned.text(row), known) for row in traditional})
        return MostCleaned(cleaned, left, addressed, traditional)


def _simplified(text: str, known: dict[str, str]) -> str:
    """Return the text in simplified characters, from the known ones if it is among them."""
    found = known.get(text)
    if found is None:
        found = known[text] = simplify(text)
    return found


@cache
def _traits(steps: Normalisation) -> U16:
    """Return the traits of each code point under these steps, as bits of ``clean_kernel``."""
    every = _every_trait()
    given = {
        clean_kernel.IS_INVISIBLE: steps.invisible,
        clean_kernel.IS_WIDE: (steps.urls, steps.emails, steps.users) != ("keep", "keep", "keep"),
        clean_kernel.IS_TRADITIONAL: steps.simplify,
    }
    traits = every & np.uint16(~sum(trait for trait, holds in given.items() if not holds) & 0xFFFF)
    traits.setflags(write=False)
    return traits


@cache
@kept_table(only)
def _every_trait() -> U16:
    """Return the traits of each code point under all steps."""
    traits = np.zeros(SIZE, np.uint16)
    for ranges, trait in (
        (clean.PICTURE_RANGES, clean_kernel.IS_PICTURE),
        ((*clean.INVISIBLE_RANGES, clean.SKIN_RANGE), clean_kernel.IS_INVISIBLE),
        (clean.IDEOGRAPH_RANGES, clean_kernel.IS_IDEOGRAPH),
        ((_HALVES,), clean_kernel.IS_LEFT),
    ):
        for first, last in ranges:
            traits[first : last + 1] |= np.uint16(trait)
    every = "".join(map(chr, range(SIZE)))
    for pattern, trait in (
        (r"\s", markup_kernel.IS_WHITE),
        ("(?i:[a-z])", markup_kernel.IS_LETTER),
        ("[0-9]", markup_kernel.IS_DIGIT),
        (clean.URL_BODY.pattern, markup_kernel.IS_BODY),
        (f"[{clean.JOINING_WHITE}]", clean_kernel.BEGINS_WHITE),
        ("[A-Za-z0-9]", clean_kernel.IS_ALNUM),
        ("[./(&<@]", clean_kernel.IS_SIGN),
    ):
        for run in re.finditer(f"(?:{pattern})+", every):
            traits[run.start() : run.end()] |= np.uint16(trait)
    narrow = np.array(clean.NARROWED)
    traits[narrow] |= clean_kernel.IS_WIDE | traits[narrow - clean.NARROWER] & clean_kernel.IS_SIGN
    traits[[point for point in simplifiable() if point < SIZE]] |= np.uint16(clean_kernel.IS_TRADITIONAL)
    traits[-1] |= np.uint16(clean_kernel.IS_LEFT)
    return traits
