"""Write the fixture of the current format version: ``python -m tests.index.make_fixture``.

Run it once for each format version, with the release that has it. A fixture is never written again: what is there is
left as it is.

``log`` is an index of a log whose entries have no sketches, ``sketches`` of one whose entries have them; beside each is
the log that it was made of.

``tables`` is an index of the Python API from before it was a log: no release writes that any more. ``library.json``
holds what was added to it and what its searches found. Its scheme is version 1 of ``article``, whose fingerprints no
release after it makes: ``library_queries.json`` holds those of the texts that are searched.
"""

import gzip
import json
from pathlib import Path

import numpy as np

from stream_dedup import Index
from stream_dedup.core.entry import LogRecord, decode
from stream_dedup.core.fingerprint.fingerprinter import Fingerprints
from stream_dedup.core.fingerprint.simhash import similarity
from stream_dedup.core.logged_scheme import Scheme
from stream_dedup.core.model import FINGERPRINT_BITS, SIGNATURE_BITS, Status, group_of
from stream_dedup.core.probes import words
from stream_dedup.core.rules import CLASSIC_DISTANCE, DIRECTED, EXACT, Rules
from stream_dedup.index import IndexSettings, LogIndex
from stream_dedup.index.layout import INDEX_FORMAT_VERSION
from stream_dedup.index.library import article_ids, open_library, signatures_of
from tests.logs import SCHEME, scheme_of
from tests.random_logs import stepwise_log

FIXTURES = Path(__file__).parent / "fixtures"
LOGS = {"log": "records.json.gz", "sketches": "sketches.json.gz"}
"""Indexes of a fixture, and their logs: (offset, log time, value in hexadecimal digits) of each record."""
SKETCH_BYTES = 16
SCHEMES = {"log": SCHEME, "sketches": scheme_of(4, SKETCH_BYTES)}
SETTINGS = IndexSettings(fold_entries=100)
LIBRARY = json.loads((FIXTURES / "library.json").read_text("utf-8"))
QUERIES = json.loads((FIXTURES / "library_queries.json").read_text("utf-8"))
OLD_SCHEME = Scheme(*QUERIES["scheme"])


def log_of(version: str, name: str) -> list[LogRecord]:
    """The log that an index of the fixture of a format version was made of."""
    stored = json.loads(gzip.decompress((FIXTURES / version / LOGS[name]).read_bytes()))
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


def new_sketched_log() -> list[LogRecord]:
    """Rules that compare sketches, then ones that bound the candidates and count copies too; copies, withdrawals."""
    writer = stepwise_log(22, tables=4, sketch_bytes=SKETCH_BYTES, centres=2)
    search = {"search": DIRECTED, "distance": None, "probes": 64, "limit": 40, "short_limit": 20}
    check = {"min_equal": 16, "short_min_equal": 8, "certain": 4}
    for rules in (search | check, search | check | {"revision": 2, "candidates": 20, "copies": 2}):
        writer.append_rules(**rules)
        for _ in range(30):
            writer.append_batch()
        writer.append_withdrawal()
    return writer.records


def open_old(path: Path) -> LogIndex:
    """Open an index of the fixture's articles, which may have to be converted."""
    return open_library(path, OLD_SCHEME)


def check_library(index: LogIndex) -> None:
    """An index of the fixture's articles has as many as were kept, and its searches find what they found."""
    assert index.next_doc_number == LIBRARY["articles"]
    for ((content, scope), expected), query in zip(LIBRARY["searches"], QUERIES["queries"], strict=True):
        found = _found(index, content, scope) if query is None else _near(index, *query)
        assert [list(one) for one in found] == expected


def _found(index: LogIndex, fingerprint: int, scope: str | None) -> list[tuple[str, int, float]]:
    """Search a fingerprint, exactly."""
    whole = signatures_of(np.array([fingerprint], np.uint64))[0].tobytes().hex()
    rules = Rules(OLD_SCHEME, search=EXACT, distance=CLASSIC_DISTANCE)
    return _searched(index, Status.LONG, group_of(Status.LONG, scope), whole, "00" * 32, rules)


def _near(index: LogIndex, status: int, group: str, signature: str, margins: str) -> list[tuple[str, int, float]]:
    """Search an entry, directed by its margins."""
    limits = {"probes": QUERIES["probes"], "limit": QUERIES["limit"], "short_limit": QUERIES["limit"]}
    rules = Rules(OLD_SCHEME, search=DIRECTED, distance=None, **limits)
    return _searched(index, Status(status), int(group, 16), signature, margins, rules)


def _searched(
    index: LogIndex, status: Status, group: int, signature: str, margins: str, rules: Rules
) -> list[tuple[str, int, float]]:
    own = np.frombuffer(bytes.fromhex(signature), np.uint8)[np.newaxis]
    made = Fingerprints(
        own,
        np.frombuffer(bytes.fromhex(margins), np.uint8)[np.newaxis],
        np.array([status], np.uint8),
        np.zeros((1, 0), np.uint8),
    )
    near = index.near(made, np.array([group], np.uint64), rules)
    rows = index.rows(near.doc_numbers)
    apart = np.bitwise_count(words(own) ^ rows["signature"]).sum(axis=1).tolist()
    width = FINGERPRINT_BITS if rules.search == EXACT else SIGNATURE_BITS  # a number has no more than a fingerprint
    likeness = [similarity(bits, width) for bits in apart]
    return list(zip(article_ids(index, rows), near.distances.tolist(), likeness, strict=True))


def main() -> None:
    folder = FIXTURES / f"v{INDEX_FORMAT_VERSION}"
    for name, records in (("log", new_log()), ("sketches", new_sketched_log())):
        if not (folder / name).exists():
            write_log(folder, name, records)
    if not (folder / "library").exists():
        with Index(folder / "library") as library:
            for article in LIBRARY["added"]:
                library.add(*article)
    # RocksDB's diary, its empty write-ahead log and the locks are no part of the format.
    for name in ("LOG*", "*.log", "LOCK", "owner"):
        for file in folder.rglob(name):
            file.unlink()


def write_log(folder: Path, name: str, records: list[LogRecord]) -> None:
    """Write a log, and the index of it."""
    stored = [(each.offset, each.time, each.raw.hex()) for each in records]
    (folder / LOGS[name]).write_bytes(gzip.compress(json.dumps(stored).encode(), mtime=0))
    index = LogIndex.open(folder / name, scheme=SCHEMES[name], settings=SETTINGS)
    index.begin("a log")
    index.apply(records)
    index.finish_trim()
    index.close()


if __name__ == "__main__":
    main()
