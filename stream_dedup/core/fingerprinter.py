"""Signatures and margins of texts, and the columns of records, as arrays: a batch at a time, by the native core.

A fingerprinter may be used by several threads at the same time, as its reader may.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self, cast

import numpy as np
import xxhash

from stream_dedup import _native
from stream_dedup.core.arrays import I64, U8
from stream_dedup.core.columns import Columns, Texts
from stream_dedup.core.decode import InputFormat, RawLines, RawRecord, key_id, native_format, reason_text
from stream_dedup.core.model import SIGNATURE_BYTES, Status, Widths
from stream_dedup.core.probes import unpack_margins
from stream_dedup.core.reader import Readings, SchemeReader, Text
from stream_dedup.core.scheme import FingerprintSettings


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature of a text."""

    name: str
    """The feature as text, with tokens by their names."""
    count: int
    """Occurrences in the text, multiplied by the weights of fields and key sentences."""
    weight: int
    hash: bytes
    """256 bits, bit 0 the high bit of byte 0."""


class Fingerprints(NamedTuple):
    """Fingerprints of n texts, one row for each."""

    signatures: U8
    """Shape (n, 32), bit 0 the high bit of byte 0; zero without features."""
    margins: U8
    """Shape (n, 8 x tables), two margins in a byte, for the bits of the table keys; zero without features."""
    statuses: U8
    """``model.Status`` of each text: LONG, SHORT, EXACT or FEATURELESS."""
    sketches: U8
    """Shape (n, bytes of the scheme's sketches); zero without features."""

    @classmethod
    def of(cls, made: Readings, widths: Widths) -> Self:
        """Return the same as arrays; ``widths`` are those of the scheme."""
        signatures, margins, sketches = _in_rows(len(made.statuses), made[1:], widths)
        return cls(signatures, margins, np.frombuffer(made.statuses, np.uint8), sketches)


class Explained(NamedTuple):
    """One text and every value that its entry is made from."""

    status: Status
    text: str
    """The normalised text; of short text the characters that count."""
    features: tuple[Feature, ...]
    """Heaviest first; an exact text is one feature."""
    sums: I64
    """256 sums, whole numbers."""
    signature: bytes
    margins: U8
    """One for each bit that the tables are keyed by, 0 to 15."""
    sketch: bytes
    """Empty if the scheme has none."""
    frame: str
    """Words of grammar of the text's form, separated by spaces; empty if the text or the scheme has no form."""
    numbers: str
    """Digits of the text's form."""


class Fingerprinter(SchemeReader):
    """Computes statuses, signatures and margins of texts under one scheme, as arrays."""

    def fingerprint(self, texts: Sequence[Text]) -> Fingerprints:
        """Return signatures, margins and statuses; those of a text depend on this text alone.

        Raises:
            UserError: as ``warm``.
            ValueError: a text has not as many fields as the settings.
            PanicError: the native core panicked at a text, which it names.
        """
        return Fingerprints.of(self.read(texts), self.settings.widths)

    def features(self, text: Text) -> Explained:
        """Return one text with every value that its entry is made from.

        Raises:
            UserError: as ``warm``.
            ValueError: as ``fingerprint``.
        """
        return _explained(self.native.explain(self.fields(text)))

    def features_of(self, counts: Mapping[str, int], status: Status = Status.LONG) -> Explained:
        """Return the same for a text whose features the caller counted.

        Raises:
            UserError: as ``warm``.
        """
        made = _explained(self.native.weigh(list(counts.items()), status is Status.LONG))
        return made._replace(text=" ".join(counts))


class EntryMaker:
    """Makes log entries from records. Several threads may call it at the same time."""

    def __init__(self, settings: FingerprintSettings | None = None, fmt: InputFormat | None = None) -> None:
        """Load nothing yet: a user's words are loaded with the first records, or by the fingerprinter's ``warm``."""
        self.fingerprinter = Fingerprinter(settings)
        """What reads the texts."""
        self._format = fmt or InputFormat()

    def __call__(self, records: Sequence[RawRecord]) -> Columns:
        """Make the entries of these records; an entry depends on its own record alone.

        Raises:
            UserError: a file of words cannot be read. No record raises.
            ValueError: articles have not as many fields as the settings.
        """
        return self._columns(
            self._reader.entries(native_format(self._format), self.fingerprinter.settings.html, records)
        )

    def of_lines(self, lines: Sequence[bytes]) -> Columns:
        """Make the entries of ``RawLines``; raises as a call."""
        some, html = cast("RawLines", lines), self.fingerprinter.settings.html
        return self._columns(
            self._reader.line_entries(native_format(self._format), html, some.lines, some.name, some.numbers)
        )

    @property
    def _reader(self) -> _native.TextReader:
        """The native core's reader; ValueError where articles have not as many fields as the settings."""
        self.fingerprinter.check_fields(1 if self._format.kind == "text" else len(self._format.text_fields))
        return self.fingerprinter.native

    def _columns(self, made: _native.Entries) -> Columns:
        checksums, statuses, scope_hashes, columns, id_sizes, ids, rejected = made
        signatures, margins, sketches = _in_rows(len(statuses), columns, self.fingerprinter.settings.widths)
        none = Texts(np.zeros(len(statuses), np.uint32), b"")
        reasons = {row: reason_text(reason) for row, reason in rejected}
        return Columns(
            checksums=np.frombuffer(checksums, "<u8"),
            statuses=np.frombuffer(statuses, np.uint8),
            scope_hashes=np.frombuffer(scope_hashes, "<u8"),
            signatures=signatures,
            margins=margins,
            sketches=sketches,
            ids=Texts(np.cumsum(np.frombuffer(id_sizes, "<u4"), dtype=np.uint32), ids),
            reasons=none.changed(reasons) if reasons else none,
        )


def checksum(value: bytes | None) -> int:
    """Return XXH3-64 of a record's value; 0 for a tombstone."""
    return 0 if value is None else xxhash.xxh3_64_intdigest(value)


def rejected_columns(record: RawRecord, fmt: InputFormat, reason: str, widths: Widths) -> Columns:
    """Make a rejected entry for a record without reading its value, under a scheme of these widths."""
    return replace(
        Columns.blank(1, widths),
        checksums=np.array([checksum(record.value)], np.uint64),
        ids=Texts.of([key_id(record, fmt)]),
        reasons=Texts.of([reason]),
    )


def _in_rows(rows: int, columns: Sequence[bytes], scheme: Widths) -> tuple[U8, U8, U8]:
    """Return signatures, margins and sketches, a row for each text."""
    widths = (SIGNATURE_BYTES, scheme.margin_bytes, scheme.sketch_bytes)
    signatures, margins, sketches = (
        np.frombuffer(column, np.uint8).reshape(rows, width) for column, width in zip(columns, widths, strict=True)
    )
    return signatures, margins, sketches


def _explained(told: _native.Explained) -> Explained:
    (status, text, features, sums), (signature, margins, sketch), (frame, numbers) = told
    return Explained(
        Status(status),
        text,
        tuple(Feature(*feature) for feature in features),
        np.array(sums, np.int64),
        signature,
        unpack_margins(np.frombuffer(margins, np.uint8)),
        sketch,
        frame,
        numbers,
    )
