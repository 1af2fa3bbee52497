"""What the log has of a source already."""

from __future__ import annotations

import numpy as np

from stream_dedup.core.entry import Basis, Forgotten, Payload, Trim
from stream_dedup.core.model import LogOffset, SourceOffset
from stream_dedup.core.rules import Rules
from stream_dedup.seed.seeding import LoggedArticles
from tests.logs import OTHER_TOPIC, SCHEME, TOPIC, batch


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
