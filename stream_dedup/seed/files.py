"""Archives in files: JSON Lines, or whatever else ``files.inputs`` reads, one article a record.

An archive is known by its first record, so that it may be moved, renamed, compressed, or grow at its end; ``name``
gives an identity by hand. The source offset of an article is the number of its line or record, from 0.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import orjson

from stream_dedup.core.model import SourceOffset
from stream_dedup.core.text.decode import RawRecord
from stream_dedup.errors import UserError
from stream_dedup.files.inputs import (
    STDIN,
    LineBatch,
    Progress,
    printable,
    read_batches,
)
from stream_dedup.files.recognition import STDIN_NAME, InputForm
from stream_dedup.seed.articles import RawBatch, SeedSource, identity_of, replaced
from stream_dedup.seed.parquet import ENTRY_COLUMNS


@dataclass(frozen=True, slots=True)
class LinesArchive:
    """One file, named pipe, or standard input."""

    source: SeedSource
    remedy: str
    unit: str
    """What the source offsets count, from 0."""
    beginning: bytes
    """The first record, as a line."""
    read: Callable[[], Iterator[LineBatch | None]]
    """Reads the lines; is called once."""

    def batches(self) -> Iterator[RawBatch | None]:
        """Yield the lines.

        Raises:
            UserError: the file was replaced since the archive was made: its lines belong to another archive.
        """
        is_first = True
        for batch in self.read():
            if batch is not None and is_first and batch.block.lines[0] != self.beginning:
                raise replaced(self.source.topic)
            is_first = is_first and batch is None
            yield None if batch is None else _raw(self.source, batch)

    def location(self, _source: SeedSource, offset: SourceOffset) -> str:
        """Return file, and line, record or row, from 1."""
        return f"input {self.source.topic}, {self.unit} {offset + 1}"


def lines_archive(path: str, name: str | None, progress: Progress, form: InputForm) -> LinesArchive | None:
    """Return the archive in a file; None if it has no line. Blocks until a pipe has its first line.

    Raises:
        UserError: the file cannot be opened, or has entries.
    """
    regular = path != STDIN and stat.S_ISREG(Path(path).stat().st_mode)
    lines = read_batches([path], Progress() if regular else progress, form=form)
    first = next((batch for batch in lines if batch is not None), None)
    if first is None:
        return None
    beginning = first.block.lines[0]
    is_row = first.unit == "row" and 0 not in first.block.unread
    if is_row and len(ENTRY_COLUMNS.intersection(orjson.loads(beginning))) > 1:
        msg = f"input {printable(path)}: this is Parquet with entries; name a file of it that is not compressed"
        raise UserError(msg)
    identity = identity_of(beginning, name)
    called = name or (STDIN_NAME if path == STDIN else printable(Path(path).name))
    read = partial(read_batches, [path], progress, form=form) if regular else partial(chain, [first], lines)
    return LinesArchive(SeedSource(identity.topic_id, 0, called), identity.remedy, first.unit, beginning, read)


def _raw(source: SeedSource, batch: LineBatch) -> RawBatch:
    records = [
        RawRecord(None, line, f"{source.topic}:{number}")
        for number, line in zip(batch.block.numbers, batch.block.lines, strict=True)
    ]
    return RawBatch(source, np.array(batch.block.numbers, np.int64) - 1, records, batch.rejected)
