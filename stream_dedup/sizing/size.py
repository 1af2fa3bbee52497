"""Computes what a stream takes, from the costs of ``measured``.

A worker judges its own articles and follows those of all. At the peak rate R with W workers that takes
R / W x (own + search) + R x following of each second; W is the least number with which it stays below ``BUSY``, because
Python does it on one core. Fingerprinting is spread over other cores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from stream_dedup.errors import UserError
from stream_dedup.sizing import measured
from stream_dedup.sizing.measured import PLANS, KeyPlan

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
