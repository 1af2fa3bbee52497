"""A worker (``dying_worker``) whose index reaches the disk every few articles, as that of a busy worker does."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

from stream_dedup.config.effective import index_settings_of
from stream_dedup.config.model import Config
from stream_dedup.index import IndexSettings
from stream_dedup.worker import opening
from tests.worker import dying_worker

BUFFER_BYTES = 64 << 10
"""Some ten articles."""


def often_flushing(config: Config) -> IndexSettings:
    return replace(index_settings_of(config), fold_entries=50, buffer_bytes=BUFFER_BYTES)


def main(path: str, step: str, times: str, *flags: str) -> int:
    with patch.object(opening, "index_settings_of", often_flushing):
        return dying_worker.main(path, step, times, *flags)
