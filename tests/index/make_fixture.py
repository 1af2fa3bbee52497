"""Write the fixture of the format: ``python -m tests.index.make_fixture``, once for each format version.

``log`` is an index of a log whose entries have no sketches, ``sketches`` of one whose entries have them; beside each is
the log that it was made of. ``library`` is an index of the Python API, of what ``library.json`` says; ``found.json``
has what its searches found, and the entries and rules that were searched: a later version may make others of a text.
"""

import gzip
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from stream_dedup import Index
from stream_dedup.api import _article, article_ids, open_library
from stream_dedup.core.entry import LogRecord, decode, encode
from stream_dedup.core.fingerprinter import Fingerprints
from stream_dedup.core.model import FINGERPRINT_BITS, SIGNATURE_BITS, similarity
from stream_dedup.core.probes import words
from stream_dedup.core.rules import DIRECTED, EXACT, Rules
from stream_dedup.index import IndexSettings, LogIndex
from stream_dedup.index.layout import INDEX_FORMAT_VERSION
from tests.index.checks import finish_deleting
from tests.logs import SCHEME, scheme_of
from tests.random_logs import stepwise_log

FIXTURES = Path(__file__).parent / "fixtures"
FIXTURE = FIXTURES / f"v{INDEX_FORMAT_VERSION}"
LOGS = {"log": "records.json.gz", "sketches": "sketches.json.gz"}
"""Indexes of a fixture, and their logs: (offset, log time, value in hexadecimal digits) of each record."""
SKETCH_BYTES = 16
SCHEMES = {"log": SCHEME, "sketches": scheme_of(4, SKETCH_BYTES)}
SETTINGS = IndexSettings(fold_entries=100)
LIBRARY = json.loads((FIXTURES / "library.json").read_text("utf-8"))
FOUND = "found.json"
COLUMNS = ("signatures", "margins", "statuses", "sketches")
"""Columns of ``Fingerprints``, in their order."""


def log_of(name: str) -> list[LogRecord]:
    """The log that an index of the fixture was made of."""
    stored = json.loads(gzip.decompress((FIXTURE / LOGS[name]).read_bytes()))
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


def search_of(library: Index, content: str | int, scope: str | None) -> dict[str, Any]:
    """A search, as the fixture holds it, and what it finds."""
    made = library._made([_article("", content, scope)])
    columns = {name: column.tobytes().hex() for name, column in zip(COLUMNS, made.fingerprints, strict=True)}
    rules = library._rules(isinstance(content, int), None, None, None)
    found = [list(one) for one in library.search(content, scope)]
    return {"rules": encode(rules).hex(), "scope_hashes": made.scope_hashes.tolist(), **columns, "found": found}


def check_library(path: Path) -> None:
    """A copy of the fixture's index has as many articles as were kept, and its searches find what they found."""
    searches = json.loads((FIXTURE / FOUND).read_text("utf-8"))
    with closing(open_library(path, rules_of(searches[0]).scheme)) as index:
        assert index.state.next_doc_number == LIBRARY["articles"]
        for search in searches:
            assert found_by(index, search) == search["found"]
        assert index.verify() == []


def rules_of(search: dict[str, Any]) -> Rules:
    """The rules of a search of the fixture."""
    rules = decode(bytes.fromhex(search["rules"]))
    assert isinstance(rules, Rules)
    return rules


def found_by(index: LogIndex, search: dict[str, Any]) -> list[list[object]]:
    """Ids, distances and similarities of what a search of the fixture finds."""
    scope_hashes, rules = np.array(search["scope_hashes"], np.uint64), rules_of(search)
    columns = {name: np.frombuffer(bytes.fromhex(search[name]), np.uint8) for name in COLUMNS}
    shaped = (columns[name] if name == "statuses" else columns[name].reshape(len(scope_hashes), -1) for name in COLUMNS)
    made = Fingerprints(*shaped)
    near = index.near(made, scope_hashes, rules)
    rows = index.rows(near.doc_numbers)
    apart = np.bitwise_count(words(made.signatures) ^ rows["signature"]).sum(axis=1).tolist()
    width = FINGERPRINT_BITS if rules.search == EXACT else SIGNATURE_BITS  # a number has no more than a fingerprint
    likeness = [similarity(bits, width) for bits in apart]
    return [list(one) for one in zip(article_ids(index, rows), near.distances.tolist(), likeness, strict=True)]


def main() -> None:
    FIXTURE.mkdir()
    for name, records in (("log", new_log()), ("sketches", new_sketched_log())):
        write_log(FIXTURE, name, records)
    with Index(FIXTURE / "library") as library:
        for article in LIBRARY["added"]:
            library.add(*article)
        found = [search_of(library, *search) for search in LIBRARY["searches"]]
    (FIXTURE / FOUND).write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    # RocksDB's diary, its empty write-ahead log and the locks are no part of the format.
    for name in ("LOG*", "*.log", "LOCK"):
        for file in FIXTURE.rglob(name):
            file.unlink()


def write_log(folder: Path, name: str, records: list[LogRecord]) -> None:
    """Write a log, and the index of it."""
    stored = [(each.offset, each.time, each.raw.hex()) for each in records]
    (folder / LOGS[name]).write_bytes(gzip.compress(json.dumps(stored).encode(), mtime=0))
    index = LogIndex.open(folder / name, scheme=SCHEMES[name], settings=SETTINGS)
    index.begin("a log")
    index.apply(records)
    finish_deleting(index)
    index.close()


if __name__ == "__main__":
    main()
