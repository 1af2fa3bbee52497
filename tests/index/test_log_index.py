"""The index of a log against the plain definition."""

import random
from pathlib import Path

import numpy as np
import pytest
import xxhash

from stream_dedup.audit.reference import plain_log
from stream_dedup.core.model import LogOffset, Verdict, log_position
from stream_dedup.errors import RefusedError, UserError
from stream_dedup.index import IndexSettings, LogIndex, tables
from tests.amount import sampled
from tests.index.checks import build, check_standing, check_verdicts, covered_positions, finish_merges
from tests.logs import OTHER_SCHEME, SCHEME, START_TIME, TOPICS, batch_record, rules_record
from tests.random_logs import RandomLog, stepwise_log

pytestmark = pytest.mark.usefixtures("small_limits")

EIGHT = 0b1111_1111


def open_index(path: Path, fold_entries: int = 20) -> LogIndex:
    return LogIndex.open(path, scheme=SCHEME, settings=IndexSettings(fold_entries=fold_entries))


def random_log(seed: int) -> RandomLog:
    """Batches with copies, and three changes of rules."""
    writer = stepwise_log(seed)
    writer.append_rules(distance=writer.rng.randint(0, 11), bucket_limit=writer.rng.choice([3, 16_384]))
    for revision in (2, 3, 4):
        for _ in range(8):
            writer.append_batch()
        window = writer.rng.choice([None, 5_000])
        writer.append_rules(
            revision=revision, distance=writer.rng.randint(0, 11), window_ms=window, featureless="rejected"
        )
        writer.append_rules(revision=2, distance=0)  # void, or the second of two changes at the same time
    for _ in range(8):
        writer.append_batch()
    return writer


@pytest.mark.parametrize("seed", sampled(range(30), 4))
def test_verdicts_and_standing_are_the_plain_ones(tmp_path: Path, seed: int) -> None:
    """Copies, changed rules, windows; applied in any portions, merged, flushed and opened again at any moment."""
    records = random_log(seed).records
    rng = random.Random(seed)
    index = open_index(tmp_path, rng.choice([1, 60, 10_000]))
    index.begin("a log")
    at = 0
    while at < len(records):
        after = at + rng.randint(1, 6)
        index.apply(records[at:after])
        at = after
        plain = plain_log(records[:at])
        positions = covered_positions(plain)
        check_verdicts(index, plain, rng.sample(positions, min(len(positions), 10)))
        check_standing(index, plain)
        action = rng.choice(["finish_merges", "flush", "reopen", "nothing", "nothing"])
        if action == "finish_merges":
            finish_merges(index)
        elif action == "flush":
            index.flush()
        elif action == "reopen":
            index.close()
            index = open_index(tmp_path, rng.choice([1, 60, 10_000]))
    plain = plain_log(records)
    positions = covered_positions(plain)
    rng.shuffle(positions)
    check_verdicts(index, plain, positions)
    assert index.verify() == []
    index.close()


def test_log_times_of_single_entries(tmp_path: Path) -> None:
    """Without Kafka each entry has its own log time, and the window cuts through records."""
    rng = random.Random(3)
    records = [rules_record(0, distance=2, window_ms=50)]
    for offset in range(1, 20):
        times = np.array([START_TIME + rng.randint(0, 200) for _ in range(5)])
        values = [rng.choice([3, 7, 1 << 50]) for _ in range(5)]
        records.append(batch_record(offset, times, values, range(offset * 5, offset * 5 + 5)))
    index = build(open_index(tmp_path), records)
    plain = plain_log(records)
    check_verdicts(index, plain, covered_positions(plain))
    index.close()


def test_applied_position(tmp_path: Path) -> None:
    """The index says up to where it has read, of which log, and what the last record was."""
    index = open_index(tmp_path)
    assert (index.log_id, index.next_offset, index.state.last_checksum, index.rules) == (None, 0, None, None)
    records = random_log(1).records
    build(index, records)
    index.close()
    index = open_index(tmp_path)
    assert index.log_id == "a log"
    assert index.next_offset == records[-1].offset + 1
    assert index.state.last_checksum == xxhash.xxh3_64_intdigest(records[-1].raw)
    index.close()


def test_document_numbers_that_run_out_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is written: what was applied stays as it is."""
    monkeypatch.setattr(tables, "MAX_DOC_NUMBERS", 3)
    index = build(open_index(tmp_path), [rules_record(0), batch_record(1, START_TIME, [5, 6, 7], [0, 1, 2])])
    with pytest.raises(RefusedError, match=r"numbers at most 3\..* stream-dedup index rebuild"):
        index.apply([batch_record(2, START_TIME, [5], [3])])
    index.close()
    index = open_index(tmp_path)
    assert index.next_offset == 2
    assert index.verify() == []
    index.close()


def test_a_record_is_applied_once(tmp_path: Path) -> None:
    """A record at or before the applied position is refused."""
    index = build(open_index(tmp_path), [rules_record(0), batch_record(1, START_TIME, [5], [0])])
    with pytest.raises(RefusedError, match="log record 1 after 1"):
        index.apply([batch_record(1, START_TIME, [5], [0])])
    index.close()


def test_an_index_that_nobody_searches_keeps_its_budget(tmp_path: Path) -> None:
    """A worker that reads the log to its end judges nothing."""
    settings = IndexSettings(memory_mib=0, fold_entries=100)
    with LogIndex.open(tmp_path, scheme=SCHEME, settings=settings) as index:
        build(index, [rules_record(0)])
        for at in range(1, 60):
            values = [random.Random(at * 100 + row).getrandbits(64) for row in range(100)]
            index.apply([batch_record(at, START_TIME, values, range(at * 100, at * 100 + 100))])
        assert index.stats().memory_bytes < 100_000


def test_a_log_begins_with_rules(tmp_path: Path) -> None:
    """A batch before any rules is refused, and nothing follows."""
    index = open_index(tmp_path)
    with pytest.raises(RefusedError, match="before any rules"):
        index.apply([batch_record(0, START_TIME, [5], [0])])
    with pytest.raises(RefusedError, match="stopped after an error"):
        index.apply([rules_record(1)])
    index.close()


def test_an_index_belongs_to_one_log(tmp_path: Path) -> None:
    """A second log is refused."""
    index = build(open_index(tmp_path), [rules_record(0)])
    with pytest.raises(RefusedError, match="belongs to log a log"):
        index.begin("another")
    index.close()


def test_entries_come_back_as_they_were_logged(tmp_path: Path) -> None:
    """The row store gives record and row, bytes included."""
    records = [rules_record(0), batch_record(4, START_TIME, [5, 6, 7], [0, 1, 3], statuses=[0, 2, 0])]
    index = build(open_index(tmp_path), records)
    index.close()
    index = open_index(tmp_path)
    found, row = index.entry(log_position(4, 2))
    assert (found.offset, found.time, found.raw, row) == (4, START_TIME, records[1].raw, 2)
    checksums, fingerprints = index.logged(np.array([log_position(4, 2), log_position(4, 0)]))
    assert (checksums.tolist(), fingerprints.tolist()) == ([3, 0], [7, 5])
    with pytest.raises(RefusedError, match="log record 9 is not in the index"):
        index.entry(log_position(9, 0))
    with pytest.raises(RefusedError, match="does not exist"):
        index.judge(np.array([log_position(4, 3)]))
    index.close()


def test_an_offset_inside_a_batch_without_an_entry_is_refused(tmp_path: Path) -> None:
    """The source had no record there when the batch was logged: that it has one now cannot be."""
    index = build(open_index(tmp_path), [rules_record(0), batch_record(1, START_TIME, [5, 6], [10, 12])])
    with pytest.raises(RefusedError, match="offset 11 of partition 0"):
        index.logged_positions(TOPICS[0], 0, np.array([10, 11, 12]))
    assert index.logged_positions(TOPICS[0], 0, np.array([12, 13, 9, 10])).tolist() == [
        log_position(1, 1),
        -1,
        -1,
        log_position(1, 0),
    ]
    index.close()


def test_a_later_entry_does_not_exist_for_an_earlier_one(tmp_path: Path) -> None:
    """A verdict given late is as of the article's own log position, within one batch too."""
    index = build(open_index(tmp_path), [rules_record(0), batch_record(1, START_TIME, [5, 5, 5], [0, 1, 2])])
    verdicts = index.judge(np.array([log_position(1, row) for row in (2, 1, 0)]))
    assert [judged.verdict for judged in verdicts] == [Verdict.DUPLICATE, Verdict.DUPLICATE, Verdict.UNIQUE]
    assert [judged.match and judged.match.position for judged in verdicts[:2]] == [log_position(1, 0)] * 2
    index.close()


def test_the_window_includes_its_end(tmp_path: Path) -> None:
    """Expired means older by more than the window."""
    records = [rules_record(0, window_ms=100)]
    records += [batch_record(1, START_TIME, [EIGHT], [0]), batch_record(2, START_TIME + 100, [EIGHT], [1])]
    records += [batch_record(3, START_TIME + 201, [EIGHT], [2])]
    index = build(open_index(tmp_path), records)
    judged = index.judge(np.array([log_position(2, 0), log_position(3, 0)]))
    assert [each.verdict for each in judged] == [Verdict.DUPLICATE, Verdict.UNIQUE]
    index.close()


def test_rules_of_another_scheme_are_refused(tmp_path: Path) -> None:
    """The scheme is checked when the index is opened, and when the log names another."""
    build(open_index(tmp_path), [rules_record(0)]).close()
    with pytest.raises(UserError, match=f"^index {tmp_path}.* has scheme"):
        LogIndex.open(tmp_path, scheme=OTHER_SCHEME)
    index = LogIndex.open(tmp_path / "new", scheme=OTHER_SCHEME)
    with pytest.raises(UserError, match=r"^the log of index .* has scheme"):
        index.apply([rules_record(0)])
    index.close()
    LogIndex.open(tmp_path, scheme=None).close()


def test_rules_at_a_log_offset(tmp_path: Path) -> None:
    """The rules in force are those of the last rules record that counted before the log position."""
    records = [rules_record(0), batch_record(1, START_TIME, [5], [0]), rules_record(2, revision=2, distance=7)]
    index = build(open_index(tmp_path), [*records, rules_record(3, revision=2, distance=9)])
    assert index.rules is not None
    assert [index.rules_at(LogOffset(offset)).distance for offset in (0, 1, 2, 3, 9)] == [3, 3, 7, 7, 7]
    assert index.rules.distance == 7
    index.close()


def test_a_flood_of_equal_articles_matches_the_earliest_of_the_newest(tmp_path: Path) -> None:
    """The bucket limit bounds what is compared: the match is the earliest among the newest N, not of all."""
    records = [rules_record(0, bucket_limit=10)]
    records += [batch_record(at, START_TIME, [EIGHT] * 9, range(at * 9, at * 9 + 9)) for at in range(1, 8)]
    index = build(open_index(tmp_path), records)
    judged = index.judge(np.array([log_position(7, 8), log_position(3, 0)]))
    assert [each.match and each.match.position for each in judged] == [log_position(6, 7), log_position(1, 8)]
    plain = plain_log(records)
    check_verdicts(index, plain, covered_positions(plain))
    index.close()
