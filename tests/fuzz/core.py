"""Drawn records through decoding and fingerprinting, in shards: each record has its reason or its entry."""

from __future__ import annotations

import heapq
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import NamedTuple

import numpy as np

from stream_dedup.config.effective import fingerprint_settings_of, input_format_of
from stream_dedup.config.load import load_config
from stream_dedup.core.columns import Columns
from stream_dedup.core.entry import Batch, decode, encode, make_batch
from stream_dedup.core.fingerprint.entry_maker import EntryMaker, checksum
from stream_dedup.core.model import Status
from stream_dedup.core.text.decode import MAX_ID_BYTES, RawRecord
from tests.fuzz.records import DrawnRecord, RecordFuzzer

SHARD_RECORDS = 10_000
"""Records of one seed: a fault is found again within seconds."""
CHUNK_RECORDS = 64
"""Records that are fingerprinted together, as in a worker."""
SLOWEST = 3
"""So many of the slowest records are named."""
MOST_REASON_CHARACTERS = 120
TOPIC_ID = b"t" * 16

WAYS: dict[str, dict[str, dict[str, str]]] = {
    "article": {},
    "article, HTML": {"input": {"markup": "html"}},
    "comment": {"match": {"profile": "comment"}},
    "simhash": {"match": {"profile": "simhash"}},
    "plain text": {"input": {"format": "text"}},
}
"""Configurations; a shard takes one after the other."""


class Timed(NamedTuple):
    """How long one record took, and where it is found again."""

    seconds: float
    shard: int
    number: int
    kind: str
    size: int

    def __str__(self) -> str:
        """One line."""
        where = f"record {self.number} of shard {self.shard}"
        return f"{self.seconds * 1000:.1f} ms: {where}, {self.kind} of {self.size} bytes"


@dataclass
class ShardReport:
    """What became of the records of one shard."""

    shard: int
    way: str
    outcomes: Counter[str] = field(default_factory=Counter)
    """Records by kind of text, or by reason."""
    faults: list[str] = field(default_factory=list)
    slowest: list[Timed] = field(default_factory=list)


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def run_shard(seed: int, shard: int, count: int = SHARD_RECORDS) -> ShardReport:
    """Take the records of one shard through decoding and fingerprinting."""
    way = list(WAYS)[shard % len(WAYS)]
    report = ShardReport(shard, way)
    make, drawn = maker_of(way), RecordFuzzer(f"{seed}/{shard}").records(count)
    chunks: list[tuple[float, int, list[DrawnRecord]]] = []
    for start, records in _chunks(drawn):
        raw = raw_records(records, start)
        begun = time.process_time()
        columns = make(raw)
        chunks = heapq.nlargest(SLOWEST, [*chunks, (time.process_time() - begun, start, records)])
        report.outcomes.update(outcome_of(columns, row) for row in range(len(columns)))
        report.faults += [f"shard {shard}, {way}, records from {start}: {fault}" for fault in faults(raw, columns)]
    report.slowest = heapq.nlargest(SLOWEST, _timed(make, shard, chunks))
    report.faults += [f"shard {shard}, {way}: {fault}" for fault in _changed_by_others(make, chunks)]
    return report


def _chunks(drawn: Iterator[DrawnRecord]) -> Iterator[tuple[int, list[DrawnRecord]]]:
    start = 0
    while records := list(islice(drawn, CHUNK_RECORDS)):
        yield start, records
        start += len(records)


@cache
def maker_of(way: str) -> EntryMaker:
    config = load_config(None, WAYS[way], {})
    maker = EntryMaker(fingerprint_settings_of(config), input_format_of(config))
    maker.fingerprinter.warm()
    return maker


def raw_records(records: Iterable[DrawnRecord], start: int) -> list[RawRecord]:
    return [RawRecord(one.key, one.value, f"t-0-{start + row}") for row, one in enumerate(records)]


def outcome_of(columns: Columns, row: int) -> str:
    """Return the kind of a text, or the reason without its numbers."""
    reason = columns.reasons[row]
    return reason_kind(reason) if reason else Status(int(columns.statuses[row])).name


def reason_kind(reason: str) -> str:
    return reason.partition(":")[0].partition(" at byte")[0]


def faults(records: Sequence[RawRecord], columns: Columns) -> Iterator[str]:
    """Yield what is wrong: a missing row, a reason too many or missing, an id without bound, a loss in the log."""
    if len(columns) != len(records):
        yield f"{len(columns)} entries of {len(records)} records"
        return
    for row, record in enumerate(records):
        reason, status, article_id = columns.reasons[row], int(columns.statuses[row]), columns.ids[row]
        if bool(reason) != (status == Status.REJECTED) or len(reason) > MOST_REASON_CHARACTERS:
            yield f"record {row}: status {status} with the reason {reason!r}"
        if not 0 < len(article_id.encode("utf-8", "backslashreplace")) <= MAX_ID_BYTES:
            yield f"record {row}: id {article_id!r}"
        if int(columns.checksums[row]) != checksum(record.value):
            yield f"record {row}: another checksum"
    yield from _lost_in_the_log(columns)


def _lost_in_the_log(columns: Columns) -> Iterator[str]:
    batch = make_batch(columns, TOPIC_ID, "articles", 0, range(len(columns)))
    back = decode(encode(batch))
    assert isinstance(back, Batch)
    if not _same(columns, back):
        yield "other entries after the log"


def _same(a: Columns, b: Columns) -> bool:
    numbers = ("checksums", "statuses", "scope_hashes", "signatures", "margins")
    return (
        list(a.ids) == list(b.ids)
        and list(a.reasons) == list(b.reasons)
        and all(np.array_equal(getattr(a, name), getattr(b, name)) for name in numbers)
    )


def _timed(make: EntryMaker, shard: int, chunks: Iterable[tuple[float, int, list[DrawnRecord]]]) -> Iterator[Timed]:
    """Yield the time of each record of the slowest chunks, by itself."""
    for _, start, records in chunks:
        for row, record in enumerate(raw_records(records, start)):
            begun = time.process_time()
            make([record])
            took = time.process_time() - begun
            yield Timed(took, shard, start + row, records[row].kind, len(record.value or b""))


def _changed_by_others(make: EntryMaker, chunks: Iterable[tuple[float, int, list[DrawnRecord]]]) -> Iterator[str]:
    """Yield the chunks whose entries depend on the records beside them."""
    for _, start, records in chunks:
        raw = raw_records(records, start)
        if not _same(make(raw), Columns.concat([make([one]) for one in raw])):
            yield f"records from {start} have other entries by themselves"
