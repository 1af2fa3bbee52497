"""The terms of the program as frozen values.

Log position
    Where an entry is in the log: ``position = log_offset << 20 | row``, where ``row``
    is its index in the log record. Earlier means a smaller log position.
Coordinates
    Topic id, partition and offset. Two entries with the same coordinates are the same article.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Literal, NamedTuple, NewType, get_args

import xxhash

if TYPE_CHECKING:  # naming the scheme shall not load numpy
    import numpy as np
    from numpy.typing import NDArray

    from stream_dedup.core.arrays import U8

SIGNATURE_BITS = 256
SIGNATURE_BYTES = SIGNATURE_BITS // 8
FINGERPRINT_BITS = 64
BLOCK_BITS = 16
"""Bits from the beginning of one block of the signature to that of the next."""
BlockBits = Literal[16, 20, 24]
"""Bits of a block of a scheme: ``probes`` has where they are. Blocks of more than 16 bits overlap."""
BLOCK_WIDTHS: tuple[BlockBits, ...] = get_args(BlockBits)
BLOCKS_PER_WORD = FINGERPRINT_BITS // BLOCK_BITS
"""Blocks of one word (64 bits) of the signature; this many tables cover the fingerprint."""
TableCount = Literal[4, 8, 16]
"""Number of block tables of a scheme: 4 cover the fingerprint, 16 the whole signature."""
TABLE_COUNTS: tuple[TableCount, ...] = get_args(TableCount)
TABLE_MARGIN_BYTES = BLOCK_BITS // 2
"""Bytes of the margins that each table adds: 16, of 4 bits each, two in a byte, the first in the high half."""
SKETCH_WORD_VALUES = 16
"""Values of a sketch in 8 bytes: 4 bits each."""
SKETCH_SIZES = (0, 8, 16, 24, 32)
"""Bytes that a scheme's sketches may have: whole words of 8; 0 of a scheme without sketches."""
FORM_BYTES = 8
"""Bytes of a form, the end of a sketch: 4 of the frame of the text (0: the text has no form), then 4 of its numbers."""


class Widths(NamedTuple):
    """What a scheme says about the widths of its entries' columns."""

    tables: TableCount = TABLE_COUNTS[0]
    """Number of block tables: an entry has ``TABLE_MARGIN_BYTES`` of margins for each."""
    sketch_bytes: int = 0
    """Bytes of an entry's sketch, its form included."""

    @property
    def margin_bytes(self) -> int:
        """Bytes of an entry's margins."""
        return TABLE_MARGIN_BYTES * self.tables

    def __str__(self) -> str:
        """Return both in words."""
        sketches = f"sketches of {self.sketch_bytes} bytes" if self.sketch_bytes else "no sketches"
        return f"{self.tables} tables and {sketches}"


FILES_LOG_PREFIX = "files-"
"""Begins the log id of an index that ``filter`` keeps: no Kafka topic holds its log."""
LIBRARY_LOG_PREFIX = "library-"
"""Begins the log id of an index that ``stream_dedup.Index`` keeps: no Kafka topic holds its log."""

ROW_BITS = 20
MAX_ROWS = 1 << ROW_BITS
"""Most entries of one log record: 20 bits of a log position, which leaves 43 bits for the log offset."""


LogOffset = NewType("LogOffset", int)
"""Offset of a record in the log topic."""
SourceOffset = NewType("SourceOffset", int)
"""Offset of a record in its source partition."""
SourceRange = tuple[SourceOffset, SourceOffset]
"""First and last offset of a part of a source partition."""
LogPosition = NewType("LogPosition", int)
"""Log offset and row of an entry, packed by ``log_position``."""
DocNumber = NewType("DocNumber", int)
"""Number that an index gives an entry: 0 for the first that it applied, then one more for each."""
ReportProgress = Callable[[int, int], None]
"""Called by a long task with the amount that is done and the total amount."""
ReportStage = Callable[[str, int, int], None]
"""Called by a long task with the name of the stage, the amount that is done and the total amount."""


def is_only_in_index(log_id: str) -> bool:
    """Whether the log of this id is in its index alone, and not in Kafka."""
    return log_id.startswith((FILES_LOG_PREFIX, LIBRARY_LOG_PREFIX))


def log_position(log_offset: int, row: int) -> LogPosition:
    """Pack a log offset and a row into a log position."""
    return LogPosition(log_offset << ROW_BITS | row)


def log_offset_of(position: LogPosition) -> LogOffset:
    """Return the log offset of a log position."""
    return LogOffset(position >> ROW_BITS)


def row_of(position: LogPosition) -> int:
    """Return the row of a log position in its log record."""
    return position & (MAX_ROWS - 1)


class Coordinates(NamedTuple):
    """Topic id, partition and offset of a source record."""

    topic_id: bytes
    partition: int
    offset: SourceOffset

    def __str__(self) -> str:
        """Return the topic id as a UUID, the partition and the offset, joined by dashes."""
        return f"{uuid.UUID(bytes=self.topic_id)}-{self.partition}-{self.offset}"


class Verdict(StrEnum):
    """The outcome for a record."""

    UNIQUE = "unique"
    DUPLICATE = "duplicate"
    REJECTED = "rejected"
    DELETE = "delete"
    """It withdraws an article, and leaves no output."""


OUTPUT_VERDICTS = (Verdict.UNIQUE, Verdict.DUPLICATE, Verdict.REJECTED)
"""Those that have an output."""


class Status(IntEnum):
    """The kind of an entry."""

    LONG = 0
    """Long text: the signature is made of its words."""
    FEATURELESS = 1
    """Readable text without a single feature, only punctuation for example: near no other text."""
    REJECTED = 2
    SHORT = 3
    """Short text: the signature is made of its characters and words."""
    EXACT = 4
    """Text so short that only an equal text is near it: the signature is a hash of it, and its margins are 15."""
    DELETE = 5
    """No text: from its log position on the earlier entries with its id match nobody."""


def signed(statuses: U8) -> NDArray[np.bool_]:
    """Return which entries have a signature; only these can be near others."""
    # numpy takes five microseconds to make a number of a member of an enumeration.
    which: NDArray[np.bool_] = (statuses != int(Status.FEATURELESS)) & (statuses != int(Status.REJECTED))
    which &= statuses != int(Status.DELETE)
    return which


def scope_hash_of(status: Status, scope: str | None = None) -> int:
    """Return the scope hash of a signed entry; only entries with the same one are compared.

    The texts of a scope have one, its exact texts another: 0 for other texts without a scope, else XXH3-64 of
    the kind and the scope. Articles without a scope form a scope of their own.
    """
    kind = Status.LONG if status is Status.SHORT else status
    if scope is None and kind is Status.LONG:
        return 0
    whole = kind.name if scope is None else f"{kind.name}\0{scope}"
    return xxhash.xxh3_64_intdigest(whole.encode("utf-8", "surrogatepass"))


def similarity(bits: int, width: int = SIGNATURE_BITS) -> float:
    """Return the cosine of two weight vectors, as estimated from the distance of their signatures."""
    return math.cos(math.pi * bits / width)


@dataclass(frozen=True, slots=True)
class Match:
    """The earlier article that makes another one a duplicate.

    ``distance`` is in bits: of the fingerprints in exact search, of the signatures in directed search.
    ``similarity`` is cos(pi * d / 256), where d is the distance of the signatures. ``time`` is the match's log time in
    milliseconds since 1970.
    """

    position: LogPosition
    id: str
    topic: str
    coordinates: Coordinates
    time: int
    distance: int
    similarity: float


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict and its explanation: the match of a duplicate, the reason of a rejection.

    A unique article with a match is an update: the match is its earlier version (rule ``recrawl``). ``copies`` is how
    many earlier articles are near it, up to ``rules.COPIES_LIMIT``.
    """

    verdict: Verdict
    match: Match | None = None
    reason: str | None = None
    copies: int = 0


UNIQUE_JUDGEMENT = Judgement(Verdict.UNIQUE)
"""That of every article that is near no other."""
