"""Compressed inputs: gzip, zstd, xz and bzip2, recognised by their first bytes.

Rules:

* The name of a file decides nothing. JSON and text never begin with the first bytes of a compressed input.
* Several members (streams, frames) one after the other are one input, as the tools that concatenate them mean it.
* A step yields at most ``STEP_BYTES`` of xz and bzip2. Of gzip and zstd it yields what ``FEED_BYTES`` unpack to: 1 MiB
  of gzip, 32 MiB of zstd, of which a block has at least 4 bytes and unpacks to at most 128 KiB. So an input that
  unpacks to terabytes is read in the memory of any other.
* Input that ends in the middle, or is damaged, is an error. Nothing after the last undamaged block is passed on.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

from stream_dedup.errors import UserError

STEP_BYTES = 1 << 20
"""Most bytes of one step of xz and bzip2."""
FEED_BYTES = 1 << 10
"""Compressed bytes that are unpacked at a time."""
MAX_WINDOW_BYTES = 1 << 31
"""The window of ``zstd --long=31``, which public archives of articles are written with; it is memory while reading.
The dictionary of xz, at most 1.5 GiB by its own tools, has the same limit."""
_GZIP_HEADER = 16 + zlib.MAX_WBITS
"""Makes zlib expect the header and the checksum of gzip."""


def beginning(chunks: Iterator[bytes | None], is_open: Callable[[bytes], bool]) -> Generator[None, None, bytes]:
    """Take chunks as long as what they begin with leaves something open, and return it; pass ``None`` on."""
    head = b""
    for chunk in chunks:
        if chunk is None:
            yield None
            continue
        head += chunk
        if not is_open(head):
            break
    return head


def unpacked(chunks: Iterator[bytes | None], name: str) -> Iterator[bytes | None]:
    """Yield the content of an input that may be compressed; ``None``, an input without data at present, is passed on.

    Raises:
        UserError: the input is damaged, or ends too early.
    """
    head = yield from beginning(
        chunks, lambda head: any(magic.startswith(head) for codec in FILE_CODECS for magic in codec.magics)
    )
    found = next((codec for codec in FILE_CODECS if head.startswith(codec.magics)), None)
    whole = chain([head], chunks)
    yield from whole if found is None else _unpack(found, whole, name)


def _unpack(codec: Codec, chunks: Iterable[bytes | None], name: str) -> Iterator[bytes | None]:
    member: Any = codec.make()
    for chunk in chunks:
        if chunk is None:
            yield None
            continue
        for at in range(0, len(chunk), FEED_BYTES):
            packed = chunk[at : at + FEED_BYTES]
            while packed := packed if member else packed.lstrip(codec.padding):
                member = member or codec.make()
                try:
                    yield from _steps(member, packed)
                except MemoryError:
                    raise
                except Exception as error:
                    # What the library says, without its own name and number of the error:
                    # tests/cli/test_library_errors.py has the names that no message may have.
                    reason = str(error).rpartition(": ")[2]
                    raise UserError(
                        f"input {name}: its {codec.name} data are damaged ({reason}); get the file again, or repair it"
                    ) from error
                packed, member = (member.unused_data, None) if member.eof else (b"", member)
    if member is not None:
        raise UserError(f"input {name}: its {codec.name} data end too early; the file is not complete, get it again")


def _steps(member: Any, packed: bytes) -> Iterator[bytes]:  # noqa: ANN401 - a decompressor of one of four libraries
    if not isinstance(member, lzma.LZMADecompressor | bz2.BZ2Decompressor):
        yield member.decompress(packed)
        return
    yield member.decompress(packed, STEP_BYTES)
    while not (member.needs_input or member.eof):
        yield member.decompress(b"", STEP_BYTES)


def _zstd() -> object:
    from zstandard import ZstdDecompressor  # noqa: PLC0415 - loaded for such an input only

    return ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES).decompressobj()


class Codec(NamedTuple):
    """A way to compress files."""

    name: str
    """As its tool is called."""
    suffixes: tuple[str, ...]
    magics: tuple[bytes, ...]
    """First bytes, each of which tells it, also of an input without content."""
    make: Callable[[], object]
    """Returns what unpacks one member."""
    padding: bytes = b"\0"
    """Bytes that may stand between members."""


FILE_CODECS = (
    Codec("gzip", ("gz",), (b"\x1f\x8b",), lambda: zlib.decompressobj(_GZIP_HEADER)),
    Codec(
        "zstd",
        ("zst", "zstd"),
        # Also skippable frames, of parallel writers.
        (b"\x28\xb5\x2f\xfd", *(bytes((first, 0x2A, 0x4D, 0x18)) for first in range(0x50, 0x60))),
        _zstd,
        b"",
    ),
    Codec(
        "xz",
        ("xz",),
        (b"\xfd7zXZ\0",),
        lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_WINDOW_BYTES),
    ),
    Codec(
        "bzip2",
        ("bz2",),
        tuple(
            b"BZh%d%b" % (level, begin) for level in range(1, 10) for begin in (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90")
        ),
        bz2.BZ2Decompressor,
        b"",
    ),
)
"""All that are read."""
