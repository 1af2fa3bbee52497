"""Writes what the commit stores whose code is imported: one archive for ``test_old_formats``.

Run it in a checkout of that commit: ``PYTHONPATH=. python …/tests/old_formats/make.py ARCHIVE``. The archive has an
index folder with the id of a worker, a groups store, entries in Parquet, and ``texts.json``: a log record of each kind,
and the metadata of committed offsets.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import zipfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from stream_dedup.broker.adapter.marked_sink import _STORE_ID
from stream_dedup.core.entry import Basis, Forgotten, Payload, Trim, Withdrawal, encode
from stream_dedup.core.headers import offset_metadata
from stream_dedup.core.model import LogOffset, LogPosition, SourceOffset
from stream_dedup.groups import GroupStore
from stream_dedup.index import LogIndex
from stream_dedup.seed.entry_rows import batch_of
from stream_dedup.worker.worker_id import worker_id
from tests.groups.outputs import LOG_ID, outputs_of, random_log
from tests.logs import SCHEME, TOPIC, batch, record, rules

NO_FORMAT = ("LOG*", "*.log", "LOCK", "owner")
"""RocksDB's diary, its empty write-ahead log and the locks are no part of a format."""


def main(archive: Path) -> None:
    """Write the archive."""
    with tempfile.TemporaryDirectory() as made:
        write(Path(made))
        for name in NO_FORMAT:
            for file in Path(made).rglob(name):
                file.unlink()
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
            for file in sorted(each for each in Path(made).rglob("*") if each.is_file()):
                packed.write(file, str(file.relative_to(made)))


def write(folder: Path) -> None:
    """Write what is stored into a folder."""
    forgotten = (Forgotten(TOPIC, 0, SourceOffset(1)),)
    payloads: dict[str, Payload] = {
        "rules": rules(),
        "batch": batch([0, 1], [1, 2]),
        "seeded batch": replace(batch([5], [9]), read_to=LogOffset(1), seeded=True),
        "withdrawal": Withdrawal((LogPosition(1 << 20),)),
        "trim": Trim(LogOffset(0), 7, Basis(1, LogOffset(2), forgotten)),
    }
    with LogIndex.open(folder / "index", scheme=SCHEME) as index:
        index.begin("a log")
        index.apply([record(offset, 1000 + offset, payloads[name]) for offset, name in enumerate(["rules", "batch"])])
    worker_id(folder / "index", "articles")
    with closing(GroupStore.open(folder / "groups", LOG_ID)) as store:
        store.apply(outputs_of(random_log(random.Random(4), 20)), {})
    rows = batch_of(batch([0, 1], [1, 2]), SCHEME.id)
    parquet.write_table(pa.Table.from_batches([rows]), folder / "entries.parquet")
    texts = {
        "records": {name: encode(payload).hex() for name, payload in payloads.items()},
        "scheme": [SCHEME.name, SCHEME.version, SCHEME.parameters],
        "source": offset_metadata(TOPIC),
        "mark": f"{_STORE_ID}07070707-0707-0707-0707-070707070707",
    }
    (folder / "texts.json").write_text(json.dumps(texts, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
