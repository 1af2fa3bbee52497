"""Trims remove entries, and change no verdict of a later article."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from stream_dedup.audit.reference import PlainLog, plain_log
from stream_dedup.core.entry import Basis, Forgotten, LogRecord, Trim
from stream_dedup.core.model import LogOffset, SourceOffset, Verdict, log_position
from stream_dedup.errors import RefusedError
from stream_dedup.index import FORGOTTEN, IndexSettings, LogIndex, layout, row_column
from stream_dedup.index.layout import STATE
from tests.amount import FULL, sampled
from tests.index.checks import build, check_standing, check_verdicts, covered_positions, without_trims
from tests.logs import SCHEME, START_TIME, TOPICS, batch_record, record, rules_record, trim_record
from tests.random_logs import RandomLog, stepwise_log

pytestmark = pytest.mark.usefixtures("small_limits")

WINDOW = 20_000
FORGETS = 3
"""Version of trims that say what they forget."""


def offered(index: LogIndex, owed_time: int) -> tuple[int, int] | None:
    """X and the horizon of the trim that an index offers."""
    trim = index.restated_trim(owed_time)
    return None if trim is None else (trim.before, trim.horizon)


def open_index(path: Path) -> LogIndex:
    return LogIndex.open(path, scheme=SCHEME, settings=IndexSettings(fold_entries=30))


def restated(writer: RandomLog, rng: random.Random, *, copies: bool) -> None:
    """Some batches, then the rules again: a log position where the log may be cut."""
    for _ in range(rng.randint(3, 8)):
        writer.append_batch(copies=copies and rng.random() < 0.2)
    writer.append_rules(distance=5, window_ms=WINDOW)


def trimmed_log(seed: int, index: LogIndex, version: int, *, copies: bool) -> list[LogRecord]:
    """A log that is trimmed whenever its index says it may be, by trims of one version."""
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
        trim = index.restated_trim(writer.time)
        if trim is not None:
            writer.append_trim(trim.before, trim.horizon, trim.basis if version == FORGETS else None)
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
@pytest.mark.parametrize(("version", "copies"), [(2, False), (FORGETS, True)])
def test_a_trim_changes_no_verdict(tmp_path: Path, seed: int, version: int, copies: bool) -> None:
    """Everything after the trims is judged as if there were none.

    What comes again may be forgotten, too, where the trims say what they forget.
    """
    index = open_index(tmp_path)
    records = trimmed_log(seed, index, version, copies=copies)
    without = plain_log(without_trims(records))
    assert index.low_watermark > 0
    check_verdicts(index, without, after_trims(records, without))
    index.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", sampled(range(10), 2))
@pytest.mark.parametrize("version", [2, FORGETS])
def test_an_index_of_the_cut_log_is_the_same(tmp_path: Path, seed: int, version: int) -> None:
    """Trimmed as it went, or built from what the trims left of the log: the same verdicts, standing and next trim."""
    index = open_index(tmp_path / "whole")
    records = trimmed_log(seed, index, version, copies=True)
    plain = plain_log(records)
    assert index.low_watermark == plain.low_watermark > 0
    later = after_trims(records, plain)
    check_verdicts(index, plain, later)
    check_standing(index, plain)
    cut = build(open_index(tmp_path / "cut"), [record for record in records if record.offset >= plain.low_watermark])
    check_verdicts(cut, plain, later)
    check_standing(cut, plain)
    assert cut.low_watermark == index.low_watermark
    now = records[-1].time
    assert isinstance(now, int)
    assert cut.restated_trim(now) == index.restated_trim(now)
    index.finish_trim()
    assert index.verify() == cut.verify() == []
    check_verdicts(index, plain, later)
    index.close()
    cut.close()


def test_a_trim_in_the_middle_of_what_is_owed(tmp_path: Path) -> None:
    """Articles logged before the trim and owed after it get the verdicts that they would have had."""
    records = [rules_record(0, window_ms=100), batch_record(1, START_TIME, [3, 9 << 40], [0, 1])]
    records += [rules_record(2, START_TIME, window_ms=100), batch_record(3, START_TIME + 60, [3, 99 << 20], [2, 3])]
    records += [batch_record(4, START_TIME + 150, [3, 99 << 20], [4, 5])]
    index = build(open_index(tmp_path), records)
    owed = np.array([log_position(4, 0), log_position(4, 1)])
    before = index.judge(owed)
    basis = Basis(1, LogOffset(5), (Forgotten(TOPICS[0], 0, SourceOffset(4)),))
    assert index.restated_trim(START_TIME + 150) == Trim(LogOffset(2), START_TIME + 100, basis)
    index.apply([trim_record(5, START_TIME + 151, 2, START_TIME + 100)])
    assert index.judge(owed) == before
    assert index.partitions() == {(TOPICS[0], 0): 5}
    assert index.logged_positions(TOPICS[0], 0, np.arange(6)).tolist() == [-1, -1, -1, -1, *owed.tolist()]
    with pytest.raises(RefusedError, match="log record 1 is not in the index"):
        index.entry(log_position(1, 0))
    index.close()


def test_a_forgotten_article_that_comes_again_is_new_but_not_its_own_duplicate(tmp_path: Path) -> None:
    """Its old entry stays for others; it never matches its own coordinates, however often it came."""
    records = [rules_record(0, window_ms=10), batch_record(1, START_TIME, [1 << 60], [7])]
    records += [rules_record(2, window_ms=10)]
    at = 3
    for _ in range(10):
        records.append(batch_record(at, START_TIME + 5, [3], [0]))
        records.append(trim_record(at + 1, START_TIME + 5, 2, START_TIME + 5))
        at += 2
    records += [batch_record(at, START_TIME + 6, [3], [0]), batch_record(at + 1, START_TIME + 6, [3], [1])]
    index = build(open_index(tmp_path), records)
    judged = index.judge(np.array([log_position(at, 0), log_position(at + 1, 0)]))
    assert judged[0].verdict is Verdict.UNIQUE
    assert judged[1].match is not None
    assert judged[1].match.position == log_position(3, 0)
    index.close()


FAR = [0x9E3779B97F4A7C15 * number % 2**64 for number in range(1, 11)]
"""Fingerprints that are not near each other."""


def frozen_worker(*, rules_between: bool = False, read_to: int = 6) -> list[LogRecord]:
    """A log in which a trim forgets offsets 0 to 3, and a worker that was held up logs 0 to 5 after it.

    The late batch repeats offsets 0 and 1, of which entries were dropped, and 2 and 3, of which only coordinates were.
    """
    basis = Basis(1, LogOffset(read_to), (Forgotten(TOPICS[0], 0, SourceOffset(4)),))
    return [
        rules_record(0, window_ms=100),
        batch_record(1, START_TIME, FAR[:2], [0, 1]),
        rules_record(2, START_TIME, window_ms=100),
        batch_record(3, START_TIME + 50, FAR[2:4], [2, 3]),
        batch_record(4, START_TIME + 250, FAR[9:10], [9]),
        rules_record(5, START_TIME + 250, revision=1 + rules_between, window_ms=100 + 900 * rules_between),
        record(6, START_TIME + 251, Trim(LogOffset(2), START_TIME + 100, basis)),
        batch_record(7, START_TIME + 252, FAR[:6], [0, 1, 2, 3, 4, 5]),
        rules_record(8, START_TIME + 252, revision=1 + rules_between, window_ms=100 + 900 * rules_between),
        batch_record(9, START_TIME + 253, [FAR[0], FAR[4]], [10, 11]),
    ]


def test_a_late_batch_makes_no_article_of_what_is_forgotten(tmp_path: Path) -> None:
    """What others judged while its worker was held up has no second entry: a re-post matches only what it should."""
    records = frozen_worker()
    index, plain = build(open_index(tmp_path), records), plain_log(records)
    check_standing(index, plain)
    positions = index.logged_positions(TOPICS[0], 0, np.arange(6)).tolist()
    assert positions == [FORGOTTEN] * 4 + [log_position(7, 4), log_position(7, 5)]
    assert index.stats().articles == len(plain.entries) - 2 == 2 + 1 + 2 + 2
    repost, near_late = index.judge(np.array([log_position(9, 0), log_position(9, 1)]))
    assert repost.verdict is Verdict.UNIQUE
    assert near_late.match is not None
    assert near_late.match.position == log_position(7, 4)
    check_verdicts(index, plain, [log_position(9, 0), log_position(9, 1)])
    assert index.verify() == []
    index.close()


def test_an_offered_trim_lists_all_that_is_forgotten(tmp_path: Path) -> None:
    """Partitions of which it drops nothing are among it: an index of the log cut there knows only this trim."""
    records = [rules_record(0, window_ms=100), batch_record(1, START_TIME, FAR[:2], [0, 1], partition=1)]
    records += [rules_record(2, START_TIME, window_ms=100), batch_record(3, START_TIME + 200, FAR[2:3], [0])]
    index = build(open_index(tmp_path / "whole"), records)
    first = index.restated_trim(START_TIME + 101)
    assert first is not None
    records += [record(4, START_TIME + 201, first), rules_record(5, START_TIME + 201, window_ms=100)]
    records += [batch_record(6, START_TIME + 600, FAR[3:4], [1])]
    index.apply(records[4:])
    second = index.restated_trim(START_TIME + 600)
    assert second is not None
    assert second.basis is not None
    forgotten = (Forgotten(TOPICS[0], 0, SourceOffset(1)), Forgotten(TOPICS[0], 1, SourceOffset(2)))
    assert (second.before, second.basis.forgotten) == (5, forgotten)
    records.append(record(7, START_TIME + 601, second))
    index.apply(records[7:])
    assert index.low_watermark == 5
    cut = build(open_index(tmp_path / "cut"), records[5:])
    check_standing(cut, plain_log(records))
    index.close()
    cut.close()


def test_no_trim_names_rules_between_the_last_complete_trim_and_a_late_batch(tmp_path: Path) -> None:
    """An index of the log cut there would take the late entries for articles: it has not seen what is forgotten."""
    records = frozen_worker()[:8]
    records.insert(7, rules_record(7, START_TIME + 251, window_ms=100))
    records[8:] = [late._replace(offset=LogOffset(late.offset + 1)) for late in records[8:]]
    index = build(open_index(tmp_path), records)
    basis = Basis(1, LogOffset(9), (Forgotten(TOPICS[0], 0, SourceOffset(4)),))
    named = record(9, START_TIME + 400, Trim(LogOffset(7), START_TIME + 100, basis))
    index.apply([named])
    plain = plain_log([*records, named])
    assert index.low_watermark == plain.low_watermark == 2
    index.close()


def test_a_trim_of_other_rules_has_no_effect(tmp_path: Path) -> None:
    """Another change of rules came before it: it drops and forgets nothing, and bars no later trim."""
    records = frozen_worker(rules_between=True)
    index, plain = build(open_index(tmp_path), records), plain_log(records)
    assert (index.low_watermark, index.forgotten_before(TOPICS[0], 0)) == (plain.low_watermark, 0) == (0, 0)
    check_standing(index, plain)
    check_verdicts(index, plain, covered_positions(plain))
    assert plain.trims.void_trims_before == 0
    index.close()


@pytest.mark.parametrize("read_to", [1, 3])
def test_a_trim_that_drops_what_its_author_had_not_read_is_void(tmp_path: Path, read_to: int) -> None:
    """The author could not know whether those articles are owed."""
    records = frozen_worker(read_to=read_to)
    index, plain = build(open_index(tmp_path), records), plain_log(records)
    assert (index.low_watermark, plain.low_watermark) == (0, 0)
    assert index.forgotten_before(TOPICS[0], 0) == 0
    check_standing(index, plain)
    index.close()


def test_an_index_from_before_trims_forgot_is_opened(tmp_path: Path) -> None:
    """It has no such field in its state and no forgotten offsets, and goes on with trims that forget."""
    records = frozen_worker()
    index = build(open_index(tmp_path), records[:6])
    state = json.loads(index._applied.store.get([STATE])[0])
    del state["complete_trim"]
    writes = index._applied.store.batch()
    writes.put(STATE, json.dumps(state).encode())
    index._applied.store.write(writes)
    index.close()
    index = open_index(tmp_path)
    index.apply(records[6:])
    check_standing(index, plain_log(records))
    assert index.forgotten_before(TOPICS[0], 0) == 4
    index.close()
    index = open_index(tmp_path)
    check_standing(index, plain_log(records))
    index.close()


@pytest.mark.slow
def test_a_rebuilt_index_numbers_from_0_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the document numbers run out, an index of the log that trims have cut goes on, with the same verdicts."""
    index = open_index(tmp_path / "whole")
    records = trimmed_log(1, index, FORGETS, copies=True)
    plain = plain_log(records)
    numbered = index.next_doc_number
    index.close()
    monkeypatch.setattr(row_column, "MAX_DOC_NUMBERS", numbered - 1)
    monkeypatch.setattr(layout, "MAX_DOC_NUMBERS", numbered - 1)
    whole = open_index(tmp_path / "limited")
    with pytest.raises(RefusedError, match=rf"numbers at most {numbered - 1}\. .* stream-dedup index rebuild"):
        build(whole, records)
    assert whole.stats().numbers_used > 7 / 8
    whole.close()
    cut = build(open_index(tmp_path / "cut"), [record for record in records if record.offset >= plain.low_watermark])
    assert cut.next_doc_number < numbered - 1
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
    index = build(open_index(tmp_path), straddled([4, 8]))
    assert offered(index, START_TIME + 10_000) == (6, START_TIME + 400)
    index.apply([trim_record(7, START_TIME + 300, 3, START_TIME + 100)])
    assert index.low_watermark == 0
    # A void trim bars everything before it, also what was allowed.
    assert index.restated_trim(START_TIME + 10_000) is None
    index.apply([trim_record(8, START_TIME + 300, 6, START_TIME + 400)])
    assert index.low_watermark == 0
    index.apply([rules_record(9, START_TIME + 300, window_ms=100)])
    assert offered(index, START_TIME + 10_000) == (9, START_TIME + 400)
    index.close()
    assert offered(open_index(tmp_path), START_TIME + 10_000) == (9, START_TIME + 400)


def test_a_copy_of_what_stands_later_bars_nothing(tmp_path: Path) -> None:
    """A copy after the named rules of an article after them is in the cut log with its article."""
    index = build(open_index(tmp_path), straddled([5, 6, 7]))
    index.apply([trim_record(7, START_TIME + 300, 3, START_TIME + 100)])
    assert index.low_watermark == 3
    index.close()


@pytest.mark.parametrize("before", [1, 4, 7, 99])
def test_a_trim_names_a_rules_record(tmp_path: Path, before: int) -> None:
    """Naming a batch, itself or what is not there yet, it is void."""
    index = build(open_index(tmp_path), straddled([5, 6, 7]))
    index.apply([trim_record(7, START_TIME + 300, before, START_TIME + 100)])
    assert index.low_watermark == 0
    index.close()


def test_rules_that_did_not_count_cannot_be_named(tmp_path: Path) -> None:
    """A void change of rules is no beginning for a log."""
    records = straddled([5, 6, 7])
    index = build(open_index(tmp_path), [*records, rules_record(7, START_TIME + 300, revision=5, window_ms=100)])
    index.apply([trim_record(8, START_TIME + 300, 7, START_TIME + 100)])
    assert index.low_watermark == 0
    index.close()


def test_there_is_no_trim_without_a_window_or_before_it_is_time(tmp_path: Path) -> None:
    """Nothing is proposed that would forget what may still match."""
    index = build(open_index(tmp_path / "a"), [rules_record(0), batch_record(1, 0, [3], [0]), rules_record(2)])
    assert index.restated_trim(START_TIME) is None
    index.close()
    index = build(open_index(tmp_path / "b"), straddled([5, 6, 7])[:5])
    assert index.restated_trim(START_TIME + 100) is None
    assert offered(index, START_TIME + 101) == (3, START_TIME + 100)
    index.close()


def test_a_longer_window_that_may_still_decide_holds_a_trim_back(tmp_path: Path) -> None:
    """While an article under the old rules is owed, their window counts."""
    records = [rules_record(0, window_ms=1000), batch_record(1, START_TIME, [3], [0])]
    records += [rules_record(2, window_ms=1000), batch_record(3, START_TIME + 200, [3], [1])]
    records += [rules_record(4, revision=2, window_ms=10), batch_record(5, START_TIME + 300, [3], [2])]
    index = build(open_index(tmp_path), records)
    assert index.restated_trim(START_TIME + 200) is None
    assert offered(index, START_TIME + 201) == (2, START_TIME + 10)
    assert offered(index, START_TIME + 211) == (4, START_TIME + 210)
    index.close()


def test_the_window_cuts_through_a_record_without_kafka(tmp_path: Path) -> None:
    """Where entries have log times of their own, those after the horizon keep their coordinates."""
    times = np.array([START_TIME, START_TIME + 500, START_TIME + 20, START_TIME + 600])
    records = [rules_record(0, window_ms=50), batch_record(1, START_TIME, [1], [90])]
    records += [rules_record(2, window_ms=50), batch_record(3, times, [1, 2, 3, 4], [0, 1, 3, 4])]
    records += [trim_record(4, START_TIME, 2, START_TIME + 50)]
    index = build(open_index(tmp_path), records)
    check_standing(index, plain_log(records))
    assert index.logged_positions(TOPICS[0], 0, np.array([0, 1, 3, 4])).tolist() == [
        -1,
        log_position(3, 1),
        -1,
        log_position(3, 3),
    ]
    assert index.verify() == []
    index.close()


def bytes_on_disk(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*.sst"))


@pytest.mark.slow
def test_a_trim_gives_its_space_back(tmp_path: Path) -> None:
    """What stands after a trim of nine tenths takes about a tenth of the space, lists with many pieces included."""
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
    index.merge_all()
    index.flush()
    before = bytes_on_disk(tmp_path)
    last = [log_position(101, row) for row in range(100)]
    verdicts = index.judge(np.array(last))
    index.apply([trim_record(102, START_TIME + 1_001, 90, START_TIME + 980)])
    index.finish_trim()
    assert bytes_on_disk(tmp_path) < before / 6
    assert index.judge(np.array(last)) == verdicts
    assert index.verify() == []
    index.close()
