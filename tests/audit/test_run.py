"""A whole audit through ports in memory: what it reads, in which order, and what it makes of the answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from stream_dedup.config.effective import fingerprint_settings_of, input_format_of, rules_of
from stream_dedup.config.load import load_config
from stream_dedup.core.decode import RawRecord
from stream_dedup.core.entry import Basis, Forgotten, Trim, make_batch
from stream_dedup.core.fingerprinter import EntryMaker
from stream_dedup.core.model import Coordinates, Judgement, LogOffset, SourceOffset, Verdict
from stream_dedup.errors import CorruptError, RefusedError, StreamDedupError, UnavailableError, UserError
from stream_dedup.ports import (
    CommittedOffset,
    Partition,
    PassingError,
    PortError,
    RefusedByBrokerError,
    SourceChangedError,
    UnreadableError,
)
from tests.audit.comparing import FAR, A, counts
from tests.audit.run_world import KEYS, REJECTED_TOPIC, SOURCE, UNIQUE, World
from tests.headers import output_headers
from tests.logs import REJECTED, trim_of
from tests.memory.partition import Message
from tests.memory.runtime import Phase


def three_logged() -> World:
    """Three records of the source in one batch: a unique article, another one, a rejected record."""
    world = World()
    world.produce(*(b"value %d" % number for number in range(3)))
    world.append(rules_of(world.config), world.batch([0, 1, 2], [A, FAR, REJECTED]))
    return world


def test_nothing_is_wrong() -> None:
    """Outputs as the log says them are no faults; nor are offsets without a record, inside a batch and behind it."""
    world = World()
    world.produce(b"value 0", b"value 1")
    world.produce_marker()
    world.produce(b"value 4", b"value 5")
    world.produce_marker()
    world.append(rules_of(world.config), world.batch([0, 1, 4], [A, FAR, A ^ 1]), world.batch([5], [REJECTED]))
    world.write(8)
    found = world.audit()
    assert (counts(found), found.articles, found.recomputed, found.outputs) == ({}, 4, 4, 4)


def test_a_record_inside_a_batch_without_an_entry() -> None:
    """A poll that lost a record in the middle is found, even before the batch is committed."""
    world = World()
    world.produce(*(b"value %d" % number for number in range(5)))
    world.append(rules_of(world.config), world.batch([0, 4], [A, FAR]))
    lost = [f"articles-0-{offset}: in the source, but not in the log" for offset in (1, 2, 3)]
    for committed in (0, 5):
        world.write(committed)
        assert world.audit().examples["missing"] == lost


def test_a_batch_that_covers_what_another_one_logged() -> None:
    """Offsets between the entries of a later batch that an earlier one covers are no holes of it."""
    world = World()
    world.produce(*(b"value %d" % number for number in range(3)))
    world.append(rules_of(world.config), world.batch([1], [A]), world.batch([0, 2], [FAR, REJECTED]))
    world.write(3)
    assert counts(world.audit()) == {}


def test_records_before_the_committed_offset_that_were_never_logged() -> None:
    """An offset set past records that were not logged is found; what retention has deleted is not asked for."""
    world = three_logged()
    world.produce(b"value 3")
    world.produce_marker()
    world.produce(b"value 6", b"value 7")
    world.write(3)
    world.commit(7)
    assert world.audit().examples["missing"] == [
        f"articles-0-{offset}: in the source, but not in the log" for offset in (3, 6)
    ]
    world.cluster.partition(SOURCE).delete_before(4)
    assert counts(world.audit()) == {"missing": 1}


def test_ranges_far_apart() -> None:
    """Ranges that are read one after the other: the first and the last record of a long source are lost."""
    world = World()
    world.produce(*(b"value %d" % number for number in range(1002)))
    world.append(rules_of(world.config), world.batch(list(range(1, 1001)), [REJECTED] * 1000))
    world.write(1002, only=lambda offset: 0 < offset < 1001)
    assert world.audit().examples["missing"] == [
        f"articles-0-{offset}: in the source, but not in the log" for offset in (0, 1001)
    ]


def test_retention_excuses_the_topic_that_it_deleted_from() -> None:
    """A deleted rejected record excuses itself, and no lost unique output."""
    world = three_logged()
    world.write(3, only=lambda offset: offset == 2)
    world.cluster.partition(REJECTED_TOPIC).delete_before(1)
    assert counts(world.audit()) == {"not kept": 1, "missing": 2}


def test_outputs_that_are_deleted_while_they_are_read() -> None:
    """The audit asks to be started again: it cannot tell what was there."""
    world = three_logged()
    world.write(3)
    delete = lambda: world.cluster.partition(UNIQUE).delete_before(1)  # noqa: E731 - one step
    with world.at("reader.read", Phase.BEGIN, delete), pytest.raises(UnavailableError, match="start the audit again"):
        world.audit()


def test_source_records_that_are_deleted_while_they_are_read() -> None:
    """Records that retention deletes meanwhile are left out; the others are read."""
    world = three_logged()
    world.produce(*(b"value %d" % number for number in range(3, 6)))
    world.write(3)
    world.commit(6)
    calls = 0

    def delete(call: str, phase: Phase) -> None:
        nonlocal calls
        calls += call == "reader.read" and phase is Phase.BEGIN
        if calls == 3:  # one for each output topic that has records
            world.cluster.partition(SOURCE).delete_before(5)

    world.connection.hook = delete
    assert world.audit().examples["missing"] == ["articles-0-5: in the source, but not in the log"]


def test_a_log_that_is_trimmed_while_it_is_read() -> None:
    """The audit asks to be started again."""
    world = three_logged()
    cut = lambda: world.cluster.partition(Partition(world.config.log_topic, 0)).delete_before(1)  # noqa: E731 - one step
    with world.at("log.poll", Phase.BEGIN, cut), pytest.raises(RefusedError, match="start the audit again"):
        world.audit()


def test_progress_of_workers_is_no_fault() -> None:
    """Articles that are committed, and trimmed behind, after the audit read the committed offsets: no fault."""
    world = three_logged()
    world.write(1)

    def go_on() -> None:
        world.write(3, only=lambda offset: offset > 0)
        world.append(rules_of(world.config), trim_of(2, 2_000_000_000_000, 3))

    with world.at("reader.bounds", Phase.END, go_on):
        assert counts(world.audit()) == {"pending": 2}


def test_the_same_trim_before_the_audit_began() -> None:
    """The same trim is a fault where it came before the committed offsets that leave the articles owed."""
    world = three_logged()
    world.write(1)
    world.append(rules_of(world.config), trim_of(2, 2_000_000_000_000, 3))
    assert counts(world.audit()) == {"pending": 2, "trimmed early": 1}


def earlier_world(outputs: int) -> World:
    """Five records of the source. The log of the first two was lost; the fourth and the fifth are in another one.

    So many of the first two have kept their output. The third was never logged.
    """
    world = three_logged()
    world.produce(b"value 3", b"value 4")
    world.write(2, only=lambda offset: offset < outputs)
    world.cluster.delete_topic(world.config.log_topic)
    world.pass_time()
    world.cluster.make_topic(world.config.log_topic, has_append_time=True)
    world.append(rules_of(world.config), world.batch([3, 4], [A, REJECTED]))
    world.write(5)
    return world


def test_a_log_that_was_lost_and_begun_again() -> None:
    """Outputs of the earlier log are counted, and a partition is audited from behind them on: no further."""
    found = earlier_world(2).audit()
    assert counts(found) == {"earlier log": 2, "missing": 1}
    assert found.examples["missing"] == ["articles-0-2: in the source, but not in the log"]
    assert earlier_world(0).audit().found["missing"] == 3


def test_an_output_that_is_in_no_log() -> None:
    """What was written since the log began, or lies behind its first article, is not of an earlier log: it is wrong."""
    for offset, written_before in ((2, 0), (5, 1)):
        world = earlier_world(2)
        log_began = world.cluster.partition(Partition(world.config.log_topic, 0)).records[0].timestamp
        at = Coordinates(world.topic_id, 0, SourceOffset(offset))
        headers = output_headers(Judgement(Verdict.UNIQUE), A, world.plain().scheme_id(), SOURCE.topic, at, 1234)
        message = Message(b"key", b"value %d" % offset, headers, log_began - written_before)
        world.cluster.append(world.cluster.partition(UNIQUE), message)
        assert f"articles-0-{offset} is not in the log" in world.audit().examples["wrong"][0]


def cut_world(forgotten: tuple[Forgotten, ...]) -> World:
    """Five records of the source; the log of the first two was trimmed and cut, the third was never logged."""
    world = World(load_config(None, {**KEYS, "match": {"window": "1s"}}, {}))
    world.produce(*(b"value %d" % number for number in range(5)))
    rules = rules_of(world.config)
    world.append(rules, world.batch([0, 1], [A, FAR]), rules, world.batch([3, 4], [A, REJECTED]))
    world.append(Trim(LogOffset(2), 0, Basis(rules.revision, LogOffset(4), forgotten)))
    world.cluster.partition(Partition(world.config.log_topic, 0)).delete_before(2)
    world.write(5)
    return world


def test_a_record_that_was_never_logged_before_a_log_that_was_cut() -> None:
    """What trims forget says where the rest of the log begins: a record between both was never logged."""
    world = cut_world(())
    assert world.audit().found["missing"] == 0
    world = cut_world((Forgotten(world.topic_id, 0, SourceOffset(2)),))
    assert world.audit().examples["missing"] == ["articles-0-2: in the source, but not in the log"]


def test_an_output_that_is_not_in_a_log_that_was_cut() -> None:
    """An output of what the trims forgot cannot be checked; one of what they did not forget is wrong."""
    world = cut_world((Forgotten(World().topic_id, 0, SourceOffset(2)),))
    judged = Judgement(Verdict.REJECTED, reason="broken")
    for offset in (1, 2):
        at = Coordinates(world.topic_id, 0, SourceOffset(offset))
        headers = output_headers(judged, 0, world.plain().scheme_id(), SOURCE.topic, at, 1234)
        message = Message(None, b"value %d" % offset, headers, world.cluster.time_ms())
        world.cluster.append(world.cluster.partition(Partition("duplicate", 0)), message)
    found = world.audit()
    assert found.examples["wrong"] == ["duplicate-0-1: articles-0-2 is not in the log"]
    assert found.found["trimmed"] == 1


def unlisted_world(forgotten: tuple[Forgotten, ...], *, written_before: int) -> World:
    """A log that was cut, and another source partition: its second record was logged; two outputs say of its first.

    One was written so many ms before the first record of the log, the other when it was logged.
    """
    world = cut_world(forgotten)
    world.cluster.add_partitions(SOURCE.topic, 2)
    other = Partition(SOURCE.topic, 1)
    for value in (b"value 0", b"value 1"):
        world.cluster.append(world.cluster.partition(other), Message(b"key", value, [("own", b"1")], 1234))
    world.append(replace(world.batch([1], [REJECTED]), partition=1))
    world.cluster.group(world.config.kafka.group).commit(other, CommittedOffset(SourceOffset(2), world.topic_id))
    log_began = world.cluster.partition(Partition(world.config.log_topic, 0)).records[0].timestamp
    for offset, time in ((0, log_began - written_before), (1, world.cluster.time_ms())):
        at = Coordinates(world.topic_id, 1, SourceOffset(offset))
        judged = Judgement(Verdict.REJECTED, reason="broken")
        headers = output_headers(judged, 0, world.plain().scheme_id(), SOURCE.topic, at, 1234)
        message = Message(b"key", b"value %d" % offset, [("own", b"1"), *headers], time)
        world.cluster.append(world.cluster.partition(REJECTED_TOPIC), message)
    return world


def test_a_partition_that_no_trim_lists() -> None:
    """A trim that lists all that is forgotten says that nothing of it is: its first record was never logged.

    Where an output shows that it was judged in an earlier log, it is no fault. A trim that lists nothing shows nothing.
    """
    listed = (Forgotten(World().topic_id, 0, SourceOffset(3)),)
    found = unlisted_world(listed, written_before=0).audit()
    assert found.examples["wrong"] == ["rejected-0-1: articles-1-0 is not in the log"]
    assert found.examples["missing"] == ["articles-1-0: in the source, but not in the log"]
    earlier, unknown = (unlisted_world(all_listed, written_before=1).audit() for all_listed in (listed, ()))
    assert (earlier.faults, earlier.found["earlier log"]) == (0, 1)
    assert (unknown.faults, unknown.found["earlier log"]) == (0, 0)


@pytest.mark.parametrize("call", ["log.bounds", "offsets.committed", "offsets.topic_ids", "reader.bounds"])
def test_a_broker_that_is_away_for_a_moment(call: str) -> None:
    """A request whose error passes is made again; one that is refused, or passes too late, ends the audit."""
    world = three_logged()
    world.write(3)

    def fail(error: Exception) -> Callable[[], None]:
        def act() -> None:
            raise error

        return act

    with world.at(call, Phase.BEGIN, fail(PassingError("away"))) as calls:
        assert counts(world.audit()) == {}
    assert calls.count(call) > 2
    refused = fail(RefusedByBrokerError("no right"))
    with world.at(call, Phase.BEGIN, refused), pytest.raises(UserError, match="no right"):
        world.audit()


@pytest.mark.parametrize("call", ["log.poll", "reader.read"])
@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (UnreadableError(SOURCE, 2, "a wrong checksum", "Mend it"), CorruptError),
        (RefusedByBrokerError("a wrong password"), UserError),
        (SourceChangedError("a wrong epoch"), UnavailableError),
    ],
)
def test_records_that_cannot_be_read_end_an_audit(call: str, error: PortError, raised: type[StreamDedupError]) -> None:
    """With what the port says, of the log as of the other topics."""
    world = three_logged()
    world.write(3)

    def fail() -> None:
        raise error

    with world.at(call, Phase.BEGIN, fail), pytest.raises(raised, match="a wrong"):
        world.audit()


def test_no_log() -> None:
    """A group without a log is an error that names the remedy."""
    world = World()
    world.cluster.delete_topic(world.config.log_topic)
    with pytest.raises(UserError, match="--group"):
        world.audit()


def test_since_an_offset_beyond_the_log() -> None:
    """It may be meant as a date, and is refused; a time without articles is none, nor is a log without records."""
    world = three_logged()
    time_ms = world.plain().entries.times.max()
    assert (world.audit(since_offset=1).articles, world.audit(since_ms=time_ms + 1).articles) == (3, 0)
    with pytest.raises(UserError, match=r"--since 20260101 is a log offset, .* has the offset 1: .* a date as 2026-01"):
        world.audit(since_offset=20260101)
    assert World().audit(since_offset=1).articles == 0


def fingerprinted() -> World:
    """Articles that are logged as a worker does it."""
    world = World()
    texts = ["the ferry leaves at nine", "no boat will come today", "a storm is on its way"]
    world.produce(*(json.dumps({"id": text[:2], "text": text}).encode() for text in texts))
    records = world.cluster.partition(SOURCE).records
    raw = [RawRecord(one.key, one.value, f"articles-0-{one.offset}") for one in records]
    maker = EntryMaker(fingerprint_settings_of(world.config), input_format_of(world.config))
    entries = make_batch(maker(raw), world.topic_id, SOURCE.topic, 0, range(3))
    signatures = entries.signatures.copy()
    signatures[1] ^= 1
    world.append(rules_of(world.config), replace(entries, signatures=signatures))
    world.write(3)
    return world


def test_texts() -> None:
    """With ``texts``, a wrong signature is found; without, the log is taken as it is."""
    world = fingerprinted()
    assert counts(world.audit()) == {}
    found = world.audit(texts=True)
    assert (counts(found), found.texts) == ({"wrong entry": 1}, 3)
    world.cluster.partition(SOURCE).delete_before(2)
    found = world.audit(texts=True)
    assert (counts(found), found.texts) == ({"not compared": 2}, 1)


def test_texts_of_a_sample() -> None:
    """A sample names the articles that are compared."""
    found = [world.audit(texts=True, sample=1, seed=seed) for world in [fingerprinted()] for seed in range(8)]
    assert {one.texts for one in found} == {1}
    assert {one.found["wrong entry"] for one in found} == {0, 1}


def test_texts_under_another_scheme() -> None:
    """The configuration must name the scheme of the log."""
    world = fingerprinted()
    world.config = load_config(None, {**KEYS, "match": {"profile": "comment"}}, {})
    with pytest.raises(UserError, match="needs the configuration of the workers"):
        world.audit(texts=True)
