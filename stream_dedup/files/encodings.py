"""Inputs in another encoding than UTF-8: their characters, in UTF-8.

What cannot be decoded is ``UNDECODED`` there, which UTF-8 has no bytes for otherwise, so that its line is rejected and
the others are read.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator

from stream_dedup.core.reasons import NOT_ENCODED
from stream_dedup.errors import UserError
from stream_dedup.files.lines import LineBlock, UnreadLine

UNDECODED = "\udcff".encode("utf-8", "surrogatepass")
"""Stands for what cannot be decoded: a lone surrogate."""
_UNKNOWN = "\N{REPLACEMENT CHARACTER}".encode()
_ERRORS = "stream_dedup.undecoded"
codecs.register_error(_ERRORS, lambda error: ("\udcff", getattr(error, "end", 0)))


def transcoded(chunks: Iterable[bytes | None], encoding: str) -> Iterator[bytes | None]:
    """Yield the content in UTF-8; pass ``None`` on.

    Raises:
        UserError: UTF-16 or UTF-32 without a byte order mark.
    """
    decoder = codecs.getincrementaldecoder(encoding)(_ERRORS)
    for chunk in chunks:
        try:
            yield None if chunk is None else decoder.decode(chunk).encode("utf-8", "surrogatepass")
        except UnicodeError as error:  # of a byte that cannot be decoded there is none
            msg = f"--encoding {encoding}: the input has no byte order mark; name its byte order, such as {encoding}-le"
            raise UserError(msg) from error
    yield decoder.decode(b"", final=True).encode("utf-8", "surrogatepass")


def rejecting_undecoded(blocks: Iterable[LineBlock | None], encoding: str) -> Iterator[LineBlock | None]:
    """Reject each record in which something could not be decoded; pass the others and ``None`` on."""
    for block in blocks:
        if block is not None and UNDECODED in b"\n".join(block.lines):
            for row, head in enumerate(block.lines):
                if UNDECODED in head:
                    length = block.unread[row].length if row in block.unread else len(head)
                    block.unread[row] = _rejected(head, length, encoding)
                    block.lines[row] = block.unread[row].head
        yield block


def _rejected(head: bytes, length: int, encoding: str) -> UnreadLine:
    at = len(head[: head.index(UNDECODED)].decode("utf-8", "surrogatepass"))
    return UnreadLine(head.replace(UNDECODED, _UNKNOWN), length, NOT_ENCODED.format(encoding=encoding, at=at))
