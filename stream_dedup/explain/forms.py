"""The sketches of two articles beside each other: their equal values, and their forms."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from stream_dedup.core.arrays import U64
from stream_dedup.core.fingerprint.sketch import equal_values, have_other_numbers, split
from stream_dedup.core.logged_scheme import Scheme
from stream_dedup.core.model import FRAME_MASK
from stream_dedup.explain.side import Side


class Forms(StrEnum):
    """How the forms of two articles compare."""

    NONE = "none"
    """One of them has no form, or the scheme has none."""
    OTHER = "other"
    """Their frames differ."""
    SAME = "same"
    """They have one frame and the same numbers."""
    OTHER_NUMBERS = "other numbers"
    """They have one frame, and numbers that differ."""


def compared(a: Side, b: Side, scheme: Scheme) -> tuple[int, Forms]:
    """Return how many values of the sketches are equal, and how the forms compare."""
    sketches = np.stack([np.frombuffer(side.sketch, np.uint8) for side in (a, b)])
    values, forms = split(sketches, scheme.form_bytes)
    return int(equal_values(values[0], values[1])), _forms(forms)


def _forms(forms: U64) -> Forms:
    if not (forms & np.uint64(FRAME_MASK)).all():
        return Forms.NONE
    if have_other_numbers(forms[0], forms[1]):
        return Forms.OTHER_NUMBERS
    return Forms.SAME if forms[0] == forms[1] else Forms.OTHER
