"""A panic of the native core rejects the record that it came at; the crate's own tests plant one at each stage."""

from __future__ import annotations

import json

import numpy as np
import pytest

from stream_dedup import _native
from stream_dedup.core.columns import COLUMNS, Columns
from stream_dedup.core.decode import RawRecord
from stream_dedup.core.fingerprinter import EntryMaker, Fingerprinter
from stream_dedup.core.model import Status
from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.reader import SchemeReader
from stream_dedup.core.reasons import DEFECT
from tests.core.panics import panicking_reader
from tests.core.texts import STORY

SETTINGS = PROFILES["article"].settings
EXACT = ["好", "ok", "船", "no"]
AT = 2
"""Row of the text at which the core panics, among the exact ones."""


def _records(texts: list[str]) -> list[RawRecord]:
    return [RawRecord(text[:4].encode(), json.dumps({"text": text}).encode(), "t-0-0") for text in texts]


def _with_story() -> list[str]:
    return [*EXACT[:AT], STORY, *EXACT[AT:]]


def _assert_rejected_alone(columns: Columns, expected: Columns) -> None:
    """The row AT is a rejected one with its id, and the others are as expected."""
    assert columns.statuses[AT] == Status.REJECTED
    assert (columns.ids[AT], columns.reasons[AT], columns.scope_hashes[AT]) == (STORY[:4], DEFECT, 0)
    assert not columns.signatures[AT].any()
    assert not columns.margins[AT].any()
    assert not columns.sketches[AT].any()
    others = [row for row in range(len(columns)) if row != AT]
    for name in COLUMNS:
        made, sound = list(getattr(columns, name)), list(getattr(expected, name))
        assert np.array_equal([made[row] for row in others], sound), name


def test_a_panic_while_a_text_is_read_rejects_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batch after batch of the same maker."""
    expected = EntryMaker(SETTINGS)(_records(EXACT))
    assert set(expected.statuses.tolist()) == {Status.EXACT}
    monkeypatch.setattr(SchemeReader, "native", panicking_reader(SETTINGS))
    maker = EntryMaker(SETTINGS)
    for _ in range(2):
        _assert_rejected_alone(maker(_records(_with_story())), expected)


def test_whoever_asks_for_fingerprints_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no row to reject, so the error names the text."""
    monkeypatch.setattr(SchemeReader, "native", panicking_reader(SETTINGS))
    with pytest.raises(_native.PanicError, match=DEFECT) as raised:
        Fingerprinter(SETTINGS).fingerprint(_with_story())
    assert raised.value.article == AT
    assert len(Fingerprinter(SETTINGS).fingerprint(EXACT).statuses) == len(EXACT)
