"""Compares one output record with the log entry of its article. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import xxhash

from stream_dedup.audit.reference import PlainLog
from stream_dedup.core.headers import PREFIX, Headers, Stamp, StampedMatch, without_ours
from stream_dedup.core.model import Judgement, Match, Verdict, log_offset_of
from stream_dedup.core.reasons import code_of
from stream_dedup.ports import SourceRecord

Rows = list[tuple[str, object, object]]
"""What is compared: its name, what the output says, and what it should say."""


class Logged(NamedTuple):
    """A logged article: its index in the log, and its verdict if it was recomputed."""

    log: PlainLog
    article: int
    expected: Judgement | None


def differences(logged: Logged, topics: Mapping[Verdict, str], output: SourceRecord, stamp: Stamp) -> list[str]:
    """Return the differences of an output from the log, each as text; ``topics`` are those of the verdicts."""
    log, article, expected = logged
    checksum = int(log.entries.checksums[article])
    rows: Rows = [
        ("topic", output.topic, topics[Verdict.UNIQUE if log.observed(article) else stamp.verdict]),
        ("scheme", stamp.scheme, log.scheme_id()),
        ("source topic", stamp.topic, log.topic(article)),
        ("checksum of the value", _checksum(output, stamp, checksum), checksum),
    ]
    if stamp.omitted is not None:
        rows += [("key", output.key, None), ("headers of its own", without_ours(_headers(output)), [])]
    if log.deletes[article]:
        rows.append(("status", "one with an output", "a delete, which has none"))
    elif expected is not None:
        rows += _judged_rows(stamp, expected, int(log.entries.fingerprints[article]))
    found = [f"{name} {said!s}, should be {should!s}" for name, said, should in rows if said != should]
    return found + _judged_too_early(logged, stamp)


def digest_of(output: SourceRecord) -> int:
    """Return a hash of an output's topic, key, value and headers, without its time."""
    own = _headers(output)
    ours = sorted(pair for pair in own if pair[0].startswith(PREFIX))
    return xxhash.xxh3_64_intdigest(repr((output.topic, output.key, output.value, without_ours(own), ours)).encode())


def _judged_rows(stamp: Stamp, expected: Judgement, fingerprint: int) -> Rows:
    rejected = expected.verdict is Verdict.REJECTED
    return [
        ("verdict", stamp.verdict, expected.verdict),
        ("fingerprint", _hex(stamp.fingerprint), None if rejected else _hex(fingerprint)),
        ("match", stamp.match, None if expected.match is None else _stamped(expected.match)),
        ("reason", stamp.reason, expected.reason),
        ("code of the reason", stamp.reason_code, None if expected.reason is None else code_of(expected.reason)),
        ("copies", stamp.copies, expected.copies or None),
    ]


def _judged_too_early(logged: Logged, stamp: Stamp) -> list[str]:
    """Return a remark on a wrong match, where the right one is an entry that the batch's author had not read."""
    match = None if logged.expected is None else logged.expected.match
    reached = logged.log.batch_of(logged.article).read_to
    if match is None or reached is None or stamp.match == _stamped(match):
        return []
    matched, at = log_offset_of(match.position), logged.log.entries.log_offsets[logged.article]
    text = (
        f"the match is in the log at offset {matched}, and the article was logged at {at} by a worker that had read "
        f"up to {reached}: it may have been judged before the log was read"
    )
    return [text] if matched >= reached else []


def _stamped(match: Match) -> StampedMatch:
    return StampedMatch(
        id=match.id,
        distance=match.distance,
        similarity=f"{match.similarity:.4f}",
        topic=match.topic,
        coordinates=match.coordinates,
        time=match.time,
    )


def _hex(fingerprint: int | None) -> str | None:
    return None if fingerprint is None else f"{fingerprint:016x}"


def _checksum(output: SourceRecord, stamp: Stamp, logged: int) -> int:
    """Return the checksum of the source record's value: of its bytes, or from the header where they were omitted.

    A tombstone without a key is written with an empty value, because the client sends no record without both.
    """
    if stamp.omitted is not None and not output.value:
        return stamp.omitted.xxh3
    tombstone = output.value is None or (not output.value and output.key is None and logged == 0)
    return 0 if tombstone else xxhash.xxh3_64_intdigest(output.value or b"")


def _headers(record: SourceRecord) -> Headers:
    return [(name, value or b"") for name, value in record.headers]
