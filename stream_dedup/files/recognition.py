"""What each input is read as: as the caller says it (``--format`` and ``--encoding``), or by its first bytes.

``FORMATS`` are read. Everything else that is recognised here is refused before its first record with one line: the
input, its format, and a command that makes it readable. What nothing here describes is read as lines, each of which has
a verdict of its own.

CSV and TSV have no first bytes of their own: the name of the file says so, or ``--format``. Every other format is
recognised by its content, whatever the name.
"""

from __future__ import annotations

import codecs
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, NoReturn, get_args
from unicodedata import category

from stream_dedup.core.decode import BYTE_ORDER_MARK
from stream_dedup.errors import UserError
from stream_dedup.files.compressed import FILE_CODECS, beginning

Format = Literal["jsonl", "json", "csv", "tsv", "parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)
"""What is read: JSON Lines, JSON over several lines, tables with a header, Parquet."""


@dataclass(frozen=True, slots=True)
class InputForm:
    """The format of the inputs (None: as recognised), and their encoding (None: UTF-8)."""

    format: Format | None = None
    encoding: str | None = None


def checked_encoding(name: str) -> str | None:
    """Return the name of an encoding as Python has it; None for UTF-8, which needs no decoding.

    Raises:
        UserError: it is no encoding of text.
    """
    try:
        known = codecs.lookup(name).name
        b"a".decode(known, "replace")  # refuses codecs that decode no text
    except (LookupError, ValueError) as error:
        raise UserError(
            f"--encoding {name}: not an encoding of text; name one that Python has, such as gb18030 or utf-16"
        ) from error
    return None if known in {"utf-8", "utf-8-sig"} else known


STDIN_NAME = "stdin"
"""The name of standard input in ids and messages."""
HEAD_BYTES = 512
"""Bytes by which an input is recognised: the header of a tar archive."""
MAX_SPACE_BYTES = 64 << 10
"""Bytes of white space within which the first sign of a record is looked for."""
PARQUET_MAGIC = b"PAR1"


class _Foreign(NamedTuple):
    """A format that is not read: what it is called, what to do about it, and its first bytes, at an offset."""

    name: str
    remedy: str
    magics: tuple[bytes, ...]
    offset: int = 0

    def begins(self, head: bytes) -> bool:
        """Whether this is the format of an input.

        Letters and digits alone are a text, too (a column ``ORCID``) unless there are control characters near them, as
        in all formats that begin so.
        """
        found = next((magic for magic in self.magics if head.startswith(magic, self.offset)), None)
        return found is not None and not (found.isalnum() and _controls(head) == 0)


_TO_PARQUET = (
    "convert it: python -c 'import sys, pyarrow; from pyarrow import feather, orc, parquet; "
    'parquet.write_table({}, sys.argv[1] + ".parquet")\' {{file}}'
)
_PICKLE = (
    "convert it if you trust its writer: python -c 'import sys, pandas; "
    'pandas.DataFrame(pandas.read_pickle(sys.argv[1])).to_parquet(sys.argv[1] + ".parquet")\' {file}'
)
_CSV = "save its sheet as CSV: libreoffice --headless --convert-to csv {file}"
_OCR = "recognise its text: tesseract {file} - | jq -cRs '{{text: .}}' > {lines}"
_MARKUP_REMEDY = (
    'convert its records: python -c \'import sys, pandas; pandas.read_xml(sys.argv[1], parser="etree").to_json('
    'sys.argv[1] + ".jsonl", orient="records", lines=True)\' {file}'
)
_PAGE_REMEDY = "make its text a record, and add --html: jq -cRs '{{text: .}}' {file} > {lines}"
_UNKNOWN_REMEDY = "convert it to JSON Lines, CSV or Parquet"

_FOREIGN = (
    _Foreign("Avro", "convert it: fastavro {file} > {lines}", (b"Obj\x01",)),
    _Foreign("ORC", _TO_PARQUET.format("orc.read_table(sys.argv[1])"), (b"ORC",)),
    _Foreign("Arrow (Feather)", _TO_PARQUET.format("feather.read_table(sys.argv[1])"), (b"ARROW1",)),
    _Foreign(
        "an Arrow stream",
        _TO_PARQUET.format("pyarrow.ipc.open_stream(sys.argv[1]).read_all()"),
        (b"\xff\xff\xff\xff",),
    ),
    _Foreign(
        "SQLite", "name a table of it: sqlite3 -json {file} 'SELECT * FROM articles' > {lines}", (b"SQLite format 3\0",)
    ),
    _Foreign(
        "DuckDB", "name a table of it: duckdb -json {file} 'SELECT * FROM articles' > {lines}", (b"DUCK",), offset=8
    ),
    _Foreign(
        "a pickled file",
        _PICKLE,
        (
            *(bytes((0x80, protocol)) for protocol in range(2, 6)),
            b"(lp0\n",
            b"(dp0\n",
            b"(lp1\n",
            b"(dp1\n",
            b"ccopy_reg\n",
        ),
    ),
    _Foreign("PDF", "extract its text: pdftotext {file} - | jq -cRs '{{text: .}}' > {lines}", (b"%PDF-",)),
    _Foreign("an Office document", _CSV, (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",)),
    _Foreign("7z", "unpack it: 7z x -so {file} > {lines}", (b"7z\xbc\xaf\x27\x1c",)),
    _Foreign("RAR", "unpack it: unrar p -inul {file} > {lines}", (b"Rar!\x1a\x07",)),
    _Foreign("tar", "unpack it: tar -xOf {file} > {lines}", (b"ustar",), offset=257),
    _Foreign("lz4", "unpack it: lz4 -dc {file} > {lines}", (b"\x04\x22\x4d\x18",)),
    _Foreign("compress (.Z)", "unpack it: gzip -dc {file} > {lines}", (b"\x1f\x9d",)),
    _Foreign("lzma", "unpack it: xz -dc --format=lzma {file} > {lines}", (b"\x5d\0\0",)),
    *(
        _Foreign(
            f"{codec.name} in a compressed file",
            f"it is compressed twice, unpack it once: {codec.name} -dc < {{file}} > {{lines}}",
            codec.magics,
        )
        for codec in FILE_CODECS
    ),
    _Foreign("an image", _OCR, (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*")),
    _Foreign(
        "zip",
        f"unpack it: unzip -p {{file}} > {{lines}}, or, if it is an Office document, {_CSV}",
        (b"PK\x03\x04", b"PK\x05\x06"),
    ),
)

_MAGICS = tuple(magic for foreign in _FOREIGN if not foreign.offset for magic in foreign.magics)
_LETTERS = tuple(filter(bytes.isalnum, _MAGICS))
"""First bytes that are letters: what follows them decides."""

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (BYTE_ORDER_MARK, "utf-8"),
)
"""Byte order marks, and the encodings that they show."""
_WIDE = ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be")
"""Encodings that are recognised without a mark, in which the ASCII characters of JSON and CSV have zero bytes."""
_CONTROLS = bytes({*range(0x20)} - {*b"\t\n\f\r\x1b"})
_CONTROL_SHARE = 0.1
"""More control characters than this, and a zero byte, are no text."""

_RECORD = re.compile(rb'\{(?:"|[ \t\r]++[^\0])')
"""The beginning of a line of JSON Lines."""
_LEADING = re.compile(rb"(?:\s|" + BYTE_ORDER_MARK + rb")*+")
_ARRAY = re.compile(rb'\[\s*+(?:[{\["\]]|(?:null|true|false|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*[,\]])')
_ARRAY_OF_OBJECTS = re.compile(rb"\[\s*+\{")
"""The same where lines need not be records: a text may begin with ``[1]`` or ``[[``."""
_OBJECT_OF_LINES = re.compile(rb"\{[ \t\r]*+\n|\x1e")
"""The beginning of an object over several lines, or of a JSON text sequence (RFC 7464)."""
_UNDECIDED = re.compile(rb"(?:\{[ \t\r]*+|\[\s*+[-+.\w]*+\s*+|<[^>\n]{0,64}|\xef\xbb?)?\Z")
_PAGE = re.compile(rb"<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_MARKUP = re.compile(rb"<(?:[!?]|/?[A-Za-z])")
_PACKED = "|".join(suffix for codec in FILE_CODECS for suffix in codec.suffixes)
_SUFFIX = re.compile(rf"\.(csv|tsv|tab)(?:\.(?:{_PACKED}))?\Z", re.IGNORECASE)


def screened(chunks: Iterator[bytes | None], name: str, form: InputForm) -> Iterator[bytes | None]:
    """Pass the content of an input on, unpacked, if it is text or Parquet; pass ``None`` on.

    Raises:
        UserError: it is something else, or in another encoding than the form says. Nothing is passed on before.
    """
    head = yield from beginning(chunks, _needs_more)
    _screen(head, name, form)
    yield head
    yield from chunks


def is_undecided(head: bytes, form: InputForm) -> bool:
    """Whether more of a screened input must be known than this beginning, in UTF-8, to recognise it."""
    undecided = _UNDECIDED.match(head, _first_sign(head)) is not None
    return form.format is None and undecided and len(head) < MAX_SPACE_BYTES


def recognised(head: bytes, name: str, form: InputForm, *, of_records: bool) -> Format:
    """Return what a screened input is that begins so, or is no longer.

    ``of_records``: whether its lines must be records; plain text is read else.

    Raises:
        UserError: it is a page or XML.
    """
    if form.format is not None:
        return form.format
    if head.startswith(PARQUET_MAGIC):
        return "parquet"
    begin = _first_sign(head)
    array = _ARRAY if of_records else _ARRAY_OF_OBJECTS
    if array.match(head, begin) or _OBJECT_OF_LINES.match(head, begin):
        return "json"
    if of_records and _PAGE.match(head, begin):
        _refuse(name, "HTML", _PAGE_REMEDY)
    if of_records and _MARKUP.match(head, begin):
        _refuse(name, "XML", _MARKUP_REMEDY)
    suffix = _SUFFIX.search(name)
    if suffix is None or head.startswith(b"{", begin):
        return "jsonl"
    return "csv" if suffix[1].lower() == "csv" else "tsv"


def _first_sign(head: bytes) -> int:
    found = _LEADING.match(head)
    return 0 if found is None else found.end()


def _needs_more(head: bytes) -> bool:
    """Whether more bytes could show another format."""
    if _RECORD.match(head):
        return False
    begins = any(magic != head and magic.startswith(head) for magic in _MAGICS)
    return begins or (len(head) < HEAD_BYTES and (b"\n" not in head or head.startswith(_LETTERS)))


def _screen(head: bytes, name: str, form: InputForm) -> None:
    is_parquet = head.startswith(PARQUET_MAGIC)
    if form.format is not None and is_parquet != (form.format == "parquet"):
        what = "Parquet" if is_parquet else "not Parquet"
        raise UserError(f"input {name}: this is {what}, and --format says {form.format}; leave out --format")
    if is_parquet and form.encoding is not None:
        raise UserError(f"input {name}: this is Parquet, which has no other encoding; leave out --encoding")
    for foreign in _FOREIGN:
        if foreign.begins(head[:HEAD_BYTES]):
            _refuse(name, foreign.name, foreign.remedy)
    _screen_encoding(head, name, form.encoding)


def _screen_encoding(head: bytes, name: str, encoding: str | None) -> None:
    marked = next((shown for mark, shown in _MARKS if head.startswith(mark)), None)
    said = (encoding or "utf-8").removesuffix("-le").removesuffix("-be")
    if marked not in {None, said}:
        _refuse_encoding(name, f"{str(marked).upper()} by its byte order mark", said, str(marked))
    if encoding is not None or head.startswith(PARQUET_MAGIC):
        return
    wide = next((wide for wide in _WIDE if _is_text_in(head[:HEAD_BYTES], wide)), None)
    if wide is not None:
        _refuse_encoding(name, wide.upper(), said, wide)
    if _is_binary(head[:HEAD_BYTES]):
        _refuse(name, "binary data of an unknown format", _UNKNOWN_REMEDY)


def _refuse_encoding(name: str, what: str, said: str, encoding: str) -> NoReturn:
    way = "leave out --encoding" if encoding == "utf-8" else f"read it with --encoding {encoding}"
    raise UserError(f"input {name}: this is {what}, not {said.upper()}; {way}")


def _is_text_in(head: bytes, encoding: str) -> bool:
    low, high = head[::2].count(0), head[1::2].count(0)
    if high <= low if encoding == "utf-16-le" else low <= high and encoding == "utf-16-be":
        return False
    if not low + high or (low + high < len(head) / 4 and _decoded(head, "utf-8") is not None):
        return False  # UTF-8 with a zero byte or two
    text = _decoded(head, encoding)
    return (
        text is not None
        and bool(text.strip())
        and all(one.isprintable() or one.isspace() or category(one) == "Cf" for one in text)
    )


def _decoded(head: bytes, encoding: str) -> str | None:
    """Return the text that this is in an encoding; its last character may be cut off."""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeDecodeError:
        return None


def _is_binary(head: bytes) -> bool:
    """Whether this is no text. Lines of JSON may contain anything, and a truncated file begins with zeros."""
    begins_record = head.lstrip()[:1] in {b"{", b"["} or b"\n{" in head
    return not begins_record and b"\0" in head.strip(b"\0") and _controls(head) > _CONTROL_SHARE * len(head)


def _controls(head: bytes) -> int:
    return len(head) - len(head.translate(None, _CONTROLS))


def _refuse(name: str, what: str, remedy: str) -> NoReturn:
    file = "FILE" if name == STDIN_NAME else name
    way = remedy.format(file=shlex.quote(file), lines=shlex.quote(f"{file}.jsonl"))
    raise UserError(f"input {name}: this is {what}, which is not read; {way}")
