"""One of the two articles that an explanation is about."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_dedup.core.arrays import U8
from stream_dedup.core.fingerprint import simhash
from stream_dedup.core.fingerprint.fingerprinter import Explained, Feature, Fingerprinter
from stream_dedup.core.model import LogOffset, Status, group_of, signed
from stream_dedup.core.scheme import FingerprintSettings

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
    group: int
    signature: bytes
    margins: U8
    scope: str | None = None
    sketch: bytes = b""
    text: str | None = None
    normalised: str | None = None
    features: tuple[Feature, ...] | None = None
    sums: tuple[int, ...] | None = None
    unit: int = 1
    withdrawn_at: LogOffset | None = None
    """Log offset of the withdrawal of an entry from an index, None of one that matches."""

    @property
    def bits(self) -> tuple[int, ...]:
        """The signature's bits."""
        return tuple(np.unpackbits(np.frombuffer(self.signature, np.uint8)).tolist())

    @property
    def bit_margins(self) -> tuple[int, ...]:
        """The margin of each bit of the blocks."""
        return tuple(simhash.unpack_margins(self.margins).tolist())


def side_of(name: str, text: str | None, made: Explained, unit: int, scope: str | None = None) -> Side:
    """Return a fingerprinted text as a side; its weights divided by ``unit`` are shown to people."""
    has = bool(signed(np.array([made.status], np.uint8))[0])
    return Side(
        name=name,
        status=made.status,
        group=group_of(made.status, scope) if has else 0,
        signature=made.signature,
        margins=simhash.pack_margins(made.margins),
        sketch=made.sketch,
        scope=scope,
        text=text,
        normalised=made.text,
        features=made.features,
        sums=tuple(made.sums.tolist()),
        unit=unit,
    )


def side_of_texts(maker: Fingerprinter, name: str, texts: str | tuple[str, ...], scope: str | None = None) -> Side:
    """Fingerprint a text, or the texts of an article's fields, as a side."""
    made = maker.features(texts)
    shown = texts if isinstance(texts, str) else "\n".join(texts)
    return side_of(name, shown, made, unit_of(maker.settings, made), scope)


def unit_of(settings: FingerprintSettings, made: Explained) -> int:
    """Return the unit in which weights of this kind of text are whole numbers."""
    treatment = {Status.LONG: settings.long, Status.SHORT: settings.short}.get(made.status)
    if treatment is None or treatment.features.weights != "tfidf":
        return 1
    return _IDF_UNIT


def kind(side: Side) -> str:
    """Return the kind of a text in words."""
    words = {
        Status.LONG: "a long text",
        Status.SHORT: "a short text",
        Status.EXACT: "a text so short that its exact form decides",
        Status.FEATURELESS: "a text without words",
        Status.REJECTED: "unreadable",
    }
    return words[side.status]
