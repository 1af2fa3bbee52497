"""Rows of Parquet: objects of JSON, whatever the types of the columns."""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from stream_dedup.errors import EXIT_FOUND, EXIT_OK, EXIT_USER
from stream_dedup.files import parquet_rows
from tests.files.filtering import EDITED, OTHER, STORY, Filter, PipedFilter, record
from tests.profiles import write_profile

RECORDS = [record("a", STORY), record("b", EDITED), record("c", OTHER)]
VERDICTS = ["unique", "duplicate", "unique"]


def write(path: Path, columns: dict[str, Any] | pa.Table, **options: object) -> Path:
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    parquet.write_table(table, path, **options)
    return path


def articles(path: Path, **options: object) -> Path:
    return write(path, {name: [one[name] for one in RECORDS] for name in ("id", "text")}, **options)


def test_fields_of_structs_and_lists_have_paths(tmp_path: Path, call: Filter) -> None:
    """As in JSON: a whole number that pandas made a float is its id, bytes are none, and a timestamp is a time."""
    docs = [{"id": 4711.0, "body": [STORY]}, {"id": 2.0, "body": [EDITED[:90], EDITED[90:]]}, {"id": 3.0, "body": []}]
    times = pa.array([1_704_164_645_000_000 + at for at in range(3)], pa.timestamp("us", "Asia/Shanghai"))
    source = write(tmp_path / "a", {"doc": docs, "at": times})
    fields = ("--text-field", "doc.body[]", "--time-field", "at", "--window", "1h")
    said = [out["dedup"] for out in call("--id-field", "doc.id", *fields, source)]
    assert [one["verdict"] for one in said] == ["unique", "duplicate", "rejected"]
    assert said[1]["match"]["id"] == "4711"
    (binary,) = call("--id-field", "raw", write(tmp_path / "b", {"raw": [b"\xff"], "text": [STORY]}))
    assert binary["dedup"]["reason"] == "id field raw is neither text nor a number but an object"


VALUES: list[tuple[pa.Array, list[str]]] = [
    (pa.array([1, None, -(2**63)], pa.int64()), ["1", "null", "-9223372036854775808"]),
    (pa.array([2**64 - 1], pa.uint64()), ["18446744073709551615"]),
    (pa.array([4711.0, float("nan"), float("inf")]), ["4711.0", "null", "null"]),
    (pa.array([True]), ["true"]),
    (pa.array([Decimal("12.50"), Decimal("1e2"), None], pa.decimal128(38, 2)), ["12.50", "100.00", "null"]),
    (pa.array([Decimal(10**39 + 1)], pa.decimal256(40, 0)), [str(10**39 + 1)]),
    (pa.array(['a"\n文']), ['"a\\"\\n文"']),
    (pa.array(["a"]).dictionary_encode(), ['"a"']),
    (pa.array(["文".encode(), b"\xff\0"], pa.binary()), ['"文"', '{"base64":"/wA="}']),
    (pa.array([date(2024, 2, 29)]), ['"2024-02-29"']),
    (pa.array([time(1, 2, 3, 4)]), ['"01:02:03.000004"']),
    (pa.array([datetime(2024, 1, 2, 3, 4, 5, 6, UTC)], pa.timestamp("us")), ['"2024-01-02T03:04:05.000006"']),
    (pa.array([1_704_164_645_000_000_007], pa.timestamp("ns", "UTC")), ['"2024-01-02T03:04:05+00:00"']),
    (
        pa.array([datetime(2024, 1, 2, 3, tzinfo=UTC)], pa.timestamp("ms", "Asia/Shanghai")),
        ['"2024-01-02T11:00:00+08:00"'],
    ),
    (pa.array([0], pa.timestamp("s", "Mars/Base")), ['"1970-01-01T00:00:00+00:00"']),
    (pa.array([timedelta(seconds=90)]), ["90.0"]),
    (pa.array([[1, None], []]), ["[1,null]", "[]"]),
    (pa.array([{"x": [{"y": Decimal("0.10")}]}]), ['{"x":[{"y":0.10}]}']),
    (pa.array([[("a", 1), ("b", None)]], pa.map_(pa.string(), pa.int64())), ['{"a":1,"b":null}']),
    (pa.array([[(date(2024, 1, 1), 1)]], pa.map_(pa.date32(), pa.int64())), ['{"2024-01-01":1}']),
]


@pytest.mark.parametrize(("column", "written"), VALUES, ids=[str(column.type) for column, _ in VALUES])
def test_values_are_json(tmp_path: Path, column: pa.Array, written: list[str]) -> None:
    """Every type, null, and what JSON has no word for, as the docstring of the module says."""
    with write(tmp_path / "a", {"v": column}).open("rb") as file:
        assert [line for _, line in parquet_rows.rows(file, "a")] == [f'{{"v":{one}}}'.encode() for one in written]


def test_rows_have_verdicts_with_columns_in_order(tmp_path: Path, call: Filter) -> None:
    """Of several row groups, compressed or not, whatever the name; the number of a row is its id where it has none."""
    path = articles(tmp_path / "a.jsonl", row_group_size=1, compression="zstd")
    answers = call(path)
    assert [one["dedup"]["verdict"] for one in answers] == VERDICTS
    assert [list(one) for one in answers] == [["id", "text", "dedup"]] * 3
    answers = call(write(tmp_path / "b", {"text": [STORY, EDITED]}))
    assert (answers[1]["dedup"]["match"]["id"], call.code) == (f"{tmp_path / 'b'}:1", EXIT_OK)


def test_a_pipe_and_a_packed_file_are_read(tmp_path: Path, call: Filter, piped: Callable[..., PipedFilter]) -> None:
    """Though neither can seek: they are copied to disk."""
    path = articles(tmp_path / "a")
    (tmp_path / "a.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert call.verdicts(tmp_path / "a.gz") == VERDICTS
    process = piped()
    process.stdin.write(path.read_bytes())
    process.stdin.close()
    assert [json.loads(line)["dedup"]["verdict"] for line in process.stdout.read().splitlines()] == VERDICTS
    assert process.wait() == EXIT_OK


def test_a_file_is_read_where_it_is(tmp_path: Path, call: Filter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a copy: there is no folder for one."""
    path = articles(tmp_path / "a")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    index = ("--index", tmp_path / "index")
    assert call.verdicts(*index, path) == VERDICTS
    (tmp_path / "a.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert call(*index, tmp_path / "a.gz") == []
    assert "the copy of an input cannot be written" in call.err


def test_calibrate_reads_the_texts_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of the pairs that it shows."""
    from stream_dedup.cli import run  # noqa: PLC0415 - beside the fixture that captures

    profile = write_profile(tmp_path, search={"limit": 20})
    assert run(["calibrate", "--json", "--profile", profile, str(articles(tmp_path / "a"))]) == EXIT_OK
    assert STORY in json.dumps(json.loads(capsys.readouterr().out)["pairs"], ensure_ascii=False)


def test_a_value_that_cannot_be_written_costs_its_row(tmp_path: Path, call: Filter) -> None:
    """A date after the year 9999, a map with structs as keys, and text that is not UTF-8; the others are judged."""
    ends = pa.array([0, 1, 2, 3], pa.int32()).buffers()[1]
    notes = pa.StringArray.from_buffers(3, ends, pa.py_buffer(b"a\xffb"))
    times = pa.array([0, 0, 2**60], pa.timestamp("us"))
    maps = pa.array([[], [({"a": 1}, 1)], None], pa.map_(pa.struct([("a", pa.int64())]), pa.int64()))
    texts = {"text": pa.array([one["text"] for one in RECORDS])}
    for name, bad, at in (("note", notes, 1), ("time", times, 2), ("map", maps, 1)):
        answers = call(write(tmp_path / name, texts | {name: bad}))
        verdicts = [one["dedup"]["verdict"] for one in answers]
        assert verdicts == [*VERDICTS[:at], "rejected", *VERDICTS[at + 1 :]]
        assert answers[at]["dedup"]["reason"] == "invalid row: a value that JSON does not have"
        assert json.loads(answers[at]["dedup"]["line"]) == {"text": RECORDS[at]["text"]}
        assert call.code == EXIT_FOUND


@pytest.mark.parametrize("length", [4, 8, 100, -20, -1])
def test_a_file_that_is_cut_short_is_refused(tmp_path: Path, call: Filter, length: int) -> None:
    """Its end says where the rows are. One line, exit code 2, and nothing is made."""
    path = articles(tmp_path / "a")
    path.write_bytes(path.read_bytes()[:length])
    assert call("--index", tmp_path / "index", path) == []
    assert (call.code, call.err.count("\n"), (tmp_path / "index").exists()) == (EXIT_USER, 1, False)
    assert f"input {path}: no readable Parquet" in call.err


def test_columns_of_one_name_are_refused(tmp_path: Path, call: Filter) -> None:
    """Which of them is meant is unknown."""
    table = pa.table([pa.array([STORY]), pa.array(["b"]), pa.array(["c"])], names=["text", "x", "x"])
    assert call(write(tmp_path / "a", table)) == []
    assert (call.code, "more than one column x; rename them" in call.err) == (EXIT_USER, True)


def test_without_pyarrow_the_error_names_the_extra(
    tmp_path: Path, call: Filter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is made."""
    path = articles(tmp_path / "a")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert call("--index", tmp_path / "index", path) == []
    assert (call.code, "'stream-dedup[parquet]'" in call.err, (tmp_path / "index").exists()) == (EXIT_USER, True, False)


def test_options_for_text_are_refused(tmp_path: Path, call: Filter) -> None:
    """Parquet has one encoding, and is not CSV."""
    path = articles(tmp_path / "a")
    for flags in (("--encoding", "gb18030"), ("--format", "csv")):
        assert call(*flags, path) == []
        assert (call.code, f"leave out {flags[0]}" in call.err) == (EXIT_USER, True)


def test_a_large_file_is_read_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most so many rows are made at once, and progress follows."""
    monkeypatch.setattr(parquet_rows, "BATCH_ROWS", 10)
    shares: list[float] = []
    with write(tmp_path / "a", {"text": [STORY] * 100}).open("rb") as file:
        rows = parquet_rows.rows(file, "a", shares.append)
        assert [number for number, _ in rows] == list(range(1, 101))
    assert shares == [share / 10 for share in range(1, 11)]
