"""Write the fixture of the current format version: ``python -m tests.index.make_fixture``.

To be run once for each format version, by the release that has it. A fixture is never written again.
"""

from pathlib import Path

import numpy as np

from stream_dedup.index import IndexSettings, LogIndex, TableIndex
from stream_dedup.index.layout import FORMAT_VERSION
from stream_dedup.index.table_index import signatures_of
from tests.index.logs import SCHEME, LogWriter

FIXTURES = Path(__file__).parent / "fixtures"
SETTINGS = IndexSettings(fold_entries=100)
SIGNATURES = signatures_of(np.arange(50, dtype=np.uint64) * np.uint64(0x0101_0101_0101_0101))


def the_log() -> LogWriter:
    """Every kind of record, copies, a long list, a trim."""
    writer = LogWriter(21, centres=2, most_bits=2, most_rows=30)
    writer.rules(window_ms=40_000)
    for _ in range(40):
        writer.batch(copies=False)
    before = writer.rules(window_ms=40_000)
    for _ in range(100):
        writer.batch(copies=False)
    writer.trim(before, writer.time - 60_000)
    for _ in range(20):
        writer.batch()
    writer.rules(revision=2, distance=7)
    return writer


def main() -> None:
    folder = FIXTURES / f"v{FORMAT_VERSION}"
    index = LogIndex.open(folder / "log", scheme=SCHEME, settings=SETTINGS)
    index.begin("a log")
    index.apply(the_log().records)
    index.finish_trim()
    index.close()
    tables = TableIndex(folder / "tables", settings=SETTINGS)
    tables.add(SIGNATURES, np.zeros(50, np.uint64), [f"label {number}" for number in range(50)])
    tables.close()
    # RocksDB's diary, its empty write-ahead log and the locks are no part of the format.
    for name in ("LOG*", "*.log", "LOCK", "owner"):
        for file in folder.rglob(name):
            file.unlink()


if __name__ == "__main__":
    main()
