"""Headers of an output record, and the metadata of a committed offset: this file owns both.

An output record is the input record plus these headers, all of them UTF-8 text:

    dedup.verdict            unique | duplicate | rejected
    dedup.scheme             id of the scheme that the log is about
    dedup.fingerprint        16 hex digits; 16 zeros for text without features; not on rejected ones
    dedup.source             topic-partition-offset
    dedup.source.topic_id    UUID
    dedup.source.timestamp   ms since 1970, as it stands in the source record
    dedup.match.id           on duplicates, as all of dedup.match.*: the match's article id; on a unique record
                             they say that it is an update, and name its earlier version
    dedup.match.distance     bits: of the fingerprint in exact search, of the signature in directed search
    dedup.match.similarity   4 decimals
    dedup.match.source       topic-partition-offset
    dedup.match.topic_id     UUID
    dedup.match.time         log time, ms since 1970
    dedup.reason             rejected only
    dedup.value.length       only where no topic can hold the record: bytes of the value left out,
    dedup.value.xxh3         and its xxh3-64 in 16 hex digits; the output's value is then empty

The verdict stands in its header, not in the topic's name: where the rules say ``observe``, every
record goes to the topic of unique ones.

A source record may carry ``dedup.*`` headers itself; they are replaced, never passed on.

A committed offset's metadata is ``topic_id=UUID``: the topic that the offset belongs to.

What is written here can be read back here: ``parse_headers`` refuses what
``output_headers`` would not write.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from stream_dedup.core.model import Coordinates, Judgement, Match, Verdict
from stream_dedup.errors import CorruptError

PREFIX = "dedup."
VERDICT = "dedup.verdict"
SCHEME = "dedup.scheme"
FINGERPRINT = "dedup.fingerprint"
SOURCE = "dedup.source"
SOURCE_TOPIC_ID = "dedup.source.topic_id"
SOURCE_TIMESTAMP = "dedup.source.timestamp"
MATCH_ID = "dedup.match.id"
MATCH_DISTANCE = "dedup.match.distance"
MATCH_SIMILARITY = "dedup.match.similarity"
MATCH_SOURCE = "dedup.match.source"
MATCH_TOPIC_ID = "dedup.match.topic_id"
MATCH_TIME = "dedup.match.time"
REASON = "dedup.reason"
VALUE_LENGTH = "dedup.value.length"
VALUE_XXH3 = "dedup.value.xxh3"

_METADATA = "topic_id="

Headers = list[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class StampedMatch:
    """The match as an output record names it; ``similarity`` as text with 4 decimals."""

    id: str
    distance: int
    similarity: str
    topic: str
    coordinates: Coordinates
    time: int


@dataclass(frozen=True, slots=True)
class OmittedValue:
    """Length in bytes and xxh3-64 of a value that no topic can hold."""

    length: int
    xxh3: int


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the ``dedup.*`` headers of one output record say."""

    verdict: Verdict
    scheme: str
    fingerprint: int | None
    topic: str
    coordinates: Coordinates
    timestamp: int
    match: StampedMatch | None
    reason: str | None
    omitted: OmittedValue | None

    @property
    def update(self) -> bool:
        """Whether the record is another version of the match, which has its own article id."""
        return self.verdict is Verdict.UNIQUE and self.match is not None


def output_headers(  # noqa: PLR0913, PLR0917 - one argument for each thing that the headers say
    judgement: Judgement,
    fingerprint: int,
    scheme_id: str,
    topic: str,
    coordinates: Coordinates,
    timestamp: int,
    omitted: OmittedValue | None = None,
) -> Headers:
    """Headers that an output record gets beside those of its source record."""
    texts = [(VERDICT, str(judgement.verdict)), (SCHEME, scheme_id)]
    if judgement.verdict is not Verdict.REJECTED:
        texts.append((FINGERPRINT, f"{fingerprint:016x}"))
    texts += [
        (SOURCE, source_text(topic, coordinates)),
        (SOURCE_TOPIC_ID, str(uuid.UUID(bytes=coordinates.topic_id))),
        (SOURCE_TIMESTAMP, str(timestamp)),
    ]
    if judgement.match is not None:
        texts += _match_texts(judgement.match)
    if judgement.reason is not None:
        texts.append((REASON, judgement.reason))
    if omitted is not None:
        texts += [(VALUE_LENGTH, str(omitted.length)), (VALUE_XXH3, f"{omitted.xxh3:016x}")]
    return [(name, text.encode()) for name, text in texts]


def without_ours(headers: Iterable[tuple[str, bytes]]) -> Headers:
    """The source record's own headers: all that do not begin with ``dedup.``."""
    return [(name, value) for name, value in headers if not name.startswith(PREFIX)]


def parse_headers(headers: Iterable[tuple[str, bytes | None]]) -> Stamp:
    """Read the ``dedup.*`` headers of an output record.

    Raises:
        CorruptError: a header is missing, stands twice, does not say what it should, or belongs to another verdict.
    """
    texts = _texts(headers)
    try:
        topic, coordinates = _source(texts[SOURCE], texts[SOURCE_TOPIC_ID])
        stamp = Stamp(
            verdict=Verdict(texts[VERDICT]),
            scheme=texts[SCHEME],
            fingerprint=int(texts[FINGERPRINT], 16) if FINGERPRINT in texts else None,
            topic=topic,
            coordinates=coordinates,
            timestamp=int(texts[SOURCE_TIMESTAMP]),
            match=_parse_match(texts) if MATCH_ID in texts else None,
            reason=texts.get(REASON),
            omitted=_parse_omitted(texts) if VALUE_LENGTH in texts else None,
        )
    except KeyError as error:
        msg = f"output record without the header {error.args[0]}"
        raise CorruptError(msg) from error
    except ValueError as error:
        msg = f"output record with a header that cannot be read: {error}"
        raise CorruptError(msg) from error
    _refuse_disagreement(stamp)
    return stamp


def _refuse_disagreement(stamp: Stamp) -> None:
    """Refuse headers that do not go with the verdict."""
    rejected = stamp.verdict is Verdict.REJECTED
    expected = [
        (MATCH_ID, stamp.match, {Verdict.DUPLICATE: True, Verdict.REJECTED: False}.get(stamp.verdict)),
        (REASON, stamp.reason, rejected),
        (FINGERPRINT, stamp.fingerprint, not rejected),
    ]
    for name, value, wanted in expected:
        if wanted is not None and (value is not None) is not wanted:
            msg = f"output record of verdict {stamp.verdict} {'without' if wanted else 'with'} the header {name}"
            raise CorruptError(msg)


def source_text(topic: str, coordinates: Coordinates) -> str:
    """``topic-partition-offset``, as ``dedup.source`` has it."""
    return f"{topic}-{coordinates.partition}-{coordinates.offset}"


def offset_metadata(topic_id: bytes) -> str:
    """Metadata string of a committed offset of the topic with this id."""
    return f"{_METADATA}{uuid.UUID(bytes=topic_id)}"


def topic_id_of_metadata(text: str | None) -> bytes | None:
    """Topic id in a committed offset's metadata; None where another program wrote it."""
    if not text or not text.startswith(_METADATA):
        return None
    try:
        return uuid.UUID(text[len(_METADATA) :]).bytes
    except ValueError:
        return None


def _match_texts(match: Match) -> list[tuple[str, str]]:
    return [
        (MATCH_ID, match.id),
        (MATCH_DISTANCE, str(match.distance)),
        (MATCH_SIMILARITY, f"{match.similarity:.4f}"),
        (MATCH_SOURCE, source_text(match.topic, match.coordinates)),
        (MATCH_TOPIC_ID, str(uuid.UUID(bytes=match.coordinates.topic_id))),
        (MATCH_TIME, str(match.time)),
    ]


def _texts(headers: Iterable[tuple[str, bytes | None]]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for name, value in headers:
        if not name.startswith(PREFIX):
            continue
        if name in texts:
            msg = f"output record with the header {name} twice"
            raise CorruptError(msg)
        texts[name] = (value or b"").decode("utf-8", "backslashreplace")
    return texts


def _source(source: str, topic_id: str) -> tuple[str, Coordinates]:
    topic, partition, offset = source.rsplit("-", 2)
    return topic, Coordinates(uuid.UUID(topic_id).bytes, int(partition), int(offset))


def _parse_match(texts: dict[str, str]) -> StampedMatch:
    topic, coordinates = _source(texts[MATCH_SOURCE], texts[MATCH_TOPIC_ID])
    return StampedMatch(
        id=texts[MATCH_ID],
        distance=int(texts[MATCH_DISTANCE]),
        similarity=texts[MATCH_SIMILARITY],
        topic=topic,
        coordinates=coordinates,
        time=int(texts[MATCH_TIME]),
    )


def _parse_omitted(texts: dict[str, str]) -> OmittedValue:
    return OmittedValue(int(texts[VALUE_LENGTH]), int(texts[VALUE_XXH3], 16))
