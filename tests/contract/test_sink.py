"""The contract of ``VerdictSink``: transactions, their offsets, and what renewing settles."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

import pytest

from stream_dedup.kafka.kafka_python import sink as kafka_sink
from stream_dedup.ports import (
    CommittedOffset,
    FencedError,
    NotAMemberError,
    Output,
    Partition,
    PassingError,
    RecordTooLargeError,
    RefusedByBrokerError,
    VerdictSink,
    WorkerPorts,
)
from tests.contract.conftest import Group
from tests.contract.members import join, start_at, values, wait_for_members
from tests.contract.world import World
from tests.memory.sink import LONGEST_TRANSACTION_S

WRITTEN_MS = time.time_ns() // 1_000_000
"""Not a fixed day: of a topic that keeps seven days, the broker deletes older records, whenever it comes round."""


IN_A_ROW = 9
SHORT_S = 3.0
"""The limit of a call that goes on for as long: one client has the transaction's time-out, the other a constant."""


def output(topic: str, value: bytes) -> Output:
    return Output(topic, b"key", value, [("dedup.verdict", b"unique")], WRITTEN_MS)


def begun(sink: VerdictSink) -> VerdictSink:
    """The sink, renewed, with a transaction begun."""
    sink.renew()
    sink.begin()
    return sink


def sent(sink: VerdictSink, topic: str, *records: bytes) -> VerdictSink:
    """The sink, in a transaction whose records the broker has acknowledged."""
    begun(sink)
    sink.send(output(topic, value) for value in records)
    sink.flush()
    return sink


def transact(sink: VerdictSink, topic: str, *records: bytes) -> None:
    """Commit one more transaction."""
    sink.begin()
    sink.send(output(topic, value) for value in records)
    sink.flush()
    sink.commit()


def offsets_of(group: Group, offset: int) -> Mapping[Partition, CommittedOffset]:
    return {group.partition: start_at(offset, group.topic_id, 0)}


def test_records_and_offsets_are_seen_when_the_transaction_is_committed(world: World, group: Group) -> None:
    """Nothing before it; afterwards all of each record, and the offset with its topic id and leader epoch."""
    ports = group.member()
    membership = join(world, ports.source, [group.partition])
    sink = sent(ports.sink, group.output, b"0", b"1")
    sink.send_offsets(offsets_of(group, 7), membership)
    sink.flush()
    assert world.committed_records(group.output) == []
    assert world.committed_offsets(group.name) == {}
    sink.commit()
    world.wait_until(lambda: len(world.committed_records(group.output)) == 2, "the records are seen")
    first, second = world.committed_records(group.output)
    assert second.value == b"1"
    found = Output(group.output, first.key, first.value, list(first.headers), first.timestamp)  # type: ignore[arg-type]
    assert found == output(group.output, b"0")
    world.wait_until(lambda: world.committed_offsets(group.name) == offsets_of(group, 7), "the offset is seen")


def test_an_aborted_transaction_leaves_nothing_and_the_next_one_is_committed(world: World, group: Group) -> None:
    ports = group.member()
    membership = join(world, ports.source, [group.partition])
    sink = sent(ports.sink, group.output, b"aborted")
    sink.send_offsets(offsets_of(group, 7), membership)
    sink.abort()
    transact(sink, group.output, b"committed")
    world.wait_until(lambda: values(world.committed_records(group.output)) == [b"committed"], "the next one is seen")
    assert world.committed_offsets(group.name) == {}


def test_refused_offsets_are_not_committed_later(world: World, make_group: Callable[..., Group]) -> None:
    """The group has gone on. The transaction can be aborted, and a later one commits its own offsets only."""
    group = make_group(partitions=2)
    partitions = [Partition(group.topic, 0), Partition(group.topic, 1)]
    one, other = group.member(), group.member()
    ended = join(world, one.source, partitions)
    other.source.join([group.topic])
    present = wait_for_members(world, [one.source, other.source], partitions)[0]
    sink = begun(one.sink)
    with pytest.raises(NotAMemberError):
        sink.send_offsets(offsets_of(group, 7), ended)
    sink.abort()
    sink.begin()
    kept = {Partition(group.topic, 1): start_at(1, group.topic_id)}
    sink.send_offsets(kept, present)
    sink.flush()
    sink.commit()
    world.wait_until(lambda: world.committed_offsets(group.name) != {}, "the later offsets are committed")
    assert world.committed_offsets(group.name) == kept


def test_offsets_of_a_member_that_left_are_refused(world: World, group: Group) -> None:
    ports = group.member()
    membership = join(world, ports.source, [group.partition])
    ports.source.close()
    sink = begun(ports.sink)
    with pytest.raises(NotAMemberError):
        sink.send_offsets(offsets_of(group, 7), membership)
    sink.renew()
    assert world.committed_offsets(group.name) == {}


def test_offsets_of_a_membership_without_a_generation_are_refused(world: World, group: Group) -> None:
    """The group would take them unchecked."""
    ports = group.member()
    membership = join(world, ports.source, [group.partition])
    sink = begun(ports.sink)
    with pytest.raises(NotAMemberError):
        sink.send_offsets(offsets_of(group, 7), replace(membership, generation=-1))


def finish(ports: WorkerPorts, group: Group) -> None:
    """Send one more record, and commit the open transaction."""
    ports.sink.send([output(group.output, b"more")])
    ports.sink.flush()
    ports.sink.commit()


def test_a_second_sink_with_the_same_id_fences_the_first(world: World, group: Group) -> None:
    """What the first has open is aborted; it can do nothing more until it is renewed, which fences the second."""
    member_id = group.member_id()
    one, other = group.member(member_id), group.member(member_id)
    sent(one.sink, group.output, b"of the first")
    other.sink.renew()
    with pytest.raises(FencedError):
        finish(one, group)
    transact(other.sink, group.output, b"of the second")
    world.wait_until(lambda: values(world.committed_records(group.output)) == [b"of the second"], "it is seen")
    one.sink.renew()
    other.sink.begin()
    with pytest.raises(FencedError):
        finish(other, group)


def test_renew_settles_the_transaction_of_a_dead_process(world: World, group: Group) -> None:
    """Records behind it become readable, and the group's offset is known."""
    member_id = group.member_id()
    dead, successor = group.member(member_id), group.member(member_id)
    membership = join(world, dead.source, [group.partition])
    sent(dead.sink, group.output, b"open").send_offsets(offsets_of(group, 7), membership)
    dead.sink.close()
    world.write(Partition(group.output, 0), [b"behind"])
    assert world.committed_records(group.output) == []
    successor.sink.renew()
    assert successor.source.committed(group.partition) is None
    assert values(world.committed_records(group.output)) == [b"behind"]


def test_a_commit_without_an_answer_is_settled_by_renew(world: World, group: Group) -> None:
    """The broker carried it out: then records and offsets are there."""
    ports = group.member()
    membership = join(world, ports.source, [group.partition])
    sink = sent(ports.sink, group.output, b"0")
    sink.send_offsets(offsets_of(group, 7), membership)
    with pytest.raises(PassingError):
        world.commit_without_answer(sink)
    sink.renew()
    assert ports.source.committed(group.partition) == start_at(7, group.topic_id, 0)
    assert values(world.committed_records(group.output)) == [b"0"]


def test_a_transaction_that_is_open_too_long_is_aborted_by_the_broker(world: World, group: Group) -> None:
    """Its sink cannot commit it any more, and goes on after ``renew``."""
    ports = world.ports(group.name, group.member_id(), transaction_timeout_s=1.0)
    sent(ports.sink, group.output, b"too late")
    world.write(Partition(group.output, 0), [b"behind"])
    world.wait_until(lambda: values(world.committed_records(group.output)) == [b"behind"], "it is aborted")
    with pytest.raises((FencedError, PassingError)):
        finish(ports, group)
    ports.sink.renew()
    transact(ports.sink, group.output, b"in time")
    world.wait_until(lambda: values(world.committed_records(group.output)) == [b"behind", b"in time"], "it is seen")


def send_and_flush(sink: VerdictSink, record: Output) -> None:
    sink.send([record])
    sink.flush()


def test_a_record_larger_than_its_topic_takes_is_named_so(world: World, group: Group) -> None:
    """At once or in ``flush``; the sink goes on after ``renew``."""
    small = world.name("small")
    world.make_topic(small, largest_batch=2_000)
    sink = begun(group.member().sink)
    with pytest.raises(RecordTooLargeError):
        send_and_flush(sink, output(small, b"x" * 5_000))
    sink.renew()
    transact(sink, small, b"fits")
    world.wait_until(lambda: values(world.committed_records(small)) == [b"fits"], "the next one is seen")


def test_a_transaction_time_out_beyond_the_brokers_limit_is_refused(world: World, group: Group) -> None:
    """At once, with the broker's reason, at each try."""
    ports = world.ports(group.name, group.member_id(), transaction_timeout_s=LONGEST_TRANSACTION_S + 100)
    for _ in range(2):
        with pytest.raises(RefusedByBrokerError, match="transaction timeout"):
            ports.sink.renew()


def test_transactions_of_workers_that_are_no_members_are_aborted(world: World, group: Group) -> None:
    """Their ids are returned; transactions of a member, of this worker and of other programs stay open."""
    dead_id = group.member_id()
    dead, alive, looking = group.member(dead_id), group.member(), group.member()
    join(world, alive.source, [group.partition])
    sent(dead.sink, group.output, b"of the dead")
    sent(alive.sink, group.output, b"of a member")
    sent(looking.sink, group.output, b"its own")
    foreign = world.open_transaction(group.partition, [b"of another program"])
    assert looking.sink.abort_hanging() == [dead_id]
    alive.sink.commit()
    looking.sink.commit()
    foreign.commit()
    left = [b"of a member", b"its own"]
    world.wait_until(lambda: values(world.committed_records(group.output)) == left, "one is aborted")


def test_offsets_of_a_topic_that_is_gone_do_not_block_for_ever(
    world: World, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call ends, with or without an error; after ``renew`` the sink goes on."""
    ports = world.ports(group.name, group.member_id(), transaction_timeout_s=SHORT_S)
    membership = join(world, ports.source, [group.partition])
    world.delete_topic(group.topic)
    sink = begun(ports.sink)
    with suppress(PassingError), monkeypatch.context() as short:
        short.setattr(kafka_sink, "DELIVERY_MS", 1_000 * SHORT_S)
        sink.send_offsets(offsets_of(group, 7), membership)
    sink.renew()
    transact(sink, group.output, b"0")
    world.wait_until(lambda: values(world.committed_records(group.output)) == [b"0"], "the next one is seen")


def test_the_offsets_of_the_last_of_many_transactions_are_kept(world: World, group: Group) -> None:
    """Each begins as soon as the commit of the one before was answered, while the broker still writes its markers."""
    ports = group.member()
    membership = join(world, ports.source, [group.partition])
    sink = ports.sink
    sink.renew()
    for number in range(IN_A_ROW):
        sink.begin()
        sink.send([output(group.output, b"%d" % number)])
        sink.send_offsets(offsets_of(group, number + 1), membership)
        sink.flush()
        sink.commit()
    world.wait_until(lambda: len(world.committed_records(group.output)) == IN_A_ROW, "all are seen")
    assert values(world.committed_records(group.output)) == [b"%d" % number for number in range(IN_A_ROW)]
    world.wait_until(lambda: world.committed_offsets(group.name) == offsets_of(group, IN_A_ROW), "the last is kept")


@pytest.mark.parametrize("step", ["records", "offsets"])
def test_a_transaction_of_records_or_of_offsets_alone_is_committed(world: World, group: Group, step: str) -> None:
    ports = group.member()
    steps: dict[str, Callable[[], None]] = {
        "records": lambda: ports.sink.send([output(group.output, b"0")]),
        "offsets": lambda: ports.sink.send_offsets(offsets_of(group, 7), membership),
    }
    membership = join(world, ports.source, [group.partition])
    begun(ports.sink)
    steps[step]()
    ports.sink.flush()
    ports.sink.commit()
    ports.sink.renew()
    expected = {"records": ([b"0"], {}), "offsets": ([], offsets_of(group, 7))}[step]
    assert (values(world.committed_records(group.output)), world.committed_offsets(group.name)) == expected
