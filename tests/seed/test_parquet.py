"""Archives in Parquet: the entries of ``stream_dedup.spark.fingerprint``, entered as they are."""

from __future__ import annotations

import gzip
import json
import os
import sys
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from pyarrow import parquet

from stream_dedup.config.effective import fingerprint_settings_of, rules_of
from stream_dedup.core.columns import encode_columns
from stream_dedup.core.decode import RawRecord
from stream_dedup.core.fingerprinter import EntryMaker
from stream_dedup.errors import RefusedError, UserError
from stream_dedup.files import parquet_rows
from stream_dedup.files.inputs import Progress
from stream_dedup.seed import archives as reader
from stream_dedup.seed.entry_rows import batch_of
from stream_dedup.seed.run import archives_in
from tests.seed.seeding import SeedWorld, line, offsets_of, write_lines

LINES = [*(line(number) for number in range(9)), "{no json", line(10)]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> SeedWorld:
    monkeypatch.setattr(reader, "PARQUET_BATCH_ROWS", 4)
    return SeedWorld()


def write(world: SeedWorld, path: Path, lines: list[str], scheme: str | None = None) -> Path:
    """Write the entries of these lines, as Spark would."""
    config = world.config()
    columns = EntryMaker(fingerprint_settings_of(config))(
        [RawRecord(None, one.encode(), f"archive:{number}") for number, one in enumerate(lines, 1)]
    )
    rows = batch_of(columns, scheme or rules_of(config).scheme.id)
    parquet.write_table(pa.Table.from_batches([rows]), path)
    return path


def test_rows_are_entries(world: SeedWorld, tmp_path: Path) -> None:
    """The log has the same columns as after `seed` of the text; the same file again adds nothing."""
    tally = world.seed_files(write(world, tmp_path / "archive", LINES))
    assert (tally.entered, tally.rejected) == (len(LINES) - 1, 1)
    assert offsets_of(world) == list(range(len(LINES)))
    assert "row 10: " in tally.examples[0]
    text = SeedWorld()
    text.seed_files(write_lines(tmp_path / "archive.jsonl", LINES), name="archive")
    (whole,) = text.batches()
    parts = world.batches()
    assert [len(part) for part in parts] == [4, 4, 3]
    for at, part in zip((0, 4, 8), parts, strict=True):
        assert encode_columns(part) == encode_columns(whole.rows(slice(at, at + 4)))
    assert world.seed_files(write(world, tmp_path / "moved", LINES)).present == len(LINES)


@pytest.mark.parametrize("name", [os.fsdecode(b"\xff.parquet"), "s3:a.parquet", "~/a.parquet"])
def test_a_file_of_any_name_is_opened(
    world: SeedWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Bytes that are no text; nothing in a path has a meaning."""
    made = write(world, tmp_path / "archive", LINES)
    monkeypatch.chdir(tmp_path)
    Path(name).parent.mkdir(exist_ok=True)
    made.rename(name)
    assert world.seed_files(Path(name)).entered == len(LINES) - 1


def test_a_row_that_differs_from_the_logged_one_is_refused(world: SeedWorld, tmp_path: Path) -> None:
    """The message names the row; --name gives the file an identity of its own."""
    world.seed_files(write(world, tmp_path / "archive", LINES[:5]))
    other = write(world, tmp_path / "other", [*LINES[:4], line(99)])
    with pytest.raises(RefusedError, match=r"input other, row 5: the log has another article.*--name"):
        world.seed_files(other)
    assert world.seed_files(other, name="other").entered == 5


def test_a_file_that_is_replaced_while_the_log_is_read_is_refused(world: SeedWorld, tmp_path: Path) -> None:
    """As one of lines."""
    path = write(world, tmp_path / "archive", LINES)
    archives = archives_in(world.config(), [str(path)], None, Progress())
    write(world, path, LINES[3:])
    with pytest.raises(UserError, match="archive: the file was replaced while the command ran"):
        world.seed(*archives)
    assert world.batches() == []


def test_a_file_with_a_damaged_page_is_refused(world: SeedWorld, tmp_path: Path) -> None:
    """Its end, with the names of the columns, can be read; the pages cannot."""
    path = write(world, tmp_path / "archive", LINES)
    whole = bytearray(path.read_bytes())
    for begin in (8, 120, 300):
        damaged = whole.copy()
        damaged[begin : begin + 60] = bytes(60)
        path.write_bytes(damaged)
        with pytest.raises(UserError, match="archive: no readable Parquet"):
            world.seed_files(path)
    assert world.batches() == []


def test_an_id_that_is_not_utf8_is_refused(world: SeedWorld, tmp_path: Path) -> None:
    """The writer said that the bytes were text; they are read first for the identity of the file."""
    table = parquet.read_table(write(world, tmp_path / "archive", LINES[:2]))
    ends = pa.array([0, 1, 2], pa.int32()).buffers()[1]
    ids = pa.StringArray.from_buffers(2, ends, pa.py_buffer(b"\xff\xfe"))
    parquet.write_table(table.set_column(table.schema.get_field_index("id"), "id", ids), tmp_path / "bytes")
    with pytest.raises(UserError, match=r"bytes: no readable Parquet .*utf-8"):
        world.seed_files(tmp_path / "bytes")


def test_rows_of_another_scheme_are_refused(world: SeedWorld, tmp_path: Path) -> None:
    """In three lines, with the file."""
    path = write(world, tmp_path / "archive", LINES, scheme="article/1-00")
    with pytest.raises(UserError) as refused:
        world.seed_files(path)
    assert str(refused.value).startswith("input archive: the entries were made under the scheme article/1-00\n")
    assert len(str(refused.value).splitlines()) == 3
    assert world.batches() == []


def test_other_parquet_is_refused(world: SeedWorld, tmp_path: Path) -> None:
    """Entries that lack a column, and what is cut short."""
    table = parquet.read_table(write(world, tmp_path / "archive", LINES))
    parquet.write_table(table.drop_columns("checksum"), tmp_path / "some")
    with pytest.raises(UserError, match=r"some: not one column checksum: .*spark\.fingerprint"):
        world.seed_files(tmp_path / "some")
    (tmp_path / "cut").write_bytes(write(world, tmp_path / "archive", LINES).read_bytes()[:-20])
    with pytest.raises(UserError, match="cut: no readable Parquet"):
        world.seed_files(tmp_path / "cut")


@pytest.mark.parametrize("name", ["id", "signature"])
def test_a_column_that_is_there_twice_is_refused(world: SeedWorld, tmp_path: Path, name: str) -> None:
    """Which one is meant is unknown; the message names the column."""
    path = write(world, tmp_path / "twice", LINES[:3])
    table = parquet.read_table(path)
    parquet.write_table(table.append_column(name, table.column(name)), path)
    with pytest.raises(UserError, match=rf"twice: .*column {name}") as refused:
        world.seed_files(path)
    assert "spark.fingerprint" in str(refused.value)


def test_articles_are_entered_as_from_lines(world: SeedWorld, tmp_path: Path) -> None:
    """Other Parquet has articles: the log is that of `seed` of the same records as lines, which are known again."""
    records = [{"id": f"a{number}", "text": json.loads(line(number))["text"]} for number in range(5)]
    parquet.write_table(pa.table({name: [one[name] for one in records] for name in ("id", "text")}), tmp_path / "texts")
    lines = write_lines(tmp_path / "texts.jsonl", [orjson.dumps(one).decode() for one in records])
    assert world.seed_files(tmp_path / "texts").entered == len(records)
    assert world.seed_files(lines).present == len(records)


def test_a_first_row_that_cannot_be_made_identifies_its_file(
    world: SeedWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its other columns: files whose first rows have such a value, or are too long, are archives of their own."""
    for name in ("a", "b"):
        columns = {"id": [name, f"{name}2"], "text": [json.loads(line(number))["text"] for number in range(2)]}
        times = pa.array([2**60, 0], pa.timestamp("us"))
        parquet.write_table(pa.table(columns | {"time": times}), tmp_path / name)
        tally = world.seed_files(tmp_path / name)
        assert (tally.entered, tally.rejected) == (1, 1)
    monkeypatch.setattr(parquet_rows, "MAX_LINE_BYTES", 70)
    parquet.write_table(pa.table({"id": ["c"], "text": ["x" * 70]}), tmp_path / "c")
    assert world.seed_files(tmp_path / "c").rejected == 1


def test_compressed_entries_are_refused(world: SeedWorld, tmp_path: Path) -> None:
    """They would be articles without a text, each logged as rejected."""
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(write(world, tmp_path / "archive", LINES).read_bytes()))
    with pytest.raises(
        UserError, match="packed: this is Parquet with entries; name a file of it that is not compressed"
    ):
        world.seed_files(packed)
    assert world.batches() == []


def test_an_empty_file_is_nothing(world: SeedWorld, tmp_path: Path) -> None:
    """It has no first row, hence no identity."""
    assert world.seed_files(write(world, tmp_path / "archive", [])).entered == 0


def test_without_pyarrow_the_error_names_the_extra(
    world: SeedWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no dependency of the worker."""
    path = write(world, tmp_path / "archive", LINES)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match=r"pip install 'stream-dedup\[parquet\]'"):
        world.seed_files(path)
