"""Computes what a stream takes, from the costs of ``measured``, and says it as plain text.

A worker judges its own articles and follows those of all. At the peak rate R with W workers that takes
R / W x (own + search) + R x following of each second; W is the least number with which it stays below ``BUSY``, because
Python does it on one core. Fingerprinting is spread over other cores.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from stream_dedup.errors import UserError
from stream_dedup.sizing import measured
from stream_dedup.sizing.measured import PLANS, KeyPlan
from stream_dedup.terminal import table

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
        return self.articles_a_day / DAY_S * measured.PEAK


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
    own = (measured.OWN.value + search) * _MICRO
    following = measured.FOLLOWED.value * _MICRO
    left = measured.BUSY - peak * following
    if left <= 0:
        most = int(measured.BUSY / following / measured.PEAK * DAY_S)
        msg = (
            f"{demand.articles_a_day:,} articles a day: every worker of a group follows all, which {most:,} a day keep "
            "busy; divide the input among groups (docs/scale.md)"
        )
        raise UserError(msg)
    workers = max(1, math.ceil(peak * own / left))
    fingerprinting = peak * measured.CHARACTER.value * demand.characters * _MICRO
    threads = max(1, math.ceil(fingerprinting / workers))
    sketch = measured.SKETCH.value
    in_memory = measured.ROW_MEMORY.value + sketch + measured.LIST_MEMORY.value * plan.tables
    index_memory_mib = math.ceil(in_memory * held / _MIB) + measured.ROCKSDB_MIB
    wider = measured.LOG[plan.tables].value - measured.LOG[4].value
    on_disk = measured.STORED.value + wider + measured.LIST_DISK.value * plan.tables
    return Size(
        plan=plan,
        held=held,
        compared=compared_with(held, plan),
        search_us=search,
        workers=workers,
        cores=fingerprinting + peak * own + workers * peak * following,
        partitions=measured.WORKER_PARTITIONS * (workers + 1),
        index_memory_mib=index_memory_mib,
        memory=int(
            index_memory_mib * _MIB + (measured.WORKER_MEMORY.value + threads * measured.THREAD_MEMORY.value) * 1e6
        ),
        disk=int(on_disk * held * measured.MERGING),
        log=int((measured.LOG[plan.tables].value + sketch + measured.ID.value) * held),
        rebuild_s=held * following,
    )


def compared_with(held: int, plan: KeyPlan) -> int:
    """Return the entries compared for an article among so many, spread evenly, without a bucket limit."""
    return round(plan.lookups * held / (1 << plan.block_bits))


def search_us(held: int, plan: KeyPlan) -> float:
    """Return the microseconds of an article's look-ups among so many."""
    return plan.lookups * measured.LOOKUP.value + compared_with(held, plan) * measured.COMPARED.value


def cheapest_plan(held: int) -> KeyPlan:
    """Return the plan with the cheapest search among so many articles."""
    return min(PLANS, key=lambda plan: search_us(held, plan))


def pays_from(plan: KeyPlan) -> int:
    """Return the number of articles held from which on a plan is the cheapest, to two digits; 0 for the narrowest."""
    if plan == PLANS[0]:
        return 0
    low, high = 1, 1 << 40
    while low < high:
        middle = (low + high) // 2
        if cheapest_plan(middle).block_bits >= plan.block_bits:
            high = middle
        else:
            low = middle + 1
    return round(low, 1 - int(math.log10(low)))


_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"))
_HOUR, _MINUTE = 3_600, 60


def size_lines(demand: Demand, size: Size) -> Iterator[str]:
    """Yield the lines of the report."""
    mean = demand.peak / measured.PEAK
    yield (
        f"{demand.articles_a_day:,} articles a day of {demand.characters:,} characters, {size.held:,} held: "
        f"{mean:,.0f} a second, {demand.peak:,.0f} at the peak ({measured.PEAK} times)"
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
    width = max(len(name) for name, _ in rows)
    yield from (f"{name.ljust(width)}  {value}" for name, value in rows)
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


def width_advice() -> str:
    """Return from how many articles held on the look-ups of each width of keys cost least."""
    others = [f"with {pays_from(plan):,} articles held or more those of {plan.block_bits} bits" for plan in PLANS[1:]]
    return (
        f"the look-ups of keys of {PLANS[0].block_bits} bits cost least in a small index, {', '.join(others)} "
        "(features.block_bits; stream-dedup size says what each takes)"
    )


def byte_text(count: int) -> str:
    """Return bytes in the greatest unit that gives 1 or more, from MB on."""
    size, unit = next((one for one in _UNITS if count >= one[0]), _UNITS[-1])
    return f"{count / size:,.1f} {unit}"


def time_text(seconds: float) -> str:
    """Return a duration in seconds, minutes or hours."""
    if seconds >= _HOUR:
        return f"{seconds / _HOUR:,.1f} h"
    return f"{seconds / _MINUTE:,.1f} min" if seconds >= _MINUTE else f"{seconds:,.1f} s"
