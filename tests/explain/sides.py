"""Sides made by hand: features with weights, and all that follows from them."""

from collections.abc import Mapping

import numpy as np

from stream_dedup.core.fingerprint import simhash
from stream_dedup.core.fingerprint.hashing import feature_hash
from stream_dedup.core.fingerprint.weigher import Feature
from stream_dedup.core.model import Status, group_of
from stream_dedup.explain.side import Side


def side(
    name: str, weights: Mapping[str, int], status: Status = Status.LONG, scope: str | None = None, tables: int = 4
) -> Side:
    """A text of these features."""
    features = tuple(Feature(word, weight, weight, feature_hash(word)) for word, weight in weights.items())
    hashes = np.array([np.frombuffer(one.hash, np.uint8) for one in features], np.uint8).reshape(-1, 32)
    values = np.array([one.weight for one in features], np.int64)
    sums = simhash.add(values, hashes)
    margins = simhash.margins(sums[np.newaxis, : 16 * tables], np.array([values @ values]))
    return Side(
        name=name,
        status=status,
        group=group_of(status, scope),
        scope=scope,
        signature=simhash.reduce(sums).tobytes(),
        margins=simhash.pack_margins(margins)[0],
        features=features,
        sums=tuple(int(value) for value in sums),
    )


def changed(one: Side, bits: list[int]) -> Side:
    """The same with these bits of the signature the other way."""
    flipped = np.unpackbits(np.frombuffer(one.signature, np.uint8))
    flipped[bits] ^= 1
    return Side(one.name, one.status, one.group, np.packbits(flipped).tobytes(), one.margins)
