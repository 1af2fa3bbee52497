"""The index behind ``stream_dedup.Index``: the articles that a program adds are a log, which is in the index alone.

Each portion of added articles is one batch of that log: source offsets count the articles from 0, log times are 0. The
log begins with a rules record because every log does; each search states its own rules, so the record only carries the
scheme.

Releases before this one kept such an index without a log, as the kind ``tables``. It is converted when it is opened:

1. The old data are checked, and stay as they are.
2. A new data folder is filled from their rows and labels, in the same order: every article keeps its document number.
3. The new data become current and the old ones are removed, by the steps of ``folder``.

A process killed before 3 leaves the old index; the next opening converts it again.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from stream_dedup.core.arrays import U8, U64
from stream_dedup.core.columns import Columns
from stream_dedup.core.entry import LogRecord, Payload, encode, make_batch
from stream_dedup.core.fingerprint.fingerprinter import Fingerprints
from stream_dedup.core.logged_scheme import Scheme
from stream_dedup.core.model import LIBRARY_LOG_PREFIX, SIGNATURE_BYTES, DocNumber, Status, Widths
from stream_dedup.core.rules import DIRECTED, Rules
from stream_dedup.errors import UserError
from stream_dedup.index.folder import TABLES_KIND, Folder, kind_of
from stream_dedup.index.layout import RowArray, offset_key
from stream_dedup.index.log_index import LogIndex
from stream_dedup.index.row_column import RowColumn
from stream_dedup.index.settings import IndexSettings
from stream_dedup.index.state import State
from stream_dedup.index.store import Store

PORTION = 512
"""Articles of one batch: a search reads a whole batch for the id of a match."""

_TOPIC_ID, _TOPIC = bytes(16), "library"
_ESCAPE = "\0"
"""Begins an id that is not stored as it is, but as the hexadecimal digits of its bytes."""


def open_library(path: Path, scheme: Scheme, settings: IndexSettings | None = None) -> LogIndex:
    """Open the index in a folder, or make one; an index of kind ``tables`` is converted first.

    Raises:
        UserError: another process has it open, it holds another scheme, or it is no index of this API.
        CorruptError: it is damaged or of an unknown format.
        UnavailableError: the disk is full or failing.
    """
    if kind_of(path) == TABLES_KIND:
        _convert(path, scheme)
    index = LogIndex.open(path, scheme=scheme, settings=settings)
    try:
        _begin(index, path, scheme)
    except BaseException:
        index.close()
        raise
    return index


def append_articles(index: LogIndex, fingerprints: Fingerprints, groups: U64, ids: Sequence[str]) -> None:
    """Append articles with signatures as the next batch."""
    index.apply(records_of(index, fingerprints, groups, ids))


def records_of(index: LogIndex, fingerprints: Fingerprints, groups: U64, ids: Sequence[str]) -> list[LogRecord]:
    """Return the record that appends articles with signatures, no record of no articles; the index is not changed."""
    if not ids:
        return []
    columns = Columns.of(
        checksums=np.zeros(len(ids), np.uint64),
        statuses=fingerprints.statuses,
        groups=groups,
        signatures=fingerprints.signatures,
        margins=fingerprints.margins,
        ids=[_stored_id(article_id) for article_id in ids],
        sketches=fingerprints.sketches,
        reasons=[""] * len(ids),
    )
    first = index.next_doc_number
    return [_next_record(index, make_batch(columns, _TOPIC_ID, _TOPIC, 0, np.arange(first, first + len(ids))))]


def article_ids(index: LogIndex, rows: RowArray) -> list[str]:
    """Return the article id of each row. Batches are read in order of the log, each once, and not held."""
    ids = [""] * len(rows)
    positions = rows["position"].tolist()
    for at in np.argsort(rows["position"]).tolist():
        ids[at] = read_id(index.id_of(positions[at]))
    return ids


def signatures_of(fingerprints: U64) -> U8:
    """Return signatures that hold a fingerprint and nothing else, for exact search."""
    signatures = np.zeros((len(fingerprints), SIGNATURE_BYTES), np.uint8)
    signatures[:, :8] = fingerprints.astype(">u8").view(np.uint8).reshape(-1, 8)
    return signatures


def _begin(index: LogIndex, path: Path, scheme: Scheme) -> None:
    if index.log_id is None:
        index.begin(f"{LIBRARY_LOG_PREFIX}{uuid.uuid4()}")
    elif not index.log_id.startswith(LIBRARY_LOG_PREFIX):
        msg = f"index {path} belongs to a worker or to `filter`: give stream_dedup.Index a folder of its own"
        raise UserError(msg)
    if index.rules is None:
        _append(index, Rules(scheme, search=DIRECTED, distance=None, probes=1, limit=0, short_limit=0))


def _append(index: LogIndex, payload: Payload) -> None:
    index.apply([_next_record(index, payload)])


def _next_record(index: LogIndex, payload: Payload) -> LogRecord:
    return LogRecord(index.next_offset, 0, payload, encode(payload))


def _stored_id(article_id: str) -> str:
    """Return an id as the log holds it, in UTF-8; one given to the API may hold half a surrogate pair."""
    raw = article_id.encode("utf-8", "surrogatepass")
    escaped = article_id.startswith(_ESCAPE) or raw != article_id.encode("utf-8", "replace")
    return _ESCAPE + raw.hex() if escaped else article_id


def read_id(stored: str) -> str:
    """Return the id that was given to the API."""
    if stored.startswith(_ESCAPE):
        return bytes.fromhex(stored[len(_ESCAPE) :]).decode("utf-8", "surrogatepass")
    return stored


def _convert(path: Path, scheme: Scheme) -> None:
    # 1
    folder = Folder.read(path, TABLES_KIND)
    folder.release()
    with LogIndex.open(path, scheme=scheme, staged=True, emptied=True) as index:
        # Another process may have converted it before the folder was locked: then there is nothing to do.
        if kind_of(path) != TABLES_KIND or folder.current is None:
            return
        store = Store(folder.current, IndexSettings(), create=False, on_corrupt=folder.mark_corrupt, read_only=True)
        try:
            # 2
            _begin(index, path, scheme)
            for rows, labels in _portions(store, path, scheme):
                append_articles(index, _fingerprints(rows, scheme.widths), rows["group"], labels)
        finally:
            store.close()
        # 3
        index.commit()


def _portions(store: Store, path: Path, scheme: Scheme) -> Iterator[tuple[RowArray, list[str]]]:
    """Yield rows and labels of an old index, in order."""
    state = State.read(store)
    if state.log_id != scheme.id:
        msg = f"index {path} holds fingerprints of scheme {state.log_id}, not {scheme.id}: name another folder"
        raise UserError(msg)
    for first, rows in RowColumn(store, DocNumber(0), state.next_doc_number).scan(DocNumber(0)):
        for start in range(0, len(rows), PORTION):
            some = rows[start : start + PORTION]
            keys = [offset_key(b"I", first + start + number) for number in range(len(some))]
            yield some, [raw.decode("utf-8", "surrogatepass") for raw in store.get(keys)]


def _fingerprints(rows: RowArray, widths: Widths) -> Fingerprints:
    """Return what an old index knew of its articles.

    It kept neither statuses nor margins, and its schemes had no sketches. A search reads statuses and margins of the
    article searched for and neither of those found, so any signed status will do.
    """
    signatures = rows["signature"].astype(">u8").view(np.uint8).reshape(-1, SIGNATURE_BYTES)
    margins = np.zeros((len(rows), widths.margin_bytes), np.uint8)
    sketches = np.zeros((len(rows), widths.sketch_bytes), np.uint8)
    return Fingerprints(signatures, margins, np.full(len(rows), Status.LONG, np.uint8), sketches)
