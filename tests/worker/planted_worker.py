"""Workers (``dying_worker``) with something planted: in the articles, in the native core, or in the index."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from unittest.mock import patch

from stream_dedup.config.effective import index_settings_of
from stream_dedup.config.model import Config
from stream_dedup.core.columns import Columns
from stream_dedup.core.decode import RawRecord
from stream_dedup.core.fingerprinter import EntryMaker
from stream_dedup.core.reader import SchemeReader
from stream_dedup.index import IndexSettings
from stream_dedup.worker import opening
from tests.core.panics import panicking_reader
from tests.index.panics import planted_panic
from tests.worker import dying_worker

WAITING = "wait for the file "
PAUSE_S = 0.01
BUFFER_BYTES = 64 << 10
"""Some ten articles."""


def begun(file: Path) -> list[Path]:
    """Return a file for each thread that has begun to wait for the file."""
    return list(file.parent.glob(f"{file.name}.*"))


def waiting(*arguments: str) -> int:
    """An article that says so waits for a file."""
    make = EntryMaker.__call__

    def slowly(maker: EntryMaker, records: Sequence[RawRecord]) -> Columns:
        for value in [(record.value or b"").decode("utf-8", "replace") for record in records]:
            if WAITING in value:
                file = Path(value.partition(WAITING)[2].partition('"')[0])
                file.with_name(f"{file.name}.{threading.get_native_id()}").touch()
                while not file.exists():
                    time.sleep(PAUSE_S)
        return make(maker, records)

    with patch.object(EntryMaker, "__call__", slowly):
        return dying_worker.main(*arguments)


def panicking_at_texts(*arguments: str) -> int:
    """The native core panics at each text but exact ones."""
    made = cache(panicking_reader)
    with patch.object(SchemeReader, "native", property(lambda reader: made(reader.settings))):
        return dying_worker.main(*arguments)


def panicking_at_a_look_up(path: str, step: str, times: str, fingerprint: str) -> int:
    """The native core panics when it looks up the article of this fingerprint."""
    with planted_panic(int(fingerprint)):
        return dying_worker.main(path, step, times)


def small_buffers(config: Config) -> IndexSettings:
    """Settings by which an index reaches the disk every few articles, as that of a busy worker does."""
    return replace(index_settings_of(config), fold_entries=50, most_buffer_bytes=BUFFER_BYTES)


def often_flushing(*arguments: str) -> int:
    """The index has small buffers."""
    with patch.object(opening, "index_settings_of", small_buffers):
        return dying_worker.main(*arguments)
