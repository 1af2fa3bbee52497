"""How inputs are read, as the caller of a command says it: ``--format`` and ``--encoding``."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Literal, get_args

from stream_dedup.errors import UserError

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
