"""Headers of an output record, and the metadata of a committed offset: this file owns both.

An output record is the input record plus the headers of ``OUTPUT_HEADERS``, all of them UTF-8 text.

The header, not the topic, states the verdict: under the rule ``observe`` every record is
written to the topic of unique records.

If a source record has ``dedup.*`` headers itself, they are dropped.

The metadata of a committed offset is ``format=1;topic_id=UUID``: the topic that the offset belongs to. An offset that
was set by hand has none, or what the tool wrote that set it. A topic id in any other form is refused.

``parse_headers`` reads what ``OutputHeaders`` writes, and refuses everything else.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from stream_dedup.core.model import (
    OUTPUT_VERDICTS,
    SIGNATURE_BITS,
    Coordinates,
    Judgement,
    Match,
    SourceOffset,
    Verdict,
)
from stream_dedup.core.reasons import code_of
from stream_dedup.core.rules import COPIES_LIMIT
from stream_dedup.errors import CorruptError

PREFIX = "dedup."

_ALL = "all records"
_JUDGED = "unique, duplicate"
_MATCHED = "duplicate, update"
_REJECTED = "rejected"
_OMITTED = "rejected, where the value is too large for any output topic and was left empty"


class DeclaredHeader(NamedTuple):
    """The meaning of a header, for the reference."""

    name: str
    on: str
    """The verdicts of the records that have it; an update is a unique record with a match."""
    value: str


_declarations: list[DeclaredHeader] = []


def _declared(name: str, on: str, value: str) -> str:
    """Declare a header, and return its name."""
    _declarations.append(DeclaredHeader(name, on, value))
    return name


VERDICT = _declared("dedup.verdict", _ALL, "`unique`, `duplicate` or `rejected`")
SCHEME = _declared("dedup.scheme", _ALL, "id of the scheme of the log")
FINGERPRINT = _declared("dedup.fingerprint", _JUDGED, "16 hex digits; 16 zeros for text without words")
SOURCE = _declared("dedup.source", _ALL, "the source record: topic-partition-offset")
SOURCE_TOPIC_ID = _declared("dedup.source.topic_id", _ALL, "id of its topic, a UUID")
SOURCE_TIMESTAMP = _declared("dedup.source.timestamp", _ALL, "its timestamp, ms since 1970")
MATCH_ID = _declared("dedup.match.id", _MATCHED, "article id of the match; of an update, of the earlier version")
MATCH_DISTANCE = _declared(
    "dedup.match.distance", _MATCHED, "differing bits: of the signature's 256; in exact search, of the fingerprint's 64"
)
MATCH_SIMILARITY = _declared("dedup.match.similarity", _MATCHED, "estimated cosine, 4 decimals")
MATCH_SOURCE = _declared("dedup.match.source", _MATCHED, "the source record of the match: topic-partition-offset")
MATCH_TOPIC_ID = _declared("dedup.match.topic_id", _MATCHED, "id of its topic, a UUID")
MATCH_TIME = _declared("dedup.match.time", _MATCHED, "log time of the match, ms since 1970")
COPIES = _declared(
    "dedup.copies", _JUDGED, f"how many earlier articles are near, up to {COPIES_LIMIT}; absent where there is none"
)
REASON = _declared("dedup.reason", _REJECTED, "the reason, for people")
REASON_CODE = _declared("dedup.reason.code", _REJECTED, "the kind of the reason, for counting")
VALUE_LENGTH = _declared("dedup.value.length", _OMITTED, "length of the value, bytes")
VALUE_XXH3 = _declared("dedup.value.xxh3", _OMITTED, "xxh3-64 of the value, 16 hex digits")
OUTPUT_HEADERS = tuple(_declarations)
"""Every header."""

_OF_MATCH = {MATCH_ID, MATCH_DISTANCE, MATCH_SIMILARITY, MATCH_SOURCE, MATCH_TOPIC_ID, MATCH_TIME}
_OF_OMITTED = {VALUE_LENGTH, VALUE_XXH3}
_NAMES = frozenset(header.name for header in OUTPUT_HEADERS)
_TOPIC_ID = "topic_id="
_METADATA = f"format=1;{_TOPIC_ID}"

_WHOLE = re.compile(r"-?[0-9]{1,19}")
_SIMILARITY = re.compile(r"-?[01]\.[0-9]{4}")
_HEX = re.compile(r"[0-9a-f]{16}")
_METADATA_FORM = re.compile(re.escape(_METADATA) + r"[0-9a-f-]{36}")
_TIMES = range(-(1 << 63), 1 << 63)
"""Kafka's timestamps, ms since 1970; -1: none."""
_PARTITIONS = range(1 << 31)
_OFFSETS = range(1 << 63)
_DISTANCES = range(SIGNATURE_BITS + 1)
_SHOWN = 40
"""Characters of a malformed header that an error shows."""
_MOST_TOPICS = 1_024
"""Topic ids whose text is kept."""
_VERDICT_HEADERS = {verdict: (VERDICT, verdict.value.encode()) for verdict in OUTPUT_VERDICTS}
_VERDICTS = {verdict.value: verdict for verdict in OUTPUT_VERDICTS}
_REJECTION = Verdict.REJECTED
"""Python looks a member up by a function."""

Headers = list[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class StampedMatch:
    """The match as the headers name it, and the store of clusters keeps it; ``similarity`` is text with 4 decimals."""

    id: str
    distance: int
    similarity: str
    topic: str
    coordinates: Coordinates
    time: int


@dataclass(frozen=True, slots=True)
class OmittedValue:
    """Length in bytes and xxh3-64 of a value that is too large for any output topic."""

    length: int
    xxh3: int


@dataclass(frozen=True, slots=True)
class Stamp:
    """The content of the ``dedup.*`` headers of one output record."""

    verdict: Verdict
    scheme: str
    fingerprint: int | None
    topic: str
    coordinates: Coordinates
    timestamp: int
    match: StampedMatch | None
    copies: int | None
    """None where no earlier article is near."""
    reason: str | None
    reason_code: str | None
    omitted: OmittedValue | None

    @property
    def update(self) -> bool:
        """Whether the record is a later version of the match, which has the same article id."""
        return self.verdict is Verdict.UNIQUE and self.match is not None


class OutputHeaders:
    """Makes the headers that outputs get in addition to those of their source records, of one source partition."""

    def __init__(self, scheme_id: str, topic: str, partition: int, topic_id: bytes) -> None:
        self._scheme = (SCHEME, scheme_id.encode())
        self._before_offset = f"{topic}-{partition}-".encode()
        self._topic_id = (SOURCE_TOPIC_ID, _uuid_text(topic_id))

    def of(
        self,
        judgement: Judgement,
        fingerprint: int,
        offset: int,
        timestamp: int,
        omitted: OmittedValue | None = None,
    ) -> Headers:
        """Return those of one output."""
        verdict, match = judgement.verdict, judgement.match
        headers = [_VERDICT_HEADERS[verdict], self._scheme]
        if verdict is not _REJECTION:
            headers.append((FINGERPRINT, b"%016x" % fingerprint))
        source = self._before_offset + b"%d" % offset
        headers += ((SOURCE, source), self._topic_id, (SOURCE_TIMESTAMP, b"%d" % timestamp))
        if match is not None:
            headers += _match_headers(match)
        if judgement.copies:
            headers.append((COPIES, b"%d" % judgement.copies))
        if judgement.reason is not None:
            headers += [(REASON, judgement.reason.encode()), (REASON_CODE, code_of(judgement.reason).encode())]
        if omitted is not None:
            headers += [(VALUE_LENGTH, b"%d" % omitted.length), (VALUE_XXH3, b"%016x" % omitted.xxh3)]
        return headers


def without_ours(headers: Iterable[tuple[str, bytes | None]]) -> Headers:
    """Return the headers whose names do not begin with ``dedup.``, with empty values for those that are None."""
    return [(name, value or b"") for name, value in headers if not name.startswith(PREFIX)]


def parse_headers(headers: Iterable[tuple[str, bytes | None]]) -> Stamp:
    """Read the ``dedup.*`` headers of an output record.

    Raises:
        CorruptError: a header is missing, unknown, malformed, occurs twice, or contradicts the verdict.
    """
    texts = _texts(headers)
    omitted = None
    try:
        topic, coordinates = _source(texts[SOURCE], texts[SOURCE_TOPIC_ID])
        if texts.keys() & _OF_OMITTED:
            omitted = OmittedValue(_whole(texts[VALUE_LENGTH], _OFFSETS), _hex(texts[VALUE_XXH3]))
        stamp = Stamp(
            verdict=_verdict(texts[VERDICT]),
            scheme=texts[SCHEME],
            fingerprint=_hex(texts[FINGERPRINT]) if FINGERPRINT in texts else None,
            topic=topic,
            coordinates=coordinates,
            timestamp=_whole(texts[SOURCE_TIMESTAMP], _TIMES),
            match=_parse_match(texts) if texts.keys() & _OF_MATCH else None,
            copies=_whole(texts[COPIES], range(1, COPIES_LIMIT + 1)) if COPIES in texts else None,
            reason=texts.get(REASON),
            reason_code=texts.get(REASON_CODE),
            omitted=omitted,
        )
    except KeyError as error:
        raise CorruptError(f"output record without the header {error.args[0]}") from error
    except ValueError as error:
        raise CorruptError(f"output record with a header that cannot be read: {error}") from error
    _refuse_disagreement(stamp)
    return stamp


def _verdict(text: str) -> Verdict:
    if text not in _VERDICTS:
        raise ValueError(f"{text[:_SHOWN]!r} is no verdict of an output")
    return _VERDICTS[text]


def _refuse_disagreement(stamp: Stamp) -> None:
    """Refuse headers that contradict the verdict."""
    rejected = stamp.verdict is Verdict.REJECTED
    expected = [
        (MATCH_ID, stamp.match, {Verdict.DUPLICATE: True, Verdict.REJECTED: False}.get(stamp.verdict)),
        (COPIES, stamp.copies, True if stamp.match else False if rejected else None),
        (REASON, stamp.reason, rejected),
        (REASON_CODE, stamp.reason_code, rejected),
        (FINGERPRINT, stamp.fingerprint, not rejected),
        (VALUE_LENGTH, stamp.omitted, None if rejected else False),
    ]
    for name, value, wanted in expected:
        if wanted is not None and (value is not None) is not wanted:
            raise CorruptError(
                f"output record of verdict {stamp.verdict} {'without' if wanted else 'with'} the header {name}"
            )


def source_text(topic: str, coordinates: Coordinates) -> str:
    """Return ``topic-partition-offset``, the form of ``dedup.source``."""
    return f"{topic}-{coordinates.partition}-{coordinates.offset}"


def offset_metadata(topic_id: bytes) -> str:
    """Return the metadata of a committed offset of the topic with this id."""
    return f"{_METADATA}{uuid.UUID(bytes=topic_id)}"


def topic_id_of_metadata(text: str | None, partition: tuple[str, int]) -> bytes | None:
    """Return the topic id in the metadata of the committed offset of a partition; None where it names none.

    confluent-kafka sends the zero byte behind the text of C along with it.

    Raises:
        CorruptError: it names a topic id in another form.
    """
    text = (text or "").removesuffix("\0")
    if _TOPIC_ID not in text:
        return None
    try:
        return uuid.UUID(_matched(text, _METADATA_FORM).removeprefix(_METADATA)).bytes
    except ValueError as error:
        raise CorruptError(
            f"the committed offset of {partition[0]}-{partition[1]} has the metadata {text[:_SHOWN]!r}, which this "
            "program does not write: begin a new log with another --group and other output topics"
        ) from error


def _match_headers(match: Match) -> Headers:
    return [
        (MATCH_ID, match.id.encode()),
        (MATCH_DISTANCE, b"%d" % match.distance),
        (MATCH_SIMILARITY, b"%.4f" % match.similarity),
        (MATCH_SOURCE, source_text(match.topic, match.coordinates).encode()),
        (MATCH_TOPIC_ID, _uuid_text(match.coordinates.topic_id)),
        (MATCH_TIME, b"%d" % match.time),
    ]


@lru_cache(_MOST_TOPICS)
def _uuid_text(topic_id: bytes) -> bytes:
    """Return a topic id as text: an output has one or two, and a group has a few topics."""
    return str(uuid.UUID(bytes=topic_id)).encode()


def _texts(headers: Iterable[tuple[str, bytes | None]]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for name, value in headers:
        if not name.startswith(PREFIX):
            continue
        if name not in _NAMES:
            raise CorruptError(f"output record with the unknown header {name}")
        if name in texts:
            raise CorruptError(f"output record with the header {name} twice")
        texts[name] = (value or b"").decode("utf-8", "backslashreplace")
    return texts


def _source(source: str, topic_id: str) -> tuple[str, Coordinates]:
    topic, partition, offset = source.rsplit("-", 2)
    at = _whole(partition, _PARTITIONS), SourceOffset(_whole(offset, _OFFSETS))
    return topic, Coordinates(uuid.UUID(topic_id).bytes, *at)


def _parse_match(texts: dict[str, str]) -> StampedMatch:
    topic, coordinates = _source(texts[MATCH_SOURCE], texts[MATCH_TOPIC_ID])
    return StampedMatch(
        id=texts[MATCH_ID],
        distance=_whole(texts[MATCH_DISTANCE], _DISTANCES),
        similarity=_matched(texts[MATCH_SIMILARITY], _SIMILARITY),
        topic=topic,
        coordinates=coordinates,
        time=_whole(texts[MATCH_TIME], _TIMES),
    )


def _whole(text: str, allowed: range) -> int:
    """Read a whole number as ``str`` writes it; ValueError for anything else, and for one out of range."""
    number = int(_matched(text, _WHOLE))
    if number not in allowed:
        raise ValueError(f"{number} is not within {allowed.start} to {allowed.stop - 1}")
    return number


def _hex(text: str) -> int:
    return int(_matched(text, _HEX), 16)


def _matched(text: str, form: re.Pattern[str]) -> str:
    if form.fullmatch(text) is None:
        raise ValueError(f"{text[:_SHOWN]!r} is not of the form {form.pattern}")
    return text
