"""What answers say, as JSON values: this file owns their form. Times are ms since 1970."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stream_dedup.core.headers import StampedMatch
from stream_dedup.core.model import Coordinates, Match, Status, signed
from stream_dedup.core.reasons import code_of
from stream_dedup.groups import ArticleGroup, GroupedArticle, VerdictCounts

if TYPE_CHECKING:
    from stream_dedup.core.columns import Columns
    from stream_dedup.core.rules import Rules
    from stream_dedup.groups import GroupStore
    from stream_dedup.index.judge import CheckedArticle
    from stream_dedup.serve.follower import Checked
    from stream_dedup.serve.position import Position
    from stream_dedup.serve.texts import SourcedText

Json = dict[str, Any]
Groups = Mapping[Coordinates, str | None]
"""Id of the group of each article, None where its output was not read yet."""


def check_values(columns: Columns, checked: Checked, groups: Groups) -> Json:
    """Return the answer to a check."""
    return {
        "log": {"id": checked.log_id, "offset": checked.offset, "time_ms": checked.time_ms},
        "rules": rules_values(checked.rules),
        "results": [_result(columns, row, one, groups) for row, one in enumerate(checked.articles)],
    }


def rules_values(rules: Rules) -> Json:
    """Return what an answer says of the rules in force."""
    return {"revision": rules.revision, "scheme": rules.scheme.id, "observe": rules.observe}


def position_values(position: Position) -> Json:
    """Return how far the service is."""
    return {
        "ready": position.ready,
        "up_to_date": position.up_to_date,
        "detail": position.detail,
        "log_id": position.log_id,
        "offset": position.offset,
        "lag": position.lag,
        "rules": None if position.rules is None else rules_values(position.rules),
    }


def matches_of(one: CheckedArticle) -> Iterable[Match]:
    """Return the entries that the result of one article names."""
    return one.nearest if one.judgement.match is None else (one.judgement.match, *one.nearest)


def group_ids(store: GroupStore, articles: Iterable[Coordinates]) -> dict[Coordinates, str | None]:
    """Return the ids of the groups of articles. Blocks."""
    found = {at: store.article(at) for at in articles}
    return {at: None if article is None else article.group_id for at, article in found.items()}


def source_values(topic: str, at: Coordinates) -> Json:
    """Return where an article is in its source topic."""
    return {
        "topic": topic,
        "topic_id": str(uuid.UUID(bytes=at.topic_id)),
        "partition": at.partition,
        "offset": at.offset,
    }


def article_values(article: GroupedArticle, text: SourcedText | None = None) -> Json:
    """Return an article whose output was read, with its text where it was asked for."""
    values = {
        "id": article.id,
        "source": source_values(article.topic, article.coordinates),
        "verdict": str(article.verdict),
        "update": article.update,
        "group": article.group_id,
        "copies": article.copies or 0,
        "reason_code": article.reason_code,
        "match": None if article.match is None else _stamped_values(article.match),
        "source_time_ms": article.source_ms,
        "written_ms": article.written_ms,
        "output": {
            "topic": article.output.topic,
            "partition": article.output.number,
            "offset": article.output_offset,
        },
    }
    return values if text is None else values | {"text": text.text, "text_missing": text.reason}


def group_values(group: ArticleGroup) -> Json:
    """Return a group."""
    return {
        "id": group.id,
        "first": {"id": group.first_article_id, "source": source_values(group.first_topic, group.first)},
        "size": group.size,
        "first_ms": group.first_ms,
        "last_ms": group.last_ms,
        "counts": {str(window): count for window, count in group.counts.items()},
    }


def counts_values(counts: VerdictCounts) -> Json:
    """Return how many articles have which verdict."""
    return {
        "articles": counts.articles,
        "unique": counts.unique,
        "updates": counts.updates,
        "duplicates": counts.duplicates,
        "rejected": dict(counts.rejected or {}),
    }


def buckets_values(buckets: Sequence[tuple[int, int]]) -> list[Json]:
    """Return a curve of growth."""
    return [{"begin_ms": begin, "articles": articles} for begin, articles in buckets]


def _result(columns: Columns, row: int, one: CheckedArticle, groups: Groups) -> Json:
    judgement = one.judgement
    status = Status(columns.statuses[row])
    is_signed = bool(signed(columns.statuses[row : row + 1])[0])
    is_rejected = judgement.reason is not None
    return {
        "verdict": str(judgement.verdict),
        "update": str(judgement.verdict) == "unique" and judgement.match is not None,
        "kind": status.name.lower(),
        "fingerprint": None if is_rejected else columns.signatures[row, :8].tobytes().hex(),
        "signature": columns.signatures[row].tobytes().hex() if is_signed else None,
        "copies": judgement.copies,
        "reason": judgement.reason,
        "reason_code": None if judgement.reason is None else code_of(judgement.reason),
        "match": None if judgement.match is None else _match_values(judgement.match, groups),
        "nearest": [_match_values(match, groups) for match in one.nearest],
    }


def _match_values(match: Match, groups: Groups) -> Json:
    return {
        "id": match.id,
        "source": source_values(match.topic, match.coordinates),
        "time_ms": match.time,
        "distance": match.distance,
        "similarity": round(match.similarity, 4),
        "group": groups.get(match.coordinates),
    }


def _stamped_values(match: StampedMatch) -> Json:
    return {
        "id": match.id,
        "source": source_values(match.topic, match.coordinates),
        "time_ms": match.time,
        "distance": match.distance,
        "similarity": float(match.similarity),
    }
