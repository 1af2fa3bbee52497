"""JSON over several lines: where its records end, and what is refused."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from stream_dedup.core.reasons import NOT_JSON
from stream_dedup.errors import EXIT_FOUND, EXIT_OK, EXIT_USER, UserError
from stream_dedup.files import lines
from stream_dedup.files.json_documents import documents
from stream_dedup.files.lines import UnreadLine
from tests.files.filtering import EDITED, OTHER, STORY, Filter, record, write

ODD = [
    {"id": "a", "text": 'quotes " and \\" [brackets] {braces}, commas'},
    {"id": "b", "text": "line\nends\r and \\", "nested": {"deep": [[1, {"x": []}], "]}"], "empty": {}}},
    {"id": "c", "text": "\U0001f600 \\\\", "number": 1e400, "long": 10**40},
]


def read(content: bytes, random: Random | None = None) -> list[bytes | UnreadLine]:
    """The records of a content, in chunks of random sizes."""

    def chunks() -> Iterator[bytes]:
        at = 0
        while at < len(content):
            size = len(content) if random is None else random.choice((1, 2, 3, 7, 50))
            yield content[at : at + size]
            at += size

    found = [numbered for numbered in documents(chunks(), "a.json") if numbered is not None]
    assert [number for number, _ in found] == list(range(1, len(found) + 1))
    return [line for _, line in found]


@pytest.mark.parametrize("indent", [None, 0, 4, "\t"])
@pytest.mark.parametrize("seed", range(5))
def test_elements_are_records_wherever_chunks_end(indent: int | str | None, seed: int) -> None:
    """Of an array on one line, one element a line or indented: each is one line with the same values."""
    content = json.dumps(ODD, indent=indent).replace("Infinity", "1e400").encode()
    found = read(content, Random(seed))
    assert [json.loads(one) for one in found if isinstance(one, bytes)] == ODD
    assert not any(b"\n" in one for one in found if isinstance(one, bytes))


def test_the_bytes_of_an_element_are_unchanged() -> None:
    """Numbers as they are written, escapes, members that come twice, space between tokens."""
    elements = [rb'{"a":4711.0 ,  "a":1E400,"b":"\u00e9\/"}', b'{"c":0.10000000000000000000001}']
    assert read(b"[ " + b" , ".join(elements) + b"\n]\n") == elements


@pytest.mark.parametrize(
    "content",
    [
        b'{\n "id": 1\n}\n{\n "id": 2\n}\n',  # jq
        b'[{"id": 1}]\n\xef\xbb\xbf[{"id": 2}]',  # two files, one after the other
        b'\x1e{"id":1}\n\x1e{"id":2}\n',  # RFC 7464
        b'\xef\xbb\xbf\n [\n]\n[{"id": 1},\n{"id": 2},]',  # an empty array, a last comma
    ],
)
def test_documents_follow_each_other(content: bytes) -> None:
    """Arrays and objects, with white space, marks or separators between them."""
    for seed in range(5):
        assert [json.loads(one) for one in read(content, Random(seed)) if isinstance(one, bytes)] == [
            {"id": 1},
            {"id": 2},
        ]


def test_an_element_that_is_no_record_costs_itself_only(tmp_path: Path, call: Filter) -> None:
    """Numbers, texts, objects that are not JSON, and a line end in a text are rejected; the others are judged."""
    first, last = json.dumps(record("a", STORY)), json.dumps(record("b", EDITED))
    (tmp_path / "a").write_text(f'[{first}, 7, "text", {{"id": nope}},\n{{"text": "a\nb"}}, {last}]')
    verdicts = call.verdicts(tmp_path / "a")
    assert (verdicts, call.code) == (["unique", *["rejected"] * 4, "duplicate"], EXIT_FOUND)
    assert read(b'[{"text": "a\nb"}]') == [UnreadLine(b'{"text": "a\nb"}', 15, NOT_JSON)]


@pytest.mark.parametrize(
    ("content", "at"),
    [
        (b'[{"id":1},{"id":2}', 11),
        (b'[{"id":1},{"text":"ab', 11),
        (b'[{"id":1}', 2),
        (b'{}\n{\n"id":1', 4),
        (b"[", 2),
        (b'[{"id":1},{"id":[2},{"id":3},{"id":4}]', 11),
        (b'[{"id":1},{"id":"2},{"id":3}]', 11),
    ],
)
def test_an_input_that_ends_within_a_document_is_told(content: bytes, at: int) -> None:
    """With the record that is cut off, or has a bracket or a quotation mark too few, however the bytes arrive."""
    for chunks in ([content], [content[:5], content[5:]]):
        with pytest.raises(UserError, match=rf"^input a\.json: its JSON ends too early, .* begins at byte {at};"):
            list(documents(iter(chunks), "a.json"))


def test_the_remedy_of_what_is_not_json_works(tmp_path: Path, call: Filter) -> None:
    """A log that begins as an array does is read as lines where --format says so."""
    (tmp_path / "a").write_text(f"[1] a log\n{json.dumps(record('a', STORY))}\n")
    assert call.verdicts(tmp_path / "a") == ["rejected"]
    assert (call.code, "not JSON at byte 5" in call.err, "--format jsonl" in call.err) == (EXIT_USER, True, True)
    assert call.verdicts("--format", "jsonl", tmp_path / "a") == ["rejected", "unique"]


@pytest.mark.parametrize(
    ("content", "at"), [(b'[{"id":1}] garbage', 12), (b'[{"id":1}}]', 10), (b"nonsense", 1), (b'[{"a":1}]\n]', 11)]
)
def test_what_is_not_json_is_told(content: bytes, at: int) -> None:
    """With the byte, from 1, however the bytes arrive."""
    for chunks in ([content], [content[:3], content[3:]]):
        with pytest.raises(UserError, match=rf"^input a\.json: not JSON at byte {at} "):
            list(documents(iter(chunks), "a.json"))


def test_filter_answers_what_came_before_the_break(tmp_path: Path, call: Filter) -> None:
    """The verdicts are written, then the error; the index is as it was."""
    whole = json.dumps([record("a", STORY), record("b", OTHER), record("c", EDITED)])
    (tmp_path / "a").write_text(whole[:-20])
    assert call.verdicts("--index", tmp_path / "index", tmp_path / "a") == ["unique", "unique"]
    assert (call.code, "ends too early" in call.err) == (EXIT_USER, True)
    assert call.verdicts("--index", tmp_path / "index", write(tmp_path / "b", record("a", STORY))) == ["unique"]


def test_an_array_reads_as_lines_do(tmp_path: Path, call: Filter) -> None:
    """The same output, byte for byte, from an array on one line, from one a line, and from standard input."""
    records = [record("a", STORY), record("b", EDITED), record("c", OTHER)]
    call(write(tmp_path / "lines", *records))
    expected = call.raw
    texts = [json.dumps(one, ensure_ascii=False) for one in records]
    for number, content in enumerate(("[" + ",".join(texts) + "]", "[\n" + ",\n".join(texts) + "\n]\n")):
        (tmp_path / str(number)).write_text(content)
        call(tmp_path / str(number))
        assert (call.raw, call.code) == (expected, EXIT_OK)


def test_an_element_too_long_to_hold_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its beginning and its length are known; those after it are read."""
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 100)
    content = b'[{"text":"' + b"x" * 200 + b'"},{"id":2}]'
    cut, whole = read(content, Random(1))
    assert isinstance(cut, UnreadLine)
    assert (cut.length, cut.reason, whole) == (211, "line too long: 211 bytes, the fixed limit is 100", b'{"id":2}')


def test_a_large_array_is_never_in_memory() -> None:
    """Of 64 MB on one line, no more than some chunks are."""
    element = b'{"id":1,"text":"' + b"word " * 2_000 + b'"},'

    def chunks() -> Iterator[bytes]:
        yield b"["
        for _ in range(400):
            yield element * 16
        yield b'{"id":2}]'

    tracemalloc.start()
    try:
        assert sum(1 for _ in documents(chunks(), "a")) == 6_401
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()


def test_a_slow_array_is_answered_record_by_record() -> None:
    """What has ended is passed on before the input pauses."""
    chunks = (b'[{"id":1},', None, b'{"id"', None, b":2}", None, b"]")
    assert list(documents(iter(chunks), "-")) == [(1, b'{"id":1}'), None, None, None, (2, b'{"id":2}')]
