"""What is kept of some logs is read to the same verdicts.

``logs/NAME.json.gz`` holds a log: offset, log time and value of each record, and what the reference said of it. Logs
with withdrawals and seeded batches, with sketches, bounds and copies, and with trims are among them. For a new format
of the log ``python -m tests.core.test_kept_logs`` makes them anew.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stream_dedup.audit.reference import PlainLog, plain_log
from stream_dedup.core.entry import LOG_FORMAT_VERSION, Batch, LogRecord, Trim, Withdrawal, decode, encode
from stream_dedup.core.rules import Rules
from tests.random_logs import random_log

LOGS = Path(__file__).parent / "logs"
ARCHIVES, SKETCHES, TRIMS = "archives", "sketches", "trims"
SEEDS = {ARCHIVES: 21, SKETCHES: 9, TRIMS: 20}
"""The seed of each log."""


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


@pytest.mark.parametrize("name", SEEDS)
def test_a_kept_log_is_read_to_the_same_verdicts(name: str) -> None:
    """Every record decodes, encodes to the bytes that it had, and means what it meant."""
    records, said = read(name)
    assert {record.raw[0] for record in records} == {LOG_FORMAT_VERSION}
    assert [encode(record.payload) for record in records] == [record.raw for record in records]
    assert json.loads(json.dumps(said_of(plain_log(records)))) == said


def test_a_log_of_each_kind_is_kept() -> None:
    """Withdrawals, seeded batches, and trims among them."""
    payloads = [record.payload for record in read(ARCHIVES)[0]]
    assert {type(payload) for payload in payloads} == {Batch, Rules, Trim, Withdrawal}
    assert any(isinstance(payload, Batch) and payload.seeded for payload in payloads)


def test_a_log_that_forgets_is_kept() -> None:
    """Some of its trims are valid."""
    said = read(TRIMS)[1]
    assert said["low_watermark"] > 0
    assert said["forgotten"]


@pytest.mark.parametrize("lacking", [("min_equal", "short_min_equal"), ("dominated",)])
def test_a_log_with_sketches_is_kept(lacking: tuple[str, ...]) -> None:
    """Its rules ask for equal values, for long, short and dominated text, and some of its verdicts hang on them."""
    records, said = read(SKETCHES)
    rules = [record.payload for record in records if isinstance(record.payload, Rules)]
    assert all(
        any(getattr(each, name) for each in rules)
        for name in ("min_equal", "short_min_equal", "candidates", "dominated")
    )
    nothing: dict[str, Any] = dict.fromkeys(lacking)
    lax = [replace(one, **nothing) for one in rules]
    changed = dict(zip(rules, lax, strict=True))
    without = [
        record._replace(payload=changed[record.payload]) if isinstance(record.payload, Rules) else record
        for record in records
    ]
    assert said_of(plain_log(without))["verdicts"] != said["verdicts"]


def main() -> None:
    """Write the logs."""
    for name, seed in SEEDS.items():
        records = random_log(seed)
        kept = {
            "records": [(each.offset, int(each.time), each.raw.hex()) for each in records],
            "said": said_of(plain_log(records)),
        }
        (LOGS / f"{name}.json.gz").write_bytes(gzip.compress(json.dumps(kept).encode(), mtime=0))


if __name__ == "__main__":
    main()
