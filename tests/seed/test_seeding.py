"""Archives in the log: each article once, without output, whatever ended an earlier call."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from stream_dedup.audit.log_faults import author_faults
from stream_dedup.audit.reference import PlainLog
from stream_dedup.core.entry import Basis, Batch, Forgotten, Payload, Trim
from stream_dedup.core.model import LogOffset, SourceOffset, Status
from stream_dedup.core.rules import Rules
from stream_dedup.errors import CorruptError, RefusedError, UnavailableError, UserError
from stream_dedup.files import inputs
from stream_dedup.files.inputs import Progress
from stream_dedup.kafka.record import DEFAULT_RECORD_BYTES
from stream_dedup.ports import GroupOffsets, Partition, UnreadableError
from stream_dedup.seed import archives
from stream_dedup.seed.archives import TopicArchive
from stream_dedup.seed.run import archives_in
from stream_dedup.seed.seeding import LoggedArticles
from tests.logs import OTHER_TOPIC, SCHEME, TOPIC, batch
from tests.memory.offsets import MemoryTopicReader
from tests.profiles import profile_with
from tests.seed.seeding import BreakingLog, SameLogAsLong, SeedWorld, line, offsets_of, write_lines

BATCH_LINES = 4
LINES = [line(number) for number in range(3 * BATCH_LINES + 1)]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> SeedWorld:
    monkeypatch.setattr(inputs, "LINE_BATCH_LINES", BATCH_LINES)
    return SeedWorld()


class CallEndedError(Exception):
    """What ended a call."""


def test_every_line_is_in_the_log_once_in_order(world: SeedWorld, tmp_path: Path) -> None:
    """As seeded batches; its number in the file is its offset, and blank lines leave gaps."""
    path = write_lines(tmp_path / "archive.jsonl", [*LINES[:2], "", *LINES[2:]])
    tally = world.seed_files(path)
    assert (tally.entered, tally.present, tally.rejected) == (len(LINES), 0, 0)
    assert offsets_of(world) == [0, 1, *range(3, len(LINES) + 1)]
    assert world.ids() == [f"a{number}" for number in range(len(LINES))]
    assert {(batch.seeded, batch.topic, batch.partition) for batch in world.batches()} == {(True, "archive.jsonl", 0)}
    assert isinstance(world.records()[0].payload, Rules)


def test_the_same_call_again_adds_nothing(world: SeedWorld, tmp_path: Path) -> None:
    """Under another name and in another place neither: an archive is known by its first line."""
    world.seed_files(write_lines(tmp_path / "archive.jsonl", LINES))
    before = world.logged()
    tally = world.seed_files(write_lines(tmp_path / "moved", LINES))
    assert (tally.entered, tally.present) == (0, len(LINES))
    assert world.logged() == before


def test_an_archive_that_has_grown_adds_what_is_new(world: SeedWorld, tmp_path: Path) -> None:
    """Only the lines behind those that are in the log."""
    path = write_lines(tmp_path / "archive.jsonl", LINES[:6])
    world.seed_files(path)
    tally = world.seed_files(write_lines(path, LINES))
    assert (tally.entered, tally.present) == (len(LINES) - 6, 6)
    assert offsets_of(world) == list(range(len(LINES)))


def test_a_file_named_twice_is_entered_once(world: SeedWorld, tmp_path: Path) -> None:
    """The second one finds what the same call has just appended."""
    path = write_lines(tmp_path / "archive.jsonl", LINES)
    tally = world.seed_files(path, path)
    assert (tally.entered, tally.present) == (len(LINES), len(LINES))
    assert offsets_of(world) == list(range(len(LINES)))


@pytest.mark.parametrize("is_lost", [True, False])
@pytest.mark.parametrize("number", range(1, 6))
def test_a_call_that_was_interrupted_goes_on(world: SeedWorld, tmp_path: Path, number: int, is_lost: bool) -> None:
    """At each append, before it and after it: the same call enters what is missing, and nothing twice."""
    path = write_lines(tmp_path / "archive.jsonl", LINES)
    log = world.log
    breaking = BreakingLog(log, number, is_lost=is_lost, error=CallEndedError)
    world.log = breaking
    with pytest.raises(CallEndedError):
        world.seed_files(path)
    breaking.wait_for_appends()
    world.log = log
    world.seed_files(path)
    assert offsets_of(world) == list(range(len(LINES)))


def test_an_append_that_comes_late_is_a_copy(world: SeedWorld, tmp_path: Path) -> None:
    """The next call has entered the articles meanwhile: each counts once, and nobody is at fault."""
    path = write_lines(tmp_path / "archive.jsonl", LINES)
    log = world.log
    world.log = BreakingLog(log, 3, is_lost=False, error=CallEndedError)
    with pytest.raises(CallEndedError):
        world.seed_files(path)
    world.log = log
    world.seed_files(path)
    assert len(world.logged()) > len(LINES)
    plain, faults = PlainLog(), list[tuple[str, str]]()
    for record in world.records():
        faults += author_faults(plain, record)
        plain.append_record(record)
    assert faults == []
    assert len(plain.entries.times) == len(LINES)


def test_an_archive_that_was_changed_is_refused(world: SeedWorld, tmp_path: Path) -> None:
    """The message has the line, the reason and the remedy. Nothing of the file is entered."""
    path = write_lines(tmp_path / "archive.jsonl", LINES)
    world.seed_files(path)
    before = world.logged()
    with pytest.raises(RefusedError, match=r"archive.jsonl, line 6: the log has another .*was changed.*--name"):
        world.seed_files(write_lines(path, [*LINES[:5], line(99), *LINES[6:], line(100)]))
    assert world.logged() == before


def test_a_line_that_was_blank_is_a_change(world: SeedWorld, tmp_path: Path) -> None:
    """The log covers it without an article, so that one there could never become an article of the log."""
    path = write_lines(tmp_path / "archive.jsonl", [LINES[0], "", LINES[1]])
    world.seed_files(path)
    with pytest.raises(
        RefusedError, match=r"archive.jsonl, line 2: the log has another article, or none, .*was changed"
    ):
        world.seed_files(write_lines(path, LINES[:3]))


def test_a_file_that_is_replaced_while_the_log_is_read_is_refused(world: SeedWorld, tmp_path: Path) -> None:
    """Its lines belong to another archive: under the identity of the old one they would be entered again later."""
    path = write_lines(tmp_path / "archive.jsonl", LINES[:3])
    archives = archives_in(world.config(), [str(path)], None, Progress())
    write_lines(path, LINES[5:])
    with pytest.raises(UserError, match=r"archive\.jsonl: the file was replaced while the command ran; start it again"):
        world.seed(*archives)
    assert world.batches() == []


@pytest.mark.parametrize("looks", range(5))
def test_a_log_that_is_made_anew_is_noticed(world: SeedWorld, tmp_path: Path, looks: int) -> None:
    """Before each append, and at the end: what was appended may be in a log that is gone."""
    world.same_log = SameLogAsLong(looks)
    with pytest.raises(RefusedError, match="recreated"):
        world.seed_files(write_lines(tmp_path / "archive.jsonl", LINES))
    assert len(world.batches()) <= looks


def test_two_archives_that_begin_alike_are_told_apart_by_name(world: SeedWorld, tmp_path: Path) -> None:
    """The one with a name has other coordinates; the same name again adds nothing."""
    world.seed_files(write_lines(tmp_path / "one", LINES[:3]))
    other = write_lines(tmp_path / "other", [LINES[0], line(50)])
    assert world.seed_files(other, name="other").entered == 2
    assert world.seed_files(other, name="other").present == 2
    assert [batch.topic for batch in world.batches()] == ["one", "other"]
    with pytest.raises(RefusedError, match="give this one another --name"):
        world.seed_files(write_lines(tmp_path / "third", LINES[4:6]), name="other")


def test_a_name_belongs_to_one_file(world: SeedWorld, tmp_path: Path) -> None:
    """Two files under one identity would refuse each other."""
    paths = [write_lines(tmp_path / name, LINES) for name in ("a", "b")]
    with pytest.raises(UserError, match="one FILE"):
        world.seed_files(*paths, name="mine")


@pytest.mark.parametrize(("name", "size"), [("", 0), ("é" * 125, 250)])
def test_a_name_has_a_length(world: SeedWorld, tmp_path: Path, name: str, size: int) -> None:
    """It stands in the log and in headers: none and one that is too long are wrong use."""
    path = write_lines(tmp_path / "archive", LINES)
    with pytest.raises(UserError, match=f"--name has {size} bytes; give the archive a name of 1 to 249"):
        world.seed_files(path, name=name)


def test_a_name_that_is_not_utf8_is_escaped(world: SeedWorld, tmp_path: Path) -> None:
    """As the name of a file; another byte is another archive."""
    path = write_lines(tmp_path / "archive", LINES[:3])
    for byte in (b"\xff", b"\xfe"):
        assert world.seed_files(path, name=os.fsdecode(byte)).entered == 3
    assert [batch.topic for batch in world.batches()] == ["\\xff", "\\xfe"]


def test_an_unreadable_line_is_logged_as_rejected(world: SeedWorld, tmp_path: Path) -> None:
    """With its reason; it is counted, named, and in the log the next time."""
    path = write_lines(tmp_path / "archive.jsonl", [LINES[0], "{no json", LINES[1]])
    tally = world.seed_files(path)
    assert (tally.entered, tally.rejected) == (2, 1)
    (batch,) = world.batches()
    assert batch.statuses[1] == Status.REJECTED
    assert tally.examples == [f"input archive.jsonl, line 2: {batch.reason(1)}"]
    assert world.seed_files(path).present == 3


def test_an_empty_archive_is_nothing(world: SeedWorld, tmp_path: Path) -> None:
    """It has no identity and adds nothing."""
    assert world.seed_files(write_lines(tmp_path / "empty", ["", ""])).entered == 0
    assert world.batches() == []


def test_a_pipe_is_read_once(world: SeedWorld, tmp_path: Path) -> None:
    """The lines that were read for its identity are entered, too."""
    reader, writer = os.pipe()
    os.write(writer, "".join(f"{one}\n" for one in LINES).encode())
    os.close(writer)
    tally = world.seed_files(Path(f"/dev/fd/{reader}"))
    os.close(reader)
    assert tally.entered == len(LINES)
    assert world.seed_files(write_lines(tmp_path / "archive.jsonl", LINES)).present == len(LINES)


def test_other_rules_and_other_schemes_are_refused(world: SeedWorld, tmp_path: Path) -> None:
    """As a worker refuses them; nothing is appended."""
    path = write_lines(tmp_path / "archive.jsonl", LINES)
    world.seed_files(path)
    with pytest.raises(RefusedError, match=r"limit: 7 here.*rules apply"):
        world.seed_files(path, config=world.config(profile=profile_with("comment", search={"limit": 7})))
    with pytest.raises(RefusedError, match="two schemes cannot be compared"):
        world.seed_files(path, config=world.config(profile="article"))
    assert offsets_of(world) == list(range(len(LINES)))


def test_a_record_says_what_its_author_had_read(world: SeedWorld, tmp_path: Path) -> None:
    """The end of the log before the call: no later copy is a fault of its author."""
    world.seed_files(write_lines(tmp_path / "one", LINES[:2]))
    end = world.log.bounds()[1]
    world.seed_files(write_lines(tmp_path / "other", LINES[2:]))
    late = [record.payload for record in world.records()[int(end) :]]
    assert {batch.read_to for batch in late if isinstance(batch, Batch)} == {end}


def test_a_topic_keeps_its_coordinates(world: SeedWorld) -> None:
    """Committed records only, those of each partition in order; the same call again adds nothing."""
    topic = world.world.name("articles")
    topic_id = world.world.make_topic(topic, partitions=2)
    for number, one in enumerate(LINES):
        world.world.write(Partition(topic, number % 2), [one.encode()])
    world.world.open_transaction(Partition(topic, 0), [line(77).encode()]).abort()
    tally = world.seed_topic(topic)
    assert tally.entered == len(LINES)
    logged = [coordinates for coordinates, _ in world.logged()]
    assert {one.topic_id for one in logged} == {topic_id}
    assert sorted((one.partition, one.offset) for one in logged) == [
        *((0, offset) for offset in range(7)),
        *((1, offset) for offset in range(6)),
    ]
    assert all(one.offset < other.offset for one, other in pairwise(logged) if one.partition == other.partition)
    assert world.seed_topic(topic).present == len(LINES)


def test_large_records_are_not_held_until_a_batch_is_full(world: SeedWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """What all partitions hold is bounded in bytes; each record is entered once."""
    monkeypatch.setattr(archives, "TOPIC_HELD_BYTES", 3 * len(LINES[0]))
    topic = world.world.name("articles")
    world.world.make_topic(topic, partitions=2)
    for number, one in enumerate(LINES):
        world.world.write(Partition(topic, number % 2), [one.encode()])
    assert world.seed_topic(topic).entered == len(LINES)
    assert max(map(len, world.batches())) <= 4
    assert sorted(world.ids()) == sorted(f"a{number}" for number in range(len(LINES)))


class RemadeTopic:
    """Offsets of a topic whose id is another one from the second look on."""

    def __init__(self, offsets: GroupOffsets) -> None:
        self._offsets = offsets
        self._looks = 0

    def topic_ids(self, names: list[str]) -> dict[str, bytes]:
        self._looks += 1
        return dict(self._offsets.topic_ids(names)) if self._looks == 1 else dict.fromkeys(names, b"N" * 16)


def test_a_topic_that_is_made_anew_while_it_is_read(world: SeedWorld) -> None:
    """Records of the new one are not entered under the id of the old one."""
    topic = world.world.name("articles")
    world.world.make_topic(topic)
    world.world.write(Partition(topic, 0), [LINES[0].encode()])
    remade = RemadeTopic(world.world.ports(world.group, "reader").offsets)
    archive = TopicArchive(world.config(), topic, world.world.topic_reader(), remade, DEFAULT_RECORD_BYTES)  # type: ignore[arg-type]
    with pytest.raises(UnavailableError, match="recreated while it was read"):
        world.seed(archive, sources=[source[:2] for source in archive.sources.values()])
    assert world.batches() == []


def test_a_topic_that_cannot_be_decoded_has_not_changed(world: SeedWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what it is and what to do: starting the command again changes nothing."""
    topic = world.world.name("articles")
    world.world.make_topic(topic)
    world.world.write(Partition(topic, 0), [LINES[0].encode()])

    def fail(*_: object) -> None:
        raise UnreadableError(Partition(topic, 0), 0, "a wrong checksum", "Mend it")

    monkeypatch.setattr(MemoryTopicReader, "read", fail)
    with pytest.raises(CorruptError, match=f"^topic {topic}, partition 0: .*a wrong checksum.*Mend it"):
        world.seed_topic(topic)
    assert world.batches() == []


def test_the_log_is_no_topic_of_articles(world: SeedWorld) -> None:
    """Its records would be rejected ones, and more of them at each call."""
    with pytest.raises(UserError, match="is the log of the group"):
        world.seed_topic(world.config().log_topic)


def test_a_topic_that_is_not_there_is_wrong_use(world: SeedWorld) -> None:
    """The message has its name."""
    with pytest.raises(UserError, match="no topic articles-of-nobody"):
        world.seed_topic("articles-of-nobody")


def test_a_record_that_no_output_topic_holds_is_rejected(world: SeedWorld) -> None:
    """As a worker rejects it, so that both log the same entry."""
    topic = world.world.name("articles")
    world.world.make_topic(topic, largest_batch=2 << 20)
    large = line(1, "ferry " * (DEFAULT_RECORD_BYTES // 6))
    world.world.write(Partition(topic, 0), [LINES[0].encode(), large.encode()])
    tally = world.seed_topic(topic)
    assert (tally.entered, tally.rejected) == (1, 1)
    assert "record too large" in tally.examples[0]


def unchecked(log: list[Payload], offsets: list[int]) -> list[bool]:
    """Which of these offsets are logged, with what is not known."""
    logged = LoggedArticles([(TOPIC, 0)])
    for payload in log:
        logged.follow(payload)
    answer = logged.of((TOPIC, 0)).find(np.array(offsets), np.array(offsets, np.uint64))
    return [bool(one) for one in answer.unchecked]


def found(log: list[Payload], offsets: list[int], checksums: list[int]) -> tuple[list[bool], list[bool]]:
    """Which of these offsets are logged, and which with another checksum (that of the tests is the offset)."""
    logged = LoggedArticles([(TOPIC, 0)])
    for payload in log:
        logged.follow(payload)
    answer = logged.of((TOPIC, 0)).find(np.array(offsets), np.array(checksums, np.uint64))
    return answer.logged.tolist(), answer.changed.tolist()


def test_offsets_are_found_whatever_the_order_of_the_log() -> None:
    """Gaps and other partitions are not logged."""
    log: list[Payload] = [
        batch([5, 7], [1, 1]),
        batch([0, 1], [1, 1]),
        batch([2, 3], [1, 1], partition=1),
        batch([2], [1], topic_id=OTHER_TOPIC),
    ]
    assert found(log, [0, 1, 2, 5, 6, 7, 8], [0, 1, 2, 5, 6, 7, 8])[0] == [True, True, False, True, False, True, False]
    assert found([], [0], [0]) == ([False], [False])


def test_another_checksum_is_a_change() -> None:
    """Only where the offset is logged."""
    assert found([batch([0, 1], [1, 1])], [0, 1, 2], [0, 9, 9]) == ([True, True, False], [False, True, False])


def test_an_article_in_a_gap_of_a_batch_is_a_change() -> None:
    """The batch covers the offset, so that it would be no article: the line was blank then.

    Gaps behind each other, inside a larger one, and filled by another batch.
    """
    log: list[Payload] = [batch([4], [1]), batch([0, 9], [1, 1]), batch([2, 4, 6], [1] * 3), batch([12, 15], [1, 1])]
    wanted = [0, 3, 4, 5, 8, 9, 10, 11, 13, 14, 15, 16]
    logged, changed = found(log, wanted, wanted)
    assert [one for one, is_logged in zip(wanted, logged, strict=True) if is_logged] == [0, 4, 9, 15]
    assert [one for one, is_changed in zip(wanted, changed, strict=True) if is_changed] == [3, 5, 8, 13, 14]
    forgotten = (Forgotten(TOPIC, 0, SourceOffset(14)),)
    trim = Trim(LogOffset(1), 0, Basis(Rules(SCHEME).revision, LogOffset(3), forgotten))
    assert found([Rules(SCHEME), *log, trim], [13, 14], [13, 14]) == ([True, False], [False, True])


def test_what_a_trim_forgot_counts_as_logged() -> None:
    """Its checksum is not known any more. A trim under other rules than those in force forgets nothing."""
    forgotten = (Forgotten(TOPIC, 0, SourceOffset(4)),)
    rules = Rules(SCHEME)
    trim = Trim(LogOffset(1), 0, Basis(rules.revision, LogOffset(3), forgotten))
    late = Trim(LogOffset(1), 0, Basis(rules.revision + 1, LogOffset(3), (Forgotten(TOPIC, 0, SourceOffset(6)),)))
    assert found([rules, trim, late], [3, 4, 5], [9, 9, 9]) == ([True, False, False], [False, False, False])
    assert unchecked([rules, trim, late], [3, 4, 5]) == [True, False, False]
    assert unchecked([rules, trim, batch([4], [1])], [3, 4, 5]) == [True, False, False]
    assert unchecked([rules, batch([3], [1]), trim], [2, 3, 4]) == [True, False, False]
    assert found([rules, trim, batch([4], [1])], [3, 4, 5], [9, 4, 9]) == ([True, True, False], [False, False, False])
