"""Logs that earlier versions of the program wrote are read for ever, to the same verdicts.

``logs/format-N.json.gz`` holds a log whose newest records are of format N: offset, log time and value of each record,
and what the reference of that release said of it. ``python -m tests.core.test_kept_logs`` writes that of a new format;
a log that is kept is never written again.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from stream_dedup.audit.reference import PlainLog, plain_log
from stream_dedup.core.entry import FORMAT_VERSIONS, LogRecord, decode, encode
from tests.random_logs import random_log

LOGS = Path(__file__).parent / "logs"
SEED = 246
"""Of a random log with trims that forget, void trims and late copies."""


def said_of(log: PlainLog) -> dict[str, Any]:
    """What the reference says of a log: verdict and match of each article, and what is covered and forgotten."""
    return {
        "verdicts": [[judged.verdict, judged.match and judged.match.position] for _, judged in log.judgements()],
        "low_watermark": log.low_watermark,
        "forgotten": [[source[0].hex(), source[1], before] for source, before in sorted(log.logged.forgotten.items())],
    }


def read(version: int) -> tuple[list[LogRecord], dict[str, Any]]:
    kept = json.loads(gzip.decompress((LOGS / f"format-{version}.json.gz").read_bytes()))
    raws = [(offset, time, bytes.fromhex(raw)) for offset, time, raw in kept["records"]]
    return [LogRecord(offset, time, decode(raw), raw) for offset, time, raw in raws], kept["said"]


@pytest.mark.parametrize("version", FORMAT_VERSIONS)
def test_a_kept_log_is_read_to_the_same_verdicts(version: int) -> None:
    """Every record decodes, encodes to the same bytes, and means what it meant when it was written."""
    records, said = read(version)
    assert max(record.raw[0] for record in records) == version
    assert [encode(record.payload) for record in records] == [record.raw for record in records]
    assert json.loads(json.dumps(said_of(plain_log(records)))) == said


def main() -> None:
    """Write the log of the newest format."""
    records = random_log(SEED)
    said = said_of(plain_log(records))
    kept = {"records": [(each.offset, int(each.time), each.raw.hex()) for each in records], "said": said}
    file = LOGS / f"format-{FORMAT_VERSIONS[-1]}.json.gz"
    file.write_bytes(gzip.compress(json.dumps(kept).encode(), mtime=0))


if __name__ == "__main__":
    main()
