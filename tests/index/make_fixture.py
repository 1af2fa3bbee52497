"""Write the fixture of the current format version: ``python -m tests.index.make_fixture``.

Run it once for each format version, with the release that has it. A fixture is never written again.

``tables`` is an index of the Python API from before it was a log: no release writes that any more. ``library.json``
holds what was added to it and what its searches found.
"""

import gzip
import json
from pathlib import Path

from stream_dedup import Index
from stream_dedup.core.entry import LogRecord, decode
from stream_dedup.index import IndexSettings, LogIndex
from stream_dedup.index.layout import INDEX_FORMAT_VERSION
from tests.logs import SCHEME
from tests.random_logs import stepwise_log

FIXTURES = Path(__file__).parent / "fixtures"
LOG = "records.json.gz"
"""The log of a fixture: (offset, log time, value in hexadecimal digits) of each record."""
SETTINGS = IndexSettings(fold_entries=100)
LIBRARY = json.loads((FIXTURES / "library.json").read_text("utf-8"))


def log_of(version: int) -> list[LogRecord]:
    """The log that the fixture of a format version was made of."""
    stored = json.loads(gzip.decompress((FIXTURES / f"v{version}" / LOG).read_bytes()))
    return [LogRecord(offset, time, decode(bytes.fromhex(raw)), bytes.fromhex(raw)) for offset, time, raw in stored]


def new_log() -> list[LogRecord]:
    """Every kind of record, copies, a long posting list, a trim."""
    writer = stepwise_log(21, centres=2, most_rows=30)
    writer.append_rules(window_ms=40_000)
    for _ in range(40):
        writer.append_batch(copies=False)
    before = writer.append_rules(window_ms=40_000)
    for _ in range(100):
        writer.append_batch(copies=False)
    writer.append_trim(before, writer.time - 60_000)
    for _ in range(20):
        writer.append_batch()
    writer.append_rules(revision=2, distance=7)
    return writer.records


def add_library(index: Index) -> None:
    """Add the articles of the fixture."""
    for article in LIBRARY["added"]:
        index.add(*article)


def check_library(index: Index) -> None:
    """An index of the fixture's articles has as many as were kept, and its searches find what they found."""
    assert len(index) == LIBRARY["articles"]
    for arguments, expected in LIBRARY["searches"]:
        assert [list(found) for found in index.search(*arguments)] == expected


def main() -> None:
    folder = FIXTURES / f"v{INDEX_FORMAT_VERSION}"
    index = LogIndex.open(folder / "log", scheme=SCHEME, settings=SETTINGS)
    index.begin("a log")
    records = new_log()
    stored = [(each.offset, each.time, each.raw.hex()) for each in records]
    (folder / LOG).write_bytes(gzip.compress(json.dumps(stored).encode(), mtime=0))
    index.apply(records)
    index.finish_trim()
    index.close()
    with Index(folder / "library") as library:
        add_library(library)
    # RocksDB's diary, its empty write-ahead log and the locks are no part of the format.
    for name in ("LOG*", "*.log", "LOCK", "owner"):
        for file in folder.rglob(name):
            file.unlink()


if __name__ == "__main__":
    main()
