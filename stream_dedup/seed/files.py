"""Archives in files: JSON Lines, one article a line.

An archive is known by its first line that is not blank, so that it may be moved, renamed, compressed, or grow at its
end; ``name`` gives an identity by hand. The source offset of an article is the number of its line, from 0.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np

from stream_dedup.core.model import SourceOffset
from stream_dedup.core.reasons import LINE_TOO_LONG
from stream_dedup.core.text.decode import RawRecord
from stream_dedup.files.inputs import (
    MAX_LINE_BYTES,
    STDIN,
    STDIN_NAME,
    CutLine,
    LineBatch,
    Progress,
    printable,
    read_batches,
)
from stream_dedup.seed.articles import RawBatch, SeedSource, identity_of, replaced


@dataclass(frozen=True, slots=True)
class LinesArchive:
    """One file, named pipe, or standard input."""

    source: SeedSource
    remedy: str
    beginning: bytes
    """The first line that is not blank."""
    read: Callable[[], Iterator[LineBatch | None]]
    """Reads the lines; is called once."""

    def batches(self) -> Iterator[RawBatch | None]:
        """Yield the lines.

        Raises:
            UserError: the file was replaced since the archive was made: its lines belong to another archive.
        """
        is_first = True
        for batch in self.read():
            if batch is not None and is_first and _beginning(batch) != self.beginning:
                raise replaced(self.source.topic)
            is_first = is_first and batch is None
            yield None if batch is None else _raw(self.source, batch)

    def location(self, _source: SeedSource, offset: SourceOffset) -> str:
        """Return file and line, from 1."""
        return f"input {self.source.topic}, line {offset + 1}"


def lines_archive(path: str, name: str | None, progress: Progress) -> LinesArchive | None:
    """Return the archive in a file; None if it has no line. Blocks until a pipe has its first line.

    Raises:
        UserError: the file cannot be opened.
    """
    regular = path != STDIN and stat.S_ISREG(Path(path).stat().st_mode)
    lines = read_batches([path], Progress() if regular else progress)
    first = next((batch for batch in lines if batch is not None), None)
    if first is None:
        return None
    beginning = _beginning(first)
    identity = identity_of(beginning, name)
    called = name or (STDIN_NAME if path == STDIN else printable(Path(path).name))
    read = partial(read_batches, [path], progress) if regular else partial(chain, [first], lines)
    return LinesArchive(SeedSource(identity.topic_id, 0, called), identity.remedy, beginning, read)


def _beginning(batch: LineBatch) -> bytes:
    first = batch.lines[0]
    return first.head if isinstance(first, CutLine) else first


def _raw(source: SeedSource, batch: LineBatch) -> RawBatch:
    records = [
        RawRecord(None, line.head if isinstance(line, CutLine) else line, f"{source.topic}:{number}")
        for number, line in zip(batch.numbers, batch.lines, strict=True)
    ]
    cut = {
        row: LINE_TOO_LONG.format(size=line.length, limit=MAX_LINE_BYTES)
        for row, line in enumerate(batch.lines)
        if isinstance(line, CutLine)
    }
    return RawBatch(source, np.array(batch.numbers, np.int64) - 1, records, cut)
