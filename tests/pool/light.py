"""A fingerprinter that loads no dictionary: where a pool's processes are tested, not what they compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from stream_dedup.core.columns import Columns
from stream_dedup.core.fingerprint.entry_maker import checksum
from stream_dedup.core.model import Status
from stream_dedup.core.scheme import FingerprintSettings
from stream_dedup.core.text.decode import Article, InputFormat, RawRecord, Rejection, decode
from stream_dedup.core.text_column import Texts
from tests.reference.sums import feature_hash


class LightFingerprinter:
    """Takes the whole text for one feature."""

    def __init__(self, settings: FingerprintSettings | None = None) -> None:
        self.settings = settings or FingerprintSettings()

    def warm(self) -> None:
        """There is nothing to load."""

    def fingerprint(self, texts: Sequence[Sequence[str]]) -> None:
        """There is nothing to load with a first text."""

    def entries(self, records: Sequence[RawRecord], fmt: InputFormat) -> Columns:
        decoded = [decode(record, fmt) for record in records]
        blank = Columns.blank(len(records), self.settings.widths)
        for row, one in enumerate(decoded):
            if isinstance(one, Article):
                blank.signatures[row] = np.frombuffer(feature_hash("".join(one.texts)), np.uint8)
                blank.statuses[row] = Status.LONG
        return replace(
            blank,
            checksums=np.array([checksum(record.value) for record in records], np.uint64),
            ids=Texts.of(one.id for one in decoded),
            reasons=Texts.of(one.reason if isinstance(one, Rejection) else "" for one in decoded),
        )
