"""The contract of ``FingerprintLog``."""

from __future__ import annotations

import pytest

from stream_dedup.core.entry import LogRecord
from stream_dedup.core.model import LogOffset
from stream_dedup.core.rules import Rules
from stream_dedup.ports import FingerprintLog, OffsetGoneError, Partition
from tests.contract.conftest import ONE_CLIENT, Group
from tests.contract.world import World
from tests.logs import rules

pytestmark = ONE_CLIENT

ACKNOWLEDGED_S = 60.0


def append_all(log: FingerprintLog, revisions: list[int]) -> list[LogOffset]:
    """Append one record for each; return their offsets."""
    appends = [log.append(rules(revision)) for revision in revisions]
    return [append.wait(ACKNOWLEDGED_S) for append in appends]


def read(world: World, log: FingerprintLog, count: int) -> list[LogRecord]:
    found: list[LogRecord] = []

    def enough() -> bool:
        found.extend(log.poll(0.1))
        return len(found) >= count

    world.wait_until(enough, f"{count} log records are read")
    return found


def revisions(records: list[LogRecord]) -> list[int]:
    return [record.payload.revision for record in records if isinstance(record.payload, Rules)]


def test_records_reach_the_log_in_the_order_of_the_calls_and_are_read_in_it(world: World, group: Group) -> None:
    log = group.member().log
    offsets = append_all(log, [1, 2, 3, 4])
    log.seek(LogOffset(0))
    found = read(world, log, 4)
    assert revisions(found) == [1, 2, 3, 4]
    assert [record.offset for record in found] == offsets == sorted(offsets)


def test_records_of_a_producer_made_anew_follow_in_order(world: World, group: Group) -> None:
    log = group.member().log
    offsets = append_all(log, [1, 2, 3, 4])
    log.renew()
    offsets += append_all(log, [5, 6])
    log.seek(LogOffset(0))
    found = read(world, log, 6)
    assert revisions(found) == [1, 2, 3, 4, 5, 6]
    assert [record.offset for record in found] == offsets == sorted(offsets)


def test_the_time_of_a_record_is_the_brokers_at_the_append(world: World, group: Group) -> None:
    log = group.member().log
    before = world.time_ms()
    append_all(log, [1])
    after = world.time_ms()
    log.seek(LogOffset(0))
    assert before <= read(world, log, 1)[0].time <= after


def test_the_bounds_include_every_record_that_was_acknowledged_to_anyone(group: Group) -> None:
    mine, others = group.member().log, group.member().log
    assert mine.bounds() == (0, 0)
    last = append_all(others, [1, 2])[-1]
    assert mine.bounds() == (0, last + 1)


def test_an_append_is_done_without_an_error_once_it_is_acknowledged(group: Group) -> None:
    append = group.member().log.append(rules(1))
    append.wait(ACKNOWLEDGED_S)
    assert append.done()
    assert append.error() is None


def test_after_renew_new_records_are_appended(world: World, group: Group) -> None:
    log = group.member().log
    append_all(log, [1])
    log.renew()
    append_all(log, [2])
    log.seek(LogOffset(0))
    assert revisions(read(world, log, 2)) == [1, 2]


def test_a_cut_deletes_what_is_before_the_offset_and_may_be_repeated(world: World, group: Group) -> None:
    log = group.member().log
    offsets = append_all(log, [1, 2, 3])
    for _ in range(2):
        log.cut(offsets[1])
        assert log.bounds() == (offsets[1], offsets[2] + 1)
    log.seek(offsets[1])
    assert revisions(read(world, log, 2)) == [2, 3]


def test_to_read_from_an_offset_that_was_cut_away_is_an_error_that_names_the_partition(
    world: World, group: Group
) -> None:
    log = group.member().log
    offsets = append_all(log, [1, 2, 3])
    log.cut(offsets[2])
    log.seek(offsets[0])
    with pytest.raises(OffsetGoneError) as raised:
        read(world, log, 1)
    assert raised.value.partitions == {Partition(world.log_topic(group.name), 0)}


def test_to_read_past_the_end_is_the_same_error(world: World, group: Group) -> None:
    log = group.member().log
    last = append_all(log, [1])[0]
    log.seek(LogOffset(last + 5))
    with pytest.raises(OffsetGoneError):
        read(world, log, 1)


def test_the_position_moves_over_gaps_and_the_high_water_is_the_end(world: World, group: Group) -> None:
    log = group.member().log
    append_all(log, [1])
    at = Partition(world.log_topic(group.name), 0)
    world.open_transaction(at, [b"never seen", b"nor this"]).abort()
    end = log.bounds()[1]
    assert end > 3, "records, and a marker"
    log.seek(LogOffset(0))
    read(world, log, 1)
    world.wait_until(lambda: log.poll(0.1) == [] and log.position() == end, "the position moves over the gap")
    assert log.high_water() == end
