"""Log entries made from records."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import xxhash

from stream_dedup.core.columns import COLUMNS, Columns, Texts
from stream_dedup.core.decode import InputFormat, RawRecord
from stream_dedup.core.entry import Batch, decode, encode, make_batch
from stream_dedup.core.fingerprinter import EntryMaker, Fingerprinter, rejected_columns
from stream_dedup.core.model import Status, Widths, scope_hash_of
from stream_dedup.core.profiles import PROFILES
from tests.core.texts import STORY

RECORDS = [
    RawRecord(b"k0", '{"id": "a", "text": "今天天气很好"}'.encode(), "t-0-0"),
    RawRecord(None, None, "t-0-1"),
    RawRecord(b"k2", '{"text": "。！"}'.encode(), "t-0-2"),
    RawRecord(None, b"\xff", "t-0-3"),
    RawRecord(None, b'{"id": 5, "text": "hello world"}', "t-0-4"),
]


def test_each_record_has_its_row() -> None:
    """Articles are fingerprinted, text without words is featureless, the rest is rejected with its reason."""
    columns = EntryMaker()(RECORDS)
    prints = Fingerprinter().fingerprint(["今天天气很好", "hello world"])
    assert list(columns.ids) == ["a", "t-0-1", "k2", "t-0-3", "5"]
    assert list(columns.reasons) == ["", "tombstone: the record has no value", "", "invalid UTF-8 at byte 0", ""]
    assert columns.statuses.tolist() == [
        Status.LONG,
        Status.REJECTED,
        Status.FEATURELESS,
        Status.REJECTED,
        Status.LONG,
    ]
    assert columns.signatures[[0, 4]].tolist() == prints.signatures.tolist()
    assert columns.margins[[0, 4]].tolist() == prints.margins.tolist()
    assert not columns.signatures[1:4].any()
    assert not columns.margins[1:4].any()


def test_halves_of_surrogate_pairs_in_ids_are_escaped() -> None:
    """In the id of the record, and in the one that it gets without one: a file's name may have any bytes."""
    values = [b'{"id": "a\\udc80", "text": "x"}', b'{"text": "x"}', None]
    columns = EntryMaker()([RawRecord(None, value, "b\udcff-1") for value in values])
    assert list(columns.ids) == ["a\\udc80", "b\\udcff-1", "b\\udcff-1"]


def test_as_many_fields_as_the_settings_have() -> None:
    """An article of another number of fields has no entry under them."""
    with pytest.raises(ValueError, match="a text of 2 fields has no fingerprint where the settings have 1"):
        EntryMaker(fmt=InputFormat(fields=("title", "text")))(RECORDS)


def test_checksums_are_xxh3_of_the_values() -> None:
    """The checksum is XXH3-64 of the value; that of a tombstone is 0."""
    expected = [0 if one.value is None else xxhash.xxh3_64_intdigest(one.value) for one in RECORDS]
    assert EntryMaker()(RECORDS).checksums.tolist() == expected


def same(a: Columns, b: Columns) -> bool:
    def equal(one: Any, other: Any) -> bool:  # noqa: ANN401 - an array or texts
        if isinstance(one, Texts):
            return list(one) == list(other)
        return one.dtype == other.dtype and np.array_equal(one, other)

    return all(equal(getattr(a, name), getattr(b, name)) for name in COLUMNS)


def test_an_entry_depends_on_its_record_alone() -> None:
    """Records give the same columns one by one and all together."""
    maker = EntryMaker()
    assert same(Columns.concat([maker([one]) for one in RECORDS]), maker(RECORDS))


def test_no_records_no_entries() -> None:
    """No records give no entries, and so does the concatenation of no parts."""
    assert len(EntryMaker()([])) == 0
    assert same(EntryMaker()([]), Columns.concat([]))


def test_a_record_may_be_rejected_unseen() -> None:
    """A record rejected without being read has its key as id, or what is in the key, and its checksum."""
    keyed = rejected_columns(RECORDS[0]._replace(key=b'{"id": 7}'), InputFormat(key_field="id"), "too large", Widths())
    assert [*keyed.ids] == ["7"]
    columns = rejected_columns(RECORDS[0], InputFormat(), "too large", Widths())
    assert [*columns.ids, *columns.reasons, *columns.statuses] == ["k0", "too large", Status.REJECTED]
    assert columns.checksums.tolist() == [xxhash.xxh3_64_intdigest(RECORDS[0].value or b"")]


def test_columns_are_what_a_log_batch_takes() -> None:
    """A batch made of columns is decoded to the same ids, reasons and signatures."""
    columns = EntryMaker()(RECORDS)
    batch = make_batch(columns, bytes(16), "t", 0, range(5))
    read = decode(encode(batch))
    assert isinstance(read, Batch)
    assert [read.id(row) for row in range(5)] == list(columns.ids)
    assert [read.reason(row) for row in range(5)] == list(columns.reasons)
    assert np.array_equal(read.signatures, columns.signatures)


def test_scope_hashes_keep_kinds_and_scopes_apart() -> None:
    """Each kind and each scope has its own scope hash; long text without a scope and unsigned entries have 0."""
    settings = replace(PROFILES["article"].settings, scope_field="site", tables=8)
    fmt = InputFormat(scope_field="site")
    values = [
        {"text": STORY},
        {"text": STORY, "site": "a"},
        {"text": "今天天气很好，我们去公园", "site": "a"},
        {"text": "好", "site": 7},
        {"text": "。", "site": "a"},
        {"text": STORY, "site": []},
    ]
    records = [RawRecord(None, json.dumps(value).encode(), f"t-0-{at}") for at, value in enumerate(values)]
    columns = EntryMaker(settings, fmt)(records)
    assert columns.scope_hashes.tolist() == [
        0,
        scope_hash_of(Status.LONG, "a"),
        scope_hash_of(Status.SHORT, "a"),
        scope_hash_of(Status.EXACT, "7"),
        0,
        0,
    ]
    assert columns.margins.shape == (6, 64)
    assert columns.reasons[5] == "scope field site is neither text nor a number but an array"
    assert columns.signatures[0].tolist() == columns.signatures[1].tolist()


def test_rejected_columns_are_as_wide_as_the_schemes() -> None:
    """A rejected entry has the margin width of its scheme."""
    columns = rejected_columns(RECORDS[0], InputFormat(), "too large", Widths(16, 24))
    assert (columns.margins.shape, columns.sketches.shape) == ((1, 128), (1, 24))
