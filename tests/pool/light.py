"""A fingerprinter that loads no dictionary: where a pool's processes are tested, not what they compute."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_dedup.core.fingerprint.fingerprinter import Fingerprints
from stream_dedup.core.model import Status
from stream_dedup.core.scheme import FingerprintSettings
from tests.reference.sums import feature_hash


class LightFingerprinter:
    """Takes the whole text for one feature."""

    def __init__(self, settings: FingerprintSettings | None = None) -> None:
        self.settings = settings or FingerprintSettings()

    def warm(self) -> None:
        """There is nothing to load."""

    def read(self, texts: Sequence[Sequence[str]]) -> Fingerprints:
        hashes = b"".join(feature_hash("".join(text)) for text in texts)
        signatures = np.frombuffer(hashes, np.uint8).reshape(len(texts), 32)
        margins = np.zeros((len(texts), 8 * self.settings.tables), np.uint8)
        sketches = np.zeros((len(texts), self.settings.widths.sketch_bytes), np.uint8)
        return Fingerprints(signatures, margins, np.full(len(texts), Status.LONG, np.uint8), sketches)

    fingerprint = read
