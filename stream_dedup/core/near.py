"""Whether earlier entries are near articles, pair by pair: what is found, and which conditions hold.

The native core decides (``postings/near.rs``), by the functions that the search of the index calls; here are only the
numbers that rules ask for, and columns in and out. What explains, measures or joins pairs asks here, so that it
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

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_dedup import _native
from stream_dedup.core import probes
from stream_dedup.core.arrays import I32, I64, U8, U16, U32, U64, Bools
from stream_dedup.core.fingerprint.simhash import unpack_margins
from stream_dedup.core.model import BLOCKS_PER_WORD, FINGERPRINT_BITS, FORM_BYTES, Status
from stream_dedup.core.rules import FIRM_MARGIN, Rules

_Number = TypeVar("_Number", bound=np.generic)

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


class Demands(NamedTuple):
    """What rules ask of an entry near an article, by the status of the article."""

    reach: I64
    """Greatest distance, in bits."""
    least_equal: I64
    """Equal values of the sketches."""
    far_equal: I64
    """Equal values beyond ``far`` bits."""

    @classmethod
    def of(cls, rules: Rules) -> Demands:
        """Return what these rules ask. A rejected article is near nothing, and an exact text has no equal values."""
        reach = [0 if status is Status.REJECTED else rules.reach(status) for status in Status]
        far = [0 if status is Status.EXACT else rules.far_min_equal or 0 for status in Status]
        return cls(
            np.array(reach, np.int64),
            np.array([rules.least_equal(status) for status in Status], np.int64),
            np.array(far, np.int64),
        )


def dominated(most: int | None, statuses: U8, margins: U8) -> U8:
    """Return of each article 1 if it is dominated, 2 if strongly so, 0 if not.

    Args:
        most: ``dominated`` of the rules.
        statuses: of the articles.
        margins: packed as in a log entry, shape (n, 8 * tables).
    """
    if most is None:
        return np.zeros(len(statuses), np.uint8)
    yielding = (unpack_margins(margins[:, : FINGERPRINT_BITS // 2]) < FIRM_MARGIN).sum(axis=1)
    levels = (yielding <= most).astype(np.uint8) + (yielding <= most // 2)
    return np.where(statuses == Status.LONG, levels, 0).astype(np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class PairTexts:
    """Articles or entries, as they are compared: a row for each."""

    words: U64
    """Words of the signatures, shape (n, 4)."""
    sketches: U64
    """Words of the sketches, shape (n, 0 to 4)."""

    @classmethod
    def of(cls, signatures: U8, sketches: U8) -> PairTexts:
        """Return the texts of these columns of entries."""
        return cls(probes.words(signatures), probes.sketch_words(sketches))

    def __getitem__(self, rows: I64 | slice) -> PairTexts:
        """Return some rows."""
        return PairTexts(self.words[rows], self.sketches[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Accounts:
    """What is found in each pair, and which conditions hold."""

    fingerprint_distances: U16
    """Differing bits, of 64."""
    signature_distances: U16
    """Differing bits, of 256."""
    distances: U16
    """The one of the two that the rules limit."""
    equal: U16
    """Equal values of the sketches."""
    least_equal: U16
    """Values that must be equal at this distance, unless it is certain; 0: none."""
    forms: U8
    """Numbers of ``Forms``."""
    within: Bools
    """Whether the distance is within reach."""
    form_holds: Bools
    """Whether the forms allow the entry to be near at this distance."""
    certain: Bools
    """Whether equal values are not asked for at this distance."""
    enough: Bools
    """Whether the equal values are enough at this distance, or not asked for."""
    near: Bools
    """Whether all conditions hold."""

    def of(self, pair: int) -> Account:
        """Return the account of one pair."""
        values = [getattr(self, name)[pair].item() for name in self.__slots__]
        return Account(*values)._replace(form=tuple(Forms)[self.forms[pair]])


_ACCOUNT = np.dtype(list(zip(Accounts.__slots__, ["<u2"] * 5 + ["u1"] + ["?"] * 5, strict=True)))
"""An account as the native core writes it (``near.rs``)."""


class Account(NamedTuple):
    """The account of one pair; see ``Accounts``."""

    fingerprint_distance: int
    signature_distance: int
    distance: int
    equal: int
    least_equal: int
    form: Forms
    within: bool
    form_holds: bool
    certain: bool
    enough: bool
    near: bool


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


class PairCheck:
    """Compares pairs under rules. Articles, wherever they are given, are one for each entry or one for all of them."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._demands = Demands.of(rules)
        self._form_words = rules.scheme.form_bytes // FORM_BYTES
        self._sieve = (
            np.full(len(Status), probes.sieve_limit(sure=rules.sieves_sure_bits))
            if rules.directed
            else self._demands.reach
        )

    def accounts(
        self, statuses: U8, dominated: U8, articles: PairTexts, entries: PairTexts, reach: int | None = None
    ) -> Accounts:
        """Return the account of each pair.

        Args:
            statuses: of the articles, which decide what is asked of the entries.
            dominated: of each article, as ``dominated`` returns it.
            articles: one for each entry, or one.
            entries: at least as many.
            reach: greatest distance in bits, whatever the status; None: that of the rules.
        """
        asked = self._demands.reach[statuses] if reach is None else np.full(len(statuses), reach, np.int64)
        raw = self._raw(statuses, dominated, articles, entries, asked)
        return Accounts(*(np.frombuffer(raw, _ACCOUNT)[name] for name in Accounts.__slots__))

    def account(self, status: Status, margins: U8, article: tuple[bytes, bytes], entry: tuple[bytes, bytes]) -> Account:
        """Return the account of a pair: signature and sketch of an article of this status, and those of an entry.

        ``margins`` are the article's, packed as in a log entry.
        """
        mine, other = (
            PairTexts.of(*(np.frombuffer(part, np.uint8)[np.newaxis] for part in text)) for text in (article, entry)
        )
        own = np.array([status], np.uint8)
        return self.accounts(own, dominated(self._rules.dominated, own, margins[np.newaxis]), mine, other).of(0)

    def distances(self, articles: U64, entries: U64) -> U16:
        """Return the distances, those that the rules limit, of each article from every entry, a row for each article.

        Both are words of signatures, shape (n, 4).
        """
        raw = _native.distances(flat(articles), flat(entries), directed=self._rules.directed)
        return np.frombuffer(raw, np.uint16).reshape(len(articles), len(entries))

    def meetings(self, statuses: U8, keys: U64, others: U64, masks: U64, plans: U32 | None = None) -> Meetings:
        """Return what the tables make of each pair.

        Args:
            statuses: of the articles.
            keys: key words of the articles, shape (n, words): one or more, those that have tables.
            others: key words of the entries, in the same way.
            masks: of each key word of an article, as ``probes.sieve_masks`` gives them.
            plans: of each article, or one of all, shape (n, look-ups); None: places are of no interest.
        """
        words = keys.shape[1]
        counts, passed, places = _native.meetings(
            flat(keys),
            flat(others),
            key_words=words,
            sure=flat(masks),
            most=self._sieve[statuses],
            plan=np.empty(0, np.uint32) if plans is None else flat(plans),
            lookups=0 if plans is None else plans.shape[1],
            block_bits=self._rules.scheme.block_bits,
        )
        pairs = len(others)
        tables = 0 if plans is None else words * BLOCKS_PER_WORD
        return Meetings(
            np.frombuffer(counts, np.uint8).reshape(pairs, words),
            np.frombuffer(passed, np.bool_).reshape(pairs, words),
            np.frombuffer(places, np.int32).reshape(pairs, tables),
        )

    def _raw(self, statuses: U8, dominated: U8, articles: PairTexts, entries: PairTexts, reach: I64) -> bytes:
        sketch_words = entries.sketches.shape[1]
        rules = self._rules
        return _native.accounts(
            flat(articles.words),
            flat(entries.words),
            directed=rules.directed,
            reach=reach,
            sketches=flat(articles.sketches),
            other_sketches=flat(entries.sketches),
            sketch_words=sketch_words,
            least_equal=self._demands.least_equal[statuses],
            far_equal=self._demands.far_equal[statuses],
            dominated=dominated,
            form_words=self._form_words,
            form_limit=rules.form_bits,
            certain=rules.certain_bits,
            far=rules.far_bits,
        )


def flat(array: NDArray[_Number]) -> NDArray[_Number]:
    """Return an array as the native core takes it: little-endian, of one dimension."""
    return np.ascontiguousarray(array).reshape(-1)
