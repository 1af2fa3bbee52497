"""A query: the posting lists to read for a batch of articles under their rules, and the near entries it returns.

An entry is near an article if it passes, in this order:

1. Of each posting list of its plan the entries from before its own log position, of all levels together, the newest
   ``bucket_limit`` of them. Nothing else is ever compared.
2. An entry that is not trimmed, whose scope hash is the article's, which has not expired, which no
   earlier record withdrew, and which has the article id of the query, if the query has one.
3. Exact search: the fingerprints are within ``reach`` bits, and that is the distance. Directed search: the key words of
   the table pass the sieve (``core.probes``), before the row is fetched, and the signatures are within ``reach``; then
   at least ``least_equal`` values of the two sketches are equal, and at least ``far_equal`` beyond ``far`` bits, if the
   query has sketches and the distance is above ``certain`` bits (of dominated articles every one is);
   and the entry is within ``form_limit`` bits, if its form has the article's frame (not 0) and other numbers.

Of the entries that pass 1, the sieve of 3, and 2 but for the article id, only the first ``candidates`` are checked
further. Their order: the look-ups in the order of the plan, and in each posting list the newest first; an entry that
several look-ups find counts once, where it is found first. What is trimmed, expired or withdrawn is not counted, so a
trim, which drops only what has expired, changes nothing.

Of these each article gets its ``best`` nearest, among equals the earliest, each entry once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from stream_dedup import _native
from stream_dedup.core.arrays import I64, U8, U16, U32, U64
from stream_dedup.core.model import BLOCK_BITS, FORM_BYTES, SIGNATURE_BITS
from stream_dedup.core.near import Demands, dominated, flat
from stream_dedup.core.probes import KEY_FACTORS, keys, plan_of, sieve_limit, sketch_words, sure_masks
from stream_dedup.core.rules import Rules

BEST = 8
"""Near entries kept of each article: the first is nearly always the match."""

NOTHING_WITHDRAWN: I64 = np.empty((0, 2), np.int64)
_OPTIONAL = ("sketches", "least_equal", "dominated", "sure", "oldest", "own_ids")
"""Columns that a query may lack."""
_OF_ARTICLES = ("keys", "scope_hashes", "before", "reach", *_OPTIONAL)
"""Columns of a query that have a row for each article."""


@dataclass(frozen=True, slots=True, eq=False)
class Articles:
    """Signed articles as columns: what a query takes of them."""

    statuses: U8
    scope_hashes: U64
    signatures: U8
    margins: U8
    sketches: U8
    before: I64
    """First document number that does not exist for it."""
    times: I64
    """Log times, ms."""

    def of(self, chosen: I64) -> Articles:
        """Return some of them."""
        return Articles(*(getattr(self, name)[chosen] for name in self.__slots__))


@dataclass(frozen=True, eq=False)
class Query:
    """What is looked up for n articles.

    Attributes:
        keys: shape (n, 4), as ``core.probes.keys`` gives them.
        scope_hashes: of each article.
        before: first number that does not exist for the article (as of its log position; its own, if it has one).
        plan: look-ups ``table << block_bits | mask``, shape (n, probes), or (1, probes) for the same for every article.
        block_bits: bits of a block, and so of the keys of a table.
        directed: directed search, else exact.
        reach: of each article, greatest distance in bits.
        sketches: words of the articles' sketches, shape (n, 1 to 4); None: neither values nor forms are compared.
        least_equal: of each article, equal values that an entry's sketch must at least have.
        sure: of each article, the masks of each word for the sieve of sure bits, shape (n, words, 2); None: the word
            sieve.
        form_words: words at the end of a sketch that are its form.
        form_limit: greatest distance from an entry with the same frame and other numbers.
        certain: greatest distance at which sketches are not compared; -1: they always are.
        far: distance beyond which an entry's sketch must have ``far_equal`` equal values.
        far_equal: equal values that it must at least have there.
        dominated: of each article: from 1 on no distance is certain, from 2 on every one is beyond ``far``; None: 0.
        bucket_limit: newest entries of each posting list that are compared.
        candidates: entries that are checked for each article; None: all of them.
        oldest: log time of each article before which entries have expired; None: nothing expires.
        own_ids: of each article, the hash of the article id that an entry must have; None: any.
        best: near entries given of each article.
        withdrawn: shape (n, 2), by document number: of each withdrawn entry its document number, and the least
            ``before`` of the articles that it is hidden from.
    """

    keys: U64
    scope_hashes: U64
    before: I64
    plan: U32
    directed: bool
    reach: I64
    bucket_limit: int
    block_bits: int = BLOCK_BITS
    candidates: int | None = None
    sketches: U64 | None = None
    least_equal: I64 | None = None
    sure: U64 | None = None
    form_words: int = 0
    form_limit: int = SIGNATURE_BITS
    certain: int = -1
    far: int = SIGNATURE_BITS
    far_equal: int = 0
    dominated: U8 | None = None
    oldest: I64 | None = None
    own_ids: U64 | None = None
    best: int = BEST
    withdrawn: I64 = field(default_factory=lambda: NOTHING_WITHDRAWN)

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def words(self) -> U64:
        """Words of the articles' signatures, shape (n, 4)."""
        return self.keys ^ (self.scope_hashes[:, np.newaxis] * KEY_FACTORS)

    def part(self, chosen: I64) -> Query:
        """Return the query for some of the articles."""
        columns = {name: getattr(self, name) for name in _OF_ARTICLES}
        some = {name: column[chosen] for name, column in columns.items() if column is not None}
        return replace(self, plan=self.plan if len(self.plan) == 1 else self.plan[chosen], **some)

    def search(self) -> _native.Search:
        """Begin the search."""
        optional = {name: getattr(self, name) for name in _OPTIONAL}
        return _native.Search(
            keys=flat(self.keys),
            words=flat(self.words),
            scope_hashes=flat(self.scope_hashes),
            before=flat(self.before),
            reach=flat(self.reach),
            plan=flat(self.plan),
            lookups=self.plan.shape[1],
            directed=self.directed,
            sieve=sieve_limit(sure=self.sure is not None) if self.directed else None,
            bucket_limit=self.bucket_limit,
            best=self.best,
            candidates=self.candidates,
            form_words=self.form_words,
            form_limit=self.form_limit,
            certain=self.certain,
            far=self.far,
            far_equal=self.far_equal,
            withdrawn=flat(self.withdrawn),
            **{name: None if column is None else flat(column) for name, column in optional.items()},
        )


class Near(NamedTuple):
    """Near entries by article, then nearest, then earliest; and what was compared."""

    queries: I64
    """Which of the articles each is near to."""
    doc_numbers: I64
    distances: U16
    lists: int
    """Posting lists looked up."""
    candidates: int
    """Entries of these lists that were compared, those that turned out not to count included."""


def query_of(articles: Articles, rules: Rules, withdrawn: I64) -> Query:
    """Return the query of these articles under these rules; ``withdrawn`` is as in ``Query``."""
    demands = Demands.of(rules)
    has_second_check = bool(demands.least_equal.any() or rules.far_min_equal) or rules.form_limit is not None
    return Query(
        keys=keys(articles.signatures, articles.scope_hashes),
        scope_hashes=articles.scope_hashes,
        before=articles.before,
        plan=plan_of(rules, articles.margins),
        block_bits=rules.scheme.block_bits,
        directed=rules.directed,
        reach=demands.reach[articles.statuses],
        sketches=sketch_words(articles.sketches) if has_second_check else None,
        least_equal=demands.least_equal[articles.statuses] if has_second_check else None,
        sure=sure_masks(articles.margins) if rules.sieves_sure_bits else None,
        form_words=rules.scheme.form_bytes // FORM_BYTES,
        form_limit=rules.form_bits,
        certain=rules.certain_bits,
        far=rules.far_bits,
        far_equal=rules.far_min_equal or 0,
        dominated=dominated(rules.dominated, articles.statuses, articles.margins),
        bucket_limit=rules.bucket_limit,
        candidates=rules.candidates,
        oldest=None if rules.window_ms is None else articles.times - rules.window_ms,
        withdrawn=withdrawn,
    )
