"""A query: the posting lists to read for a batch of articles under their rules, and the near entries it returns.

An entry is near an article if it passes, in this order:

1. Of each posting list of its plan the entries from before its own log position, of all levels together, the newest
   ``bucket_limit`` of them. Nothing else is ever compared.
2. An entry that is not trimmed, whose scope hash is the article's, which has not expired, which no
   earlier record withdrew, and which has the article id of the query, if the query has one.
3. Exact search: the fingerprints are within the distance of the rules, and that is the distance. Directed search: the
   key words of the table pass the sieve, before the row is fetched, and the signatures and sketches pass the check
   (``Rules`` has its conditions).

Of the entries that pass 1, the sieve of 3, and 2 but for the article id, only the first ``candidates`` are checked
further. Their order: the look-ups in the order of the plan, and in each posting list the newest first; an entry that
several look-ups find counts once, where it is found first. What is trimmed, expired or withdrawn is not counted, so a
trim, which drops only what has expired, changes nothing.

Of these each article gets its ``best`` nearest, among equals the earliest, each entry once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from stream_dedup.core.arrays import I64, U8, U16, U32, U64
from stream_dedup.core.probes import plan_of
from stream_dedup.core.rules import Rules

BEST = 8
"""Near entries kept of each article: the first is nearly always the match."""


@dataclass(frozen=True, slots=True, eq=False)
class Articles:
    """Signed articles as columns: what a query takes of them."""

    statuses: U8
    scope_hashes: U64
    signatures: U8
    margins: U8
    sketches: U8
    before: I64
    """First document number that does not exist for it: as of its log position, its own if it has one."""
    times: I64
    """Log times, ms."""

    def of(self, chosen: I64) -> Articles:
        """Return some of them."""
        return Articles(*(getattr(self, name)[chosen] for name in self.__slots__))


@dataclass(frozen=True, eq=False)
class Query:
    """What is looked up for n articles.

    Attributes:
        articles: all of one scheme, that of the rules.
        rules: those by which they are judged.
        plan: look-ups ``table << block_bits | mask``, shape (n, probes), or (1, probes) for the same for every article.
        withdrawn: shape (n, 2), by document number: of each withdrawn entry its document number, and the least
            ``before`` of the articles that it is hidden from.
        own_ids: of each article, the hash of the article id that an entry must have; None: any.
        best: near entries given of each article.
    """

    articles: Articles
    rules: Rules
    plan: U32
    withdrawn: I64
    own_ids: U64 | None = None
    best: int = BEST

    def __len__(self) -> int:
        return len(self.articles.statuses)

    def part(self, chosen: I64) -> Query:
        """Return the query for some of the articles."""
        return replace(
            self,
            articles=self.articles.of(chosen),
            plan=self.plan if len(self.plan) == 1 else self.plan[chosen],
            own_ids=None if self.own_ids is None else self.own_ids[chosen],
        )


class Near(NamedTuple):
    """Near entries by article, then nearest, then earliest; and what was compared."""

    queries: I64
    """Which of the articles each is near to."""
    doc_numbers: I64
    distances: U16
    candidates: int
    """Entries of the posting lists that were compared, those that turned out not to count included."""


def query_of(articles: Articles, rules: Rules, withdrawn: I64) -> Query:
    """Return the query of these articles under these rules; ``withdrawn`` is as in ``Query``."""
    return Query(articles, rules, plan_of(rules, articles.margins), withdrawn)
