"""Trims remove entries, and change no verdict of a later article."""

import random
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from stream_dedup.audit.reference import PlainLog, plain_log
from stream_dedup.core.entry import Basis, Forgotten, LogRecord, Trim
from stream_dedup.core.model import LogOffset, SourceOffset, log_position
from stream_dedup.errors import RefusedError
from stream_dedup.index import IndexSettings, LogIndex, layout, tables
from tests.amount import FULL, sampled
from tests.index.checks import (
    build,
    check_standing,
    check_verdicts,
    covered_positions,
    finish_deleting,
    finish_merges,
    often_folding,
    without_trims,
)
from tests.logs import SCHEME, START_TIME, TOPICS, batch_record, rules_record, trim_record
from tests.random_logs import RandomLog, stepwise_log
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("small_limits")

WINDOW = 20_000


def offered(index: LogIndex, owed_time: int) -> tuple[int, int] | None:
    """X and the horizon of the trim that an index offers."""
    trim = index.trims.offered(owed_time)
    return None if trim is None else (trim.before, trim.horizon)


def restated(writer: RandomLog, rng: random.Random, *, copies: bool) -> None:
    """Some batches, then the rules again: a log position where the log may be cut."""
    for _ in range(rng.randint(3, 8)):
        writer.append_batch(copies=copies and rng.random() < 0.2)
    writer.append_rules(distance=5, window_ms=WINDOW)


def trimmed_log(seed: int, index: LogIndex, *, copies: bool) -> list[LogRecord]:
    """A log that is trimmed whenever its index says it may be."""
    rng = random.Random(seed)
    writer = stepwise_log(seed)
    writer.append_rules(distance=5, window_ms=WINDOW)
    index.begin("a log")
    applied = 0
    for _ in range(12 if FULL else 6):
        restated(writer, rng, copies=copies)
        index.apply(writer.records[applied:])
        applied = len(writer.records)
        # Everything before now is judged and committed: what is owed is only to come.
        trim = index.trims.offered(writer.time)
        if trim is not None:
            writer.append_trim(trim.before, trim.horizon, trim.basis)
        elif copies and rng.random() < 0.1:
            writer.append_trim(rng.randrange(writer.records[-1].offset), writer.time - WINDOW)  # nearly always void
        for _ in range(4):
            writer.append_batch(copies=copies and rng.random() < 0.2)
    index.apply(writer.records[applied:])
    return writer.records


def after_trims(records: list[LogRecord], plain: PlainLog) -> list[int]:
    """Log positions of what stands after the last trim."""
    last = max(record.offset for record in records if isinstance(record.payload, Trim))
    return [position for position in covered_positions(plain) if position > log_position(last, 0)]


@pytest.mark.parametrize("seed", sampled(range(10), 2))
@pytest.mark.parametrize("copies", [False, True])
def test_a_trim_changes_no_verdict(tmp_path: Path, seed: int, *, copies: bool) -> None:
    """Everything after the trims is judged as if there were none; what comes again may be forgotten, too."""
    index = often_folding(tmp_path)
    records = trimmed_log(seed, index, copies=copies)
    without = plain_log(without_trims(records))
    assert index.low_watermark > 0
    check_verdicts(index, without, after_trims(records, without))
    index.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", sampled(range(10), 2))
def test_an_index_of_the_cut_log_is_the_same(tmp_path: Path, seed: int) -> None:
    """Trimmed as it went, or built from what the trims left of the log: the same verdicts, standing and next trim."""
    index = often_folding(tmp_path / "whole")
    records = trimmed_log(seed, index, copies=True)
    plain = plain_log(records)
    assert index.low_watermark == plain.low_watermark > 0
    later = after_trims(records, plain)
    check_verdicts(index, plain, later)
    check_standing(index, plain)
    cut = build(often_folding(tmp_path / "cut"), [record for record in records if record.offset >= plain.low_watermark])
    check_verdicts(cut, plain, later)
    check_standing(cut, plain)
    assert cut.low_watermark == index.low_watermark
    now = records[-1].time
    assert isinstance(now, int)
    assert cut.trims.offered(now) == index.trims.offered(now)
    finish_deleting(index)
    assert index.verify() == cut.verify() == []
    check_verdicts(index, plain, later)
    index.close()
    cut.close()


def test_a_trim_in_the_middle_of_what_is_owed(tmp_path: Path) -> None:
    """Articles logged before the trim and owed after it get the verdicts that they would have had."""
    records = [rules_record(0, window_ms=100), batch_record(1, START_TIME, [3, 9 << 40], [0, 1])]
    records += [rules_record(2, START_TIME, window_ms=100), batch_record(3, START_TIME + 60, [3, 99 << 20], [2, 3])]
    records += [batch_record(4, START_TIME + 150, [3, 99 << 20], [4, 5])]
    index = build(often_folding(tmp_path), records)
    owed = np.array([log_position(4, 0), log_position(4, 1)])
    before = index.judge(owed)
    basis = Basis(1, LogOffset(5), (Forgotten(TOPICS[0], 0, SourceOffset(4)),))
    assert index.trims.offered(START_TIME + 150) == Trim(LogOffset(2), START_TIME + 100, basis)
    index.apply([trim_record(5, START_TIME + 151, 2, START_TIME + 100)])
    assert index.judge(owed) == before
    assert index.partitions() == {(TOPICS[0], 0): 5}
    assert index.logged_positions(TOPICS[0], 0, np.arange(6)).tolist() == [-1, -1, -1, -1, *owed.tolist()]
    with pytest.raises(RefusedError, match="log record 1 is not in the index"):
        index.entry(log_position(1, 0))
    index.close()


@pytest.mark.slow
def test_a_rebuilt_index_numbers_from_0_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the document numbers run out, an index of the log that trims have cut goes on, with the same verdicts."""
    index = often_folding(tmp_path / "whole")
    records = trimmed_log(1, index, copies=True)
    plain = plain_log(records)
    numbered = index.state.next_doc_number
    index.close()
    monkeypatch.setattr(tables, "MAX_DOC_NUMBERS", numbered - 1)
    monkeypatch.setattr(layout, "MAX_DOC_NUMBERS", numbered - 1)
    whole = often_folding(tmp_path / "limited")
    with pytest.raises(RefusedError, match=rf"numbers at most {numbered - 1}\. .* stream-dedup index rebuild"):
        build(whole, records)
    assert whole.stats().numbers_used > 7 / 8
    whole.close()
    cut = build(often_folding(tmp_path / "cut"), [record for record in records if record.offset >= plain.low_watermark])
    assert cut.state.next_doc_number < numbered - 1
    check_verdicts(cut, plain, after_trims(records, plain))
    check_standing(cut, plain)
    cut.close()


def straddled(copy_of_first: list[int]) -> list[LogRecord]:
    """A log in which a batch after the restated rules at 3 logs some offsets again."""
    return [
        rules_record(0, window_ms=100),
        batch_record(1, START_TIME, [3, 4, 5], [0, 1, 2]),
        batch_record(2, START_TIME, [6, 7], [3, 4]),
        rules_record(3, START_TIME, window_ms=100),
        batch_record(4, START_TIME + 50, [6, 7, 8], [5, 6, 7]),
        batch_record(5, START_TIME + 300, [1 << at for at in copy_of_first], copy_of_first),
        rules_record(6, START_TIME + 300, window_ms=100),
    ]


def test_a_trim_that_a_copy_straddles_is_void(tmp_path: Path) -> None:
    """An index of the cut log would take the copy for the article: the trim does not count, and none like it."""
    index = build(often_folding(tmp_path), straddled([4, 8]))
    assert offered(index, START_TIME + 10_000) == (6, START_TIME + 400)
    index.apply([trim_record(7, START_TIME + 300, 3, START_TIME + 100)])
    assert index.low_watermark == 0
    # A void trim bars everything before it, also what was allowed.
    assert index.trims.offered(START_TIME + 10_000) is None
    index.apply([trim_record(8, START_TIME + 300, 6, START_TIME + 400)])
    assert index.low_watermark == 0
    index.apply([rules_record(9, START_TIME + 300, window_ms=100)])
    assert offered(index, START_TIME + 10_000) == (9, START_TIME + 400)
    index.close()
    assert offered(often_folding(tmp_path), START_TIME + 10_000) == (9, START_TIME + 400)


def test_a_copy_of_what_stands_later_bars_nothing(tmp_path: Path) -> None:
    """A copy after the named rules of an article after them is in the cut log with its article."""
    index = build(often_folding(tmp_path), straddled([5, 6, 7]))
    index.apply([trim_record(7, START_TIME + 300, 3, START_TIME + 100)])
    assert index.low_watermark == 3
    index.close()


@pytest.mark.parametrize("before", [1, 4, 7, 99])
def test_a_trim_names_a_rules_record(tmp_path: Path, before: int) -> None:
    """Naming a batch, itself or what is not there yet, it is void."""
    index = build(often_folding(tmp_path), straddled([5, 6, 7]))
    index.apply([trim_record(7, START_TIME + 300, before, START_TIME + 100)])
    assert index.low_watermark == 0
    index.close()


def test_rules_that_did_not_count_cannot_be_named(tmp_path: Path) -> None:
    """A void change of rules is no beginning for a log."""
    records = straddled([5, 6, 7])
    index = build(often_folding(tmp_path), [*records, rules_record(7, START_TIME + 300, revision=5, window_ms=100)])
    index.apply([trim_record(8, START_TIME + 300, 7, START_TIME + 100)])
    assert index.low_watermark == 0
    index.close()


def test_there_is_no_trim_without_a_window_or_before_it_is_time(tmp_path: Path) -> None:
    """Nothing is proposed that would forget what may still match."""
    index = build(often_folding(tmp_path / "a"), [rules_record(0), batch_record(1, 0, [3], [0]), rules_record(2)])
    assert index.trims.offered(START_TIME) is None
    index.close()
    index = build(often_folding(tmp_path / "b"), straddled([5, 6, 7])[:5])
    assert index.trims.offered(START_TIME + 100) is None
    assert offered(index, START_TIME + 101) == (3, START_TIME + 100)
    index.close()


def test_a_longer_window_that_may_still_decide_holds_a_trim_back(tmp_path: Path) -> None:
    """While an article under the old rules is owed, their window counts."""
    records = [rules_record(0, window_ms=1000), batch_record(1, START_TIME, [3], [0])]
    records += [rules_record(2, window_ms=1000), batch_record(3, START_TIME + 200, [3], [1])]
    records += [rules_record(4, revision=2, window_ms=10), batch_record(5, START_TIME + 300, [3], [2])]
    index = build(often_folding(tmp_path), records)
    assert index.trims.offered(START_TIME + 200) is None
    assert offered(index, START_TIME + 201) == (2, START_TIME + 10)
    assert offered(index, START_TIME + 211) == (4, START_TIME + 210)
    index.close()


def bytes_on_disk(path: Path) -> int:
    """Return the bytes of RocksDB's tables. It may remove one of them at any time."""
    total = 0
    for file in path.rglob("*.sst"):
        with suppress(FileNotFoundError):
            total += file.stat().st_size
    return total


@pytest.mark.slow
def test_a_trim_gives_its_space_back(tmp_path: Path) -> None:
    """Log records and rows at once, entries of the tables when later records merge their runs.

    After a trim of nine tenths, and as much again as two tenths, three tenths are there.
    """
    rng = random.Random(1)
    same = rng.getrandbits(64)
    records = [rules_record(0, window_ms=100)]
    for at in range(100):
        values = [same if rng.random() < 0.2 else rng.getrandbits(64) for _ in range(100)]
        records.append(batch_record(at + 1, START_TIME + 10 * at, values, range(at * 100, at * 100 + 100)))
    records.insert(90, rules_record(90, window_ms=100))
    records[91:] = [record._replace(offset=LogOffset(record.offset + 1)) for record in records[91:]]
    index = LogIndex.open(tmp_path, scheme=SCHEME, settings=IndexSettings(fold_entries=2_000))
    build(index, records)
    finish_merges(index)
    index.flush()
    before = bytes_on_disk(tmp_path)
    last = [log_position(101, row) for row in range(100)]
    verdicts = index.judge(np.array(last))
    index.apply([trim_record(102, START_TIME + 1_001, 90, START_TIME + 980)])
    index.apply(
        [
            batch_record(
                at, START_TIME + 1_010, [rng.getrandbits(64) for _ in range(100)], range(at * 100, at * 100 + 100)
            )
            for at in range(103, 123)
        ]
    )
    finish_deleting(index)
    # RocksDB removes the files of runs that are gone by itself.
    wait_until(lambda: bytes_on_disk(tmp_path) < 0.4 * before, 20, "the space of a trim")
    assert index.judge(np.array(last)) == verdicts
    assert index.verify() == []
    index.close()
