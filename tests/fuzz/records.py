"""Records that nobody would produce, drawn from a seed: bytes, JSON, HTML, Unicode, keys and headers."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.cli.fuzzed import Fuzzer
from tests.core.adversarial import PAGES, RECORDS, TEXTS, Family

MOST_SIZE = 3_000
"""Characters of most texts, at most: articles have some KB."""
LARGE_SIZE = 60_000
LARGE_ONE_IN = 2_000
"""One record of so many is large."""
LONG_KEY_BYTES = 600
"""More than an id may have."""
MANY_HEADERS = 400

_FAMILIES = {"text": list(TEXTS.values()), "page": list(PAGES.values()), "record": list(RECORDS.values())}
_NAMES = ("", "trace", "dedup.verdict", "dedup.", "dedup.match.id", "名", "\u202e", "a" * 300)
_PLANES = (
    (0, 0x80),
    (0x80, 0x800),
    (0x300, 0x370),
    (0x2000, 0x2070),
    (0x4E00, 0xA000),
    (0xD800, 0xE000),
    (0x10000, 0x110000),
)


class DrawnRecord(NamedTuple):
    """A record, and the kind of its value."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]
    kind: str


class RecordFuzzer:
    """Draws records from a seed."""

    def __init__(self, seed: int | str) -> None:
        """The same seed draws the same records."""
        self._random = random.Random(f"records {seed}")
        self._lines = Fuzzer(self._random.randrange(1 << 62)).lines(1 << 62)
        self._values: dict[str, Callable[[], bytes | None]] = {
            "line": lambda: next(self._lines),
            "text": lambda: self._in_json(self._from("text")),
            "page": lambda: self._in_json(self._from("page")),
            "bare page": lambda: self._from("page").encode("utf-8", "surrogatepass"),
            "record": lambda: self._from("record").encode("utf-8", "surrogatepass"),
            "unicode": lambda: self._in_json(self._characters()),
            "bytes": lambda: self._random.randbytes(self._random.randrange(200)),
            "cut": lambda: self._cut(self._in_json(self._from("text"))),
            "damaged": lambda: self._damaged(self._in_json(self._from("page"))),
            "tombstone": lambda: None,
        }
        self._kinds = list(self._values)

    def records(self, count: int) -> Iterator[DrawnRecord]:
        """Yield so many records."""
        for _ in range(count):
            kind = self._random.choice(self._kinds)
            yield DrawnRecord(self._key(), self._values[kind](), self._headers(), kind)

    def _from(self, kind: str) -> str:
        family: Family = self._random.choice(_FAMILIES[kind])
        large = self._random.randrange(LARGE_ONE_IN) == 0
        return family(LARGE_SIZE if large else int(MOST_SIZE ** self._random.random()))

    def _in_json(self, text: str) -> bytes:
        members = {"id": self._random.choice(("", "id", 7, 1.5, None, "\ud83d", "i" * LONG_KEY_BYTES)), "text": text}
        ascii_only = self._random.random() < 0.5
        return json.dumps(members, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")

    def _characters(self) -> str:
        plane = self._random.choice(_PLANES)
        return "".join(chr(self._random.randrange(*plane)) for _ in range(self._random.randrange(80)))

    def _cut(self, value: bytes) -> bytes:
        return value[: self._random.randrange(len(value) + 1)]

    def _damaged(self, value: bytes) -> bytes:
        damaged = bytearray(value)
        for _ in range(3):
            damaged[self._random.randrange(len(damaged))] = self._random.randrange(256)
        return bytes(damaged)

    def _key(self) -> bytes | None:
        kind = self._random.randrange(6)
        if kind > 3:
            return None
        return self._random.randbytes((0, 5, 40, LONG_KEY_BYTES)[kind])

    def _headers(self) -> list[tuple[str, bytes]]:
        count = self._random.choice((0, 0, 0, 1, 3, MANY_HEADERS if self._random.random() < 0.01 else 0))
        return [(self._random.choice(_NAMES), self._random.randbytes(self._random.randrange(4))) for _ in range(count)]
