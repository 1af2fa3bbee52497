"""Points in the worker at which tests end or stop the process, each between two effects."""

from __future__ import annotations

from enum import StrEnum


class Step(StrEnum):
    """Points between two effects, in order; tests end the process there."""

    POLLED = "polled"
    DECODING = "decoding"
    FINGERPRINTED = "fingerprinted"
    APPENDED = "appended"
    READ = "read"
    JUDGED = "judged"
    SENT = "sent"
    OFFSETS_SENT = "offsets-sent"
    COMMITTED = "committed"


class TrimStep(StrEnum):
    """Points behind each effect of a trim, in order; tests end the process there, too."""

    RESTATED = "rules-restated"
    TRIM_APPENDED = "trim-appended"
    CUT = "log-cut"
