"""What a number of articles a day takes, and the plan that costs least."""

from __future__ import annotations

import json
import math

import pytest

from stream_dedup.cli import run
from stream_dedup.cli.size import (
    PLANS,
    ROCKSDB_MIB,
    ROW_MEMORY,
    SKETCH,
    Demand,
    KeyPlan,
    byte_text,
    cheapest_plan,
    compared_with,
    pays_from,
    search_us,
    size_of,
    time_text,
)
from stream_dedup.core.rules import most_probes
from stream_dedup.errors import UserError
from stream_dedup.index import IndexSettings
from stream_dedup.index.layout import row_type

DAY = Demand(8_640_000, 7, 1_000)
"""100 articles a second, 300 at the peak; 60,480,000 held."""


def test_the_parts_of_a_size_by_hand() -> None:
    """With 16 bits, four tables and 768 look-ups: each line computed from the costs as docs/sizing.md has them."""
    size = size_of(DAY, PLANS[0])
    assert (DAY.held, DAY.peak) == (60_480_000, 300)
    assert size.compared == round(60_480_000 * 768 / 65_536) == 708_750
    assert size.search_us == pytest.approx(768 * 0.28 + 708_750 * 0.0021)
    own = 300 * (120 + size.search_us) / 1e6
    following = 300 * 20 / 1e6
    assert size.workers == 1
    assert own + following < 0.7
    assert size.cores == pytest.approx(300 * 0.07 * 1_000 / 1e6 + own + following)
    assert size.partitions == 8
    assert size.index_memory_mib == math.ceil((64 + 32 + 4 * 13) * 60_480_000 / 2**20) + 192
    assert size.memory == size.index_memory_mib * 2**20 + (90 + 80) * 1_000_000
    assert size.disk == int((181 + 4 * 12) * 60_480_000 * 1.3)
    assert size.log == (93 + 32 + 24) * 60_480_000
    assert size.rebuild_s == pytest.approx(1_209.6)


@pytest.mark.parametrize(
    ("plan", "memory", "disk", "log"), [(PLANS[1], 168, 309, 125), (PLANS[2], 272, 469, 189)], ids=["20", "24"]
)
def test_more_tables_take_more_room(plan: KeyPlan, memory: int, disk: int, log: int) -> None:
    """Bytes an article of eight and sixteen tables, with 32 of sketch and 24 of id; margins are on disk too."""
    size = size_of(DAY, plan)
    assert size.index_memory_mib == math.ceil((memory + 32) * DAY.held / 2**20) + 192
    assert size.disk == int(disk * DAY.held * 1.3)
    assert size.log == (log + 32 + 24) * DAY.held


def test_the_memory_that_is_named_has_room_for_the_whole_index() -> None:
    """RocksDB's share is that of the settings, rows are those of the layout, and what is left holds rows and lists."""
    size = size_of(DAY, PLANS[0])
    settings = IndexSettings(memory_mib=size.index_memory_mib)
    assert settings.cache_bytes == (size.index_memory_mib - ROCKSDB_MIB) << 20
    assert settings.cache_bytes - (64 + 32 + 4 * 13) * DAY.held in range(1 << 20)
    assert row_type(32).itemsize == ROW_MEMORY.value + SKETCH.value


def test_text_takes_threads_and_their_memory() -> None:
    """60,000 characters take 1.26 cores at the peak: one more fingerprinting thread, where one worker suffices."""
    short, long = (size_of(Demand(8_640_000, 0.1, characters), PLANS[0]) for characters in (3_000, 60_000))
    assert (short.workers, long.workers) == (1, 1)
    assert long.memory - short.memory == 80_000_000
    assert long.cores - short.cores == pytest.approx(300 * 0.07 * 57_000 / 1e6)


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: str(plan.block_bits))
def test_a_plan_pays_from_where_its_search_costs_least(plan: KeyPlan) -> None:
    """A tenth above that size it is the cheapest, a tenth below another one is."""
    first = pays_from(plan)
    assert cheapest_plan(max(1, first * 11 // 10)) == plan
    if first:
        assert cheapest_plan(first * 9 // 10).block_bits < plan.block_bits
    assert plan.lookups <= most_probes(plan.tables, plan.block_bits)


def test_wider_keys_compare_fewer_entries_and_look_up_more() -> None:
    """At 100 million articles as benchmarks.widths counted them: 1,171,905, 146,467 and 15,262.

    Among twice as many, wider keys cost less.
    """
    assert [compared_with(100_000_000, plan) for plan in PLANS] == [1_171_875, 146_484, 15_259]
    costs = [search_us(200_000_000, plan) for plan in PLANS]
    assert costs == sorted(costs, reverse=True)


def test_what_one_group_cannot_carry_is_refused() -> None:
    """Every worker follows every article: at a billion a day that is 0.694 of each second, just below the limit."""
    assert size_of(Demand(1_000_000_000, 0.001, 1), PLANS[0]).workers > 100
    with pytest.raises(UserError, match=r"1,010,000,000 articles a day: .* 1,008,000,000 a day keep busy; divide"):
        size_of(Demand(1_010_000_000, 0.001, 1), PLANS[0])


@pytest.mark.parametrize(
    ("seconds", "said"), [(2.94, "2.9 s"), (59, "59.0 s"), (60, "1.0 min"), (3_599, "60.0 min"), (9_000, "2.5 h")]
)
def test_durations_have_their_unit(seconds: float, said: str) -> None:
    """Seconds, minutes, hours."""
    assert time_text(seconds) == said


@pytest.mark.parametrize(
    ("count", "said"), [(460_000_000, "460.0 MB"), (10**9, "1.0 GB"), (2.5e12, "2.5 TB"), (0, "0.0 MB")]
)
def test_bytes_have_their_unit(count: int, said: str) -> None:
    """From MB on."""
    assert byte_text(count) == said


def test_the_command_writes_text_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    """The text names the keys to set; the JSON has the same values, of the width that is asked for."""
    asked = ["size", "--articles-a-day", "1000000", "--window", "7d"]
    assert run(asked) == 0
    text = capsys.readouterr().out
    plan = cheapest_plan(7_000_000)
    for said in (f"features.block_bits = {plan.block_bits}\n", f"search.probes = {plan.lookups}\n", "7,000,000 held"):
        assert said in text
    assert run([*asked, "--block-bits", "24", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert (values["plan"]["block_bits"], values["held"], values["partitions"]) == (24, 7_000_000, 8)


def test_a_window_that_is_none_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """With the form that is expected."""
    assert run(["size", "--articles-a-day", "5", "--window", "7 weeks"]) == 2
    assert "--window 7 weeks: not a duration; give a number with s, m, h or d" in capsys.readouterr().err
