"""Finds near-duplicate articles on a Kafka stream, exactly once.

The public names are imported when they are first used, so that ``import stream_dedup`` costs nothing, and a fingerprint
not the index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stream_dedup.api import Found, Index
    from stream_dedup.fingerprints import distance, fingerprint

__version__ = "0.1.0"
__all__ = ["Found", "Index", "__version__", "distance", "fingerprint"]
_WITHOUT_INDEX = ("distance", "fingerprint")


def __getattr__(name: str) -> object:
    """Import a public name at its first use."""
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    if name in _WITHOUT_INDEX:
        from stream_dedup import fingerprints  # noqa: PLC0415 - importing it here is the purpose of this function

        return getattr(fingerprints, name)
    from stream_dedup import api  # noqa: PLC0415 - as above

    return getattr(api, name)
