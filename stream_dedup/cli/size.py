"""``stream-dedup size``: what a number of articles a day takes, from measured costs.

The costs stand here alone, and docs/sizing.md has them as a table. All were taken on two cores (x86-64) with one thread
for each figure, profile ``article``. They say what to expect of another machine within a factor of two or so. A figure
that is measured again is changed here, with its command.

A worker judges its own articles and follows those of all. At the peak rate R with W workers that takes
R / W x (own + search) + R x following of each second; W is the least number with which it stays below ``BUSY``, because
Python does it on one core. Fingerprinting is spread over other cores.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import click

from stream_dedup.cli.options import WholeNumber
from stream_dedup.cli.output import write_json, write_lines
from stream_dedup.config.keys import parse_duration_ms
from stream_dedup.core.model import BLOCK_WIDTHS, BlockBits, TableCount
from stream_dedup.errors import UserError
from stream_dedup.terminal import table


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
THREAD_MEMORY = MeasuredCost(80, "MB", "a fingerprinting thread, and one for texts of up to 1 MB", "docs/sizing.md")

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

DAY_S = 86_400
_MICRO = 1e-6
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Demand:
    """What is asked: articles a day, days that they are held, characters of an article."""

    articles_a_day: int
    days: float
    characters: int

    @property
    def held(self) -> int:
        """Articles in the index."""
        return math.ceil(self.articles_a_day * self.days)

    @property
    def peak(self) -> float:
        """Articles a second at the peak."""
        return self.articles_a_day / DAY_S * PEAK


@dataclass(frozen=True, slots=True)
class Size:
    """What a plan of look-ups takes: times in seconds, memory and disk in bytes, of one worker."""

    plan: KeyPlan
    held: int
    compared: int
    """Entries compared for an article."""
    search_us: float
    """Microseconds of an article's look-ups."""
    workers: int
    cores: float
    """Of all workers, at the peak."""
    partitions: int
    index_memory_mib: int
    """The least ``index.memory_mib`` with which the whole index is in memory."""
    memory: int
    disk: int
    log: int
    """Bytes of the log for the articles held, on each replica."""
    rebuild_s: float


def size_of(demand: Demand, plan: KeyPlan) -> Size:
    """Return what the demand takes with this plan.

    Raises:
        UserError: following the articles of all workers alone keeps a worker busy.
    """
    held, peak = demand.held, demand.peak
    search = search_us(held, plan)
    own = (OWN.value + search) * _MICRO
    following = FOLLOWED.value * _MICRO
    left = BUSY - peak * following
    if left <= 0:
        most = int(BUSY / following / PEAK * DAY_S)
        raise UserError(
            f"{demand.articles_a_day:,} articles a day: every worker of a group follows all, which {most:,} a day keep "
            "busy; divide the input among groups (docs/scale.md)"
        )
    workers = max(1, math.ceil(peak * own / left))
    fingerprinting = peak * CHARACTER.value * demand.characters * _MICRO
    threads = max(1, math.ceil(fingerprinting / workers))
    sketch = SKETCH.value
    in_memory = ROW_MEMORY.value + sketch + LIST_MEMORY.value * plan.tables
    index_memory_mib = math.ceil(in_memory * held / _MIB) + ROCKSDB_MIB
    wider = LOG[plan.tables].value - LOG[4].value
    on_disk = STORED.value + wider + LIST_DISK.value * plan.tables
    return Size(
        plan=plan,
        held=held,
        compared=compared_with(held, plan),
        search_us=search,
        workers=workers,
        cores=fingerprinting + peak * own + workers * peak * following,
        partitions=WORKER_PARTITIONS * (workers + 1),
        index_memory_mib=index_memory_mib,
        memory=int(index_memory_mib * _MIB + (WORKER_MEMORY.value + threads * THREAD_MEMORY.value) * 1e6),
        disk=int(on_disk * held * MERGING),
        log=int((LOG[plan.tables].value + sketch + ID.value) * held),
        rebuild_s=held * following,
    )


def compared_with(held: int, plan: KeyPlan) -> int:
    """Return the entries compared for an article among so many, spread evenly, without a bucket limit."""
    return round(plan.lookups * held / (1 << plan.block_bits))


def search_us(held: int, plan: KeyPlan) -> float:
    """Return the microseconds of an article's look-ups among so many."""
    return plan.lookups * LOOKUP.value + compared_with(held, plan) * COMPARED.value


def cheapest_plan(held: int) -> KeyPlan:
    """Return the plan with the cheapest search among so many articles."""
    return min(PLANS, key=lambda plan: search_us(held, plan))


def pays_from(plan: KeyPlan) -> int:
    """Return the number of articles held from which on a plan is the cheapest, to two digits; 0 for the narrowest."""
    if plan == PLANS[0]:
        return 0
    narrower = PLANS[PLANS.index(plan) - 1]
    more = (plan.lookups - narrower.lookups) * LOOKUP.value
    saved = (narrower.lookups / (1 << narrower.block_bits) - plan.lookups / (1 << plan.block_bits)) * COMPARED.value
    return round(int(more / saved), 1 - int(math.log10(more / saved)))


_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"))
_HOUR, _MINUTE = 3_600, 60


def size_lines(demand: Demand, size: Size) -> Iterator[str]:
    """Yield the lines of the report."""
    mean = demand.peak / PEAK
    yield (
        f"{demand.articles_a_day:,} articles a day of {demand.characters:,} characters, {size.held:,} held: "
        f"{mean:,.0f} a second, {demand.peak:,.0f} at the peak ({PEAK} times)"
    )
    yield ""
    plan = size.plan
    rows = [
        ("key width", f"features.block_bits = {plan.block_bits}"),
        ("tables", f"features.tables = {plan.tables}"),
        ("look-ups", f"search.probes = {plan.lookups}"),
        ("entries compared", f"{size.compared:,} an article, {size.search_us:,.0f} µs of look-ups"),
        ("workers", f"{size.workers}, and 1 more so that one may be away"),
        ("cores", f"{size.cores:,.2f} of all workers at the peak"),
        ("partitions", f"{size.partitions} of the input"),
        ("index memory", f"index.memory_mib = {size.index_memory_mib} for the whole index; less is slower"),
        ("memory", f"{byte_text(size.memory)} of each worker, with that"),
        ("disk", f"{byte_text(size.disk)} of each worker, with room for merging"),
        ("log", f"{byte_text(size.log)} on each replica"),
        ("rebuild", f"{time_text(size.rebuild_s)} from the log"),
    ]
    yield from table(rows, left=2)
    yield ""
    yield "Widths that find as many edited articles, and the articles held from which on each costs least:"
    yield ""
    yield from table([["bits", "tables", "look-ups", "found", "costs least from"], *width_rows()], left=0)


def width_rows() -> list[list[str]]:
    """Return a row for each width of keys."""
    return [
        [f"{plan.block_bits}", f"{plan.tables}", f"{plan.lookups:,}", f"{plan.found:.1%}", f"{pays_from(plan):,}"]
        for plan in PLANS
    ]


def byte_text(count: int) -> str:
    """Return bytes in the greatest unit that gives 1 or more, from MB on."""
    size, unit = next((one for one in _UNITS if count >= one[0]), _UNITS[-1])
    return f"{count / size:,.1f} {unit}"


def time_text(seconds: float) -> str:
    """Return a duration in seconds, minutes or hours."""
    if seconds >= _HOUR:
        return f"{seconds / _HOUR:,.1f} h"
    return f"{seconds / _MINUTE:,.1f} min" if seconds >= _MINUTE else f"{seconds:,.1f} s"


MOST_ARTICLES, MOST_CHARACTERS = 10**12, 10**7


@click.command()
@click.option(
    "--articles-a-day", metavar="N", type=WholeNumber(1, MOST_ARTICLES), required=True, help="Articles a day, mean."
)
@click.option("--window", metavar="TIME", required=True, help="How long an article is remembered, such as 24h or 7d.")
@click.option(
    "--characters",
    metavar="C",
    type=WholeNumber(1, MOST_CHARACTERS),
    default=1_500,
    show_default=True,
    help="Characters of an article.",
)
@click.option(
    "--block-bits",
    type=click.Choice([str(bits) for bits in BLOCK_WIDTHS]),
    help="Width of the keys (default: the one that costs least).",
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def command(articles_a_day: int, window: str, characters: int, block_bits: str | None, *, as_json: bool) -> None:
    """Compute what a number of articles a day takes: key width, look-ups, memory, disk, cores, partitions.

    Computes with costs that were measured on two cores with profile article; docs/sizing.md has them. Another machine
    may take half or twice as much: measure your own with `calibrate` and a test run.

    \b
    Examples:
      stream-dedup size --articles-a-day 1000000 --window 7d
      stream-dedup size --articles-a-day 20000000 --window 30d --characters 3000 --block-bits 24
    """  # noqa: D301 - \b keeps click from folding the examples
    try:
        days = parse_duration_ms(window) / (1_000 * DAY_S)
    except ValueError as error:
        raise UserError(f"--window {window}: {error}; give a number with s, m, h or d, such as 24h or 7d") from error
    demand = Demand(articles_a_day, days, characters)
    wanted = {str(plan.block_bits): plan for plan in PLANS}
    size = size_of(demand, cheapest_plan(demand.held) if block_bits is None else wanted[block_bits])
    if as_json:
        write_json(size, indented=True)
    else:
        write_lines(*size_lines(demand, size))
