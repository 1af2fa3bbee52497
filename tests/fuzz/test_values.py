"""JSON values at the borders of the grammar, a few of those that `make fuzz ARGS=--values` takes."""

from __future__ import annotations

from collections import Counter

import pytest

from stream_dedup.core import decode
from stream_dedup.core.decode import Article, Rejection
from stream_dedup.core.reasons import CODES, code_of
from tests.amount import FULL
from tests.fuzz.values import ValueFuzzer, fuzz_values

SEED = 20261126
VALUES = 50_000 if FULL else 3_000


def test_values_are_decoded_as_the_definition_does() -> None:
    """Each has the same article, or the same reason, and the same members."""
    assert fuzz_values(VALUES, SEED) == []


def test_every_outcome_is_drawn() -> None:
    """Articles, and each reason that a value can have."""
    records = ValueFuzzer(SEED).records(VALUES)
    decoded = [decode.decode(record, fmt) for record, fmt in records]
    drawn = Counter("article" if isinstance(one, Article) else code_of(one.reason) for one in decoded)
    by_files = {"invalid_encoding", "invalid_row", "missing_time", "invalid_time"}
    by_registry = {"no_schema_id", "unknown_schema", "unusable_schema", "not_of_schema"}
    of_values = set(CODES) - by_files - by_registry - {"no_words", "defect", "other"}
    assert drawn.keys() == of_values | {"article"}
    assert drawn["article"] > VALUES / 8


def test_a_difference_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the record and what became of it by either way."""
    monkeypatch.setattr(decode, "decode", lambda record, _: Rejection(record.fallback_id, "another reason"))
    faults = fuzz_values(30, SEED)
    assert len(faults) == 30
    assert "another reason" in faults[0]
    monkeypatch.undo()
    monkeypatch.setattr(decode, "parse_object", lambda _: {"another": "object"})
    assert fuzz_values(30, SEED)


def test_a_value_is_the_same_again() -> None:
    """The seed of a fault finds it again."""
    once, again = (list(ValueFuzzer(SEED).records(50)) for _ in range(2))
    assert once == again
