"""Each clause of the check of sketches and forms, alone: the case is near with it and not without."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stream_dedup.core.model import Status, group_of
from tests.audit.pairs import A, asked, log_with, spread
from tests.logs import Entry, directed_rules, entries_batch, said, scheme_of


@pytest.mark.parametrize(("equal", "letter"), [(9, "d"), (8, "u"), (0, "u")])
@pytest.mark.parametrize("status", [Status.LONG, Status.SHORT])
def test_sketches_must_have_enough_equal_values(status: Status, equal: int, letter: str) -> None:
    """Of equal signatures, one with nine equal values of 16 is near and one with eight is not."""
    least = {"min_equal": 9, "short_min_equal": 0} if status is Status.LONG else {"short_min_equal": 9}
    log = log_with(directed_rules(scheme=scheme_of(4, 8), **least))
    other = "".join("7" if at < equal else "4" for at in range(16))
    sketches = bytes.fromhex("7" * 16), bytes.fromhex(other)
    entries = [Entry(A, "0" * 64, group_of(status), status, sketch=sketch) for sketch in sketches]
    log.add(entries_batch(range(2), entries, 4, 8))
    assert [one[0] for one in said(log.plain())] == ["u", letter]


@pytest.mark.parametrize(
    ("far", "far_min_equal", "certain", "letter"),
    [
        (11, 10, None, "u"),
        (11, 9, None, "d"),
        (12, 10, None, "d"),
        (0, 16, None, "u"),
        (11, 10, 12, "d"),
        (11, 10, 11, "u"),
        (11, 7, None, "d"),
    ],
)
@pytest.mark.parametrize("status", [Status.LONG, Status.SHORT])
def test_far_entries_must_have_more_equal_values(
    status: Status, far: int, far_min_equal: int, certain: int | None, letter: str
) -> None:
    """At 12 bits with nine equal values of 16: beyond ``far`` so many must be equal, but not within ``certain``."""
    least: dict[str, Any] = {
        "min_equal": 8,
        "short_min_equal": 8,
        "far": far,
        "far_min_equal": far_min_equal,
        "certain": certain,
    }
    log = log_with(directed_rules(scheme=scheme_of(4, 8), **least))
    group, sketches = group_of(status), [bytes.fromhex("7" * 16), bytes.fromhex("7" * 9 + "4" * 7)]
    entries = [
        Entry(signature, "0" * 64, group, status, sketch=sketch)
        for signature, sketch in zip((A ^ spread(0), A), sketches, strict=True)
    ]
    log.add(entries_batch(range(2), entries, 4, 8))
    assert said(log.plain())[1] == ("u" if letter == "u" else "d0@12")


def test_more_equal_values_beyond_far_are_no_fewer() -> None:
    """The number for every distance holds beyond ``far`` bits too, where it is the greater one."""
    rules = directed_rules(scheme=scheme_of(4, 8), min_equal=10, far=11, far_min_equal=8)
    sketches = bytes.fromhex("7" * 16), bytes.fromhex("7" * 9 + "4" * 7)
    assert asked(rules, Entry(A ^ spread(0), sketch=sketches[0]), Entry(A, "0" * 64, sketch=sketches[1])) == "u"


@pytest.mark.parametrize(
    ("small", "status", "least", "letter"),
    [
        (5, Status.LONG, (10, 10), "u"),
        (5, Status.LONG, (9, 10), "d"),
        (6, Status.LONG, (10, 10), "d"),
        (2, Status.LONG, (8, 10), "u"),
        (2, Status.LONG, (8, 9), "d"),
        (3, Status.LONG, (8, 10), "d"),
        (2, Status.SHORT, (10, 10), "d"),
        (2, Status.EXACT, (10, 10), "d"),
    ],
)
def test_the_sketches_of_a_dominated_article_decide_at_every_distance(
    small: int, status: Status, least: tuple[int, int], letter: str
) -> None:
    """Of equal signatures with nine equal values of 16: five small margins make dominated, two strongly so.

    The margins of the earlier entry do not matter.
    """
    rules = directed_rules(
        scheme=scheme_of(4, 8),
        min_equal=least[0],
        short_min_equal=least[0],
        certain=20,
        far=60,
        far_min_equal=least[1],
        dominated=5,
    )
    sketches = bytes.fromhex("7" * 16), bytes.fromhex("7" * 9 + "4" * 7)
    margins = "3" * small + "4" * (64 - small)
    for earlier in ("0" * 64, "f" * 64):
        pair = [
            Entry(A, digits, group_of(status), status, sketch=sketch)
            for digits, sketch in zip((earlier, margins), sketches, strict=True)
        ]
        assert asked(rules, *pair)[0] == letter
        assert asked(replace(rules, dominated=None), *pair)[0] == "d"


def test_a_form_with_other_numbers_is_ruled_out_however_many_values_are_equal() -> None:
    """The limit of forms comes first: neither ``far_min_equal`` nor ``certain`` stands above it."""
    rules = directed_rules(scheme=scheme_of(4, 16, form=True), form_limit=11, far=5, far_min_equal=16, certain=20)
    earlier, later = (bytes(8) + bytes.fromhex(one) for one in ("01000000 02000000", "01000000 03000000"))
    assert asked(rules, Entry(A ^ spread(0), sketch=earlier), Entry(A, "0" * 64, sketch=later)) == "u"
    assert asked(rules, Entry(A ^ spread(0), sketch=earlier), Entry(A, "0" * 64, sketch=earlier)) == "d0@12"


@pytest.mark.parametrize(
    ("form", "other", "limit", "letter"),
    [
        ("01000000 02000000", "01000000 03000000", 11, "u"),
        ("01000000 02000000", "01000000 03000000", 12, "d"),
        ("01000000 02000000", "01000000 03000000", None, "d"),
        ("01000000 02000000", "01000000 02000000", 0, "d"),
        ("01000000 02000000", "04000000 03000000", 0, "d"),
        ("00000000 02000000", "00000000 03000000", 0, "d"),
        ("00000000 00000000", "01000000 03000000", 0, "d"),
        ("01000000 02000000", "00000000 00000000", 0, "d"),
    ],
)
def test_one_form_with_other_numbers_has_a_limit_of_its_own(
    form: str, other: str, limit: int | None, letter: str
) -> None:
    """At 12 bits; the same numbers, another frame and texts without a form (frame 0) have the limit of all texts."""
    rules = directed_rules(scheme=scheme_of(4, 16, form=True), form_limit=limit, min_equal=16)
    earlier, later = (bytes(8) + bytes.fromhex(one) for one in (form, other))
    assert asked(rules, Entry(A ^ spread(0), sketch=earlier), Entry(A, "0" * 64, sketch=later))[0] == letter


def test_a_form_counts_among_no_equal_values() -> None:
    """Equal forms are no help to values that differ, and unequal ones do not hurt equal ones."""
    rules = directed_rules(scheme=scheme_of(4, 16, form=True), min_equal=16)
    values, form = bytes([7] * 8), bytes([1, 0, 0, 0, 2, 0, 0, 0])
    assert asked(rules, Entry(A, sketch=bytes(8) + form), Entry(A, sketch=values + form))[0] == "u"
    assert asked(rules, Entry(A, sketch=values + form), Entry(A, sketch=values + bytes(8)))[0] == "d"


def test_exact_texts_need_no_sketch() -> None:
    """Equal texts are duplicates whatever their sketches."""
    log = log_with(directed_rules(scheme=scheme_of(4, 8), min_equal=16, short_min_equal=16))
    group = group_of(Status.EXACT)
    entries = [Entry(A, "f" * 64, group, Status.EXACT, sketch=bytes([first] * 8)) for first in (0, 0xFF)]
    log.add(entries_batch(range(2), entries, 4, 8))
    assert [one[0] for one in said(log.plain())] == ["u", "d"]
