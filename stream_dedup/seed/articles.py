"""What is seeded: articles with coordinates, in batches of one source partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import xxhash

from stream_dedup.core.arrays import I64, U64
from stream_dedup.core.columns import Columns
from stream_dedup.core.fingerprint.entry_maker import checksum
from stream_dedup.core.model import SourceOffset
from stream_dedup.errors import UserError

if TYPE_CHECKING:
    from stream_dedup.core.text.decode import RawRecord
    from stream_dedup.threads import FingerprintThreads


class SeedSource(NamedTuple):
    """A source partition: of a topic, or made for an archive."""

    topic_id: bytes
    partition: int
    topic: str
    """Name of the topic or of the archive: what an article's source is called."""


class SeedBatch(Protocol):
    """Articles of one source partition, at rising offsets."""

    @property
    def source(self) -> SeedSource:
        """Where they come from."""

    @property
    def offsets(self) -> I64:
        """Their source offsets."""

    @property
    def checksums(self) -> U64:
        """The checksum of each value."""

    def columns(self, rows: I64, fingerprinter: FingerprintThreads[RawRecord]) -> Future[Columns]:
        """Return the entries of these rows, as ``FingerprintThreads.submit`` does."""


class Archive(Protocol):
    """Articles that are read once, in order."""

    def batches(self) -> Iterator[SeedBatch | None]:
        """Yield the articles, and None where there are none at present (a slow pipe).

        Raises:
            UserError: it cannot be read.
            UnavailableError: the broker does not deliver it.
        """

    def location(self, source: SeedSource, offset: SourceOffset) -> str:
        """Return where a user finds an article: file and line, or topic, partition and offset."""

    @property
    def remedy(self) -> str:
        """What to do if the archive and the log have different articles at the same source offset."""


@dataclass(frozen=True, slots=True)
class RawBatch:
    """Articles that are to be fingerprinted."""

    source: SeedSource
    offsets: I64
    records: Sequence[RawRecord]
    rejected: Mapping[int, str] = field(default_factory=dict)
    """Rows that are rejected, whatever is in them, with the reason."""

    @property
    def checksums(self) -> U64:
        """The checksum of each value."""
        return np.array([checksum(record.value) for record in self.records], np.uint64)

    def columns(self, rows: I64, fingerprinter: FingerprintThreads[RawRecord]) -> Future[Columns]:
        """Fingerprint these rows."""
        wanted = rows.tolist()
        made = fingerprinter.submit([self.records[row] for row in wanted])
        reasons = {at: self.rejected[row] for at, row in enumerate(wanted) if row in self.rejected}
        return _rejected(made, reasons) if reasons else made


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """Articles that were fingerprinted elsewhere."""

    source: SeedSource
    offsets: I64
    entries: Columns

    @property
    def checksums(self) -> U64:
        """The checksum of each value."""
        return self.entries.checksums

    def columns(self, rows: I64, _fingerprinter: FingerprintThreads[RawRecord]) -> Future[Columns]:
        """Return the entries of these rows; the future is done."""
        made: Future[Columns] = Future()
        made.set_result(self.entries.rows(rows))
        return made


class Identity(NamedTuple):
    """What an archive is known by, and what to do where the log has it with other articles."""

    topic_id: bytes
    remedy: str


def identity_of(beginning: bytes, name: str | None) -> Identity:
    """Return the identity of an archive with this beginning, or with the name that the user gave it."""
    changed = "either the file was changed, and an archive may only grow at its end; or "
    if name is None:
        other = "it is another archive that begins alike: give it an identity with --name"
        return Identity(xxhash.xxh3_128_digest(b"seed\n" + beginning), changed + other)
    # A first line has no line feed: no name is taken for one.
    given = b"name\n" + name.encode("utf-8", "backslashreplace")
    other = f"{name} is the name of another archive: give this one another --name"
    return Identity(xxhash.xxh3_128_digest(b"seed\n" + given), changed + other)


def replaced(archive: str) -> UserError:
    """Return the error for a file that is another one than when the command began."""
    return UserError(f"input {archive}: the file was replaced while the command ran; start it again")


def _rejected(made: Future[Columns], reasons: Mapping[int, str]) -> Future[Columns]:
    """Return a future of the same columns with these rows rejected."""
    changed: Future[Columns] = Future()

    def change(done: Future[Columns]) -> None:
        error = done.exception()
        if error is None:
            changed.set_result(done.result().rejected(reasons))
        else:
            changed.set_exception(error)

    made.add_done_callback(change)
    return changed
