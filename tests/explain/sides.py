"""Sides made by hand: features with weights, and all that follows from them."""

from collections.abc import Mapping

import numpy as np

from stream_dedup.core.fingerprinter import Feature
from stream_dedup.core.model import Status, scope_hash_of
from stream_dedup.explain.side import Side
from tests.calibrate.entries import SKETCH_BYTES
from tests.reference import sums


def side(
    name: str,
    weights: Mapping[str, int],
    status: Status = Status.LONG,
    scope: str | None = None,
    tables: int = 4,
    sketch: bytes = bytes(SKETCH_BYTES),
) -> Side:
    """A text of these features."""
    features = tuple(Feature(word, weight, weight, sums.feature_hash(word)) for word, weight in weights.items())
    found, squares = sums.add([one.weight for one in features], [one.hash for one in features])
    margins = sums.packed(sums.margins(found[: 16 * tables], squares))
    return Side(
        name=name,
        status=status,
        scope_hash=scope_hash_of(status, scope),
        scope=scope,
        signature=sums.reduce(found),
        margins=np.frombuffer(margins, np.uint8),
        features=features,
        sums=tuple(found),
        sketch=sketch,
    )


def changed(one: Side, bits: list[int]) -> Side:
    """The same with these bits of the signature the other way."""
    flipped = np.unpackbits(np.frombuffer(one.signature, np.uint8))
    flipped[bits] ^= 1
    return Side(one.name, one.status, one.scope_hash, np.packbits(flipped).tobytes(), one.margins, sketch=one.sketch)
