"""The scheme of a log, as its rules records have it: the name of everything that an entry depends on.

Commands, errors and log lines describe a scheme, and the values of rules, in the words of this file only.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

import xxhash

from stream_dedup.core.model import (
    BLOCK_WIDTHS,
    FORM_BYTES,
    SKETCH_SIZES,
    SKETCH_WORD_VALUES,
    TABLE_COUNTS,
    BlockBits,
    TableCount,
    Widths,
)

DELETES = "deletes"
"""The parameter of a scheme whose entries may be deletes."""
NONE = "none"
"""A rule without a value: it belongs to the other kind of search."""
SHOWN_PARAMETERS = 6
"""Most parameters of a scheme that one line of an error names."""
SHOWN_VALUE_CHARACTERS = 48
"""A longer value of a parameter is cut there, so that a line of an error stays one."""
_NO_SKETCH = ["", 0]


@dataclass(frozen=True, slots=True)
class Scheme:
    """Everything that a log entry depends on, as names and versions."""

    name: str
    version: int
    parameters: str
    """Canonical JSON (sorted keys, no spaces) of the parameters that make the entry."""

    @property
    def tables(self) -> TableCount:
        """Number of block tables."""
        return self.widths.tables

    @property
    def block_bits(self) -> BlockBits:
        """Bits of a block, and so of the keys of a table."""
        bits: BlockBits = _read(self.parameters)["block_bits"]
        return bits

    @property
    def sketch_bytes(self) -> int:
        """Bytes of an entry's sketch: the second item of the parameter; 0 of a scheme without it."""
        return self.widths.sketch_bytes

    @property
    def form_bytes(self) -> int:
        """Bytes of the form at the end of a sketch: ``FORM_BYTES``, or 0 of a scheme without forms."""
        return FORM_BYTES if "form" in _read(self.parameters) else 0

    @property
    def deletes(self) -> bool:
        """Whether its entries may be deletes, so that an index knows its entries by their ids."""
        return DELETES in _read(self.parameters)

    @property
    def sketch_values(self) -> int:
        """Values of an entry's sketch."""
        return (self.sketch_bytes - self.form_bytes) * SKETCH_WORD_VALUES // 8

    @property
    def widths(self) -> Widths:
        """Widths of the columns of its entries."""
        given = _read(self.parameters)
        return Widths(given["tables"], given.get("sketch", _NO_SKETCH)[1])

    def flat(self) -> dict[str, object]:
        """Return the parameters under dotted names (``fields.title``), in their order."""
        return dict(_flattened("", _read(self.parameters)))

    @property
    def id(self) -> str:
        """Short name: ``name/version-hash of everything``, as in the header ``dedup.scheme``."""
        whole = f"{self.name}/{self.version}/{self.parameters}"
        return f"{self.name}/{self.version}-{xxhash.xxh3_64_hexdigest(whole.encode())[:8]}"

    def problems(self) -> list[str]:
        """Return why this is no scheme; nothing if it is one."""
        if not _text(self.name):
            return [f"scheme.name {self.name!r}: must be a name"]
        if not is_whole(self.version):
            return [f"scheme.version {self.version!r}: must be a whole number"]
        try:
            parameters = json.loads(self.parameters)
        except (ValueError, TypeError):
            parameters = None
        if not isinstance(parameters, dict):
            return [f"scheme.parameters {self.parameters!r}: must be a JSON object, as text"]
        tables, block_bits = parameters.get("tables"), parameters.get("block_bits")
        if not _is_one_of(tables, TABLE_COUNTS):
            return [f"scheme.parameters: tables {tables!r}: must be one of {', '.join(map(str, TABLE_COUNTS))}"]
        if not _is_one_of(block_bits, BLOCK_WIDTHS):
            return [f"scheme.parameters: block_bits {block_bits!r}: must be one of {', '.join(map(str, BLOCK_WIDTHS))}"]
        return _sketch_problems(parameters.get("sketch", _NO_SKETCH), "form" in parameters)


def is_whole(value: object) -> bool:
    """Whether a value is a whole number: to Python True is one, too."""
    return isinstance(value, int) and not isinstance(value, bool)


def scheme_mismatch(held: Scheme, configured: Scheme, holder: str, remedy: str) -> str:
    """Return the three lines of an error: the scheme that ``holder`` has, the configuration's, and the way out.

    Of two schemes with one name, only the parameters that differ are named.
    """
    theirs, ours = ({}, {}) if held.name != configured.name else (held.flat(), configured.flat())
    names = [name for name in theirs | ours if theirs.get(name, ...) != ours.get(name, ...)]
    return (
        f"{holder} has scheme {held.id}{_parameters(theirs, names)}\n"
        f"the configuration gives scheme {configured.id}{_parameters(ours, names)}\n"
        f"entries of two schemes cannot be compared; {remedy}"
    )


def value_text(value: object) -> str:
    """Return the value of a rule or of a parameter of a scheme."""
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@cache
def _read(parameters: str) -> dict[str, Any]:
    given: dict[str, Any] = json.loads(parameters)
    return given


def _flattened(name: str, value: object) -> list[tuple[str, object]]:
    if not isinstance(value, dict) or (name and not value):
        return [(name, value)]
    inner = ((f"{name}.{key}" if name else str(key), below) for key, below in value.items())
    return [pair for path, below in inner for pair in _flattened(path, below)]


def _text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_one_of(value: object, allowed: tuple[int, ...]) -> bool:
    return is_whole(value) and value in allowed


def _sketch_problems(sketch: object, has_form: bool) -> list[str]:  # noqa: FBT001 - read from the parameters
    if not isinstance(sketch, list) or len(sketch) < len(_NO_SKETCH) or not _is_one_of(sketch[1], SKETCH_SIZES):
        sizes = ", ".join(map(str, SKETCH_SIZES))
        return [f"scheme.parameters: sketch {sketch!r}: must be a list whose second item is its bytes, one of {sizes}"]
    if has_form and sketch[1] <= FORM_BYTES:
        return [f"scheme.parameters: sketch {sketch!r}: must have more than the {FORM_BYTES} bytes of a form"]
    return []


def _parameters(values: dict[str, object], names: list[str]) -> str:
    if not names:
        return ""
    shown = [f"{name} {_short(value_text(values[name])) if name in values else 'absent'}" for name in names]
    more = [f"{len(names) - SHOWN_PARAMETERS} more"] * (len(names) > SHOWN_PARAMETERS)
    return f" ({', '.join(shown[:SHOWN_PARAMETERS] + more)})"


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_VALUE_CHARACTERS else f"{text[:SHOWN_VALUE_CHARACTERS]}…"
