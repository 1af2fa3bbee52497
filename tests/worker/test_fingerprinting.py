"""Log entries of source records."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from stream_dedup.core.columns import Columns, names_of
from stream_dedup.core.fingerprint.entry_maker import EntryMaker, rejected_columns
from stream_dedup.core.model import Widths
from stream_dedup.core.text.decode import InputFormat, RawRecord
from stream_dedup.kafka.record import too_large_reason
from stream_dedup.ports import SourceRecord
from stream_dedup.worker.fingerprinting import SourceEntryMaker
from tests.core.texts import STORY

LIMIT = 2_000


def source_record(offset: int, text: str, key: bytes | None = None) -> SourceRecord:
    value = b'{"text": "%s"}' % text.encode()
    made: Any = SimpleNamespace(topic="articles", partition=3, offset=offset, key=key, value=value, headers=())
    record: SourceRecord = made
    return record


def same(a: Columns, b: Columns) -> bool:
    return all(np.array_equal(list(getattr(a, name)), list(getattr(b, name))) for name in names_of(Columns))


def test_a_record_that_no_output_can_hold_is_rejected_unread() -> None:
    """Its entry says so, under its key; the others, and all where none is too large, are as without it."""
    maker = EntryMaker()
    make = SourceEntryMaker(maker, InputFormat(), LIMIT, Widths())
    sound = [source_record(0, STORY[:40]), source_record(1, "好", b"own key"), source_record(2, STORY[:60])]
    raw = [RawRecord(one.key, one.value, f"articles-3-{one.offset}") for one in sound]
    assert same(make(sound), maker(raw))
    large = source_record(7, "x" * LIMIT, b"large key")
    reason = too_large_reason(large, LIMIT)
    assert reason is not None
    rejected = rejected_columns(RawRecord(large.key, large.value, "articles-3-7"), InputFormat(), reason, Widths())
    for at in range(len(sound) + 1):
        made = make([*sound[:at], large, *sound[at:]])
        assert same(made, Columns.concat([*([maker(raw[:at])] * (at > 0)), rejected, *([maker(raw[at:])] * (at < 3))]))
        assert (made.ids[at], made.reasons[at]) == ("large key", reason)
