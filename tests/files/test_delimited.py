"""CSV and TSV: rows are objects, and what is no row costs itself only."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from stream_dedup.errors import EXIT_FOUND, EXIT_OK, EXIT_USER, UserError
from stream_dedup.files import delimited, lines
from stream_dedup.files.delimited import rows
from stream_dedup.files.lines import UnreadLine
from tests.files.filtering import EDITED, OTHER, STORY, Filter

QUOTES = "invalid row: a quotation mark is not closed or not doubled"


def read(content: bytes, random: Random | None = None, delimiter: bytes | None = None) -> list[tuple[int, object]]:
    """Number and members, or reason, of each row; in chunks of random sizes with pauses between them."""

    def chunks() -> Iterator[bytes | None]:
        at = 0
        while at < len(content):
            size = len(content) if random is None else random.choice((1, 2, 5, 40))
            yield content[at : at + size]
            at += size
            if random is not None and random.random() < 0.2:
                yield None

    return [
        (numbered[0], numbered[1].reason if isinstance(numbered[1], UnreadLine) else json.loads(numbered[1]))
        for numbered in rows(chunks(), "a.csv", delimiter)
        if numbered is not None
    ]


VALUES = [
    ["a", 'said "yes", then\r\nleft', "", "x"],
    ["b;c", "tab\there", "中文，逗号", " spaces "],
    ["", "\n\n", '"', "4711.0"],
]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_rows_are_what_a_writer_of_csv_wrote(delimiter: str, end: str) -> None:
    """Quotation marks, delimiters and line ends within them, empty values; every value is a text, in order."""
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter, lineterminator=end)
    writer.writerows([["id", "text", "more", "标题"], *VALUES])
    for seed in range(5):
        made = read(file.getvalue().encode(), Random(seed))
        assert [list(row.items()) for _, row in made if isinstance(row, dict)] == [
            list(zip(["id", "text", "more", "标题"], row, strict=True)) for row in VALUES
        ]


def test_a_row_has_the_number_of_its_first_line() -> None:
    """Counted in the file, with the header and blank lines."""
    content = b'id,text\n\na,"x\ny"\n\nb,z\n'
    assert read(content) == [(3, {"id": "a", "text": "x\ny"}), (6, {"id": "b", "text": "z"})]


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (b"\xef\xbb\xbfid,text\na,b\n", ["id", "text"]),  # a mark before the header
        (b"\xef\xbb\xbfid,text\na,b\n\xef\xbb\xbfid,text\n", ["id", "text"]),  # files with a header, one after another
        (b'\xef\xbb\xbf"id";"te,xt"\na;b', ["id", "te,xt"]),  # a quoted header
        (b"sep=;\r\nid;text\r\na;b\r\n", ["id", "text"]),  # Excel
        (b",text\na,b\n", ["", "text"]),  # the index of pandas
        (b"\n\nid\ttext\na\tb", ["id", "text"]),
    ],
)
def test_headers(content: bytes, names: list[str]) -> None:
    """Marks, quotation marks, Excel's line, a name that is empty, blank lines."""
    for seed in range(3):
        assert [row for _, row in read(content, Random(seed))] == [dict(zip(names, "ab", strict=True))]


def test_tsv_has_tabs_whatever_the_header(tmp_path: Path, call: Filter) -> None:
    """By the name of the file, compressed or not, and by --format."""
    content = f"id\ttext, with commas, more\na\t{STORY}\nb\t{EDITED}\n"
    (tmp_path / "a.TSV").write_text(content)
    (tmp_path / "b").write_text(content)
    flags = ("--text-field", "text, with commas, more")
    assert call.verdicts(*flags, tmp_path / "a.TSV") == ["unique", "duplicate"]
    assert call.verdicts(*flags, "--format", "tsv", tmp_path / "b") == ["unique", "duplicate"]


def test_a_row_of_another_length_is_rejected(tmp_path: Path, call: Filter) -> None:
    """Shorter and longer ones, with the row as it was; the others are judged."""
    (tmp_path / "a.csv").write_text(f'id,text\na,"{STORY}"\nb\nc,"{OTHER}",more\nd,"{EDITED}"\n')
    answers = call(tmp_path / "a.csv")
    assert [one["dedup"]["verdict"] for one in answers] == ["unique", "rejected", "rejected", "duplicate"]
    assert answers[1]["dedup"]["reason"] == "row of 1 fields, the header has 2"
    assert answers[2]["dedup"]["line"] == f'c,"{OTHER}",more'
    assert call.code == EXIT_FOUND


@pytest.mark.parametrize(
    ("content", "numbers"),
    [
        (b'id,text\na,"open\nb,x\nc,y\n', [2, 3, 4]),  # to the end of the input
        (b'id,text\na,"open\nb,x\nc,"y"\n', [2, 3, 4]),  # to the next one, which closes nothing
        (b'id,text\na,"x"y\nb,x\nc,y\n', [2, 3, 4]),
    ],
)
def test_a_quotation_mark_that_is_wrong_costs_its_line(content: bytes, numbers: list[int]) -> None:
    """Not the rows after it."""
    for seed in range(3):
        made = read(content, Random(seed))
        assert [number for number, _ in made] == numbers
        assert made[0][1] == QUOTES
        assert [row for _, row in made[1:]] == [{"id": "b", "text": "x"}, {"id": "c", "text": "y"}]


def test_a_byte_that_is_not_utf8_costs_its_row() -> None:
    """With the byte, from 0, of the row."""
    made = read(b'id,text\na,"x\ny\xff"\nb,c\n')
    assert made == [(2, "invalid UTF-8 at byte 6"), (4, {"id": "b", "text": "c"})]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"id,text,id\na,b,c\n", r"its header names 'id' more than once; rename"),
        (b"id,\xff\na,b\n", r"its header is not UTF-8; .*--encoding gb18030"),
        (b'id,"text\na,b\n', r"its header cannot be read .*quotation mark"),
        (b"id,text\ra,b\r", r"its header cannot be read .*carriage return"),
    ],
)
def test_an_unusable_header_is_refused(tmp_path: Path, call: Filter, content: bytes, says: str) -> None:
    """In one line, with exit code 2, before anything is written."""
    with pytest.raises(UserError, match=rf"^input a\.csv: {says}"):
        read(content)
    (tmp_path / "a.csv").write_bytes(content)
    assert call("--index", tmp_path / "index", tmp_path / "a.csv") == []
    assert (call.code, call.err.count("\n"), (tmp_path / "index").exists()) == (EXIT_USER, 1, False)


def test_a_row_too_long_to_hold_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether one line is too long, a field, or its lines together; those after it are read."""
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 50)
    monkeypatch.setattr(delimited, "MAX_LINE_BYTES", 50)
    long = "invalid row: too long or a quotation mark is not closed"
    made = read(b"id,text\na," + b"x" * 60 + b"\nb,y\n")
    assert made == [(2, "line too long: 62 bytes, the fixed limit is 50"), (3, {"id": "b", "text": "y"})]
    for row in (b'a,"' + b"yyyy\n" * 20, b"a" + b',"y\n"' * 20):
        made = read(b"id,text\n" + row + b'"\nc,z\n')
        assert (made[0], made[-1]) == ((2, long), (23, {"id": "c", "text": "z"}))
    made = read(b"id,text\na," + b"\\" * 40 + b"\nb,y\n")
    assert made == [(2, "line too long: 100 bytes, the fixed limit is 50"), (3, {"id": "b", "text": "y"})]


def test_a_row_of_many_lines_is_bounded_by_the_memory_of_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty lines after a forgotten quotation mark take more than their bytes."""
    monkeypatch.setattr(delimited, "MAX_LINE_BYTES", 10_000)
    made = read(b'id,text\na,"' + b"\n" * 200 + b"b,c\n")
    assert made == [(2, "invalid row: too long or a quotation mark is not closed"), (202, {"id": "b", "text": "c"})]


@pytest.mark.parametrize("line", [b'x","', b'1,"a', b'1,"'])
def test_the_time_is_proportional_to_the_input(line: bytes) -> None:
    """Of lines that each leave a quotation mark open, whatever follows: none is read again and again, none is lost."""

    def lines_and_seconds(count: int) -> tuple[int, float]:
        content = b"id,text\n" + (line + b"\n") * count + b"a,b\n"
        began = time.process_time()
        made = list(rows(iter((content,)), "a.csv", None))
        seconds = time.process_time() - began
        texts = [one[1] if isinstance(one[1], bytes) else one[1].head for one in made if one is not None]
        return sum(text.count(b"\\n") + 1 for text in texts), seconds

    # Of three, for other programs run beside it.
    (few, short), (many, long) = (min(lines_and_seconds(count) for _ in range(3)) for count in (2_000, 8_000))
    assert (few, many) == (2_001, 8_001)
    assert long < 10 * max(short, 0.02)


def test_pauses_change_nothing() -> None:
    """Lines that were read again because the others had not come yet do not count as those of broken rows."""
    content = b'id,text\na,"open\n' + b"b,x\n" * 300
    expected = [(2, QUOTES), *((at, {"id": "b", "text": "x"}) for at in range(3, 303))]
    assert [read(content), *(read(content, Random(seed)) for seed in range(5))] == [expected] * 6


@pytest.mark.parametrize("delimiter", [b'"', b"\r", b""])
def test_a_line_that_names_no_usable_delimiter_is_the_header(delimiter: bytes) -> None:
    """The reader of CSV takes one sign that is neither a quotation mark nor a line end."""
    assert read(b"sep=%b\r\nid,text\n" % delimiter) == [(2, "row of 2 fields, the header has 1")]


def test_columns_are_named_by_paths(tmp_path: Path, call: Filter) -> None:
    """A dot in the name of a column is escaped, as in a member's; times, which are texts here, are times."""
    rows_of_times = [("0042", STORY, "1539202764"), ("4711.0", EDITED, "10 Oct 2018 20:19:25 GMT"), ("", OTHER, "soon")]
    source = tmp_path / "a.csv"
    with source.open("w", newline="") as file:
        csv.writer(file).writerows([("doc.id", "doc.text", "at"), *rows_of_times])
    fields = ("--id-field", r"doc\.id", "--text-field", r"doc\.text", "--time-field", "at", "--window", "1h")
    said = [out["dedup"] for out in call(*fields, source)]
    assert [one["verdict"] for one in said] == ["unique", "duplicate", "rejected"]
    assert (said[1]["match"]["id"], said[2]["reason"]) == ("0042", "the time in field at has no known form")
    assert call("--text-field", "doc.text", source)[0]["dedup"]["reason"] == "text field doc.text is missing"


def test_outputs_are_json_lines(tmp_path: Path, call: Filter) -> None:
    """A row is written as an object with its columns in order, and `dedup`; --plain leaves that out."""
    (tmp_path / "a.csv").write_text(f'title,text,id\r\n"An ""old"" one","{OTHER}",0042\r\n')
    (answer,) = call(tmp_path / "a.csv")
    assert list(answer) == ["title", "text", "id", "dedup"]
    assert (answer["title"], answer["id"], call.code) == ('An "old" one', "0042", EXIT_OK)
    call("--plain", tmp_path / "a.csv")
    del answer["dedup"]
    assert json.loads(call.raw) == answer
