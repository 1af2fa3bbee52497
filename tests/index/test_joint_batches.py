"""Batches that share a write: the index is the one that single records make, at every write of it."""

import random
from pathlib import Path

import numpy as np
import pytest

from stream_dedup.audit.reference import plain_log
from stream_dedup.core.entry import Basis, Batch, Forgotten, LogRecord, Trim
from stream_dedup.core.model import LogOffset, SourceOffset
from stream_dedup.errors import RefusedError
from stream_dedup.index import IndexSettings, LogIndex, applying, tables
from stream_dedup.index.store import Store, WriteBatch
from tests.amount import sampled
from tests.index.checks import build, check_standing, covered_positions
from tests.logs import START_TIME, TOPIC, batch_record, entries_batch, entry_of, record, rules_record, trim_record
from tests.random_logs import random_log

pytestmark = pytest.mark.usefixtures("small_limits")

NOTHING_STORED = 10_000
"""Entries after which a run is stored, where nothing but what is applied is to be written."""
RUN_FAMILIES = {b"C", b"D", b"T"}
Stored = dict[bytes, bytes]


class EndedAtWriteError(Exception):
    """Ends a call between two effects."""


def open_index(path: Path, fold_entries: int = 20) -> LogIndex:
    return LogIndex.open(path, scheme=None, settings=IndexSettings(fold_entries=fold_entries))


def stored_in(index: LogIndex) -> Stored:
    """Everything that is stored, but the runs of the tables: these depend on what is appended together."""
    return {key: value for key, value in index._applied.store.scan(b"", b"\xff") if key[:1] not in RUN_FAMILIES}


def stored_one_by_one(path: Path, records: list[LogRecord]) -> dict[int, Stored]:
    """What is stored after each record, by the log offset after it, when every record is applied by itself."""
    with open_index(path) as index:
        index.begin("a log")
        stored = {0: stored_in(index)}
        for each in records:
            index.apply([each])
            stored[index.next_offset] = stored_in(index)
    return stored


def portions(rng: random.Random, records: list[LogRecord]) -> list[list[LogRecord]]:
    """The records in portions of up to a dozen."""
    left, parts = list(records), []
    while left:
        size = rng.randint(1, 12)
        parts.append(left[:size])
        left = left[size:]
    return parts


@pytest.mark.parametrize("seed", sampled(range(40), 6))
def test_an_index_is_the_same_however_its_records_are_grouped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Rules, trims, withdrawals and copies in between; also where few entries share a write."""
    rng = random.Random(seed)
    records = random_log(seed)
    expected = stored_one_by_one(tmp_path / "single", records)
    monkeypatch.setattr(applying, "JOINT_ENTRIES", rng.choice([10, 30, 4_096]))
    with open_index(tmp_path / "joint") as index:
        index.begin("a log")
        for part in portions(rng, records):
            index.apply(part)
            assert stored_in(index) == expected[index.next_offset]
        assert index.next_offset == records[-1].offset + 1
        assert index.verify() == []
        plain = plain_log(records)
        check_standing(index, plain)
        held = [position for position in covered_positions(plain) if position >> 20 >= index.low_watermark]
        with LogIndex.open(tmp_path / "single", scheme=None) as single:
            assert index.judge(np.array(held, np.int64)) == single.judge(np.array(held, np.int64))


@pytest.mark.slow
@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("seed", sampled(range(20), 2))
def test_a_call_that_ends_beside_any_write_leaves_the_index_of_a_prefix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, *, written: bool
) -> None:
    """Before the write or between it and the change in memory; applied again, the index is the whole one.

    What becomes of runs is the subject of ``test_lost_writes``.
    """
    records = random_log(seed)[:40]
    expected = stored_one_by_one(tmp_path / "single", records)
    ended = writes = 0
    positions = []
    while not ended:
        writes += 1
        path = tmp_path / str(writes)
        with open_index(path, NOTHING_STORED) as index:
            index.begin("a log")
            with monkeypatch.context() as patch:
                _end_at(patch, writes, written=written)
                ended = _applies(index, records)
        with open_index(path, NOTHING_STORED) as index:
            index.apply([])  # goes on with what a trim has left to be done
            positions.append(index.next_offset)
            assert stored_in(index) == expected[index.next_offset]
            assert index.verify() == []
            index.apply([each for each in records if each.offset >= index.next_offset])
            assert stored_in(index) == expected[records[-1].offset + 1]
            assert index.verify() == []
    assert positions == sorted(positions)
    # A record that is no batch has a write of its own; a log of few such records may have few writes in all.
    alone = {record.offset + 1 for record in records if not isinstance(record.payload, Batch)}
    assert alone <= set(positions)
    assert len(set(positions)) > min(5, len(alone))


def _end_at(patch: pytest.MonkeyPatch, writes: int, *, written: bool) -> None:
    left = writes
    real = Store.write

    def write(store: Store, batch: WriteBatch) -> None:
        nonlocal left
        left -= 1
        if left == 0 and not written:
            raise EndedAtWriteError
        real(store, batch)
        if left == 0:
            raise EndedAtWriteError

    patch.setattr(Store, "write", write)


def _applies(index: LogIndex, records: list[LogRecord]) -> bool:
    """Whether all records are applied; if not, the index refuses every further one."""
    try:
        index.apply(records)
    except EndedAtWriteError:
        with pytest.raises(RefusedError, match="stopped after an error"):
            index.apply(records)
        return False
    return True


def write_sizes(monkeypatch: pytest.MonkeyPatch, index: LogIndex, records: list[LogRecord]) -> list[int]:
    """Apply records; return the log offset that the index has applied after each write."""
    ends: list[int] = []
    with monkeypatch.context() as patch:
        real = Store.write

        def write(store: Store, batch: WriteBatch) -> None:
            real(store, batch)
            ends.append(index.next_offset)

        patch.setattr(Store, "write", write)
        index.apply(records)
    return ends


def new_batch(offset: int, partition_offset: int) -> LogRecord:
    return batch_record(offset, START_TIME + offset, [3, 5], [partition_offset, partition_offset + 1])


def test_batches_of_new_articles_share_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several partitions, with gaps in the log: one write, however many they are."""
    index = build(open_index(tmp_path, NOTHING_STORED), [rules_record(0)])
    records = [new_batch(2 * at, 10 * at) for at in range(1, 40)]
    records += [batch_record(100 + at, START_TIME, [7], [at], partition=at % 3) for at in range(1_000, 1_030)]
    assert write_sizes(monkeypatch, index, records) == [1_130]
    assert index.verify() == []
    index.close()


def test_every_other_record_has_a_write_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules, trims and batches that repeat, or go back in their partition; what follows them shares a write again."""
    index = build(open_index(tmp_path, NOTHING_STORED), [rules_record(0, window_ms=10)])
    records = [
        *[new_batch(at, 10 * at) for at in range(1, 4)],
        rules_record(4, window_ms=10),
        *[new_batch(at, 10 * at) for at in range(5, 8)],
        trim_record(8, START_TIME + 8, 4, START_TIME + 3),
        *[new_batch(at, 10 * at) for at in range(9, 12)],
        new_batch(12, 111),  # its first article is the last one of the batch before
        new_batch(13, 45),  # where nothing was logged, and before the others
        *[new_batch(at, 10 * at) for at in range(14, 17)],
    ]
    assert write_sizes(monkeypatch, index, records) == [4, 5, 8, 9, 12, 13, 14, 17]
    assert index.verify() == []
    index.close()


def test_articles_that_are_forgotten_do_not_share_a_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trim has forgotten more of a partition than the index has of it: what comes late is never an article."""
    basis = Basis(1, LogOffset(4), (Forgotten(TOPIC, 0, SourceOffset(100)),))
    records = [
        rules_record(0, window_ms=10),
        *[new_batch(at, 10 * at) for at in range(1, 4)],
        rules_record(4, window_ms=10),
        record(5, START_TIME + 90, Trim(LogOffset(4), START_TIME + 80, basis)),
        *[new_batch(at, 10 * at) for at in (8, 9, 11, 12, 13)],
    ]
    expected = stored_one_by_one(tmp_path / "single", records)
    with build(open_index(tmp_path / "joint", NOTHING_STORED), records[:-5]) as index:
        assert index.forgotten_before(TOPIC, 0) == 100
        assert write_sizes(monkeypatch, index, records[-5:]) == [9, 10, 14]
        assert stored_in(index) == expected[14]


def test_a_write_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that would pass it begins the next write; one that is larger has a write of its own."""
    monkeypatch.setattr(applying, "JOINT_ENTRIES", 5)
    index = build(open_index(tmp_path, NOTHING_STORED), [rules_record(0)])
    large = batch_record(5, START_TIME, range(7), range(50, 57))
    records = [*[new_batch(at, 10 * at) for at in range(1, 5)], large, new_batch(6, 60), new_batch(7, 70)]
    assert write_sizes(monkeypatch, index, records) == [3, 5, 6, 8]
    index.close()


@pytest.mark.parametrize("refused", ["another order", "before any rules", "no number left", "another scheme"])
def test_records_before_one_that_is_refused_are_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    """The record that is refused does not take those with it that could have shared its write."""
    before = [new_batch(at, 10 * at) for at in range(1, 4)]
    bad = new_batch(4, 40)
    index = open_index(tmp_path) if refused == "before any rules" else build(open_index(tmp_path), [rules_record(0)])
    if refused == "before any rules":
        index.begin("a log")
    elif refused == "another order":
        bad = new_batch(3, 40)
    elif refused == "no number left":
        monkeypatch.setattr(tables, "MAX_DOC_NUMBERS", 7)
    else:
        bad = record(4, START_TIME, entries_batch([40], [entry_of(3)], tables=8))
    with pytest.raises(RefusedError):
        index.apply([*before, bad, new_batch(5, 50)])
    index.close()
    with open_index(tmp_path) as index:
        assert index.next_offset == (0 if refused == "before any rules" else 4)
        assert index.verify() == []
