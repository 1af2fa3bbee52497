"""Finds near-duplicate articles on a Kafka stream, exactly once.

The public names are imported when they are first used, so that ``import stream_dedup`` costs nothing, and a fingerprint
not the index.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stream_dedup.api import Found, Index
    from stream_dedup.config.load import read_profile
    from stream_dedup.fingerprints import distance, fingerprint

__version__ = "0.1.0"
__all__ = ["Found", "Index", "__version__", "distance", "fingerprint", "read_profile"]
_HOMES = {
    "Found": "api",
    "Index": "api",
    "distance": "fingerprints",
    "fingerprint": "fingerprints",
    "read_profile": "config.load",
}


def __getattr__(name: str) -> object:
    """Import a public name at its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
