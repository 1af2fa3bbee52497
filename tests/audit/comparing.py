"""A log with its outputs, as a worker without faults writes them, and the audit of both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import xxhash

from stream_dedup.audit.audit import Audit, audited, to_recompute
from stream_dedup.audit.reference import PlainLog, SourcePartition
from stream_dedup.audit.report import AuditReport
from stream_dedup.audit.sources import AuditedTopics
from stream_dedup.core.entry import Batch
from stream_dedup.core.headers import OmittedValue
from stream_dedup.core.model import Coordinates, LogOffset, SourceOffset, Verdict
from stream_dedup.ports import Partition
from tests.headers import output_headers
from tests.logs import REJECTED, SCHEME, TOPIC, LogOfTest, batch, rules

A = 0xFFFF_0000_FFFF_0000
FAR = 0x0123_4567_89AB_CDEF
TOPICS = {Verdict.UNIQUE: "unique", Verdict.DUPLICATE: "duplicate", Verdict.REJECTED: "rejected"}
SOURCE_0 = (TOPIC, 0)


class OutputRecord(NamedTuple):
    """A record of an output topic."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    leader_epoch: int = 0


def value_of(offset: int) -> bytes:
    return f"value {offset}".encode()


def with_values(made: Batch) -> Batch:
    """The batch with the checksums of ``value_of``."""
    checksums = [xxhash.xxh3_64_intdigest(value_of(int(offset))) for offset in made.offsets]
    return replace(made, checksums=np.array(checksums, np.uint64))


def three_articles() -> LogOfTest:
    """Unique, duplicate of it, rejected."""
    log = LogOfTest()
    log.add(rules())
    log.add(with_values(batch([0, 1, 2], [A, A ^ 1, REJECTED])))
    return log


def outputs_of(log: PlainLog, omitted: OmittedValue | None = None) -> list[OutputRecord]:
    """What a worker without faults writes for this log, where nothing is observed only."""
    found = []
    for index, judgement in log.judgements():
        if judgement.verdict is Verdict.DELETE:
            continue
        coordinates = log.coordinates(index)
        headers = output_headers(
            judgement,
            int(log.entries.fingerprints[index]),
            SCHEME.id,
            "articles",
            coordinates,
            1234,
            omitted=omitted,
        )
        value = b"" if omitted else value_of(coordinates.offset)
        found.append(OutputRecord(TOPICS[judgement.verdict], 0, index, 5000, b"key", value, [("own", b"1"), *headers]))
    return found


LONG_AFTER_MS = 1 << 62
"""When a log is read whose times are all in the past."""


class Asked(NamedTuple):
    """What an audit is asked for: of which topics, and with which options."""

    topics: AuditedTopics
    since_ms: int | None = None
    since_offset: LogOffset | None = None
    allow_repeats: bool = False


def asked_of(
    committed: Mapping[SourcePartition, int] | None = None,
    current: frozenset[bytes] = frozenset([TOPIC]),
    begins: Mapping[Partition, int] | None = None,
    settled: int = 0,
    read_ms: int = LONG_AFTER_MS,
    **options: Any,  # noqa: ANN401 - the fields of ``Asked``
) -> Asked:
    """An audit of a log whose first three articles are committed, unless said otherwise."""
    known = {SOURCE_0: 3} if committed is None else committed
    return Asked(
        AuditedTopics(
            outputs=TOPICS,
            committed={source: SourceOffset(offset) for source, offset in known.items()},
            current=current,
            output_bounds={partition: (begin, begin) for partition, begin in (begins or {}).items()},
            sources={},
            log=(LogOffset(0), LogOffset(0)),
            settled=LogOffset(settled),
            read_ms=read_ms,
            allowance_ms=60_000,
        ),
        **options,
    )


def report(
    log: PlainLog,
    outputs: Iterable[OutputRecord],
    asked: Asked | None = None,
    lost: Iterable[tuple[str, Coordinates]] = (),
    sample: int | None = None,
) -> AuditReport:
    asked = asked or asked_of()
    chosen = audited(log, asked.since_ms, asked.since_offset)
    audit = Audit(log, asked.topics, chosen, allow_repeats=asked.allow_repeats)
    for index, judgement in log.judgements(to_recompute(log, chosen, sample, seed=1)):
        audit.expect(index, judgement)
    for output in outputs:
        audit.add(output)
    audit.never_logged(lost)
    return audit.report()


def counts(found: AuditReport) -> dict[str, int]:
    return {kind: count for kind, count in found.found.items() if count}


def with_header(name: str, value: bytes) -> Callable[[OutputRecord], OutputRecord]:
    def change(output: OutputRecord) -> OutputRecord:
        return output._replace(headers=[(key, value if key == name else old) for key, old in output.headers])

    return change


def without_header(name: str) -> Callable[[OutputRecord], OutputRecord]:
    return lambda output: output._replace(headers=[pair for pair in output.headers if pair[0] != name])
