"""A size as plain text."""

from __future__ import annotations

from collections.abc import Iterator

from stream_dedup.sizing import measured
from stream_dedup.sizing.measured import PLANS
from stream_dedup.sizing.size import Demand, Size, pays_from
from stream_dedup.terminal import table

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
