"""What is seeded: articles with coordinates, in batches of one source partition, from files or a topic.

An archive is known by its first record, so that it may be moved, renamed, compressed, or grow at its end; ``name``
gives an identity by hand. The source offset of an article is the number of its line or record, from 0.

Archives in Parquet have entries that ``stream_dedup.spark.fingerprint`` made; they are not fingerprinted again. An
archive is known by its first row (checksum and id); the source offset of an article is the number of its row, from
0. pyarrow, which the extra ``[parquet]`` installs, is loaded for the first such file.

A topic is read from its beginning to its end as of the start, committed articles only. They are entered with their own
coordinates: a worker that consumes the topic later finds them in the log.
"""

from __future__ import annotations

import stat
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, starmap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
import xxhash

from stream_dedup.config.model import Config
from stream_dedup.core.arrays import I64, U64
from stream_dedup.core.columns import Columns
from stream_dedup.core.decode import RawRecord
from stream_dedup.core.fingerprinter import checksum
from stream_dedup.core.logged_scheme import Scheme
from stream_dedup.core.model import SourceOffset
from stream_dedup.errors import UnavailableError, UserError
from stream_dedup.files.inputs import STDIN, LineBatch, Progress, printable, read_batches
from stream_dedup.files.parquet_rows import opened, unreadable
from stream_dedup.files.recognition import PARQUET_MAGIC, STDIN_NAME, InputForm
from stream_dedup.kafka.record import too_large_reason
from stream_dedup.ports import (
    GroupOffsets,
    OffsetGoneError,
    Partition,
    PassingError,
    RefusedByBrokerError,
    SourceChangedError,
    SourceRecord,
    TopicReader,
    raw_of,
)
from stream_dedup.threads import FingerprintThreads


class SeedSource(NamedTuple):
    """A source partition: of a topic, or made for an archive."""

    topic_id: bytes
    partition: int
    topic: str
    """Name of the topic or of the archive: what an article's source is called."""


@dataclass(frozen=True, slots=True)
class SeedBatch:
    """Articles of one source partition, at rising offsets: records to be fingerprinted, or entries made elsewhere."""

    source: SeedSource
    offsets: I64
    articles: Sequence[RawRecord] | Columns
    rejected: Mapping[int, str] = field(default_factory=dict)
    """Rows that are rejected, whatever is in them, with the reason."""

    @property
    def checksums(self) -> U64:
        """The checksum of each value."""
        if isinstance(self.articles, Columns):
            return self.articles.checksums
        return np.array([checksum(record.value) for record in self.articles], np.uint64)

    def columns(self, rows: I64, fingerprinter: FingerprintThreads[RawRecord]) -> Future[Columns]:
        """Return the entries of these rows, as ``FingerprintThreads.submit`` does; ``rejected`` is not applied."""
        if not isinstance(self.articles, Columns):
            return fingerprinter.submit([self.articles[row] for row in rows.tolist()])
        made: Future[Columns] = Future()
        made.set_result(self.articles.rows(rows))
        return made


@dataclass(frozen=True, slots=True)
class FileArchive:
    """One file, named pipe, or standard input."""

    source: SeedSource
    remedy: str
    """What to do if the archive and the log have different articles at the same source offset."""
    unit: str
    """What the source offsets count, from 0."""
    read: Callable[[SeedSource], Iterator[SeedBatch | None]]
    """Reads the articles; is called once."""

    def batches(self) -> Iterator[SeedBatch | None]:
        """Yield the articles, and None where there are none at present (a slow pipe).

        Raises:
            UserError: it cannot be read, or was replaced since the archive was made: its articles belong to another.
        """
        return self.read(self.source)

    def location(self, _source: SeedSource, offset: SourceOffset) -> str:
        """Return where a user finds an article: file, and line, record or row, from 1."""
        return f"input {self.source.topic}, {self.unit} {offset + 1}"


def _archive(
    beginning: bytes, name: str | None, file: str, unit: str, read: Callable[[SeedSource], Iterator[SeedBatch | None]]
) -> FileArchive:
    """Return the archive with this beginning, or with the identity of the name that the user gave it."""
    remedy = "either the file was changed, and an archive may only grow at its end; or "
    if name is None:
        known = beginning
        remedy += "it is another archive that begins alike: give it an identity with --name"
    else:
        # A first line has no line feed: no name is taken for one.
        known = b"name\n" + name.encode("utf-8", "backslashreplace")
        remedy += f"{name} is the name of another archive: give this one another --name"
    return FileArchive(SeedSource(xxhash.xxh3_128_digest(b"seed\n" + known), 0, name or file), remedy, unit, read)


def _replaced(archive: str) -> UserError:
    """Return the error for a file that is another one than when the command began."""
    return UserError(f"input {archive}: the file was replaced while the command ran; start it again")


def lines_archive(path: str, name: str | None, progress: Progress, form: InputForm) -> FileArchive | None:
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
        raise UserError(
            f"input {printable(path)}: this is Parquet with entries; name a file of it that is not compressed"
        )
    again = read_batches([path], progress, form=form) if regular else chain([first], lines)
    file = STDIN_NAME if path == STDIN else printable(Path(path).name)
    return _archive(beginning, name, file, first.unit, partial(_line_batches, again, beginning))


def _line_batches(
    batches: Iterator[LineBatch | None], beginning: bytes, source: SeedSource
) -> Iterator[SeedBatch | None]:
    """Yield the lines of an archive that began with this record."""
    is_first = True
    for batch in batches:
        if batch is None:
            yield None
            continue
        numbers, lines = batch.block.numbers, batch.block.lines
        if is_first and lines[0] != beginning:
            raise _replaced(source.topic)
        is_first = False
        named = zip(numbers, lines, strict=True)
        records = [RawRecord(None, line, f"{source.topic}:{number}") for number, line in named]
        yield SeedBatch(source, np.array(numbers, np.int64) - 1, records, batch.rejected)


ENTRY_COLUMNS = frozenset({"checksum", "scheme", "signature"})
"""Parquet with two of these columns is taken for entries; other Parquet has articles."""
PARQUET_BATCH_ROWS = 1_024
"""Rows of one batch: some 200 kB of log."""


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
        return len(ENTRY_COLUMNS.intersection(opened(file, printable(path)).schema_arrow.names)) > 1


def parquet_archive(path: Path, name: str | None, scheme: Scheme, progress: Progress) -> FileArchive | None:
    """Return the archive in a Parquet file with entries; None if it has no row.

    Raises:
        UserError: the file cannot be read, or pyarrow is not installed. While its articles are read: they were made
            under another scheme or are no entries, or the file is damaged.
    """
    with _opened(path) as file:
        unclear = [name for name in ("checksum", "id") if file.schema_arrow.names.count(name) != 1]
        if unclear:
            raise UserError(
                f"input {printable(str(path))}: not one column {', '.join(unclear)}: "
                "seed takes Parquet that stream_dedup.spark.fingerprint wrote"
            )
        beginning = _beginning(file, path)
    if beginning is None:
        return None
    read = partial(_entry_batches, path, beginning, scheme, progress)
    return _archive(beginning, name, printable(path.name), "row", read)


def _entry_batches(
    path: Path, beginning: bytes, scheme: Scheme, progress: Progress, source: SeedSource
) -> Iterator[SeedBatch]:
    """Yield the rows of an archive whose first row had this checksum and id."""
    from stream_dedup.seed.entry_rows import ROWS_SCHEMA, columns_of  # noqa: PLC0415 - loads pyarrow

    with _opened(path) as file:
        if _beginning(file, path) != beginning:
            raise _replaced(source.topic)
        size, rows = path.stat().st_size, max(1, file.metadata.num_rows)
        first = 0
        names = [name for name in ROWS_SCHEMA.names if name in file.schema_arrow.names]
        for batch in _read(file, path, PARQUET_BATCH_ROWS, names):
            try:
                entries = columns_of(batch, scheme)
            except UserError as error:
                raise UserError(f"input {source.topic}: {error}") from error
            yield SeedBatch(source, np.arange(first, first + len(entries), dtype=np.int64), entries)
            first += len(entries)
            progress.read += size * len(entries) // rows


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


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a Parquet file; pyarrow would take some paths for addresses."""
    with ExitStack() as stack:
        try:
            file = stack.enter_context(path.open("rb"))
        except OSError as error:
            raise unreadable(printable(str(path)), error) from error
        yield opened(file, printable(str(path)))


TOPIC_BATCH_RECORDS = 256
"""Most records of one batch. Where a partition has so many, each makes a batch of what it has."""
TOPIC_HELD_BYTES = 32 << 20
"""Bytes of the records after which each does so, too: large records and many partitions take no more memory."""


class TopicArchive:
    """A topic as it is when the archive is made; ``progress`` counts the offsets that were gone through."""

    remedy = "the topic lost records, and others have their offsets. Restore it, or begin a new group with --group"

    def __init__(
        self, config: Config, topic: str, reader: TopicReader, offsets: GroupOffsets, record_bytes: int
    ) -> None:
        """Ask for the topic's id and its bounds; records larger than ``record_bytes`` are rejected.

        Raises:
            UserError: there is no such topic, it is the group's log, or a right is missing.
            UnavailableError: the broker did not answer.
        """
        if topic == config.log_topic:
            raise UserError(f"--topic {topic} is the log of the group: name a topic of articles")
        self._reader = reader
        self._offsets = offsets
        self._topic = topic
        self._largest = record_bytes
        with self._reading():
            topic_id = offsets.topic_ids([topic]).get(topic)
            self._bounds: Mapping[Partition, tuple[int, int]] = reader.bounds(reader.partitions([topic]))
        if topic_id is None:
            raise UserError(f"there is no topic {topic}: check the name after --topic")
        self.sources = {at: SeedSource(topic_id, at.number, topic) for at in self._bounds}
        self.progress = Progress(total=sum(end - begin for begin, end in self._bounds.values()))

    def batches(self) -> Iterator[SeedBatch]:
        """Yield the records of each partition, in order.

        Raises:
            UserError: a right is missing.
            UnavailableError: the broker does not deliver the records, or the topic changed.
        """
        waiting: dict[Partition, list[SourceRecord]] = defaultdict(list)
        held = 0
        with self._reading():
            for record in self._reader.read(self._bounds):
                at = Partition(record.topic, record.partition)
                waiting[at].append(record)
                held += len(record.key or b"") + len(record.value or b"")
                if len(waiting[at]) == TOPIC_BATCH_RECORDS or held >= TOPIC_HELD_BYTES:
                    yield from starmap(self._batch, waiting.items())
                    waiting.clear()
                    held = 0
            yield from starmap(self._batch, waiting.items())
        self.progress.read = self.progress.total or 0

    def location(self, source: SeedSource, offset: SourceOffset) -> str:
        """Return topic, partition and offset."""
        return f"{source.topic}-{source.partition}-{offset}"

    def _batch(self, at: Partition, records: Sequence[SourceRecord]) -> SeedBatch:
        """Make a batch of records, all of which are of the topic as it was in the beginning."""
        if self._offsets.topic_ids([self._topic]).get(self._topic) != self.sources[at].topic_id:
            raise UnavailableError(
                f"topic {self._topic} was deleted or recreated while it was read: start the command again"
            )
        self.progress.read += len(records)
        raw = [*map(raw_of, records)]
        reasons = {row: too_large_reason(record, self._largest) for row, record in enumerate(records)}
        too_large = {row: reason for row, reason in reasons.items() if reason is not None}
        return SeedBatch(self.sources[at], np.array([one.offset for one in records], np.int64), raw, too_large)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Raise the errors of the ports as errors of the program."""
        try:
            yield
        except RefusedByBrokerError as error:
            raise UserError(
                f"the broker does not let this client read topic {self._topic}: {error}; see docs/acls.md"
            ) from error
        except (PassingError, OffsetGoneError, SourceChangedError) as error:
            raise UnavailableError(
                f"topic {self._topic} was not read to its end ({error}): start the command again"
            ) from error


Archive = FileArchive | TopicArchive
"""Articles that are read once, in order."""
