"""The Python API that needs no index: the fingerprint of a text, and distances.

Beside them are the checks of arguments, which ``Index`` makes too. Nothing here loads NumPy or RocksDB, so a program
that only fingerprints starts quickly.
"""

from __future__ import annotations

import contextlib
import operator
from functools import cache
from typing import SupportsIndex

from stream_dedup.core.profiles import DEFAULT_PROFILE, PROFILES, Profile
from stream_dedup.core.reader import SchemeReader
from stream_dedup.core.scheme import FingerprintSettings

_FINGERPRINT_VALUES = 1 << 64


def fingerprint(text: str, profile: str | Profile = DEFAULT_PROFILE) -> int:
    """Return the 64-bit SimHash of a text; 0 of a text without any feature. Any thread.

    Raises:
        TypeError: ``text`` is no string.
    """
    settings, text = checked_profile(profile).settings, checked_string("text", text)
    made = reader_of(settings).read([text])
    return int.from_bytes(made.signatures[:8], "big")


def distance(a: SupportsIndex, b: SupportsIndex) -> int:
    """Return the Hamming distance of two fingerprints, in bits.

    Raises:
        TypeError: an argument is no whole number.
        ValueError: an argument is not in 0 to 2**64 - 1.
    """
    return (checked_fingerprint("a", a) ^ checked_fingerprint("b", b)).bit_count()


@cache
def reader_of(settings: FingerprintSettings) -> SchemeReader:
    """Return the reader of texts under these settings; any thread may use it, and a signal handler."""
    return SchemeReader(settings)


def checked_profile(profile: str | Profile) -> Profile:
    """Return a profile by its name, or as it is.

    Raises:
        TypeError: it is neither.
        ValueError: no profile has this name.
    """
    if isinstance(profile, Profile):
        return profile
    if checked_string("profile", profile, "a name or a Profile") not in PROFILES:
        raise ValueError(f"profile {profile!r}: must be one of {', '.join(PROFILES)}, or what read_profile returns")
    return PROFILES[profile]


def checked_fingerprint(name: str, value: object, expected: str = "an int") -> int:
    """Return a fingerprint as Python's own number.

    Raises:
        TypeError: it is no whole number; the message has ``name`` and what is expected.
        ValueError: it is not in 0 to 2**64 - 1.
    """
    number = checked_number(name, value, expected)
    if not 0 <= number < _FINGERPRINT_VALUES:
        raise ValueError(f"fingerprint {number}: must be 0 to 2**64 - 1")
    return number


def checked_number(name: str, value: object, expected: str) -> int:
    """Return a whole number as Python's own.

    Raises:
        TypeError: as ``checked_fingerprint``.
    """
    # True is 1 to Python; as a fingerprint it is a mistake.
    if isinstance(value, SupportsIndex) and not isinstance(value, bool):
        # An array has the method too, and most refuse.
        with contextlib.suppress(TypeError):
            return operator.index(value)
    raise _wrong_type(name, value, expected)


def checked_string(name: str, value: object, expected: str = "a str") -> str:
    """Return a string.

    Raises:
        TypeError: as ``checked_fingerprint``.
    """
    if isinstance(value, str):
        return value
    raise _wrong_type(name, value, expected)


def _wrong_type(name: str, value: object, expected: str) -> TypeError:
    return TypeError(f"{name}: must be {expected}, not {type(value).__name__}")
