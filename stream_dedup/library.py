"""The index behind ``stream_dedup.Index``: the articles that a program adds are a log, which is in the index alone.

Each portion of added articles is one batch of that log: its source offsets follow those before it, log times are 0. The
log begins with a rules record because every log does; each search states its own rules, so the record only carries the
scheme.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from stream_dedup.core.arrays import U8, U64
from stream_dedup.core.columns import Columns
from stream_dedup.core.entry import LogRecord, Payload, encode, make_batch
from stream_dedup.core.fingerprint.fingerprinter import Fingerprints
from stream_dedup.core.logged_scheme import Scheme
from stream_dedup.core.model import LIBRARY_LOG_PREFIX, SIGNATURE_BYTES
from stream_dedup.core.rules import DIRECTED, Rules
from stream_dedup.errors import UserError
from stream_dedup.index import IndexSettings, LogIndex
from stream_dedup.index.layout import RowArray

PORTION = 512
"""Articles of one batch: a search reads a whole batch for the id of a match."""

_TOPIC_ID, _TOPIC = bytes(16), "library"
_ESCAPE = "\0"
"""Begins an id that is not stored as it is, but as the hexadecimal digits of its bytes."""


def open_library(path: Path, scheme: Scheme, settings: IndexSettings | None = None) -> LogIndex:
    """Open the index in a folder, or make one.

    Raises:
        UserError: another process has it open, it is of another format or scheme, or it is no index of this API.
        CorruptError: it is damaged.
        UnavailableError: the disk is full or failing.
    """
    index = LogIndex.open(path, scheme=scheme, settings=settings)
    try:
        _begin(index, path, scheme)
    except BaseException:
        index.close()
        raise
    return index


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
    first = index.partitions().get((_TOPIC_ID, 0), -1) + 1
    return [_next_record(index, make_batch(columns, _TOPIC_ID, _TOPIC, 0, np.arange(first, first + len(ids))))]


def article_ids(index: LogIndex, rows: RowArray) -> list[str]:
    """Return the article id of each row. Batches are read in order of the log, each once, and not held."""
    ids = [""] * len(rows)
    positions = rows["position"].tolist()
    for at in np.argsort(rows["position"]).tolist():
        ids[at] = _read_id(index.id_of(positions[at]))
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
        rules = Rules(scheme, search=DIRECTED, distance=None, probes=1, limit=0, short_limit=0)
        index.apply([_next_record(index, rules)])


def _next_record(index: LogIndex, payload: Payload) -> LogRecord:
    return LogRecord(index.next_offset, 0, payload, encode(payload))


def _stored_id(article_id: str) -> str:
    """Return an id as the log holds it, in UTF-8; one given to the API may hold half a surrogate pair."""
    raw = article_id.encode("utf-8", "surrogatepass")
    escaped = article_id.startswith(_ESCAPE) or raw != article_id.encode("utf-8", "replace")
    return _ESCAPE + raw.hex() if escaped else article_id


def _read_id(stored: str) -> str:
    """Return the id that was given to the API."""
    if stored.startswith(_ESCAPE):
        return bytes.fromhex(stored[len(_ESCAPE) :]).decode("utf-8", "surrogatepass")
    return stored
