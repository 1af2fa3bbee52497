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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, NoReturn, get_args
from unicodedata import category

from stream_dedup.core.decode import BYTE_ORDER_MARK
from stream_dedup.errors import UserError
from stream_dedup.files.compressed import FILE_CODECS

Format = Literal["jsonl", "json", "csv", "tsv", "parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)
"""What is read: JSON Lines, JSON over several lines, tables with a header, Parquet."""
_NO_TEXT = frozenset({"charmap", "idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"})
"""Codecs for parts of a text, which no file is written in."""


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
        raise _unknown(name) from error
    if known in _NO_TEXT:
        raise _unknown(name)
    return None if known in {"utf-8", "utf-8-sig"} else known


def _unknown(name: str) -> UserError:
    return UserError(f"--encoding {name}: not an encoding of text; name one that Python has, such as gb18030 or utf-16")


STDIN_NAME = "stdin"
"""The name of standard input in ids and messages."""
HEAD_BYTES = 512
"""Bytes by which an input is recognised: the header of a tar archive."""
MAX_SPACE_BYTES = 64 << 10
"""Bytes of white space within which the first sign of a record is looked for."""
PARQUET_MAGIC = b"PAR1"


class _Foreign(NamedTuple):
    """A format that is not read: what stands at the offset, what it is called, and what to do about it."""

    magic: bytes
    name: str
    remedy: str
    offset: int = 0

    def begins(self, head: bytes) -> bool:
        """Whether this is the format of an input.

        Letters and digits alone are a text, too (a column ``ORCID``, an id ``WEBP-1``) unless there are control
        characters near them, as in all formats that begin so.
        """
        if self.offset == _ZIP_NAME and not head.startswith(b"PK"):
            return False
        return head.startswith(self.magic, self.offset) and not (self.magic.isalnum() and _controls(head) == 0)


_OCR = "recognise its text: tesseract {file} - | jq -cRs '{{text: .}}' > {lines}"
_CSV = "save its sheet as CSV: libreoffice --headless --convert-to csv {file}"
_ARROW = (
    "convert it: python -c 'import sys; from pyarrow import feather, parquet; "
    'parquet.write_table(feather.read_table(sys.argv[1]), sys.argv[1] + ".parquet")\' {file}'
)
_PICKLE = (
    "convert it if you trust its writer: python -c 'import sys, pandas; "
    'pandas.DataFrame(pandas.read_pickle(sys.argv[1])).to_parquet(sys.argv[1] + ".parquet")\' {file}'
)
_TWICE = "it is compressed twice, unpack it once: {} -dc < {{file}} > {{lines}}"
_MARKUP_REMEDY = (
    'convert its records: python -c \'import sys, pandas; pandas.read_xml(sys.argv[1], parser="etree").to_json('
    'sys.argv[1] + ".jsonl", orient="records", lines=True)\' {file}'
)
_PAGE_REMEDY = "make its text a record, and add --html: jq -cRs '{{text: .}}' {file} > {lines}"
_UNKNOWN_REMEDY = "convert it to JSON Lines, CSV or Parquet"

_ZIP_NAME = 30
"""Where zip has the name of its first file."""

_FOREIGN = (
    _Foreign(b"Obj\x01", "Avro", "convert it: fastavro {file} > {lines}"),
    _Foreign(
        b"ORC",
        "ORC",
        "convert it: python -c 'import sys; from pyarrow import orc, parquet; "
        'parquet.write_table(orc.read_table(sys.argv[1]), sys.argv[1] + ".parquet")\' {file}',
    ),
    _Foreign(b"ARROW1", "Arrow (Feather)", _ARROW),
    _Foreign(b"FEA1", "Feather", _ARROW),
    _Foreign(
        b"\xff\xff\xff\xff",
        "an Arrow stream",
        "convert it: python -c 'import sys, pyarrow; from pyarrow import parquet; "
        'parquet.write_table(pyarrow.ipc.open_stream(sys.argv[1]).read_all(), sys.argv[1] + ".parquet")\' {file}',
    ),
    _Foreign(b"PARE", "encrypted Parquet", "write it again without encryption"),
    _Foreign(
        b"SQLite format 3\0", "SQLite", "name a table of it: sqlite3 -json {file} 'SELECT * FROM articles' > {lines}"
    ),
    _Foreign(b"DUCK", "DuckDB", "name a table of it: duckdb -json {file} 'SELECT * FROM articles' > {lines}", 8),
    _Foreign(b"\x89HDF\r\n\x1a\n", "HDF5", "write its table as Parquet, with pandas.read_hdf and to_parquet"),
    *(_Foreign(bytes((0x80, protocol)), "a pickled file", _PICKLE) for protocol in range(2, 6)),
    *(
        _Foreign(begin, "a pickled file", _PICKLE)
        for begin in (b"(lp0\n", b"(dp0\n", b"(lp1\n", b"(dp1\n", b"ccopy_reg\n")
    ),
    _Foreign(b"%PDF-", "PDF", "extract its text: pdftotext {file} - | jq -cRs '{{text: .}}' > {lines}"),
    _Foreign(b"{\\rtf", "RTF", "save its records as CSV or JSON Lines"),
    _Foreign(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Office document (such as .xls)", _CSV),
    _Foreign(b"7z\xbc\xaf\x27\x1c", "7z", "unpack it: 7z x -so {file} > {lines}"),
    _Foreign(b"Rar!\x1a\x07", "RAR", "unpack it: unrar p -inul {file} > {lines}"),
    _Foreign(b"ustar", "tar", "unpack it: tar -xOf {file} > {lines}", 257),
    _Foreign(b"\x04\x22\x4d\x18", "lz4", "unpack it: lz4 -dc {file} > {lines}"),
    _Foreign(b"\x1f\x9d", "compress (.Z)", "unpack it: gzip -dc {file} > {lines}"),
    _Foreign(b"\x5d\0\0", "lzma", "unpack it: xz -dc --format=lzma {file} > {lines}"),
    *(
        _Foreign(magic, f"{codec.name} in a compressed file", _TWICE.format(codec.name))
        for codec in FILE_CODECS
        for magic in codec.magics
    ),
    _Foreign(b"\x89PNG\r\n\x1a\n", "an image (PNG)", _OCR),
    _Foreign(b"\xff\xd8\xff", "an image (JPEG)", _OCR),
    _Foreign(b"GIF87a", "an image (GIF)", _OCR),
    _Foreign(b"GIF89a", "an image (GIF)", _OCR),
    _Foreign(b"II*\0", "an image (TIFF)", _OCR),
    _Foreign(b"MM\0*", "an image (TIFF)", _OCR),
    _Foreign(b"WEBP", "an image (WebP)", _OCR, 8),
    _Foreign(
        b"version https://git-lfs.github.com/spec/",
        "a pointer of Git LFS, not the file",
        "fetch the file: git lfs pull",
    ),
    # Zip by what is in it: the first file of an Office or OpenDocument file is always the same.
    _Foreign(b"mimetypeapplication/vnd.oasis.opendocument", "an OpenDocument file (such as .ods)", _CSV, _ZIP_NAME),
    _Foreign(b"[Content_Types].xml", "an Office document (such as .xlsx)", _CSV, _ZIP_NAME),
    _Foreign(b"_rels/", "an Office document (such as .xlsx)", _CSV, _ZIP_NAME),
    _Foreign(b"docProps/", "an Office document (such as .xlsx)", _CSV, _ZIP_NAME),
    _Foreign(b"xl/", "an Office document (such as .xlsx)", _CSV, _ZIP_NAME),
    *(_Foreign(begin, "zip", "unpack it: unzip -p {file} > {lines}") for begin in (b"PK\x03\x04", b"PK\x05\x06")),
)

_LETTERS = tuple(foreign.magic for foreign in _FOREIGN if foreign.magic.isalnum() and not foreign.offset)
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


def screened(chunks: Iterable[bytes | None], name: str, form: InputForm) -> Iterator[bytes | None]:
    """Pass the content of an input on, unpacked, if it is text or Parquet; pass ``None`` on.

    Raises:
        UserError: it is something else, or in another encoding than the form says. Nothing is passed on before.
    """
    head, others = b"", iter(chunks)
    for chunk in others:
        if chunk is None:
            yield None
            continue
        head += chunk
        if not _needs_more(head):
            break
    _screen(head, name, form)
    if head:
        yield head
    yield from others


def recognised(head: bytes, name: str, form: InputForm, *, of_records: bool, ended: bool) -> Format | None:
    """Return what a screened input is; None if more of it must be known.

    Args:
        head: how it begins, in UTF-8.
        name: of the input.
        form: says what is known.
        of_records: whether its lines must be records; plain text is read else.
        ended: whether the head is all of it.

    Raises:
        UserError: it is a page or XML.
    """
    if form.format is not None:
        return form.format
    if head.startswith(PARQUET_MAGIC):
        return "parquet"
    found = _LEADING.match(head)
    begin = 0 if found is None else found.end()
    array = _ARRAY if of_records else _ARRAY_OF_OBJECTS
    if array.match(head, begin) or _OBJECT_OF_LINES.match(head, begin):
        return "json"
    if not ended and _UNDECIDED.match(head, begin) and len(head) < MAX_SPACE_BYTES:
        return None
    if of_records and _PAGE.match(head, begin):
        _refuse(name, "HTML", _PAGE_REMEDY)
    if of_records and _MARKUP.match(head, begin):
        _refuse(name, "XML", _MARKUP_REMEDY)
    suffix = _SUFFIX.search(name)
    if suffix is None or head.startswith(b"{", begin):
        return "jsonl"
    return "csv" if suffix[1].lower() == "csv" else "tsv"


def _needs_more(head: bytes) -> bool:
    """Whether more bytes could show another format."""
    if _RECORD.match(head):
        return False
    begins = any(foreign.magic != head and foreign.magic.startswith(head) for foreign in _FOREIGN if not foreign.offset)
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
