"""Outputs for the tests of clusters, and the clusters of a log by the definition."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from stream_dedup.clusters.model import JudgedOutput, OutputReading
from stream_dedup.clusters.queries import ClusterQueries
from stream_dedup.clusters.schema import open_reader
from stream_dedup.config.model import Config
from stream_dedup.core.decode import InputFormat
from stream_dedup.core.headers import Headers
from stream_dedup.core.model import Coordinates, Judgement, LogPosition, Match, SourceOffset, Verdict
from stream_dedup.core.reasons import EMPTY_TEXT
from stream_dedup.ports import Partition
from stream_dedup.registry.values import RecordReader
from tests.headers import output_headers

LOG_ID = b"the id of a log!"
OTHER_LOG_ID = b"of another log.."
TOPICS = {b"articles' own id": "articles", b"comments' own id": "comments"}
TIME_MS = 1_760_000_000_000
"""When the first output is written."""
SCHEME_ID = "scheme"


@dataclass(frozen=True)
class LoggedArticle:
    """An article of a log, with its verdict."""

    coordinates: Coordinates
    match: Coordinates | None = None
    verdict: Verdict = Verdict.UNIQUE
    written_ms: int = TIME_MS

    @property
    def id(self) -> str:
        return f"id of {self.coordinates.partition}-{self.coordinates.offset}"


@dataclass(frozen=True)
class OutputRecord:
    """Implements ``ports.SourceRecord``."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    value: bytes | None
    headers: Headers
    key: bytes | None = None
    leader_epoch: int = 0


def at(offset: int, partition: int = 0, topic: bytes = next(iter(TOPICS))) -> Coordinates:
    return Coordinates(topic, partition, SourceOffset(offset))


def id_of(coordinates: Coordinates) -> str:
    return f"id of {coordinates.partition}-{coordinates.offset}"


def judgement_of(article: LoggedArticle) -> Judgement:
    if article.verdict is Verdict.REJECTED:
        return Judgement(article.verdict, reason=EMPTY_TEXT)
    if article.match is None:
        return Judgement(article.verdict)
    match = Match(
        LogPosition(0), id_of(article.match), TOPICS[article.match.topic_id], article.match, TIME_MS - 1, 7, 0.987
    )
    return Judgement(article.verdict, match, copies=2)


def headers_of(article: LoggedArticle) -> Headers:
    topic = TOPICS[article.coordinates.topic_id]
    return output_headers(judgement_of(article), 1, SCHEME_ID, topic, article.coordinates, TIME_MS - 5)


def output_record(article: LoggedArticle, offset: int, topic: str = "unique", partition: int = 0) -> OutputRecord:
    value = f'{{"id": "{article.id}", "text": "ferry"}}'.encode()
    return OutputRecord(topic, partition, offset, article.written_ms, value, headers_of(article))


def outputs_of(articles: Iterable[LoggedArticle], first_offset: int = 0) -> list[JudgedOutput]:
    """The outputs of these articles, one after the other in one partition."""
    records = (output_record(article, offset) for offset, article in enumerate(articles, first_offset))
    return OutputReading(RecordReader(Config(), InputFormat())).read(records)


def random_log(rng: random.Random, count: int, *, unique: float = 0.3, rejected: float = 0.02) -> list[LoggedArticle]:
    """Articles in the order of a log: each duplicate matches an earlier article, more often a late one."""
    log: list[LoggedArticle] = []
    readable: list[Coordinates] = []
    offsets = {(topic, partition): 0 for topic in TOPICS for partition in range(2)}
    for number in range(count):
        source = rng.choice(list(offsets))
        coordinates = at(offsets[source], source[1], source[0])
        offsets[source] += rng.choice([1, 1, 1, 2])
        written_ms = TIME_MS + number * rng.choice([1, 7])
        if rng.random() < rejected:
            log.append(LoggedArticle(coordinates, None, Verdict.REJECTED, written_ms))
            continue
        if not readable or rng.random() < unique:
            log.append(LoggedArticle(coordinates, None, Verdict.UNIQUE, written_ms))
        else:
            newest = int(len(readable) * rng.random() ** rng.choice([0.2, 1, 3]))
            verdict = rng.choice([Verdict.DUPLICATE] * 9 + [Verdict.UNIQUE])  # a unique one with a match: an update
            log.append(LoggedArticle(coordinates, readable[min(newest, len(readable) - 1)], verdict, written_ms))
        readable.append(coordinates)
    return log


def clusters_in_one_pass(log: Sequence[LoggedArticle]) -> dict[Coordinates, Coordinates]:
    """The first article of the cluster of each readable article, by the definition: one pass over the log in its order.

    A match that is not in the log (its output is gone) begins a cluster.
    """
    first: dict[Coordinates, Coordinates] = {}
    for article in log:
        if article.verdict is not Verdict.REJECTED:
            match = article.match
            first[article.coordinates] = article.coordinates if match is None else first.get(match, match)
    return first


def members_of(first: Mapping[Coordinates, Coordinates]) -> dict[Coordinates, set[Coordinates]]:
    """The articles of each cluster, by its first article."""
    clusters: dict[Coordinates, set[Coordinates]] = {}
    for article, begins in first.items():
        clusters.setdefault(begins, set()).add(article)
    return clusters


def position_partition() -> Partition:
    return Partition("unique", 0)


def size_of(store: ClusterQueries) -> tuple[int, int]:
    """The number of articles and of clusters."""
    sql = "SELECT (SELECT COUNT(*) FROM article WHERE written_ms IS NOT NULL), (SELECT COUNT(*) FROM cluster)"
    with closing(open_reader(store.path)) as reader:
        articles, clusters = reader.execute(sql).fetchone()
    return articles, clusters
