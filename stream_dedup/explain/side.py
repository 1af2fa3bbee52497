"""One of the two articles that an explanation is about: made of its texts, or found in an index by its id.

The index has no order by id, so log records are read, newest first, until one has the id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stream_dedup.core.arrays import U8
from stream_dedup.core.entry import Batch
from stream_dedup.core.fingerprinter import Explained, Feature, Fingerprinter
from stream_dedup.core.model import LogOffset, LogPosition, Status, log_position, scope_hash_of, signed
from stream_dedup.core.probes import pack_margins, unpack_margins
from stream_dedup.core.scheme import FingerprintSettings
from stream_dedup.errors import RefusedError, UserError

if TYPE_CHECKING:  # loads RocksDB
    from stream_dedup.index import LogIndex


_IDF_UNIT = 64
"""Weights by IDF are whole numbers of this unit."""


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One of the two articles.

    An entry from an index has no ``text``, ``normalised``, ``features`` and ``sums``, because the index keeps no
    bodies. Weights are whole numbers; divided by ``unit`` they are shown to people. ``margins`` are packed as in a
    log entry.
    """

    name: str
    status: Status
    scope_hash: int
    signature: bytes
    margins: U8
    scope: str | None = None
    sketch: bytes = b""
    text: str | None = None
    normalised: str | None = None
    features: tuple[Feature, ...] | None = None
    sums: tuple[int, ...] | None = None
    unit: int = 1
    id: str | None = None
    """The article id; None where none is given."""
    withdrawn_at: LogOffset | None = None
    """Log offset of the withdrawal of an entry from an index, None of one that matches."""

    @property
    def bits(self) -> tuple[int, ...]:
        """The signature's bits."""
        return tuple(np.unpackbits(np.frombuffer(self.signature, np.uint8)).tolist())

    @property
    def bit_margins(self) -> tuple[int, ...]:
        """The margin of each bit of the blocks."""
        return tuple(unpack_margins(self.margins).tolist())


def side_of(
    name: str, text: str | None, made: Explained, settings: FingerprintSettings, scope: str | None = None
) -> Side:
    """Return a text that was fingerprinted with these settings as a side."""
    treatment = {Status.LONG: settings.long, Status.SHORT: settings.short}.get(made.status)
    is_tfidf = treatment is not None and treatment.features.weights == "tfidf"
    has_signature = bool(signed(np.array([made.status], np.uint8))[0])
    return Side(
        name=name,
        status=made.status,
        scope_hash=scope_hash_of(made.status, scope) if has_signature else 0,
        signature=made.signature,
        margins=pack_margins(made.margins),
        sketch=made.sketch,
        scope=scope,
        text=text,
        normalised=made.text,
        features=made.features,
        sums=tuple(made.sums.tolist()),
        unit=_IDF_UNIT if is_tfidf else 1,
    )


def side_of_texts(maker: Fingerprinter, name: str, texts: str | tuple[str, ...], scope: str | None = None) -> Side:
    """Fingerprint a text, or the texts of an article's fields, as a side."""
    shown = texts if isinstance(texts, str) else "\n".join(texts)
    return side_of(name, shown, maker.features(texts), maker.settings, scope)


def kind(side: Side) -> str:
    """Return the kind of a text in words."""
    words = {
        Status.LONG: "a long text",
        Status.SHORT: "a short text",
        Status.EXACT: "a text so short that its exact form decides",
        Status.FEATURELESS: "a text without words",
        Status.REJECTED: "unreadable",
        Status.DELETE: "without a text",
    }
    return words[side.status]


def side_of_id(index: LogIndex, article_id: str, where: object) -> Side:
    """Return the newest entry with this id; a copy of a logged article is none.

    Raises:
        UserError: the index has no such entry.
    """
    for offset in reversed(range(index.low_watermark, index.next_offset)):
        batch = _batch(index, LogOffset(offset))
        row = None if batch is None else _row_of(index, LogOffset(offset), batch, article_id)
        if row is not None:
            return side_at(index, log_position(offset, row))
    raise UserError(
        f"index {where}: no article has the id {article_id}; give an id as `filter` or the worker's output names it"
    )


def _batch(index: LogIndex, offset: LogOffset) -> Batch | None:
    """Return the batch at a log offset, or None if there is none with original entries."""
    try:
        payload = index.entry(log_position(offset, 0))[0].payload
    except RefusedError:
        return None
    return payload if isinstance(payload, Batch) else None


def _row_of(index: LogIndex, offset: LogOffset, batch: Batch, article_id: str) -> int | None:
    """Return the last signed original with this id, or None."""
    # Most records lack the id: a search through all their ids at once is fast.
    if article_id.encode("utf-8", "surrogatepass") not in batch.ids.joined:
        return None
    rows = np.flatnonzero(index.numbered(offset)).tolist()
    return next((row for row in reversed(rows) if batch.id(row) == article_id), None)


def side_at(index: LogIndex, position: LogPosition) -> Side:
    """Return the entry at a log position; RefusedError where the index does not hold it."""
    record, row = index.entry(position)
    batch = record.payload
    assert isinstance(batch, Batch)  # noqa: S101 - an entry is one of a batch
    return Side(
        name=batch.id(row),
        status=Status(batch.statuses[row]),
        scope_hash=int(batch.scope_hashes[row]),
        signature=batch.signatures[row].tobytes(),
        margins=batch.margins[row],
        sketch=batch.sketches[row].tobytes(),
        id=batch.id(row),
        withdrawn_at=index.withdrawn_at(position),
    )
