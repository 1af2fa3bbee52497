"""The fingerprints of texts, one by one: status and counts of ``reader``, weights, sums, signature, sketch and form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from stream_dedup.core.fingerprinter import Explained, Feature, Fingerprints
from stream_dedup.core.model import BLOCK_BITS, SIGNATURE_BYTES, Status
from stream_dedup.core.reader import Text
from stream_dedup.core.scheme import Features, FingerprintSettings
from tests.reference import sums
from tests.reference.clean import TOKEN_NAMES
from tests.reference.form import NO_FORM, form_of, packed
from tests.reference.mixing import WHOLE, factor
from tests.reference.reader import Counted, Reader
from tests.reference.sketch import sketch_of
from tests.reference.weights import idf_of, weigh

_BY_FEATURES = frozenset((Status.LONG, Status.SHORT))
"""Kinds of texts that are compared by their features, and have sketches."""
_TOKEN_NAMES = str.maketrans(TOKEN_NAMES)


class Reference:
    """Computes what ``Fingerprinter`` does, by the definition."""

    def __init__(self, settings: FingerprintSettings | None = None) -> None:
        self._settings = settings or FingerprintSettings()
        self.reader = Reader(self._settings)

    def fingerprint(self, texts: Sequence[Text]) -> Fingerprints:
        """Return the fingerprints of texts."""
        made = [self._computed(self.reader.read(_fields(text))) for text in texts]
        widths = self._settings.widths
        columns = (
            (b"".join(one.signature for one in made), SIGNATURE_BYTES),
            (b"".join(sums.packed(one.margins.tolist()) for one in made), widths.margin_bytes),
            (b"".join(one.sketch for one in made), widths.sketch_bytes),
        )
        signatures, margins, sketches = (
            np.frombuffer(raw, np.uint8).reshape(len(texts), width) for raw, width in columns
        )
        return Fingerprints(signatures, margins, np.array([one.status for one in made], np.uint8), sketches)

    def features(self, text: Text) -> Explained:
        """Return one text with every value that its entry is made from."""
        fields = _fields(text)
        counted = self.reader.read(fields)
        return _named(self._computed(counted), self.reader.compared(fields, counted.status))

    def features_of(self, counts: Mapping[str, int], status: Status = Status.LONG) -> Explained:
        """Return the same for a text whose features the caller counted."""
        status, counted = status if counts else Status.FEATURELESS, Counter(counts)
        whole = Counted(status, long=counted) if status is Status.LONG else Counted(status, short=counted, share=WHOLE)
        return _named(self._computed(whole), " ".join(counts))

    def _computed(self, counted: Counted) -> Explained:
        """Return every value but the text, with the features as they are hashed."""
        status, seed, bits = counted.status, self._settings.seed, self._settings.tables * BLOCK_BITS
        if status in _BY_FEATURES:
            features = self._features(counted)
        else:
            features = [Feature(name, count, 1, sums.feature_hash(name, seed)) for name, count in counted.short.items()]
        found, squares = sums.add([one.weight for one in features], [one.hash for one in features])
        # One feature alone: every bit is as sure as can be only where the exact form decides.
        margins = [sums.MAX_MARGIN] * bits if status is Status.EXACT else sums.margins(found[:bits], squares)
        form = form_of(counted.formed) if status in _BY_FEATURES else NO_FORM
        return Explained(
            status,
            "",
            tuple(features),
            np.array(found, np.int64),
            sums.reduce(found),
            np.array(margins, np.uint8),
            self._sketch(counted),
            *form,
        )

    def _sketch(self, counted: Counted) -> bytes:
        settings = self._settings
        if counted.status not in _BY_FEATURES or not settings.sketch:
            return bytes(settings.widths.sketch_bytes)
        form = packed(form_of(counted.formed), settings.seed) if settings.form else b""
        return sketch_of(counted.sketched, settings.sketch, settings.seed) + form

    def _features(self, counted: Counted) -> list[Feature]:
        """Return the features of a text of either kind, or of one between, heaviest first."""
        parts = (
            (self._settings.long.features, counted.long, WHOLE - counted.share),
            (self._settings.short.features, counted.short, counted.share),
        )
        features: list[Feature] = []
        for settings, counts, share in parts:
            if own := heaviest(counts, settings, self._settings.seed):
                scale = factor(share, sum(one.weight**2 for one in own))
                features += [Feature(one.name, one.count, one.weight * scale, one.hash) for one in own]
        return sorted(features, key=lambda one: -one.weight)


def heaviest(counts: Mapping[str, int], settings: Features, seed: int) -> list[Feature]:
    """Return the features of a text that count, heaviest first; of equal weight, those with the smaller hash first."""
    idf = idf_of(settings)
    features = [
        Feature(name, count, weigh(count, idf(name), settings), sums.feature_hash(name, seed))
        for name, count in counts.items()
    ]
    return sorted(features, key=lambda one: (-one.weight, one.hash[:8]))[: settings.top_k]


def differing(made: Explained, expected: Explained) -> list[str]:
    """Return the names of the values that are not equal."""
    return [name for name in made._fields if not np.array_equal(getattr(made, name), getattr(expected, name))]


def _named(made: Explained, compared: str) -> Explained:
    """Return the values with the text, as a reader sees it and its features."""
    features = tuple(Feature(_readable(one.name), one.count, one.weight, one.hash) for one in made.features)
    return made._replace(text=_readable(compared), features=features)


def _fields(text: Text) -> Sequence[str]:
    return (text,) if isinstance(text, str) else text


def _readable(text: str) -> str:
    """Replace the letters that stand for tokens by the names of the tokens."""
    return text.translate(_TOKEN_NAMES)
