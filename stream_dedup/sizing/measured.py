"""The measured costs: the one place that has them. ``size`` computes with them, and docs/sizing.md has them as a table.

All were taken on two cores (x86-64) with one thread for each figure, profile ``article``. They say what to expect of
another machine within a factor of two or so. A figure that is measured again is changed here, with its command.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from stream_dedup.core.model import BlockBits, TableCount


class MeasuredCost(NamedTuple):
    """A cost, its unit, what it is the cost of, and the command that measures it."""

    value: float
    unit: str
    of: str
    command: str


_INDEX = "python -m benchmarks.index, up to 100 million articles: benchmarks/index.md"
_FOLLOWING = "python -m benchmarks.following --articles 1000000"
_STAGES = "python -m benchmarks.stages"
_FORMAT = "stream_dedup/core/entry.py (computed)"
_LAYOUT = "stream_dedup/index/layout.py (computed)"
_CHUNKS = "native/src/postings/chunk.rs (computed)"

CHARACTER = MeasuredCost(0.07, "µs", "decoding and fingerprinting, a character of Chinese text", _STAGES)
OWN = MeasuredCost(120, "µs", "a worker, an article of its own, without fingerprinting", _STAGES)
FOLLOWED = MeasuredCost(20, "µs", "reading an article from the log and adding it to the index", _FOLLOWING)
LOOKUP = MeasuredCost(0.28, "µs", "a look-up among 100 million articles, without the entries compared", _INDEX)
COMPARED = MeasuredCost(0.0021, "µs", "an entry compared", _INDEX)
ROW_MEMORY = MeasuredCost(64, "bytes", "a row in memory, without sketch", _LAYOUT)
LIST_MEMORY = MeasuredCost(13, "bytes", "posting lists in memory, an article and table", _CHUNKS)
STORED = MeasuredCost(
    181, "bytes", "log record and row on disk with four tables, an article held, with sketch, merged", _INDEX
)
LIST_DISK = MeasuredCost(12, "bytes", "posting lists on disk, an article and table, merged", _CHUNKS)
LOG = {
    4: MeasuredCost(93, "bytes", "the log with four tables, an article, without sketch and id", _FORMAT),
    8: MeasuredCost(125, "bytes", "the log with eight tables, an article, without sketch and id", _FORMAT),
    16: MeasuredCost(189, "bytes", "the log with sixteen tables, an article, without sketch and id", _FORMAT),
}
SKETCH = MeasuredCost(32, "bytes", "the sketch and form of profile article", _FORMAT)
ID = MeasuredCost(24, "bytes", "an article id (an assumption)", "-")
WORKER_MEMORY = MeasuredCost(90, "MB", "a worker, without its index", "docs/sizing.md")
THREAD_MEMORY = MeasuredCost(70, "MB", "a fingerprinting thread, with texts of 1 MB", "docs/sizing.md")

ROCKSDB_MIB = 192
"""MiB that RocksDB's own cache and buffers take of a large ``index.memory_mib`` (``index/store.py``)."""
PEAK = 3
"""Busy hours, and catching up after a stop: times the mean rate. An assumption."""
MERGING = 1.3
"""Room on disk while posting lists and RocksDB's files are merged: times the merged index."""
BUSY = 0.7
"""Share of a core that a worker may be busy at the peak, without fingerprinting."""
WORKER_PARTITIONS = 4
"""Partitions of the input for each worker, so that work can be shared out evenly."""


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """A width of keys with the tables and look-ups that find as many edited articles as the default of the profile.

    ``found`` is the share of Chinese articles edited by 20 to 30 % that is found, from benchmarks/widths.md.
    """

    block_bits: BlockBits
    tables: TableCount
    lookups: int
    found: float


PLANS = (KeyPlan(16, 4, 768, 0.988), KeyPlan(20, 8, 1_536, 0.988), KeyPlan(24, 16, 2_560, 0.985))
"""Of 24 bits in four tables 2,560 look-ups find .967: wide keys take more tables, beside more look-ups."""

COSTS_MEASURED: tuple[MeasuredCost, ...] = (
    CHARACTER,
    OWN,
    FOLLOWED,
    LOOKUP,
    COMPARED,
    ROW_MEMORY,
    LIST_MEMORY,
    STORED,
    LIST_DISK,
    *LOG.values(),
    SKETCH,
    ID,
    WORKER_MEMORY,
    THREAD_MEMORY,
)
"""All of them, as the page shows them."""
