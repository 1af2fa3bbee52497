"""Lines in and out: how they are cut and spliced."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
import zstandard

from stream_dedup import _native
from stream_dedup.core.decode import InputFormat, has_text
from stream_dedup.core.model import UNIQUE_JUDGEMENT, Coordinates, Judgement, LogPosition, Match, SourceOffset, Verdict
from stream_dedup.errors import UserError
from stream_dedup.files import inputs, lines
from stream_dedup.files.filter import rejected_line, said_of
from stream_dedup.files.inputs import LINE_BATCH_LINES, LineBatch, Progress, read_batches, whole_lines
from stream_dedup.files.lines import MAX_LINE_BYTES, UnreadLine, stripped

AT = Coordinates(bytes(16), 0, SourceOffset(1))
DUPLICATE = Judgement(Verdict.DUPLICATE, Match(LogPosition(7), 'first "one"', "a.jsonl", AT, 0, 2, 0.987654))


def batches_of(path: Path) -> list[LineBatch]:
    return [batch for batch in read_batches([str(path)], Progress()) if batch is not None]


def lines_of(path: Path, content: bytes) -> list[bytes | UnreadLine]:
    path.write_bytes(content)
    return [line for batch in batches_of(path) for _, line in batch.block.numbered()]


def with_verdict(line: bytes, judgement: Judgement, fingerprint: int) -> bytes:
    said = {} if judgement is UNIQUE_JUDGEMENT else {0: said_of(judgement, fingerprint)}
    (marked,) = _native.marked_lines(
        [line], fingerprints=np.array([fingerprint], np.uint64), said=said, whole={}, outputs=bytes(1), is_plain=False
    )
    return marked


def without_member(line: bytes) -> bytes:
    (marked,) = _native.marked_lines(
        [line], fingerprints=np.zeros(1, np.uint64), said={0: b"1"}, whole={}, outputs=bytes(1), is_plain=False
    )
    return re.sub(rb',?"dedup":1}\n$', b"}", marked)


def test_lines_are_cut_at_line_ends(tmp_path: Path) -> None:
    """White space around a line falls away, a missing last line end does not matter."""
    assert lines_of(tmp_path / "a", b'{"a":1}\r\n  {"b":2} \n{"c":3}') == [b'{"a":1}', b'{"b":2}', b'{"c":3}']


BLANK = [b"", b" ", b"\xef\xbb\xbf", b"\xef\xbb\xbf \xef\xbb\xbf", b"\t\r", b"\x0b\x0c \r"]
NOT_BLANK = [b"\0", b"\x1c", b"\xc2\xa0", b"\xe3\x80\x80", b'""']


def test_blank_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    """Nothing, ASCII white space or byte order marks are no record; the lines after it keep their numbers."""
    path = tmp_path / "a"
    path.write_bytes(b"\n".join([b"1", *BLANK, b"8", *NOT_BLANK, b""]))
    (batch,) = batches_of(path)
    assert batch.block.numbers == [1, *range(8, 9 + len(NOT_BLANK))]
    assert batch.block.lines == [b"1", b"8", *NOT_BLANK]


def test_a_blank_line_too_long_to_hold_is_skipped(tmp_path: Path) -> None:
    """However long it is."""
    path = tmp_path / "a"
    path.write_bytes(b" " * (MAX_LINE_BYTES + 1) + b"\nnext\n")
    (batch,) = batches_of(path)
    assert (batch.block.numbers, batch.block.lines) == ([2], [b"next"])


def test_a_line_too_long_to_hold_that_begins_blank_is_told(tmp_path: Path) -> None:
    """What is kept of it is blank, it is not."""
    path = tmp_path / "a"
    path.write_bytes(b" " * (MAX_LINE_BYTES + 1) + b"x\nnext\n")
    (batch,) = batches_of(path)
    assert (batch.block.numbers, [type(line) for _, line in batch.block.numbered()]) == ([1, 2], [UnreadLine, bytes])


def test_an_empty_file_has_no_line(tmp_path: Path) -> None:
    """No bytes, no lines; blank lines alone are none, and so is a byte order mark alone."""
    assert [lines_of(tmp_path / "a", content) for content in (b"", b"\n", b" \n\n", b"\xef\xbb\xbf")] == [[]] * 4


def test_a_byte_order_mark_is_no_part_of_a_line(tmp_path: Path) -> None:
    """What some editors put before a file is not the first record's, nor is it where another file was appended."""
    content = b'\xef\xbb\xbf{"a":1}\n\xef\xbb\xbf{"b":"\xef\xbb\xbf"}\n \xef\xbb\xbf\xef\xbb\xbf {"c":3}\n'
    assert lines_of(tmp_path / "a", content) == [b'{"a":1}', b'{"b":"\xef\xbb\xbf"}', b'{"c":3}']


def test_a_byte_order_mark_after_a_line_is_no_part_of_it(tmp_path: Path) -> None:
    """That of an empty file, appended to one without a last line end."""
    content = b'{"a":1}\xef\xbb\xbf\n{"b":2} \xef\xbb\xbf \xef\xbb\xbf\r\n{"c":3}\xef\xbb\xbf'
    assert lines_of(tmp_path / "a", content) == [b'{"a":1}', b'{"b":2}', b'{"c":3}']


@pytest.mark.parametrize("marks", ["\ufeff", "\ufeff ", " \r\ufeff\t"])
@pytest.mark.parametrize("line", ["{marks}x", "x{marks}", "{marks}"])
def test_the_time_of_byte_order_marks_is_proportional(marks: str, line: str) -> None:
    """However many there are: four times the line takes less than ten times the time."""

    def seconds(count: int) -> float:
        content = line.format(marks=marks * count).encode()
        began = time.process_time()
        assert stripped(content) in {b"x", b""}
        return time.process_time() - began

    assert seconds(400_000) < 10 * max(seconds(100_000), 0.01)


def test_batches_are_bounded_and_numbered(tmp_path: Path) -> None:
    """A batch has at most so many lines and knows the number of each."""
    path = tmp_path / "a"
    path.write_bytes(b"x\n" * (2 * LINE_BATCH_LINES + 1))
    assert [(batch.block.numbers[0], len(batch.block.lines)) for batch in batches_of(path)] == [
        (1, LINE_BATCH_LINES),
        (LINE_BATCH_LINES + 1, LINE_BATCH_LINES),
        (2 * LINE_BATCH_LINES + 1, 1),
    ]


def test_a_batch_has_lines_of_one_input(tmp_path: Path) -> None:
    """Two inputs are two sources, in order, each counted from its first line."""
    (tmp_path / "a").write_bytes(b"1\n2\n")
    (tmp_path / "b").write_bytes(b"3\n")
    names = [str(tmp_path / "a"), str(tmp_path / "b")]
    batches = [batch for batch in read_batches(names, Progress()) if batch is not None]
    assert [(batch.source, batch.name, batch.block.numbers, batch.block.lines) for batch in batches] == [
        (0, names[0], [1, 2], [b"1", b"2"]),
        (1, names[1], [1], [b"3"]),
    ]


def test_a_line_over_many_reads_is_whole(tmp_path: Path) -> None:
    """A line longer than one read comes in one piece."""
    long = b"x" * 1_000_003
    assert lines_of(tmp_path / "a", long + b"\n" + long) == [long, long]


def test_a_line_too_long_to_hold_is_cut(tmp_path: Path) -> None:
    """Its beginning and its length are known; the lines after it are read as ever."""
    path = tmp_path / "a"
    with path.open("wb") as file:
        file.write(b"begin")
        file.truncate(MAX_LINE_BYTES + 1)
        file.seek(0, os.SEEK_END)
        file.write(b"\nnext\n")
    lines = [line for batch in batches_of(path) for _, line in batch.block.numbered()]
    assert [type(line) for line in lines] == [UnreadLine, bytes]
    assert isinstance(lines[0], UnreadLine)
    assert (lines[0].head[:5], lines[0].length, lines[1]) == (b"begin", MAX_LINE_BYTES + 1, b"next")


def test_a_line_of_exactly_the_limit_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte more is too long."""
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 100)
    whole, cut = lines_of(tmp_path / "a", b"x" * 100 + b"\n" + b"x" * 101)
    assert (whole, type(cut)) == (b"x" * 100, UnreadLine)


def test_slow_input_is_handed_on_before_it_is_waited_for(tmp_path: Path) -> None:
    """A line written to a pipe that stays open comes as a batch, then None says that there is no more now."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    ends: list[int] = []

    def write() -> None:
        ends.append(os.open(pipe, os.O_WRONLY))
        os.write(ends[0], b"one\ntw")

    writer = Thread(target=write)
    writer.start()
    batches = read_batches([str(pipe)], Progress())
    first, idle = next(batches), next(batches)
    writer.join()
    os.write(ends[0], b"o\n")
    os.close(ends[0])
    rest = [batch.block.lines for batch in batches if batch is not None]
    assert first is not None
    assert (first.block.lines, idle, rest) == ([b"one"], None, [[b"two"]])


@pytest.mark.parametrize(
    "line",
    [
        b'{"id":1,"text":"x"}',
        '{ "id" : 1.00, "big": 123456789012345678901234567890, "text": "\\u4eca天 \\"dedup\\"" }'.encode(),
        b'{"text":"x","n":1e400}',
    ],
)
def test_a_record_is_kept_byte_for_byte(line: bytes) -> None:
    """Spaces, digits and escapes of the record stand as they came."""
    out = with_verdict(line, UNIQUE_JUDGEMENT, 0xAB)
    assert out == line[:-1] + b',"dedup":{"verdict":"unique","fingerprint":"00000000000000ab"}}\n'


def test_a_duplicate_names_its_match() -> None:
    """A line has id, distance, and similarity of the match to four decimals."""
    out = json.loads(with_verdict(b'{"text":"x"}', DUPLICATE, 1))
    assert out["dedup"] == {
        "verdict": "duplicate",
        "fingerprint": "0000000000000001",
        "match": {"id": 'first "one"', "distance": 2, "similarity": 0.9877},
    }


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        (b'{"dedup":{"a":[1,{"b":2}]},"text":"x"}', b'{"text":"x"}'),
        (b'{"text" : "x" ,  "dedup" : 5 }', b'{"text" : "x"}'),
        (b'{"a":1.50,"dedup":null,"b":[],"dedup":1}', b'{"a":1.50,"b":[]}'),
        (b'{"\\u0064edup":1,"text":"x"}', b'{"text":"x"}'),
        (b'{"a":{"dedup":1},"text":"x"}', b'{"a":{"dedup":1},"text":"x"}'),
        (b'{"dedup":1}', b"{}"),
        (b'{"n":' + b"9" * 5000 + b',"dedup":1}', b'{"n":' + b"9" * 5000 + b"}"),
    ],
)
def test_an_incoming_dedup_is_taken_out(line: bytes, kept: bytes) -> None:
    """Only the record's own member of that name goes, wherever it stands; the rest is as it was written."""
    assert without_member(line) == kept


def test_a_record_with_dedup_has_one_afterwards() -> None:
    """The verdict of an earlier call is replaced."""
    once = with_verdict(b'{"text":"x"}', DUPLICATE, 1)
    assert with_verdict(once.strip(), UNIQUE_JUDGEMENT, 2) == with_verdict(b'{"text":"x"}', UNIQUE_JUDGEMENT, 2)


def test_deep_nesting_does_not_stop_it() -> None:
    """A record that is nested as deeply as one may be loses its dedup."""
    nested = b"[" * 511 + b"]" * 511
    assert without_member(b'{"dedup":1,"a":' + nested + b"}") == b'{"a":' + nested + b"}"


def test_a_rejected_line_is_told_as_text() -> None:
    """A line that is no record with a text stands in `line`."""
    assert json.loads(rejected_line('[1, "天"'.encode(), "invalid JSON")) == {
        "dedup": {"verdict": "rejected", "reason": "invalid JSON", "line": '[1, "天"'}
    }


def test_bytes_that_are_no_text_stand_in_base64() -> None:
    """Invalid UTF-8 cannot be said as JSON; all of a short line is kept."""
    said = json.loads(rejected_line(b"\xff\x00x", "invalid UTF-8 at byte 0"))["dedup"]
    assert base64.b64decode(said.pop("line_base64")) == b"\xff\x00x"
    assert said == {"verdict": "rejected", "reason": "invalid UTF-8 at byte 0"}


def test_base64_is_capped() -> None:
    """Of a long one the beginning and the length are told."""
    said = json.loads(rejected_line(b"\xff" * 1_000_000, "x"))["dedup"]
    assert (len(base64.b64decode(said["line_base64"])), said["line_bytes"]) == (65_536, 1_000_000)


@pytest.mark.parametrize(
    ("line", "has"),
    [
        (b'{"text":"x"}', True),
        (b'{"text":""}', True),
        (b'{"text":["x",null]}', True),
        (b'{"text":["x",1]}', False),
        (b'{"text":1}', False),
        (b"{}", False),
        (b"[]", False),
        (b"", False),
    ],
)
def test_what_a_record_with_a_text_is(line: bytes, has: bool) -> None:
    """A JSON object whose text field is a string or a list of strings."""
    assert has_text(line, InputFormat()) is has


@pytest.mark.parametrize("name", [b"dedup", b"\\u0064edup"])
def test_a_verdict_replaces_an_earlier_one(name: bytes) -> None:
    """Whether the name of the earlier one is escaped or not."""
    line = with_verdict(b'{"%b":1,"text":"x"}' % name, UNIQUE_JUDGEMENT, 0xAB)
    assert line == b'{"text":"x","dedup":{"verdict":"unique","fingerprint":"00000000000000ab"}}\n'


LINES = [b" first ", b"", b"\xff\r", b'{"id": 1}', *(b"%d" % number for number in range(2_000)), b"last"]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.ZstdCompressor().compress])
@pytest.mark.parametrize("read_bytes", [1, 7, 1 << 18])
def test_lines_are_unchanged(
    pack: Callable[[bytes], bytes], read_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """White space, blank lines and a last line without a line feed are kept, however bytes arrive."""
    monkeypatch.setattr(inputs, "READ_BYTES", read_bytes)
    path = tmp_path / "lines"
    path.write_bytes(pack(b"\n".join(LINES)))
    assert list(whole_lines([str(path), str(path)])) == LINES * 2


@pytest.mark.parametrize("read_bytes", [3, 1 << 18])
def test_a_line_that_no_topic_takes_is_an_error(
    read_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has input and line. Lines before it are yielded, and one of the greatest length is, too."""
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 10)
    monkeypatch.setattr(inputs, "READ_BYTES", read_bytes)
    path = tmp_path / "lines"
    path.write_bytes(b"one\n" + b"y" * 10 + b"\n" + b"z" * 11)
    read = whole_lines([str(path)])
    assert [next(read), next(read)] == [b"one", b"y" * 10]
    with pytest.raises(UserError, match="lines, line 3: line too long: 11 bytes, the fixed limit is 10"):
        next(read)
