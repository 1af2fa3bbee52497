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
from typing import NamedTuple

from stream_dedup.errors import UserError

STEP_BYTES = 1 << 20
"""Most bytes of one step of gzip, xz and bzip2."""
FEED_BYTES = 1 << 10
"""Compressed bytes of one step of zstd."""
MAX_WINDOW_BYTES = 1 << 31
"""The window of ``zstd --long=31``, which public archives of articles are written with; it is memory while reading.
The dictionary of xz, at most 1.5 GiB by its own tools, has the same limit."""
_GZIP_HEADER = 16 + zlib.MAX_WBITS
"""Makes zlib expect the header and the checksum of gzip."""
_DAMAGED = (zlib.error, lzma.LZMAError, OSError)


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
    found = next((codec for codec in FILE_CODECS if head.startswith((*codec.magics, *codec.others))), None)
    whole = chain([head], chunks) if head else chunks
    yield from whole if found is None else _unpack(found, whole, name)


def _unpack(codec: Codec, chunks: Iterable[bytes | None], name: str) -> Iterator[bytes | None]:
    member: _Member | None = codec.make()
    for chunk in chunks:
        if chunk is None:
            yield None
            continue
        packed = chunk
        while packed or (member is not None and not member.needs_input):
            if member is None:
                packed = packed.lstrip(codec.padding)
                member = codec.make() if packed else None
                continue
            try:
                yield member.decompress(packed, STEP_BYTES)
            except _DAMAGED as error:
                # What the library says, without its own name and number of the error: tests/cli/test_library_errors.py
                # has the names that no message may have.
                reason = str(error).rpartition(": ")[2]
                raise UserError(
                    f"input {name}: its {codec.name} data are damaged ({reason}); get the file again, or repair it"
                ) from error
            packed = b""
            if member.eof:
                packed, member = member.unused_data, None
    if member is not None:
        raise UserError(f"input {name}: its {codec.name} data end too early; the file is not complete, get it again")


class _Gzip:
    """A member of gzip, with the interface of the decompressors of ``lzma`` and ``bz2``."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(_GZIP_HEADER)

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def needs_input(self) -> bool:
        return not self._zlib.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        return self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)


class _Zstd:
    """A frame of zstd in the same way, of which ``FEED_BYTES`` are unpacked at a time."""

    def __init__(self) -> None:
        from zstandard import ZstdDecompressor, ZstdError  # noqa: PLC0415 - loaded for such an input only

        self._frame = ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES).decompressobj()
        self._error = ZstdError
        self._packed, self._at = b"", 0

    @property
    def eof(self) -> bool:
        return self._frame.eof

    @property
    def needs_input(self) -> bool:
        return self._at >= len(self._packed)

    @property
    def unused_data(self) -> bytes:
        return self._frame.unused_data + self._packed[self._at :]

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:  # noqa: ARG002 - as the others'
        if data:
            self._packed, self._at = self._packed[self._at :] + data, 0
        part = self._packed[self._at : self._at + FEED_BYTES]
        self._at += len(part)
        try:
            return self._frame.decompress(part)
        except self._error as error:
            raise OSError(str(error)) from error


_Member = lzma.LZMADecompressor | bz2.BZ2Decompressor | _Gzip | _Zstd
"""Unpacks one member of an input. ``needs_input``: nothing more can be unpacked of what it was given."""


class Codec(NamedTuple):
    """A way to compress files."""

    name: str
    """As its tool is called."""
    suffixes: tuple[str, ...]
    magics: tuple[bytes, ...]
    """First bytes, each of which tells it."""
    others: tuple[bytes, ...]
    """First bytes of an input without content, or before the content."""
    make: Callable[[], _Member]
    padding: bytes = b"\0"
    """Bytes that may stand between members."""


_LEVELS = range(1, 10)
FILE_CODECS = (
    Codec("gzip", ("gz",), (b"\x1f\x8b",), (), _Gzip),
    Codec(
        "zstd",
        ("zst", "zstd"),
        (b"\x28\xb5\x2f\xfd",),
        tuple(bytes((first, 0x2A, 0x4D, 0x18)) for first in range(0x50, 0x60)),  # skippable frames, of parallel writers
        _Zstd,
        b"",
    ),
    Codec(
        "xz",
        ("xz",),
        (b"\xfd7zXZ\0",),
        (),
        lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_WINDOW_BYTES),
    ),
    Codec(
        "bzip2",
        ("bz2",),
        tuple(b"BZh%d1AY&SY" % level for level in _LEVELS),
        tuple(b"BZh%d\x17\x72\x45\x38\x50\x90" % level for level in _LEVELS),
        bz2.BZ2Decompressor,
        b"",
    ),
)
"""All that are read."""
