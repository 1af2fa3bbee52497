"""The clusters of one batch of outputs, in memory: what the store writes in one transaction.

Clusters are disjoint sets of articles, united where an article and its match meet. An article carries the number of its
cluster. Where two clusters become one, the articles of the lighter one get the number of the heavier: each article
changes its number at most log2(n) times, however the outputs arrive, and the cluster of an article is one look-up. In a
batch, the number that a cluster has lost points to the one that it got (``_merged``).

A match may arrive after its article: until then it is a placeholder, the first article of its cluster. Each article has
one match, so a cluster is a tree, and its first article is its root: uniting the cluster that begins with a placeholder
with that of the placeholder's match keeps the first article of the latter.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from stream_dedup.clusters.model import COUNTED_WINDOWS, BucketWidth, JudgedOutput
from stream_dedup.core.headers import StampedMatch
from stream_dedup.core.model import Verdict
from stream_dedup.core.text_column import as_stored

log = logging.getLogger(__name__)

REJECTED_KIND = "rejected:"
"""Begins the kind of a rejected record in the totals; the reason code follows."""
UPDATE_KIND = "update"
"""The kind of an update in the totals; the other kinds are verdicts."""
_AUDIT = "the outputs contradict the log; run stream-dedup audit"


class StoredAt(NamedTuple):
    """Coordinates with the small number of their topic id."""

    topic: int
    partition: int
    offset: int


@dataclass(slots=True, eq=False)
class Row:
    """A row of ``article`` in this batch."""

    number: int
    cluster: int | None
    """Its cluster, or one that was merged into it; None of a rejected record."""
    arrived: bool
    """Whether its output has been read; False of a placeholder."""


@dataclass(slots=True, eq=False)
class BatchCluster:
    """A row of ``cluster`` in this batch."""

    number: int
    first: StoredAt
    size: int = 0
    weight: int = 0
    published: bool = False
    is_stored: bool = False
    """Whether the store has it from before this batch."""
    has_buckets: bool = False
    """Whether it had buckets before this batch."""
    times: list[int] = field(default_factory=list)
    """Times of articles that are in no bucket."""
    counted: list[int] = field(default_factory=lambda: [0] * len(COUNTED_WINDOWS))
    """Articles in buckets, for each of ``COUNTED_WINDOWS``, as the store counts them."""


class NewRow(NamedTuple):
    """An article for the store, in the order of the columns of ``article``."""

    number: int
    at: StoredAt
    cluster: int | None
    article_id: str
    output: JudgedOutput | None
    """None of a placeholder."""
    match_at: StoredAt | None


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Reads rows of the store, by coordinates and by number."""

    article: Callable[[StoredAt], Row | None]
    cluster_row: Callable[[int], BatchCluster]
    topic: Callable[[bytes, str], int]
    """Returns the small number of a topic id, and gives one to a new topic."""


class UnionBatch:
    """Unites the articles of one batch with what is stored. Nothing is stored here."""

    def __init__(self, stored: StoredRows, next_number: int) -> None:
        """``next_number`` is the number of the next article."""
        self._stored = stored
        self._rows: dict[StoredAt, Row] = {}
        self._clusters: dict[int, BatchCluster] = {}
        self._merged: dict[int, int] = {}
        self.next_number = next_number
        self.new_rows: list[NewRow] = []
        self.filled: list[NewRow] = []
        """Placeholders whose output has arrived."""
        self.totals: Counter[tuple[BucketWidth, int, str]] = Counter()
        self.lost_ids: list[StoredAt] = []
        """First articles of published clusters that are now part of other clusters."""

    def add(self, outputs: Iterable[JudgedOutput]) -> None:
        """Add outputs. One of an article that has arrived before changes nothing."""
        for output in outputs:
            self._add(output)

    def clusters(self) -> list[BatchCluster]:
        """Return the clusters that the batch has changed."""
        return [cluster for number, cluster in self._clusters.items() if number not in self._merged]

    def merged(self) -> list[tuple[BatchCluster, int]]:
        """Return the stored clusters that became part of others, each with the number of the other."""
        return [
            (cluster, self.cluster_number(number))
            for number, cluster in self._clusters.items()
            if number in self._merged
        ]

    def cluster_number(self, number: int) -> int:
        """Return the number that a cluster has now: at most log2(n) steps, since the heavier cluster keeps its own."""
        while (further := self._merged.get(number)) is not None:
            number = further
        return number

    def _add(self, output: JudgedOutput) -> None:
        stamp = output.stamp
        at = self._at(stamp.coordinates.topic_id, stamp.topic, stamp.coordinates.partition, stamp.coordinates.offset)
        row = self._row(at)
        if row is not None and row.arrived:
            return
        self._count(output)
        match_at = None if stamp.match is None else self._match_at(stamp.match)
        if row is None:
            row = self._new_row(at, output, match_at)
        else:
            row.arrived = True
            self.filled.append(NewRow(row.number, at, None, as_stored(output.article_id), output, match_at))
            parent = self._cluster_of_match(output, at, match_at)
            if parent is not None and row.cluster is not None:
                self._unite(row.cluster, parent, output)
        if row.cluster is not None:
            cluster = self._cluster(row.cluster)
            cluster.size += 1
            cluster.times.append(output.written_ms)

    def _new_row(self, at: StoredAt, output: JudgedOutput, match_at: StoredAt | None) -> Row:
        """Make the row of an article that nothing has named before."""
        if output.stamp.verdict is Verdict.REJECTED:
            cluster = None
        else:
            cluster = self._cluster_of_match(output, at, match_at) or self._begin_cluster(at)
        return self._append(at, cluster, output.article_id, output, match_at)

    def _cluster_of_match(self, output: JudgedOutput, at: StoredAt, match_at: StoredAt | None) -> BatchCluster | None:
        """Return the cluster of the match, if there is one; a match that has not arrived becomes a placeholder."""
        match = output.stamp.match
        if match is None or match_at is None:
            return None
        row = None if match_at == at else self._row(match_at)
        if match_at == at or (row is not None and row.cluster is None):
            log.warning(
                "article %s has an impossible match, %s: %s", output.stamp.coordinates, match.coordinates, _AUDIT
            )
            return None
        if row is None:
            row = self._append(match_at, self._begin_cluster(match_at), match.id, None, None)
        return None if row.cluster is None else self._cluster(row.cluster)

    def _unite(self, number: int, parent: BatchCluster, output: JudgedOutput) -> None:
        """Unite the cluster that begins with a placeholder, now arrived, with the cluster of its match."""
        begun = self._cluster(number)
        if begun is parent:
            log.warning("article %s follows from itself: %s", output.stamp.coordinates, _AUDIT)
            return
        if begun.published:
            self.lost_ids.append(begun.first)
        kept, lost = (parent, begun) if parent.weight >= begun.weight else (begun, parent)
        kept.first, kept.published = parent.first, parent.published
        kept.size += lost.size
        kept.weight += lost.weight
        kept.times += lost.times
        kept.counted = [own + other for own, other in zip(kept.counted, lost.counted, strict=True)]
        self._merged[lost.number] = kept.number

    def _begin_cluster(self, first: StoredAt) -> BatchCluster:
        """Begin a cluster; its number is that of the article that is appended next."""
        cluster = self._clusters[self.next_number] = BatchCluster(self.next_number, first)
        return cluster

    def _append(
        self,
        at: StoredAt,
        cluster: BatchCluster | None,
        article_id: str,
        output: JudgedOutput | None,
        match_at: StoredAt | None,
    ) -> Row:
        number = None if cluster is None else cluster.number
        row = self._rows[at] = Row(self.next_number, number, arrived=output is not None)
        self.new_rows.append(NewRow(row.number, at, number, as_stored(article_id), output, match_at))
        if cluster is not None:
            cluster.weight += 1
        self.next_number += 1
        return row

    def _row(self, at: StoredAt) -> Row | None:
        row = self._rows.get(at)
        if row is None and (row := self._stored.article(at)) is not None:
            self._rows[at] = row
        return row

    def _cluster(self, number: int) -> BatchCluster:
        number = self.cluster_number(number)
        cluster = self._clusters.get(number)
        if cluster is None:
            cluster = self._clusters[number] = self._stored.cluster_row(number)
        return cluster

    def _match_at(self, match: StampedMatch) -> StoredAt:
        coordinates = match.coordinates
        return self._at(coordinates.topic_id, match.topic, coordinates.partition, coordinates.offset)

    def _at(self, topic_id: bytes, topic: str, partition: int, offset: int) -> StoredAt:
        return StoredAt(self._stored.topic(topic_id, topic), partition, offset)

    def _count(self, output: JudgedOutput) -> None:
        stamp = output.stamp
        if stamp.verdict is Verdict.REJECTED:
            kind = f"{REJECTED_KIND}{stamp.reason_code}"
        else:
            kind = UPDATE_KIND if stamp.update else str(stamp.verdict)
        for width in BucketWidth:
            self.totals[width, width.start(output.written_ms), kind] += 1
