"""Workers to which some articles are hostile: they take as long as the test wants, or the core panics at them."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from unittest.mock import patch

from stream_dedup.core.columns import Columns
from stream_dedup.core.decode import RawRecord
from stream_dedup.core.fingerprinter import EntryMaker
from stream_dedup.core.reader import SchemeReader
from tests.core.panics import panicking_reader
from tests.worker import dying_worker

WAITING = "wait for the file "
PAUSE_S = 0.01


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


def panicking(*arguments: str) -> int:
    """The native core panics at each text but exact ones."""
    made = cache(panicking_reader)
    with patch.object(SchemeReader, "native", property(lambda reader: made(reader.settings))):
        return dying_worker.main(*arguments)
