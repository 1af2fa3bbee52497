"""The plain loop against cases small enough to decide by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from stream_dedup.core.entry import Trim
from stream_dedup.core.model import SourceOffset, Verdict, Widths
from stream_dedup.core.reasons import FEATURELESS_REASON
from stream_dedup.errors import CorruptError, RefusedError
from tests.logs import (
    OTHER_TOPIC,
    REJECTED,
    Entry,
    LogOfTest,
    at,
    batch,
    directed_rules,
    judged,
    rules,
    said,
    scheme_of,
)

A = 0xFFFF_0000_FFFF_0000
"""A fingerprint; its near ones are written as A ^ bits."""
FAR = 0x0123_4567_89AB_CDEF


def log_with(**settings: Any) -> LogOfTest:  # noqa: ANN401 - fields of Rules
    log = LogOfTest()
    log.add(rules(**settings))
    return log


def test_nearest_then_earliest() -> None:
    """The match is the nearest entry; among equals the one that stands first."""
    log = log_with()
    log.articles(A ^ 0b11, A ^ 0b1, A ^ 0b10, FAR, first=0)
    log.articles(A, first=4)
    assert said(log.plain()) == ["u", "d0@1", "d0@1", "u", "d1@1"]


@pytest.mark.parametrize(("bits", "verdict"), [(0b111, "d0@3"), (0b1111, "u")])
def test_distance_of_the_rules(bits: int, verdict: str) -> None:
    """A distance of k bits is near, k + 1 is not."""
    log = log_with(distance=3)
    log.articles(A, A ^ bits, first=0)
    assert said(log.plain())[1] == verdict


def test_match_is_told_in_full() -> None:
    """A match names log position, id, topic, coordinates, log time, distance and similarity."""
    log = log_with()
    log.articles(FAR, A, first=10)
    log.articles(A ^ 1, first=20, partition=3)
    match = judged(log.plain())[2].match
    assert match is not None
    assert (match.position, match.id, match.topic) == ((1 << 20) + 1, "articles-0-11", "articles")
    assert (match.coordinates, match.time, match.distance) == (at(11), 2000, 1)
    assert match.similarity == pytest.approx(math.cos(math.pi * 4 / 256))


def test_rejected_and_featureless() -> None:
    """Neither is near anything; the rules say what text without features is."""
    log = log_with()
    log.articles(REJECTED, 0, 0, REJECTED, first=0)
    log.add(rules(2, featureless="rejected"))
    log.articles(0, first=4)
    plain = log.plain()
    assert said(plain) == ["r", "u", "u", "r", "r"]
    assert [judgement.reason for judgement in judged(plain)] == ["broken", None, None, "broken", FEATURELESS_REASON]


def test_copies_count_for_nothing() -> None:
    """Coordinates stand where they were logged first, whatever the boundaries of later batches."""
    log = log_with()
    log.articles(A, FAR, first=0)
    log.articles(A, FAR, ~FAR & (2**64 - 1), first=0)
    log.articles(FAR, first=1)
    plain = log.plain()
    assert said(plain) == ["u", "u", "u"]
    assert [int(position) for position in plain.entries.positions] == [1 << 20, (1 << 20) + 1, (2 << 20) + 2]


def test_batch_covers_offsets_without_entries() -> None:
    """An offset between two entries of a batch is logged, though it has no entry."""
    log = log_with()
    log.add(batch([0, 5], [A, FAR]))
    log.add(batch([3], [A]))
    plain = log.plain()
    assert plain.find(at(3)) == []
    assert [plain.coordinates(index) for index in range(2)] == [at(0), at(5)]
    assert plain.logged.gaps((at(0).topic_id, 0), SourceOffset(0), SourceOffset(8)) == [(6, 7)]


def test_same_offsets_of_other_sources_are_others() -> None:
    """Partition and topic id are part of the coordinates."""
    log = log_with()
    log.articles(A, first=0)
    log.articles(A, first=0, partition=1)
    log.add(batch([0], [A], topic_id=OTHER_TOPIC))
    assert said(log.plain()) == ["u", "d0@0", "d0@0"]


@pytest.mark.parametrize(("seconds", "verdict"), [(10, "d0@0"), (10.001, "u")])
def test_window_is_of_log_times(seconds: float, verdict: str) -> None:
    """An entry expires when the log times differ by more than the window."""
    log = log_with(window_ms=10_000)
    log.articles(A, first=0)
    log.articles(A, first=1, seconds=seconds)
    assert said(log.plain()) == ["u", verdict]


def test_times_for_each_entry() -> None:
    """Without Kafka each entry of a batch has a time of its own."""
    log = log_with(window_ms=10)
    log.articles(A, A, A, first=0)
    log.records[-1] = log.records[-1]._replace(time=np.array([0, 11, 21]))
    assert said(log.plain()) == ["u", "u", "d1@0"]


@pytest.mark.parametrize(("limit", "verdict"), [(3, "u"), (4, "d0@0")])
def test_bucket_limit_counts_the_newest(limit: int, verdict: str) -> None:
    """An entry is compared while fewer than N later ones stand in its list; one list suffices."""
    fillers = [(A & ~(0xFFFF << shift)) ^ (0xF0F0 << shift) for shift in (0, 16, 32, 48)]
    log = log_with(bucket_limit=limit, distance=0)
    # Each filler shares three blocks with A: after four of them each list of A holds three later entries.
    log.articles(A, *fillers, first=0)
    log.articles(A, first=9)
    assert said(log.plain())[-1] == verdict


def test_bucket_limit_looks_into_neighbouring_lists() -> None:
    """From k = 4 on, lists whose block differs by one bit are looked up as well."""
    other = A ^ 0x0001_0001_0001_0001
    log = log_with(distance=4)
    log.articles(A, other, first=0)
    assert said(log.plain()) == ["u", "d0@4"]


@pytest.mark.parametrize(("distance", "verdict"), [(3, "u"), (4, "d0@1")])
def test_only_lists_within_a_quarter_of_the_distance_are_looked_up(distance: int, verdict: str) -> None:
    """An entry that fell out of the lists it shares is found in one whose block differs only if that is looked up."""
    other = A ^ 1 << 63
    # Three blocks of the other entry are taken by one later entry each; its first block differs by one bit.
    fillers = [(FAR & ~(0xFFFF << shift)) | (other & 0xFFFF << shift) for shift in (0, 16, 32)]
    log = log_with(distance=distance, bucket_limit=1)
    log.articles(other, *fillers, A, first=0)
    assert said(log.plain())[-1] == verdict


def test_entries_without_a_signature_stand_in_no_list() -> None:
    """A signature of zeros is near neither a rejected record nor text without features, and they fill no list."""
    zeros = Entry(0)
    log = log_with(bucket_limit=1)
    log.articles(REJECTED, 0, first=0)
    log.entry(zeros, first=2)
    log.articles(REJECTED, 0, first=3)
    log.entry(zeros, first=5)
    assert said(log.plain()) == ["r", "u", "u", "r", "u", "d2@0"]


def test_rules_in_force_at_the_log_position() -> None:
    """A change holds from its log position on; a void change and a restatement change nothing."""
    log = log_with(distance=0)
    log.articles(A, A ^ 1, first=0)
    log.add(rules(2, distance=1))
    log.add(rules(2, distance=5))
    log.articles(A ^ 0b10, first=2)
    log.add(rules(2, distance=1))
    log.articles(A ^ 0b11100, first=3)
    assert said(log.plain()) == ["u", "u", "d0@1", "u"]


def trimmed(*, copy: bool = False, before: int = 2) -> LogOfTest:
    """Rules, two articles, the rules again, an article, perhaps a copy, a trim, then all three coordinates again."""
    log = log_with(window_ms=1000)
    log.articles(A, FAR, first=0)
    log.add(rules(window_ms=1000))
    log.articles(~A & (2**64 - 1), first=2, seconds=100)
    if copy:
        log.articles(FAR, first=1)
    log.trim(before, horizon=3000)
    log.articles(A, FAR, first=0, seconds=0)
    log.articles(~A & (2**64 - 1), first=2, seconds=0)
    return log


def test_trim_forgets_coordinates_up_to_its_horizon() -> None:
    """Articles from before X are new when they come again; one with a later log time still stands."""
    plain = trimmed().plain()
    assert [plain.coordinates(index).offset for index in range(len(plain.entries))] == [0, 1, 2, 0, 1]
    assert said(plain) == ["u", "u", "u", "u", "u"]


@pytest.mark.parametrize(
    ("copy", "before"), [(True, 2), (False, 1), (False, 3)], ids=["straddling copy", "a batch", "another batch"]
)
def test_void_trim(copy: bool, before: int) -> None:
    """A copy that repeats what stands before X makes a trim void; so does an X that is no rules record."""
    plain = trimmed(copy=copy, before=before).plain()
    assert [plain.coordinates(index).offset for index in range(len(plain.entries))] == [0, 1, 2]


def test_nothing_before_a_void_trim_can_be_trimmed() -> None:
    """After a void trim, a later one that names an X before it is void too."""
    log = trimmed(before=1)
    log.trim(2, horizon=3000)
    log.articles(A, first=0, seconds=0)
    assert len(log.plain().entries) == 3


def test_what_is_trimmed_can_be_named_again() -> None:
    """A trim that names what is gone counts, even where that lies before a void trim that is gone as well."""
    log = log_with()
    log.articles(A, first=0)
    log.trim(1, horizon=log.time)
    anchor = log.add(rules())
    log.trim(anchor, horizon=0)
    log.articles(FAR, first=1)
    log.trim(1, horizon=log.time)
    log.articles(FAR, first=1)
    whole = log.plain()
    log.records = log.records[anchor:]
    assert (len(whole.entries), len(log.plain().entries)) == (3, 2)


def test_forgotten_entry_matches_others_but_never_itself() -> None:
    """An entry that stands after X is matched by others after its coordinates were forgotten, not by itself."""
    log = log_with(window_ms=10_000)
    anchor = log.add(rules(window_ms=10_000))
    log.articles(A, first=0)
    log.trim(anchor, horizon=log.time)
    log.articles(A, first=0)
    log.articles(A, first=1)
    assert said(log.plain()) == ["u", "u", "d0@0"]


def test_entries_before_a_trim_are_gone() -> None:
    """From the trim on, nothing that stood before X is compared."""
    log = log_with()
    log.articles(A, first=0)
    anchor = log.add(rules())
    log.articles(A, first=1)
    log.trim(anchor, horizon=log.time - 500)
    log.articles(A ^ 1, first=2)
    assert said(log.plain()) == ["u", "d0@0", "d1@1"]


def test_cut_log_knows_what_can_be_recomputed() -> None:
    """Where a trim took the beginning, verdicts whose window reaches behind it cannot be recomputed."""
    log = log_with(window_ms=1000)
    log.articles(A, first=0)
    log.add(rules(2, window_ms=5000))
    log.articles(A, A, first=1, seconds=2)
    log.add(rules(3, window_ms=1000))
    log.articles(FAR, first=3, seconds=2)
    log.trim(2, horizon=3000, revision=3)
    log.articles(FAR, first=4)
    log.records = log.records[2:]
    plain = log.plain()
    assert [plain.coordinates(index).offset for index in range(4)] == [1, 2, 3, 4]
    assert plain.recomputable.tolist() == [False, False, True, True]


def test_log_that_lost_its_beginning_is_refused() -> None:
    """Without a trim for it, a missing beginning is an error."""
    log = trimmed()
    log.records = [record for record in log.records[2:] if not isinstance(record.payload, Trim)]
    plain = log.plain()
    with pytest.raises(RefusedError, match="begins at offset 2"):
        _ = plain.recomputable


def test_log_must_begin_with_rules() -> None:
    """Entries before any rules are refused."""
    log = LogOfTest()
    log.articles(A, first=0)
    with pytest.raises(CorruptError, match="before any rules"):
        log.plain()


def test_only_those_wanted() -> None:
    """A sample's verdicts are those of the whole log."""
    log = log_with()
    log.articles(A, A ^ 1, FAR, A ^ 2, first=0)
    found = list(log.plain().judgements(np.array([1, 3])))
    assert [index for index, _ in found] == [1, 3]
    assert [judgement.verdict for _, judgement in found] == [Verdict.DUPLICATE, Verdict.DUPLICATE]


@pytest.mark.parametrize(
    ("widths", "scheme_has"), [(Widths(8), "8 tables and no sketches"), (Widths(4, 16), "4 tables and sketches of 16")]
)
def test_batch_of_other_widths(widths: Widths, scheme_has: str) -> None:
    """Margins of other tables than the scheme's, or other sketches, are no log of it."""
    log = LogOfTest()
    log.add(directed_rules(scheme=scheme_of(*widths)))
    log.add(batch([0], [1]))
    with pytest.raises(CorruptError, match=f"entries of 4 tables and no sketches, the log's scheme has {scheme_has}"):
        log.plain()
