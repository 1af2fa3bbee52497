"""Compressed inputs: gzip, zstd, xz and bzip2, recognised by their first bytes.

Rules:

* The name of a file decides nothing. JSON and text never begin with the first bytes of a compressed input.
* Several members (streams, frames) one after the other are one input, as the tools that concatenate them mean it.
* A step yields at most ``STEP_BYTES`` of gzip, xz and bzip2, or what ``FEED_BYTES`` of zstd unpack to, at most 32 MiB:
  a block of zstd has at least 4 bytes and unpacks to at most 128 KiB. So an input that unpacks to terabytes is read in
  the memory of any other.
* Input that ends in the middle, or is damaged, is an error. Nothing after the last undamaged block is passed on.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Protocol

from stream_dedup.errors import UserError

if TYPE_CHECKING:
    from zstandard import ZstdDecompressionObj

STEP_BYTES = 1 << 20
"""Most bytes of one step of gzip, xz and bzip2."""
FEED_BYTES = 1 << 10
"""Compressed bytes of one step of zstd."""
MAX_WINDOW_BYTES = 1 << 31
"""The window of ``zstd --long=31``, which public archives of articles are written with; it is memory while reading.
The dictionary of xz, at most 1.5 GiB by its own tools, has the same limit."""
_GZIP_HEADER = 16 + zlib.MAX_WBITS
"""Makes zlib expect the header and the checksum of gzip."""


class _DamagedError(Exception):
    """The library refuses the input; the text is its reason."""


class _Unpacker(Protocol):
    """Unpacks one input, of one or several members."""

    name: str

    @property
    def inside(self) -> bool:
        """Whether the input so far ends in the middle of a member."""

    def feed(self, packed: bytes) -> Iterator[bytes]:
        """Yield what these bytes unpack to.

        Raises:
            _DamagedError: the bytes are damaged.
        """


class _Decompressor(Protocol):
    """That of ``lzma`` and of ``bz2``."""

    @property
    def eof(self) -> bool:
        """Whether the stream has ended."""

    @property
    def needs_input(self) -> bool:
        """Whether nothing more can be unpacked of what it was given."""

    @property
    def unused_data(self) -> bytes:
        """What follows the stream."""

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        """Return what is unpacked, at most so many bytes."""


def unpacked(chunks: Iterator[bytes | None], name: str) -> Iterator[bytes | None]:
    """Yield the content of an input that may be compressed; ``None``, an input without data at present, is passed on.

    Raises:
        UserError: the input is damaged, or ends too early.
    """
    head = b""
    for chunk in chunks:
        if chunk is None:
            yield None
            continue
        head += chunk
        if not any(magic.startswith(head) for codec in FILE_CODECS for magic in (*codec.magics, *codec.others)):
            break
    unpacker = next((codec.make() for codec in FILE_CODECS if head.startswith((*codec.magics, *codec.others))), None)
    whole = chain([head], chunks) if head else chunks
    yield from whole if unpacker is None else _unpack(unpacker, whole, name)


def _unpack(unpacker: _Unpacker, chunks: Iterable[bytes | None], name: str) -> Iterator[bytes | None]:
    for chunk in chunks:
        if chunk is None:
            yield None
            continue
        try:
            yield from unpacker.feed(chunk)
        except _DamagedError as error:
            msg = f"input {name}: its {unpacker.name} data are damaged ({error}); get the file again, or repair it"
            raise UserError(msg) from error
    if unpacker.inside:
        msg = f"input {name}: its {unpacker.name} data end too early; the file is not complete, get it again"
        raise UserError(msg)


def _reason(error: Exception) -> str:
    """Return what a library says of damaged data, without its own name and number of the error.

    ``tests/cli/test_library_errors.py`` has the names that no message may have.
    """
    return str(error).rpartition(": ")[2]


class _Gzip:
    """Members of gzip, between which there may be zero bytes."""

    name = "gzip"

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP_HEADER)
        self.inside = True

    def feed(self, packed: bytes) -> Iterator[bytes]:
        """Yield what these bytes unpack to."""
        while packed:
            if not self.inside:
                packed = packed.lstrip(b"\0")
                self._member, self.inside = zlib.decompressobj(_GZIP_HEADER), bool(packed)
            try:
                yield self._member.decompress(packed, STEP_BYTES)
            except zlib.error as error:
                raise _DamagedError(_reason(error)) from error
            packed = self._member.unconsumed_tail
            if self._member.eof:
                packed, self.inside = self._member.unused_data, False


class _Streams:
    """Streams of xz or bzip2."""

    def __init__(self, name: str, make: Callable[[], _Decompressor], padding: bytes) -> None:
        """Begin; ``padding`` may stand after a stream."""
        self.name = name
        self._make, self._padding = make, padding
        self._stream = make()
        self.inside = True

    def feed(self, packed: bytes) -> Iterator[bytes]:
        """Yield what these bytes unpack to."""
        while packed or (self.inside and not self._stream.needs_input):
            if not self.inside:
                packed = packed.lstrip(self._padding)
                if not packed:
                    return
                self._stream, self.inside = self._make(), True
            try:
                yield self._stream.decompress(packed, STEP_BYTES)
            except (lzma.LZMAError, OSError) as error:
                raise _DamagedError(_reason(error)) from error
            packed = b""
            if self._stream.eof:
                packed, self.inside = self._stream.unused_data, False


def _xz() -> _Unpacker:
    return _Streams("xz", lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_WINDOW_BYTES), b"\0")


def _bzip2() -> _Unpacker:
    return _Streams("bzip2", bz2.BZ2Decompressor, b"")


class _Zstd:
    """Frames of zstd."""

    name = "zstd"

    def __init__(self) -> None:
        from zstandard import ZstdDecompressor  # noqa: PLC0415 - loaded for such an input only

        self._make = ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES).decompressobj
        self._frame: ZstdDecompressionObj | None = None

    @property
    def inside(self) -> bool:
        """Whether the input so far ends in the middle of a frame."""
        return self._frame is not None

    def feed(self, packed: bytes) -> Iterator[bytes]:
        """Yield what these bytes unpack to."""
        from zstandard import ZstdError  # noqa: PLC0415 - as above

        at = 0
        while at < len(packed):
            part = packed[at : at + FEED_BYTES]
            frame = self._frame = self._frame or self._make()
            try:
                yield frame.decompress(part)
            except ZstdError as error:
                raise _DamagedError(_reason(error)) from error
            at += len(part)
            if frame.eof:
                at -= len(frame.unused_data)
                self._frame = None


class Codec(NamedTuple):
    """A way to compress files."""

    name: str
    """As its tool is called."""
    suffixes: tuple[str, ...]
    magics: tuple[bytes, ...]
    """First bytes, each of which tells it."""
    others: tuple[bytes, ...]
    """First bytes of an input without content, or before the content."""
    make: Callable[[], _Unpacker]


_LEVELS = range(1, 10)
FILE_CODECS = (
    Codec("gzip", ("gz",), (b"\x1f\x8b",), (), _Gzip),
    Codec(
        "zstd",
        ("zst", "zstd"),
        (b"\x28\xb5\x2f\xfd",),
        tuple(bytes((first, 0x2A, 0x4D, 0x18)) for first in range(0x50, 0x60)),  # skippable frames, of parallel writers
        _Zstd,
    ),
    Codec("xz", ("xz",), (b"\xfd7zXZ\0",), (), _xz),
    Codec(
        "bzip2",
        ("bz2",),
        tuple(b"BZh%d1AY&SY" % level for level in _LEVELS),
        tuple(b"BZh%d\x17\x72\x45\x38\x50\x90" % level for level in _LEVELS),
        _bzip2,
    ),
)
"""All that are read."""
