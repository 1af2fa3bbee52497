"""Records rejected on purpose, in a log in memory."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from stream_dedup.config.load import load_config
from stream_dedup.core.decode import InputFormat
from stream_dedup.core.entry import Batch, Payload
from stream_dedup.core.fingerprinter import checksum
from stream_dedup.core.model import Coordinates, LogOffset, SourceOffset, Status
from stream_dedup.errors import UnavailableError, UserError
from stream_dedup.kafka import rejections
from stream_dedup.kafka.log import WaitingLog
from stream_dedup.kafka.rejections import FoundRecord, Outcome, RecordPlace, found_records, reject
from stream_dedup.ports import CommittedOffset, Partition, SourceRecord
from stream_dedup.registry.values import Schemas
from tests.logs import TOPIC, Entry, entries_batch, rules
from tests.memory.world import MemoryWorld
from tests.registry.fake import FakeRegistry
from tests.registry.records import AVRO, frame, registry_config

PLAIN = InputFormat()
REASON = "unknown schema 9: the registry does not have it"


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    made.register("a", {"schema": AVRO})
    yield made
    made.stop()


class Log:
    """A log in memory, and records that a worker holds."""

    def __init__(self, url: str) -> None:
        world = MemoryWorld()
        group = world.name("group")
        world.make_log(group)
        config = load_config(None, {"kafka": {"group": group, "broker_wait_s": 5}}, {})
        self.waiting = WaitingLog(world.ports(group, "operator").log, config)
        self.schemas = Schemas(registry_config(url))

    def add(self, *payloads: Payload) -> list[LogOffset]:
        return [self.waiting.append_now(payload) for payload in payloads]

    def reject(self, *records: tuple[int, bytes], key: bytes = b"k", fmt: InputFormat = PLAIN) -> list[Outcome]:
        found = {
            Coordinates(TOPIC, 0, SourceOffset(offset)): FoundRecord(
                RecordPlace(Partition("articles", 0), SourceOffset(offset)),
                cast(
                    "SourceRecord",
                    SimpleNamespace(
                        topic="articles", partition=0, offset=offset, key=key + b"%d" % offset, value=value
                    ),
                ),
            )
            for offset, value in records
        }
        return reject(self.waiting, found, self.schemas, fmt, lambda *_: None)

    def batches(self) -> list[Batch]:
        records = self.waiting.read_all(lambda *_: None)
        return [one.payload for one in records if isinstance(one.payload, Batch)]


@pytest.fixture
def log(fake: FakeRegistry) -> Log:
    made = Log(fake.url)
    made.add(rules())
    return made


UNKNOWN = frame(9, b"x")


def test_the_entry_is_that_of_a_rejection(log: Log) -> None:
    """With key, checksum and reason, of one record each, and by an author that has read the log."""
    log.add(entries_batch([0], [Entry(7, id="a")]))
    (outcome, other) = log.reject((5, UNKNOWN), (3, UNKNOWN + b"y"))
    assert [(str(one.place), one.reason, one.was_logged) for one in (outcome, other)] == [
        ("articles-0-5", REASON, False),
        ("articles-0-3", REASON, False),
    ]
    _, first, second = log.batches()
    for batch, offset, value in ((first, 3, UNKNOWN + b"y"), (second, 5, UNKNOWN)):
        assert batch.offsets.tolist() == [offset]
        assert batch.statuses.tolist() == [Status.REJECTED]
        assert (batch.checksums.tolist(), batch.id(0), batch.reason(0)) == ([checksum(value)], f"k{offset}", REASON)
        assert (batch.source, batch.topic, batch.seeded) == ((TOPIC, 0), "articles", False)
    assert (first.read_to, second.read_to) == (2, 3)


def test_the_schema_of_a_key(log: Log) -> None:
    """Is unknown where keys are read, and a record without a value has no other."""
    known, by_key = frame(1, b"x"), InputFormat(key_field="id")
    with pytest.raises(UserError, match="has schema 1, which the registry knows"):
        log.reject((5, known), key=frame(9, b""))
    assert [one.reason for one in log.reject((5, known), key=frame(9, b""), fmt=by_key)] == [REASON]


def test_a_second_call_appends_nothing(log: Log, fake: FakeRegistry) -> None:
    """Whatever has become of the registry meanwhile."""
    log.reject((5, UNKNOWN))
    fake.stop()
    assert [(one.reason, one.was_logged) for one in log.reject((5, UNKNOWN))] == [(REASON, True)]
    assert len(log.batches()) == 1


def test_an_article_in_the_log_stays_one(log: Log) -> None:
    """It has a verdict, or gets one."""
    log.add(entries_batch([4, 5], [Entry(7, id="a"), Entry(8, id="b")]))
    assert [(one.reason, one.was_logged) for one in log.reject((5, UNKNOWN))] == [(None, True)]
    assert len(log.batches()) == 1


def test_of_two_entries_the_first_counts(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that logs the article between the reading and the append wins, and the command says so."""
    append = log.waiting.append_now

    def later(payload: Payload) -> LogOffset:
        append(entries_batch([5], [Entry(7, id="a")]))
        return append(payload)

    monkeypatch.setattr(log.waiting, "append_now", later)
    assert [(one.reason, one.was_logged) for one in log.reject((5, UNKNOWN))] == [(None, False)]


def test_what_a_worker_can_judge_is_not_rejected(log: Log) -> None:
    """A record with a schema that the registry has, and one that names none; nothing of the call is appended."""
    for value, said in ((frame(1, b"x"), "has schema 1, which the registry knows"), (b"{}", "names no schema")):
        with pytest.raises(UserError, match=f"articles-0-6: the record {said}"):
            log.reject((5, UNKNOWN), (6, value))
    assert log.batches() == []


def test_nothing_is_rejected_while_the_registry_is_away(log: Log, fake: FakeRegistry) -> None:
    """Nobody knows then whether it has the schema."""
    fake.stop()
    with pytest.raises(UnavailableError, match="does not answer"):
        log.reject((5, UNKNOWN))
    assert log.batches() == []


def test_a_log_that_has_not_begun(fake: FakeRegistry) -> None:
    """A batch before the rules would be no part of it."""
    with pytest.raises(UserError, match="no rules"):
        Log(fake.url).reject((5, UNKNOWN))


def test_only_where_schemas_are_asked_for() -> None:
    """A configuration without a registry rejects nothing by a command."""
    with pytest.raises(UserError, match=r"input\.format is json"):
        rejections.connected_reject(load_config(None, {}, {}), [], lambda *_: None)


BEGUN = CommittedOffset(SourceOffset(2), None)


@pytest.mark.parametrize(
    ("committed", "offsets", "said"),
    [
        (None, [2], "the group has not begun articles-0"),
        (BEGUN._replace(topic_id=bytes(16)), [2], "the group has not begun articles-0"),
        (BEGUN, [3], "articles-0-2 comes before it and is not committed"),
        (BEGUN, [2, 4], "articles-0-3 comes before it and is not committed"),
        (BEGUN, [2, 3], None),
        (BEGUN, [1], None),
    ],
)
def test_nothing_is_rejected_before_a_worker_has_got_to_it(
    log: Log, committed: CommittedOffset | None, offsets: list[int], said: str | None
) -> None:
    """Else the next worker concludes that the group lost its offsets, or `--to logged` passes over what is before."""
    world, config = MemoryWorld(), load_config(None, {"topics": {"input": ["articles"]}}, {})
    topic_id, at = world.make_topic("articles"), Partition("articles", 0)
    world.write(at, [UNKNOWN] * 5)
    if committed is not None:
        world.set_offset(config.kafka.group, at, committed)
    places = [RecordPlace(at, SourceOffset(offset)) for offset in offsets]
    found = found_records(config, places, world.ports(config.kafka.group, "operator").offsets, world.topic_reader())
    assert list(found) == [Coordinates(topic_id, 0, SourceOffset(offset)) for offset in offsets]
    if said is None:
        assert len(reject(log.waiting, found, log.schemas, InputFormat(), lambda *_: None)) == len(offsets)
        return
    with pytest.raises(UserError, match=said):
        reject(log.waiting, found, log.schemas, InputFormat(), lambda *_: None)
    assert log.batches() == []
