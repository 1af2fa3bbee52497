"""Drawn records through a worker on a real broker: each leaves once, as it came, with its reason or its verdict."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from stream_dedup.core.headers import PREFIX, Stamp
from stream_dedup.core.model import SourceOffset, Verdict
from stream_dedup.dev.broker.ways import find_broker
from stream_dedup.kafka.connection import make_producer
from tests.fuzz.core import MOST_REASON_CHARACTERS, SLOWEST, maker_of, raw_records, reason_kind, say
from tests.fuzz.records import DrawnRecord, RecordFuzzer
from tests.worker.pipeline import Pipeline, pipeline

PARTITIONS = 2
SETTINGS: dict[str, Any] = {"worker": {"threads": 2}, "input": {"markup": "html"}}
RECORDS_A_SECOND = 20
"""At least so many are done in a second, on a machine that is busy with other things."""
START_S = 120


OutputOf = tuple[str, Any, Stamp]
"""Topic, record and stamp of an output."""


def fuzz_worker(count: int, seed: int, folder: Path) -> list[str]:
    """Start a broker and a worker, and take records through them; print what became of them, and return the faults."""
    begun = time.monotonic()
    with (
        find_broker(own=True) as broker,
        pipeline(broker.bootstrap, folder, "fuzz", partitions=PARTITIONS, **SETTINGS) as made,
    ):
        records, outputs = through(made, count, seed)
    outcomes = Counter(outcome_of(stamp) for _, _, stamp in outputs)
    say(f"{len(records):,} records through a worker: {dict(outcomes.most_common())}, {time.monotonic() - begun:.0f} s")
    say(f"slowest: {slowest(records)}")
    return list(faults(records, outputs))


def through(made: Pipeline, count: int, seed: int) -> tuple[list[DrawnRecord], list[OutputOf]]:
    """Take records through a worker of a pipeline; return them, and the outputs. The audit finds nothing wrong."""
    records = list(RecordFuzzer(f"{seed}/worker").records(count))
    worker = made.start()
    made.wait_joined()
    produce(made, records)
    made.wait_done(START_S + count / RECORDS_A_SECOND)
    made.stop(worker)
    made.assert_sound()
    return records, made.outputs()


def produce(made: Pipeline, records: Sequence[DrawnRecord]) -> None:
    with closing(make_producer(made.config().kafka, acks="all", linger_ms=5)) as producer:
        sent = [
            producer.send(
                made.topic, key=one.key, value=_value(one), headers=one.headers, partition=number % PARTITIONS
            )
            for number, one in enumerate(records)
        ]
        producer.flush(START_S)
        assert all(future.succeeded() for future in sent)


def _value(record: DrawnRecord) -> bytes | None:
    """The client sends no record without key and value."""
    return b"" if record.key is None and record.value is None else record.value


def faults(records: Sequence[DrawnRecord], outputs: Sequence[OutputOf]) -> Iterator[str]:
    """Yield what is wrong: a record that left never, twice, changed, or rejected without a reason."""
    left = Counter((stamp.coordinates.partition, stamp.coordinates.offset) for _, _, stamp in outputs)
    for number, record in enumerate(records):
        if (times := left[number % PARTITIONS, SourceOffset(number // PARTITIONS)]) != 1:
            yield f"record {number}, {record.kind}, left {times} times"
    for _, output, stamp in outputs:
        record = records[stamp.coordinates.offset * PARTITIONS + stamp.coordinates.partition]
        if not _is_right(record, output, stamp):
            yield f"{stamp.coordinates}, {record.kind}: left as {output.key!r}, {output.value!r}, {output.headers!r}"[
                :500
            ]


def _is_right(record: DrawnRecord, output: Any, stamp: Stamp) -> bool:  # noqa: ANN401 - the client's record
    own = [header for header in output.headers if not header[0].startswith(PREFIX)]
    untouched = [header for header in record.headers if not header[0].startswith(PREFIX)]
    reason = stamp.reason or ""
    explained = bool(reason) == (stamp.verdict is Verdict.REJECTED) and len(reason) <= MOST_REASON_CHARACTERS
    return explained and (output.key, output.value, own) == (record.key, _value(record), untouched)


def outcome_of(stamp: Stamp) -> str:
    """Return the verdict, or the reason without its numbers."""
    return str(stamp.verdict) if stamp.reason is None else reason_kind(stamp.reason)


def slowest(records: Sequence[DrawnRecord]) -> str:
    """Return the records that take longest to be fingerprinted, by themselves."""
    make, timed = maker_of("article, HTML"), []
    for number, raw in enumerate(raw_records(records, 0)):
        begun = time.process_time()
        make([raw])
        timed.append((time.process_time() - begun, number))
    described = [
        f"{seconds * 1000:.1f} ms: record {number}, {records[number].kind} of {len(records[number].value or b'')} bytes"
        for seconds, number in sorted(timed, reverse=True)[:SLOWEST]
    ]
    return "; ".join(described)
