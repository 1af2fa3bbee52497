"""Errors of the program on a page: the kind in the reader's language, and beneath it the message itself.

Messages of errors are made in English, for logs and terminals; a page knows an error by its type.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from stream_dedup.errors import CorruptError, RefusedError, UnavailableError, UserError
from stream_dedup.serve.problems import ProblemError


class ErrorKind(StrEnum):
    """What a reader sees of an error."""

    LATE = "late"
    """There was no answer in time; the next page asks again."""
    BUSY = "busy"
    UNAVAILABLE = "unavailable"
    REFUSED = "refused"
    USER = "user"
    CORRUPT = "corrupt"
    OTHER = "other"


_PROBLEMS = {"timeout": ErrorKind.LATE, "busy": ErrorKind.BUSY}
_KINDS = (
    (UnavailableError, ErrorKind.UNAVAILABLE),
    (RefusedError, ErrorKind.REFUSED),
    (UserError, ErrorKind.USER),
    (CorruptError, ErrorKind.CORRUPT),
)


class ShownError(NamedTuple):
    """An error as pages show it."""

    kind: ErrorKind
    detail: str = ""
    """Its message, in English; empty if the kind says all."""


def shown_error(error: BaseException) -> ShownError:
    """Return what pages show of an error."""
    if isinstance(error, ProblemError):
        kind = _PROBLEMS.get(error.name, ErrorKind.OTHER)
    else:
        kind = next((kind for of, kind in _KINDS if isinstance(error, of)), ErrorKind.OTHER)
    return ShownError(kind, str(error))
