"""Archives in Parquet: entries that ``stream_dedup.spark.fingerprint`` made; they are not fingerprinted again.

An archive is known by its first row (checksum and id); the source offset of an article is the number of its row, from
0. pyarrow, which the extra ``[parquet]`` installs, is loaded for the first such file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stream_dedup.core.model import SourceOffset
from stream_dedup.errors import UserError
from stream_dedup.files.inputs import STDIN, Progress, printable
from stream_dedup.files.parquet_rows import opened, unreadable
from stream_dedup.files.recognition import PARQUET_MAGIC
from stream_dedup.seed.articles import SeedSource, StoredBatch, identity_of, replaced

if TYPE_CHECKING:
    from stream_dedup.core.logged_scheme import Scheme

ENTRY_COLUMNS = frozenset({"checksum", "scheme", "signature"})
"""Parquet with two of these columns is taken for entries; other Parquet has articles."""
PARQUET_BATCH_ROWS = 1_024
"""Rows of one batch: some 200 kB of log."""


@dataclass(frozen=True, slots=True)
class ParquetArchive:
    """One Parquet file."""

    source: SeedSource
    remedy: str
    beginning: bytes
    """Checksum and id of the first row."""
    path: Path
    scheme: Scheme
    progress: Progress

    def batches(self) -> Iterator[StoredBatch]:
        """Yield the rows.

        Raises:
            UserError: the rows were made under another scheme or are no entries, or the file is damaged or was
                replaced since the archive was made.
        """
        from stream_dedup.seed.entry_rows import ROWS_SCHEMA, columns_of  # noqa: PLC0415 - loads pyarrow

        file = _opened(self.path)
        if _beginning(file, self.path) != self.beginning:
            raise replaced(self.source.topic)
        size, rows = self.path.stat().st_size, max(1, file.metadata.num_rows)
        first = 0
        names = [name for name in ROWS_SCHEMA.names if name in file.schema_arrow.names]
        for batch in _read(file, self.path, PARQUET_BATCH_ROWS, names):
            try:
                entries = columns_of(batch, self.scheme)
            except UserError as error:
                msg = f"input {self.source.topic}: {error}"
                raise UserError(msg) from error
            yield StoredBatch(self.source, np.arange(first, first + len(entries), dtype=np.int64), entries)
            first += len(entries)
            self.progress.read += size * len(entries) // rows

    def location(self, _source: SeedSource, offset: SourceOffset) -> str:
        """Return file and row, from 1."""
        return f"input {self.source.topic}, row {offset + 1}"


def has_entries(path: str) -> bool:
    """Return whether a file is Parquet with entries, by its first bytes and its columns.

    Raises:
        UserError: it is Parquet that cannot be read, or pyarrow is not installed.
    """
    if path == STDIN or not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        if file.read(len(PARQUET_MAGIC)) != PARQUET_MAGIC:
            return False
    return len(ENTRY_COLUMNS.intersection(_opened(Path(path)).schema_arrow.names)) > 1


def parquet_archive(path: str, name: str | None, scheme: Scheme, progress: Progress) -> ParquetArchive | None:
    """Return the archive in a Parquet file; None if it has no row.

    Raises:
        UserError: the file cannot be read, or pyarrow is not installed.
    """
    file = _opened(Path(path))
    unclear = [name for name in ("checksum", "id") if file.schema_arrow.names.count(name) != 1]
    if unclear:
        msg = (
            f"input {printable(path)}: not one column {', '.join(unclear)}: "
            "seed takes Parquet that stream_dedup.spark.fingerprint wrote"
        )
        raise UserError(msg)
    beginning = _beginning(file, Path(path))
    if beginning is None:
        return None
    identity = identity_of(beginning, name)
    source = SeedSource(identity.topic_id, 0, name or printable(Path(path).name))
    return ParquetArchive(source, identity.remedy, beginning, Path(path), scheme, progress)


def _beginning(file: Any, path: Path) -> bytes | None:  # noqa: ANN401 - pyarrow has no types
    """Return checksum and id of the first row, None of a file without rows."""
    first = next(_read(file, path, 1, ["checksum", "id"]), None)
    if first is None:
        return None
    try:
        row = first.to_pylist()[0]
    except UnicodeDecodeError as error:
        raise unreadable(printable(str(path)), error) from error
    return f"row\n{row['checksum']} {row['id']}".encode()


def _read(file: Any, path: Path, rows: int, columns: list[str]) -> Iterator[Any]:  # noqa: ANN401 - as above
    """Yield these columns, in batches of so many rows."""
    import pyarrow as pa  # noqa: PLC0415 - an extra

    try:
        yield from file.iter_batches(batch_size=rows, columns=columns)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(printable(str(path)), error) from error


def _opened(path: Path) -> Any:  # noqa: ANN401 - pyarrow has no types
    return opened(path, printable(str(path)))
