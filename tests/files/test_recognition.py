"""The content of an input shows what it is: formats that are read, and those that are refused with their name."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import sqlite3
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyarrow import feather, orc
from zstandard import COMPRESSOBJ_FLUSH_BLOCK, ZstdCompressor

from stream_dedup.cli import run
from stream_dedup.errors import EXIT_FOUND, EXIT_OK, EXIT_USER, UserError
from stream_dedup.files import inputs
from stream_dedup.files.compressed import FILE_CODECS
from stream_dedup.files.inputs import Progress, read_batches, whole_lines
from stream_dedup.files.recognition import Format, InputForm, is_undecided, recognised, screened
from tests.files.filtering import EDITED, OTHER, STORY, Filter, PipedFilter, record, write
from tests.files.test_compressed import PACKS

RECORD = json.dumps(record("a", STORY), ensure_ascii=False)
JOINED = json.dumps(record("a", "\N{MAN}\N{ZERO WIDTH JOINER}\N{WOMAN} " + STORY), ensure_ascii=False)
TABLE = pa.table({"id": ["a"], "text": [STORY]})


def _sqlite() -> bytes:
    with sqlite3.connect(":memory:") as base:
        base.execute("CREATE TABLE articles (id TEXT, text TEXT)")
        return base.serialize()


def _tar(name: str) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    return file.getvalue()


def _zip(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, RECORD)
    return file.getvalue()


def _written(write_to: Callable[[io.BytesIO], object]) -> bytes:
    file = io.BytesIO()
    write_to(file)
    return file.getvalue()


def _stream(file: io.BytesIO) -> None:
    with pa.ipc.new_stream(file, TABLE.schema) as writer:
        writer.write_table(TABLE)


FOREIGN: dict[str, tuple[bytes, str]] = {
    "utf-16": (RECORD.encode("utf-16"), r"UTF-16 by its byte order mark, not UTF-8; .*--encoding utf-16$"),
    "utf-16-be-mark": (b"\xfe\xff" + RECORD.encode("utf-16-be"), r"UTF-16 by .*--encoding utf-16$"),
    "utf-32": (RECORD.encode("utf-32"), r"UTF-32 by .*--encoding utf-32$"),
    "utf-16-le": (RECORD.encode("utf-16-le"), r"UTF-16-LE, not UTF-8; .*--encoding utf-16-le$"),
    "utf-16-be": (RECORD.encode("utf-16-be"), r"UTF-16-BE, not UTF-8; .*--encoding utf-16-be$"),
    "utf-32-le": (RECORD.encode("utf-32-le"), r"UTF-32-LE, not UTF-8; .*--encoding utf-32-le$"),
    "utf-32-be": (RECORD.encode("utf-32-be"), r"UTF-32-BE, not UTF-8; .*--encoding utf-32-be$"),
    "utf-16-le with joiners": (JOINED.encode("utf-16-le"), "UTF-16-LE, not UTF-8"),
    "utf-16-be with joiners": (JOINED.encode("utf-16-be"), "UTF-16-BE, not UTF-8"),
    "csv in utf-16-le": ("id,text\na,b\n".encode("utf-16-le"), "UTF-16-LE, not UTF-8"),
    "avro": (b"Obj\x01\x04\x16avro.schema", "Avro, .*: fastavro "),
    "orc": (_written(lambda file: orc.write_table(TABLE, file)), "ORC, .*orc.read_table"),
    "feather": (_written(lambda file: feather.write_feather(TABLE, file)), r"Arrow \(Feather\), .*feather.read_table"),
    "arrow stream": (_written(_stream), "an Arrow stream, .*open_stream"),
    "sqlite": (_sqlite(), "SQLite, .*: sqlite3 -json "),
    "pickle": (pickle.dumps([record("a", STORY)]), "a pickled file, .*read_pickle"),
    "pickle 0": (pickle.dumps([record("a", STORY)], 0), "a pickled file"),
    "pickle 2": (pickle.dumps([record("a", STORY)], 2), "a pickled file"),
    "zip": (_zip("articles.jsonl"), "zip, .*: unzip -p "),
    "empty zip": (_zip(), "zip"),
    "xlsx": (_zip("[Content_Types].xml", "xl/workbook.xml"), "zip, .* an Office document, .*: libreoffice --headless"),
    "xls": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500), "an Office document"),
    "pdf": (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "PDF, .*: pdftotext .* jq -cRs '{text: .}'"),
    "html": (b"\n<!DOCTYPE html>\n<html><body>" + STORY.encode(), "HTML, .* add --html: jq -cRs '{text: .}'"),
    "page": (b"\xef\xbb\xbf<html lang=zh>", "HTML"),
    "xml": (b"<?xml version='1.0'?><rss/>", "XML, .*read_xml"),
    "feed": (b"<rss version='2.0'>\n", "XML"),
    "tar": (_tar("articles.jsonl"), "tar, .*: tar -xOf "),
    "tar with a long name": (_tar("x" * 99), "tar"),
    "7z": (b"7z\xbc\xaf\x27\x1c\0\x04", "7z, .*: 7z x -so "),
    "rar": (b"Rar!\x1a\x07\x01\0", "RAR, .*: unrar p -inul "),
    "rar 4": (b"Rar!\x1a\x07\0", "RAR"),
    "png": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "an image, .*: tesseract "),
    "jpeg": (b"\xff\xd8\xff\xe0\0\x10JFIF", "an image"),
    "gif": (b"GIF89a\x01\0\x01\0", "an image"),
    "tiff": (b"II*\0\x08\0\0\0", "an image"),
    "lz4": (b"\x04\x22\x4d\x18\x64\x40", "lz4, .*: lz4 -dc "),
    "lzma": (lzma.compress(RECORD.encode(), lzma.FORMAT_ALONE), "lzma, .*: xz -dc --format=lzma "),
    **{
        f"{name} twice": (pack(pack(RECORD.encode())), f"{name} in a compressed file, .*: {name} -dc < ")
        for name, pack in PACKS.items()
    },
    "bzip2 of level 5 twice": (bz2.compress(bz2.compress(RECORD.encode(), 5)), "bzip2 in a compressed file, "),
    "tar.gz": (gzip.compress(_tar("articles.jsonl")), "tar, .*: tar -xOf "),
    "utf-16 in xz": (lzma.compress(RECORD.encode("utf-16")), "UTF-16 by its byte order mark"),
    "bson": (
        b"\x16\0\0\0\x02id\0\x02\0\0\0a\0\0\0\0\0\0\0",
        "binary data of an unknown format, .*JSON Lines, CSV or Parquet",
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_is_not_read_is_refused_with_its_name(
    tmp_path: Path, call: Filter, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line names the file, its format and a remedy; a file before it has no verdict, and nothing is made."""
    content, says = FOREIGN[name]
    good, bad = write(tmp_path / "good", record("a", STORY)), tmp_path / "it's.csv"
    bad.write_bytes(content)
    assert call("--index", tmp_path / "index", "--unique", tmp_path / "out", good, bad) == []
    assert (call.code, call.err.count("\n")) == (EXIT_USER, 1)
    for size in (1 << 18, 5, 1):
        monkeypatch.setattr(inputs, "READ_BYTES", size)
        with pytest.raises(UserError, match=f"^input .*it's.csv: this is {says}"):
            list(read_batches([str(bad)], Progress()))
    assert sorted(one.name for one in tmp_path.iterdir()) == ["good", "it's.csv"]


@pytest.mark.parametrize("name", ["utf-16", "zip", "png", "tar", "pdf", "html"])
def test_standard_input_is_recognised_as_files_are(piped: Callable[..., PipedFilter], name: str) -> None:
    """A pipe that delivers a byte at a time, too."""
    content, says = FOREIGN[name]
    process = piped()
    for at in range(600):
        process.stdin.write(content[at : at + 1])
        process.stdin.flush()
    process.stdin.close()
    assert process.wait() == EXIT_USER
    assert process.stdout.read() == b""
    message = process.stderr.read().decode()
    assert message.startswith(
        f"stream-dedup: error: input stdin: this is {says.split()[0].strip(',').replace(chr(92), '')}"
    )


def decided(content: bytes, name: str = "a") -> Format:
    """What is recognised, which is the same of every beginning that suffices."""
    beginnings = [content[:length] for length in range(1, len(content))]
    enough = [*(one for one in beginnings if not is_undecided(one, InputForm())), content]
    (known,) = {recognised(one, name, InputForm(), of_records=True) for one in enough}
    return known


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'{"id": 1}\n', "jsonl"),
        (b'  {"id": 1}', "jsonl"),
        (b"{}", "jsonl"),
        (b"{", "jsonl"),
        (b"nonsense\n", "jsonl"),
        (b"[ERROR] a line of a log\n", "jsonl"),
        (b"[2024-01-01 10:00] a line of a log\n", "jsonl"),
        (b"[", "jsonl"),
        (b'[{"id": 1}]', "json"),
        (b"\xef\xbb\xbf\n\n [\n\n  {", "json"),
        (b"[]", "json"),
        (b"[[1]]", "json"),
        (b'["text"]', "json"),
        (b"[null, {}]", "json"),
        (b"[-1.5e3, {}]", "json"),
        (b'{\n  "id": 1', "json"),
        (b'{ \t\r\n"id": 1', "json"),
        (b'\x1e{"id": 1}', "json"),
    ],
)
def test_json_is_told_from_lines(content: bytes, expected: Format) -> None:
    """By the first sign of a record, however few bytes have arrived."""
    assert decided(content) == expected


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.csv", b"id,text\n", "csv"),
        ("a.CSV.gz", b"id,text\n", "csv"),
        ("a.tsv", b"id\ttext\n", "tsv"),
        *((f"a.tab.{suffix}", b"id\ttext\n", "tsv") for codec in FILE_CODECS for suffix in codec.suffixes),
        ("a.csv", b"[{", "json"),
        ("a.csv", b'{"id": 1}', "jsonl"),
        ("a.csv.txt", b"id,text\n", "jsonl"),
        ("csv", b"id,text\n", "jsonl"),
    ],
)
def test_names_decide_only_what_content_does_not(name: str, content: bytes, expected: Format) -> None:
    """CSV and TSV have no first bytes."""
    assert decided(content, name) == expected


@pytest.mark.parametrize(
    "content",
    [
        bytes(900) + b'\n{"id":1}\n',
        b'\x80\0\0\1\2\n{"id":1}\n',
        b"\x01\x02 garbage\n",
        b'{"id":"\0\0\0\0"}\n',
        b"\xff\xfd\n",
        b"\0\n",
    ],
)
def test_a_first_line_that_is_garbage_costs_itself_only(content: bytes, tmp_path: Path) -> None:
    """Zeros of a file that was truncated while it was written, control characters, bytes that are not UTF-8."""
    assert b"".join(filter(None, screened(iter((content,)), "a", InputForm()))) == content
    (tmp_path / "a").write_bytes(content + RECORD.encode())
    assert [line for batch in read_batches([str(tmp_path / "a")], Progress()) if batch for line in batch.block.lines][
        -1
    ] == RECORD.encode()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a", b'{"id": "DUCK-1", "text": "x"}\n'),
        ("a", b'{"id":1,"text":"%bmustard"}\n' % (b"x" * 240)),
        ("a", b'{"id": 2, "text": "b\0cause the the the the wind the today"}\n'),
        ("a.csv", b"ORCID,text\n1,x\n"),
    ],
)
def test_letters_are_no_format(tmp_path: Path, name: str, content: bytes) -> None:
    """Ids, words and columns that are spelled as other formats begin, or lie where theirs have them; a zero byte."""
    (tmp_path / name).write_bytes(content)
    (batch,) = (one for one in read_batches([str(tmp_path / name)], Progress()) if one is not None)
    assert len(batch) == 1


def _flushed(*parts: bytes) -> bytes:
    """The parts in blocks of zstd of their own, as a writer makes them that does not wait for more."""
    packer = ZstdCompressor().compressobj()
    blocks = [packer.compress(part) + packer.flush(COMPRESSOBJ_FLUSH_BLOCK) for part in parts]
    return b"".join(blocks) + packer.flush()


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(b"[\n") + gzip.compress(b"") + gzip.compress(f"{RECORD},\n{RECORD}]".encode()),
        _flushed(b"[\n", Random(1).randbytes(3_000).hex().join((f'{RECORD[:-1]}, "more": "', '"}]')).encode()),
    ],
    ids=["gzip", "zstd"],
)
def test_a_step_that_unpacks_to_nothing_is_not_the_end(tmp_path: Path, content: bytes) -> None:
    """Nothing is decided by what came before it."""
    (tmp_path / "a").write_bytes(content)
    (batch,) = (one for one in read_batches([str(tmp_path / "a")], Progress()) if one is not None)
    assert batch.unit == "record"
    assert all(json.loads(line)["text"] == STORY for line in batch.block.lines)


def test_a_format_that_is_named_is_read(tmp_path: Path, call: Filter) -> None:
    """Whatever the first bytes of text are; but Parquet is not read as text, nor text as Parquet."""
    (tmp_path / "a").write_text(f'id,text\na,"{STORY}"\nb,"{EDITED}"\n')
    assert call.verdicts("--format", "csv", tmp_path / "a") == ["unique", "duplicate"]
    (tmp_path / "a").write_text(f"[{RECORD}]\n{RECORD}\n")
    assert call.verdicts("--format", "jsonl", tmp_path / "a") == ["rejected", "unique"]
    assert call("--format", "parquet", tmp_path / "a") == []
    assert (call.code, "not Parquet, and --format says parquet; leave out --format" in call.err) == (EXIT_USER, True)


@pytest.mark.parametrize(
    "command", [("calibrate",), ("produce", "--brokers", "127.0.0.1:1"), ("fingerprint", "--file")]
)
def test_every_command_refuses_what_it_cannot_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    """Before it connects or writes anything."""
    (tmp_path / "a").write_bytes(FOREIGN["zip"][0])
    assert run([*command, str(tmp_path / "a")]) == EXIT_USER
    told = capsys.readouterr()
    assert (told.out, f"input {tmp_path / 'a'}: this is zip, which is not read; unpack it: unzip -p" in told.err) == (
        "",
        True,
    )


def test_produce_sends_records_of_what_is_not_lines(tmp_path: Path) -> None:
    """Elements of an array and rows are JSON objects; text is sent line by line, pages too."""
    for name, content, expected in (
        ("a.json", f"[{RECORD},\n{RECORD}]", [RECORD.encode()] * 2),
        ("a.csv", "id,text\na,b\n", [b'{"id":"a","text":"b"}']),
        ("a.html", "<html>\n<p>", [b"<html>", b"<p>"]),
        ("b.txt", "[1] a note\n[[wiki]]", [b"[1] a note", b"[[wiki]]"]),
        ("a.txt", "\ufeffplain \n\ufefftext", [b"plain ", b"text"]),
    ):
        (tmp_path / name).write_text(content)
        assert list(whole_lines([str(tmp_path / name)])) == expected


def test_explain_reads_compressed_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And refuses Parquet in one line, as every command does."""
    (tmp_path / "a").write_bytes(gzip.compress(STORY.encode()))
    assert run(["explain", "--json", f"@{tmp_path / 'a'}", STORY]) == EXIT_OK
    assert json.loads(capsys.readouterr().out)["verdict"] == "duplicate"
    (tmp_path / "b").write_bytes(b"PAR1")
    assert run(["explain", f"@{tmp_path / 'b'}", STORY]) == EXIT_USER
    assert "this is Parquet, not a text" in capsys.readouterr().err


def test_calibrate_reads_what_filter_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The articles of an array; rows that are broken, and lines that cannot be decoded, are counted as rejected."""
    records = [record("a", STORY), record("b", EDITED), record("c", OTHER)]
    (tmp_path / "a.json").write_text(json.dumps(records))
    (tmp_path / "a.csv").write_text("id,text\n" + "".join(f'{one["id"]},"{one["text"]}"\n' for one in records) + "d\n")
    lines = [json.dumps(one, ensure_ascii=False).encode("gb18030") for one in records]
    (tmp_path / "a").write_bytes(b"\n".join([*lines, lines[2].replace(b"harbour", b"harb\xffour")]))
    reports = []
    for name in ("a.json", "a.csv", "a"):
        flags = ["--encoding", "gb18030"] if name == "a" else []
        assert run(["calibrate", "--json", *flags, str(tmp_path / name)]) == EXIT_OK
        reports.append(json.loads(capsys.readouterr().out))
    assert [(one["articles"], one["rejected"]) for one in reports] == [(3, 0), (3, 1), (3, 1)]
    assert reports[0]["figures"] == reports[1]["figures"]


@pytest.mark.parametrize("encoding", ["gb18030", "utf-16", "shift_jis", "cp1252", "utf-32-be"])
@pytest.mark.parametrize("as_csv", [False, True])
def test_other_encodings_are_decoded(tmp_path: Path, call: Filter, encoding: str, as_csv: bool) -> None:
    """Outputs are UTF-8."""
    text = "Der Hafen schließt für elf Wochen, sagte das Amt am Dienstag; Fischer ärgern sich über die Kosten."
    text = {
        "gb18030": STORY,
        "shift_jis": "図書館は週末の夜間も開くことになった。読者は二階で十時まで本を読める。",
    }.get(encoding, text)
    lines = (
        [f'a,"{text}"', f'b,"{text}"']
        if as_csv
        else [json.dumps({"id": one, "text": text}, ensure_ascii=False) for one in "ab"]
    )
    path = tmp_path / ("a.csv" if as_csv else "a")
    path.write_bytes("".join(f"{line}\n" for line in ["id,text", *lines][not as_csv :]).encode(encoding))
    answers = call("--encoding", encoding, path)
    assert [(one["text"], one["dedup"]["verdict"]) for one in answers] == [(text, "unique"), (text, "duplicate")]


@pytest.mark.parametrize(
    ("encoding", "broken"),
    [("gb18030", b"\xff"), ("shift_jis", b"\xff"), ("utf-16", b"\0\xd8"), ("ascii", b"\xe9")],
)
def test_what_cannot_be_decoded_is_a_reason_for_its_line(
    tmp_path: Path, call: Filter, encoding: str, broken: bytes
) -> None:
    """With the character, from 0; the lines around it are read."""
    lines = [json.dumps(record(one, OTHER)) for one in "abc"]
    before, inside, after = ((line + "\n").encode(encoding) for line in lines)
    mark = len("a".encode("utf-16")) - 2 if encoding == "utf-16" else 0
    inside = inside[mark:]
    middle = len('{"id": "b", "text": "Th'.encode(encoding)) - mark
    (tmp_path / "a").write_bytes(before + inside[:middle] + broken + inside[middle:] + after[mark:])
    answers = call("--encoding", encoding, tmp_path / "a")
    assert [one["dedup"]["verdict"] for one in answers] == ["unique", "rejected", "duplicate"]
    known = {"shift_jis": "shift_jis"}.get(encoding, encoding)
    assert answers[1]["dedup"]["reason"] == f"invalid {known} at character 23"
    assert answers[1]["dedup"]["line"].startswith('{"id": "b", "text": "Th\ufffd')
    assert call.code == EXIT_FOUND


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_an_order_of_bytes_that_nothing_says_is_asked_for(call: Filter, tmp_path: Path, encoding: str) -> None:
    """It is not guessed, and the message names an encoding that reads the input."""
    (tmp_path / "a").write_bytes(json.dumps(record("a", STORY)).encode(f"{encoding}-le"))
    assert call("--encoding", encoding, tmp_path / "a") == []
    assert f"no byte order mark; name its byte order, such as {encoding}-le" in call.err
    assert call.code == EXIT_USER
    assert call.verdicts("--encoding", f"{encoding}-le", tmp_path / "a") == ["unique"]


@pytest.mark.parametrize("encoding", ["base64", "idna", "undefined", "rot13", "no-such", "", "a\0b"])
def test_an_encoding_that_is_none_of_text_is_refused(tmp_path: Path, call: Filter, encoding: str) -> None:
    """In one line, with one that works."""
    assert call("--encoding", encoding, write(tmp_path / "a", record("a", STORY))) == []
    assert (call.code, call.err.count("\n"), "such as gb18030" in call.err) == (EXIT_USER, 1, True)


def test_a_mark_of_another_encoding_is_told(tmp_path: Path, call: Filter) -> None:
    """UTF-8 by its mark is not read as something else, nor UTF-16; UTF-16-LE may have one."""
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbf" + RECORD.encode())
    assert call("--encoding", "gb18030", tmp_path / "a") == []
    assert "this is UTF-8 by its byte order mark, not GB18030; leave out --encoding" in call.err
    (tmp_path / "a").write_bytes(RECORD.encode("utf-16"))
    assert call("--encoding", "gb18030", tmp_path / "a") == []
    assert "this is UTF-16 by its byte order mark, not GB18030; read it with --encoding utf-16" in call.err
    assert call.verdicts("--encoding", "utf-16-le", tmp_path / "a") == ["unique"]
    assert "\ufeff" not in call.raw.decode()


def test_lines_of_another_encoding_are_hinted_at(tmp_path: Path, call: Filter) -> None:
    """Once, with the option; not where the option is given."""
    (tmp_path / "a").write_bytes(f"{RECORD}\n{RECORD}\n".encode("gb18030"))
    assert call.verdicts(tmp_path / "a") == ["rejected"] * 2
    assert (
        call.err == "stream-dedup: 2 lines are not UTF-8; if they have another encoding, name it: --encoding gb18030\n"
    )
    assert call.verdicts("--encoding", "gb18030", tmp_path / "a") == ["unique", "duplicate"]
    assert call.err == ""
