"""Logs that earlier versions of the program wrote are read for ever, to the same verdicts.

``logs/format-N.json.gz`` holds a log whose newest records are of format N: offset, log time and value of each record,
and what the reference of that release said of it; ``logs/archives.json.gz`` one of format 3 with withdrawals and seeded
batches, ``logs/sketches.json.gz`` one of format 4 with sketches, bounds and copies.
``python -m tests.core.test_kept_logs NAME SEED`` writes a new one; a log that is kept is never written again.
"""

from __future__ import annotations

import gzip
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stream_dedup.audit.reference import PlainLog, plain_log
from stream_dedup.core.entry import FORMAT_VERSIONS, Batch, LogRecord, Trim, Withdrawal, decode, encode
from stream_dedup.core.rules import Rules
from tests.core.old_batches import as_before_4
from tests.random_logs import random_log

LOGS = Path(__file__).parent / "logs"
ARCHIVES = "archives"
SKETCHES = "sketches"


def said_of(log: PlainLog) -> dict[str, Any]:
    """What the reference says of a log: verdict and match of each article, and what is covered and forgotten."""
    return {
        "verdicts": [[judged.verdict, judged.match and judged.match.position] for _, judged in log.judgements()],
        "low_watermark": log.low_watermark,
        "forgotten": [[source[0].hex(), source[1], before] for source, before in sorted(log.logged.forgotten.items())],
    }


def read(name: str) -> tuple[list[LogRecord], dict[str, Any]]:
    kept = json.loads(gzip.decompress((LOGS / f"{name}.json.gz").read_bytes()))
    raws = [(offset, time, bytes.fromhex(raw)) for offset, time, raw in kept["records"]]
    return [LogRecord(offset, time, decode(raw), raw) for offset, time, raw in raws], kept["said"]


@pytest.mark.parametrize("name", [*(f"format-{version}" for version in FORMAT_VERSIONS), ARCHIVES, SKETCHES])
def test_a_kept_log_is_read_to_the_same_verdicts(name: str) -> None:
    """Every record decodes, encodes to the bytes that it had in its format, and means what it meant."""
    records, said = read(name)
    assert [_encoded(record) for record in records] == [record.raw for record in records]
    assert json.loads(json.dumps(said_of(plain_log(records)))) == said


def _encoded(record: LogRecord) -> bytes:
    """The bytes of a record's payload in the record's own format."""
    if isinstance(record.payload, Batch) and record.raw[0] < FORMAT_VERSIONS[-1]:
        return as_before_4(record.payload)
    return encode(record.payload)


@pytest.mark.parametrize("version", FORMAT_VERSIONS)
def test_a_log_of_each_format_is_kept(version: int) -> None:
    """The newest records of a log are of the format that its name says."""
    assert max(record.raw[0] for record in read(f"format-{version}")[0]) == version


def test_a_log_of_each_kind_is_kept() -> None:
    """Withdrawals, seeded batches, and trims among them."""
    payloads = [record.payload for record in read(ARCHIVES)[0]]
    assert {type(payload) for payload in payloads} == {Batch, Rules, Trim, Withdrawal}
    assert any(isinstance(payload, Batch) and payload.seeded for payload in payloads)


def test_a_log_with_sketches_is_kept() -> None:
    """Its rules ask for equal values, for long and for short text, and some of its verdicts hang on them."""
    records, said = read(SKETCHES)
    rules = [record.payload for record in records if isinstance(record.payload, Rules)]
    assert all(any(getattr(each, name) for each in rules) for name in ("min_equal", "short_min_equal", "candidates"))
    lax = [replace(one, min_equal=None, short_min_equal=None) for one in rules]
    changed = dict(zip(rules, lax, strict=True))
    without = [
        record._replace(payload=changed[record.payload]) if isinstance(record.payload, Rules) else record
        for record in records
    ]
    assert said_of(plain_log(without))["verdicts"] != said["verdicts"]


def main(name: str, seed: int) -> None:
    """Write a log."""
    records = random_log(seed)
    said = said_of(plain_log(records))
    kept = {"records": [(each.offset, int(each.time), each.raw.hex()) for each in records], "said": said}
    file = LOGS / f"{name}.json.gz"
    file.write_bytes(gzip.compress(json.dumps(kept).encode(), mtime=0))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
