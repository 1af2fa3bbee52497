"""The plain loop and the index give the same answers for random logs: each is the other's judge.

The index is asked at several times, in several orders, with and without folding, with and without an image.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from stream_dedup.audit.reference import PlainLog, plain_log
from stream_dedup.core.entry import LogRecord, Payload, Trim, Withdrawal, encode
from stream_dedup.core.logged_scheme import Scheme
from stream_dedup.core.model import Judgement, LogOffset, LogPosition, log_offset_of, log_position, row_of
from stream_dedup.core.rules import Rules
from stream_dedup.index import IndexSettings, LogIndex
from tests.amount import FULL, examples
from tests.index.checks import check_standing, finish_merges
from tests.logs import SCHEME, batch, directed_rules
from tests.random_logs import random_log

SEEDS = st.integers(0, 2**32 - 1)


@contextmanager
def opened(path: str, seed: int, scheme: Scheme) -> Iterator[LogIndex]:
    """An index of one of several makes; every make must give the same answers."""
    draw = random.Random(seed)
    settings = IndexSettings(fold_entries=draw.choice([1, 30, 200, 100_000]), memory_mib=draw.choice([0, 0, 17, 64]))
    with LogIndex.open(Path(path), scheme=scheme, settings=settings) as index:
        if index.log_id is None:
            index.begin("log")
        yield index


def scheme_in(records: list[LogRecord]) -> Scheme:
    """The scheme of a log."""
    rules = records[0].payload
    assert isinstance(rules, Rules)
    return rules.scheme


def expected(log: PlainLog) -> dict[LogPosition, Judgement]:
    """The verdict of each log position."""
    return {log.entries.position(index): judged for index, judged in log.judgements()}


def same(found: Judgement, wanted: Judgement) -> bool:
    if found.match is None or wanted.match is None:
        return found == wanted
    similar = found.match.similarity == pytest.approx(wanted.match.similarity, abs=1e-9)
    return similar and replace(found, match=replace(found.match, similarity=wanted.match.similarity)) == wanted


def assert_verdicts(index: LogIndex, wanted: dict[LogPosition, Judgement], after: int, draw: random.Random) -> None:
    """The index, asked in any order, says the same of all log positions from a log offset on."""
    positions = [position for position in wanted if after <= log_offset_of(position) < index.next_offset]
    draw.shuffle(positions)
    judged = index.judge(np.array(positions, np.int64))
    differing = {
        position: (found, wanted[position])
        for position, found in zip(positions, judged, strict=True)
        if not same(found, wanted[position])
    }
    assert differing == {}


def cut_of(records: list[LogRecord]) -> int:
    """Log offset behind the last record that can have changed what is remembered."""
    return max((record.offset for record in records if isinstance(record.payload, Trim)), default=-1)


def cuts_of(log: PlainLog) -> Iterator[tuple[int, int]]:
    """Every X at which a trim permits to cut the log, with the log offset of the trim."""
    low_watermark = 0
    for valid in log.valid_trims:
        if valid.trim.before > low_watermark:
            low_watermark = valid.trim.before
            yield low_watermark, valid.offset


@pytest.mark.slow
@examples(60)
@given(SEEDS)
def test_same_verdicts_and_same_standing(seed: int) -> None:
    """Asked at any time, for any log positions that may still be asked, the index says what the plain loop says."""
    records = random_log(seed)
    wanted = expected(plain_log(records))
    draw = random.Random(seed + 1)
    with TemporaryDirectory() as path, opened(path, seed, scheme_in(records)) as index:
        at = 0
        while at < len(records):
            trims = [later for later in range(at + 1, len(records)) if isinstance(records[later].payload, Trim)]
            stop = min([at + draw.randint(1, 15), len(records), *trims])
            index.apply(records[at:stop])
            at = stop
            assert_verdicts(index, wanted, cut_of(records[:at]) + 1, draw)
            if draw.random() < 0.2:
                finish_merges(index)
        plain = plain_log(records)
        check_standing(index, plain)
        assert index.rules == plain.rules
        assert index.verify() == []
        assert index.stats().articles == int((plain.entries.log_offsets >= plain.low_watermark).sum())


@pytest.mark.slow
@examples(30)
@given(SEEDS)
def test_same_verdicts_after_opening_again(seed: int) -> None:
    """Where an entry is held changes nothing: an index that was closed and opened says the same."""
    records = random_log(seed)
    wanted = expected(plain_log(records))
    draw = random.Random(seed + 1)
    with TemporaryDirectory() as path:
        middle = draw.randint(1, len(records))
        for part in (records[:middle], records[middle:]):
            with opened(path, draw.randrange(100), scheme_in(records)) as index:
                index.apply(part)
        with opened(path, draw.randrange(100), scheme_in(records)) as index:
            assert_verdicts(index, wanted, cut_of(records) + 1, draw)


@pytest.mark.slow
@examples(30)
@given(SEEDS)
@example(2934)
def test_cut_log_gives_the_same_verdicts(seed: int) -> None:
    """Cut at the X of any valid trim, the log says the same of all that comes after the trim, to both.

    What is covered and what is forgotten at its end are the same too, and so is the next trim. Only its horizon may be
    earlier: a cut log does not say of what time the entries were that are trimmed already.
    """
    records = random_log(seed)
    whole = plain_log(records)
    cuts = list(cuts_of(whole))
    assume(cuts)
    judged = expected(whole)
    for before, trim_offset in cuts:
        rest = plain_log([record for record in records if record.offset >= before])
        again = expected(rest)
        wanted = {position: found for position, found in judged.items() if log_offset_of(position) > trim_offset}
        assert {position: found for position, found in again.items() if position in wanted} == wanted
        assert rest.logged.forgotten == whole.logged.forgotten
    before, trim_offset = random.Random(seed).choice(cuts)
    with (
        TemporaryDirectory() as path,
        TemporaryDirectory() as cut_path,
        opened(path, seed, scheme_in(records)) as index,
        opened(cut_path, seed + 1, scheme_in(records)) as cut,
    ):
        index.apply(records)
        cut.apply([record for record in records if record.offset >= before])
        assert_verdicts(cut, judged, max(trim_offset, cut_of(records)) + 1, random.Random(seed))
        check_standing(cut, whole)
        later = int(records[-1].time) + 1_000_000
        offered, offered_before = cut.trims.offered(later), index.trims.offered(later)
        assert (offered is None) == (offered_before is None)
        if offered is not None and offered_before is not None:
            assert replace(offered, horizon=offered_before.horizon) == offered_before
            assert offered.horizon <= offered_before.horizon


@pytest.mark.slow
@examples(30)
@given(SEEDS)
def test_trims_that_the_index_chooses_change_no_verdict(seed: int) -> None:
    """With nothing owed but what comes, a trim as the index offers it changes nothing, nor does cutting the log there.

    That holds although what the trims forget comes again. What the cut log says can be recomputed, it recomputes.
    """
    records = random_log(seed, trims=False, shrinking=True)
    trimmed, moved = with_offered_trims(records, seed)
    plain = plain_log(trimmed)
    assert plain.void_trims_before == 0
    without = [verdict_of(judged, moved) for judged in expected(plain_log(records)).values()]
    wanted = expected(plain)
    assert without == list(wanted.values())
    for cut in {cut.trim.before for cut in plain.valid_trims}:
        rest = plain_log(trimmed[cut:])
        positions = rest.entries.positions[rest.recomputable].tolist()
        again = expected(rest)
        assert [again[position] for position in positions] == [wanted[position] for position in positions]


def with_offered_trims(records: list[LogRecord], seed: int) -> tuple[list[LogRecord], dict[int, int]]:
    """The log with trims as the index offers them now and then, and the new offset of each record."""
    draw = random.Random(seed)
    trimmed: list[LogRecord] = []
    moved: dict[int, int] = {}
    with TemporaryDirectory() as path, opened(path, seed, scheme_in(records)) as index:
        for position, record in enumerate(records):
            moved[record.offset] = len(trimmed)
            payload = with_moved(record.payload, moved)
            trimmed.append(LogRecord(LogOffset(len(trimmed)), record.time, payload, encode(payload)))
            index.apply(trimmed[-1:])
            owed = min(int(later.time) for later in records[position:])
            trim = index.trims.offered(owed) if draw.random() < 0.5 else None
            if trim is not None:
                trimmed.append(LogRecord(LogOffset(len(trimmed)), record.time, trim, encode(trim)))
                index.apply(trimmed[-1:])
    return trimmed, moved


def with_moved(payload: Payload, moved: dict[int, int]) -> Payload:
    """The payload with log positions of the trimmed log; a position that has none there is after the end."""
    if not isinstance(payload, Withdrawal):
        return payload
    nowhere = 2 * max(moved)
    offsets = [moved.get(log_offset_of(at), nowhere) for at in payload.positions]
    moved_to = {log_position(offset, row_of(at)) for offset, at in zip(offsets, payload.positions, strict=True)}
    return Withdrawal(tuple(sorted(moved_to)))


def verdict_of(judged: Judgement, moved: dict[int, int] | None) -> object:
    """A verdict with its match's log position in the trimmed log."""
    if judged.match is None:
        return judged
    offset = log_offset_of(judged.match.position)
    position = LogPosition(judged.match.position + (((moved[offset] - offset) << 20) if moved else 0))
    return replace(judged, match=replace(judged.match, position=position))


LENGTH = 600 if FULL else 150
"""Entries of a flood: many times the bucket limit."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5 if FULL else 1))
def test_flood_beyond_the_bucket_limit(seed: int) -> None:
    """A long run of a few variants, with lists that are cut off, under every radius of masks and length of plan."""
    draw = random.Random(seed)
    centre = draw.getrandbits(64) | 1
    prints = [centre ^ (1 << draw.randrange(64)) if draw.random() < 0.5 else centre for _ in range(LENGTH)]
    exact = [Rules(SCHEME, distance=distance, bucket_limit=40) for distance in (0, 3, 4, 7, 8, 11)]
    directed = [directed_rules(scheme=SCHEME, probes=probes, bucket_limit=40) for probes in (1, 4, 20, 64, 600)]
    for rules in exact + directed:
        records = [LogRecord(LogOffset(0), 0, rules, b"")]
        for first in range(0, LENGTH, 50):
            offsets = range(first, first + 50)
            records.append(LogRecord(LogOffset(len(records)), 1000, batch(offsets, prints[first : first + 50]), b""))
        records = [record._replace(raw=encode(record.payload)) for record in records]
        wanted = expected(plain_log(records))
        with TemporaryDirectory() as path, opened(path, draw.randrange(100), scheme_in(records)) as index:
            index.apply(records)
            assert_verdicts(index, wanted, 0, draw)
