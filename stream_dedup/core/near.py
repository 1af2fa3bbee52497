"""Whether earlier entries are near articles, pair by pair: what is found, and which conditions hold.

The native core decides (``postings/near.rs``), by the functions that the search of the index calls; here are only
columns in and out. What explains, measures or joins pairs asks here, so that it
says what the index says. The reference of the audit has a definition of its own.

Two questions decide, in this order:

1. ``PairCheck.meetings``, of key words: which look-up of a plan reads the posting list that holds the entry, in each
   table; and whether the sieve passes the key words.
2. ``PairCheck.accounts``, of signatures and sketches: whether the distance is within reach, and whether equal values
   and forms allow the entry to be near at this distance.

What depends on other entries is not asked here: the bucket limit, the bound on candidates, window and withdrawals.
Nor are scopes: both texts of a pair have one scope hash.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup import _native
from stream_dedup.core import probes
from stream_dedup.core.arrays import I32, I64, U8, U16, U32, U64, Bools
from stream_dedup.core.model import BLOCKS_PER_WORD, Status
from stream_dedup.core.rules import Rules

NO_PLACE = np.iinfo(np.int32).max
"""Place of a look-up that a plan lacks: above every other."""


class Forms(StrEnum):
    """How the forms of two articles compare, in the order of their numbers in an account."""

    NONE = "none"
    """One of them has no form, or the scheme has none."""
    OTHER = "other"
    """Their frames differ."""
    SAME = "same"
    """They have one frame and the same numbers."""
    OTHER_NUMBERS = "other numbers"
    """They have one frame, and numbers that differ."""


class PairTexts(NamedTuple):
    """Articles or entries, as they are compared: a row for each."""

    words: U64
    """Words of the signatures, shape (n, 4)."""
    sketches: U64
    """Words of the sketches, shape (n, 0 to 4)."""

    @classmethod
    def of(cls, signatures: U8, sketches: U8) -> PairTexts:
        """Return the texts of these columns of entries."""
        return cls(probes.words(signatures), probes.sketch_words(sketches))

    def rows(self, rows: I64 | slice) -> PairTexts:
        """Return some rows."""
        return PairTexts(self.words[rows], self.sketches[rows])


class Account(NamedTuple):
    """What is found in a pair, and which conditions hold."""

    fingerprint_distance: int
    """Differing bits, of 64."""
    signature_distance: int
    """Differing bits, of 256."""
    distance: int
    """The one of the two that the rules limit."""
    equal: int
    """Equal values of the sketches."""
    least_equal: int
    """Values that must be equal at this distance, unless it is certain; 0: none."""
    form: Forms
    within: bool
    """Whether the distance is within reach."""
    form_holds: bool
    """Whether the forms allow the entry to be near at this distance."""
    certain: bool
    """Whether equal values are not asked for at this distance."""
    enough: bool
    """Whether the equal values are enough at this distance, or not asked for."""
    near: bool
    """Whether all conditions hold."""


_ACCOUNT = np.dtype(list(zip(Account._fields, ["<u2"] * 5 + ["u1"] + ["?"] * 5, strict=True)))
"""An account as the native core writes it (``near.rs``); a form by its number."""


class Meetings(NamedTuple):
    """What the tables make of the key words of each pair."""

    counts: U8
    """Differing bits that the sieve counts, shape (n, words)."""
    passed: Bools
    """Whether the sieve passes these, shape (n, words)."""
    places: I32
    """Place in the plan, from 0, of the look-up whose posting list has the entry, shape (n, tables)."""

    @property
    def found(self) -> I32:
        """The places where the sieve passes the entry, ``NO_PLACE`` elsewhere."""
        passed = np.repeat(self.passed, BLOCKS_PER_WORD, axis=1)
        return np.where(passed, self.places, NO_PLACE).astype(np.int32, copy=False)


@cache
def limits_of(rules: Rules) -> _native.Limits:
    """Return what the native core takes of these rules."""
    return _native.Limits(rules)


class PairCheck:
    """Compares pairs under rules. Articles, wherever they are given, are one for each entry or one for all of them."""

    def __init__(self, rules: Rules) -> None:
        self._limits = limits_of(rules)
        self._key_words = rules.scheme.tables // BLOCKS_PER_WORD

    def dominated(self, statuses: U8, margins: U8) -> U8:
        """Return of each article 1 if it is dominated, 2 if strongly so, 0 if not.

        Args:
            statuses: of the articles.
            margins: packed as in a log entry, shape (n, 8 * tables).
        """
        return np.frombuffer(self._limits.dominated(statuses, margins), np.uint8)

    def masks(self, margins: U8) -> U64:
        """Return what the sieve compares of each word of articles with these margins, shape (n, words, 2).

        They are the bits that count, and those that count again.
        """
        return np.frombuffer(self._limits.masks(margins), np.uint64).reshape(len(margins), self._key_words, 2)

    def accounts(
        self, statuses: U8, dominated: U8, articles: PairTexts, entries: PairTexts, reach: int | None = None
    ) -> NDArray[np.void]:
        """Return the account of each pair: an array with the fields of ``Account``, forms by their numbers.

        Args:
            statuses: of the articles, which decide what is asked of the entries.
            dominated: of each article, as ``dominated`` returns it.
            articles: one for each entry, or one.
            entries: at least as many.
            reach: greatest distance in bits, whatever the status; None: that of the rules.
        """
        return np.frombuffer(self._limits.accounts(statuses, dominated, articles, entries, reach), _ACCOUNT)

    def account(self, status: Status, margins: U8, article: tuple[bytes, bytes], entry: tuple[bytes, bytes]) -> Account:
        """Return the account of a pair: signature and sketch of an article of this status, and those of an entry.

        ``margins`` are the article's, packed as in a log entry.
        """
        mine, other = (
            PairTexts.of(*(np.frombuffer(part, np.uint8)[np.newaxis] for part in text)) for text in (article, entry)
        )
        own = np.array([status], np.uint8)
        account = self.accounts(own, self.dominated(own, margins), mine, other)[0]
        return Account(*account.item())._replace(form=tuple(Forms)[account["form"]])

    def distances(self, articles: U64, entries: U64) -> U16:
        """Return the distances, those that the rules limit, of each article from every entry, a row for each article.

        Both are words of signatures, shape (n, 4).
        """
        raw = self._limits.distances(articles, entries)
        return np.frombuffer(raw, np.uint16).reshape(len(articles), len(entries))

    def meetings(self, statuses: U8, keys: U64, others: U64, masks: U64, plans: U32 | None = None) -> Meetings:
        """Return what the tables make of each pair.

        Args:
            statuses: of the articles.
            keys: key words of the articles, shape (n, words): one or more, those that have tables.
            others: key words of the entries, in the same way.
            masks: of each key word of an article, as ``masks`` gives them.
            plans: of each article, or one of all, shape (n, look-ups); None: places are of no interest.
        """
        plans = np.empty((0, 0), np.uint32) if plans is None else plans
        counts, passed, places = self._limits.meetings(statuses, keys, masks, others, plans, plans.shape[1])
        return Meetings(
            np.frombuffer(counts, np.uint8).reshape(others.shape),
            np.frombuffer(passed, np.bool_).reshape(others.shape),
            np.frombuffer(places, np.int32).reshape(
                len(others), BLOCKS_PER_WORD * keys.shape[1] * bool(plans.shape[1])
            ),
        )
