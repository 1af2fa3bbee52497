"""JSON values that a parser may read wrongly, drawn from a seed: at the borders of the grammar, whole and broken."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator

from stream_dedup.core import decode
from stream_dedup.core.decode import InputFormat, RawRecord
from tests.reference import decode as reference

FORMATS = (
    InputFormat(),
    InputFormat(scope_field="site"),
    InputFormat(fields=("title", "text"), scope_field="site"),
    InputFormat(id_field="中", text_field="te\nxt", scope_field="\ud83d", max_bytes=300),
    InputFormat(id_field="text", scope_field="site"),
    InputFormat(scope_field="text"),
    InputFormat(kind="text"),
    InputFormat(kind="text", deletes=True),
    InputFormat(key_field="x.id", deletes=True, delete_field="text", delete_value="d", delete_id_field="x[0]"),
    InputFormat(scope_field="site", key_field="id", deletes=True, delete_field="x.id", delete_value="true"),
    InputFormat(id_field="x.id", text_field="x[].text", scope_field="x[1].id"),
    InputFormat(id_field="x[0]", fields=("text", "x.text", "x[]", "x[][].title", "title[0].x"), scope_field="id.x.id"),
    InputFormat(id_field="a\\.b", text_field="x.x.a\\.b", scope_field="\\[0\\]"),
)
NAMES = ("id", "text", "title", "site", "中", "te\nxt", "\ud83d", "", "x", "iD", "a.b", "[0]", "x", "x")
NESTING = 512
"""Most levels of a value that is read."""
_SIGNS = '{}[]:,"\\ \n\t\r-+.eE0123456789tfnulraseNIy/\x00\x1f\x7f\x0b\ufeff\u2028é中😀'
_BROKEN_BYTES = (b"\xff", b"\xc0\xaf", b"\xed\xa0\xbd", b"\xf4\x90\x80\x80", b"\xe4\xb8")
_SIGN_BYTES = [*(sign.encode() for sign in _SIGNS), *_BROKEN_BYTES]
_PLAIN = (
    "a",
    "d",
    "中文",
    "é",
    "😀",
    " ",
    "\u3000",
    "\u200b",
    "\x7f",
    "\u2028",
    "\ufeff",
    "/",
    "'",
    "word " * 9,
    "一" * 40,
)
_RAW_CONTROLS = ("\n", "\t", "\x00", "\x1f")


def _pieces(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_ESCAPES = _pieces(
    r"\n \/ \b \f \r \t \" \\ \u0000 \u001f \u4e2d \uD83D \ude00 \uDFFF \ud83d\ude00 \uDBFF\uDFFF \ud800\udc00 "
    r"\ud800\ud800\udc00 \ud83d\u0041 \udbff\ue000 \ud800\uffff"
)
_BAD_ESCAPES = (*_pieces(r"\ \x41 \u12 \u+123 \uｄ83d \ud83d\u12 \ud83d\ud \U0041 \'"), r"\u 123", "\\\n")
_NUMBERS = (
    *_pieces("0 -0 7 -7 1.50 -0.0 1E3 1e-7 0e0 1e400 -1e400 1e-400 5e-324 2.5E+3 9007199254740993"),
    *_pieces("18446744073709551615 18446744073709551616 -9223372036854775808 -9223372036854775809"),
    *("9" * 19, "-" + "9" * 19, "9" * 20, "1" + "0" * 19, "9" * 40, "9" * 309, "9" * 511, "9" * 512, "9" * 513),
    *_pieces("4711.0 4.711e3 47110E-1 0e99999999999999999999 1e39 1e40 123456789012345678901234567890123456789.0"),
    *("12" * 20 + ".00", "12" * 20 + "0e-1", "1." + "2" * 39 + "e39", "-" + "9" * 40 + ".0", "9" * 41 + ".0"),
    *("9" * 5000, "1." + "0" * 38, "0." + "3" * 800, "1" * 400 + "e-399"),
)
_BAD_NUMBERS = _pieces("01 +1 .5 1. 1.e3 1e 1e+ --1 - 0x1 1_0 nan -NaN Inf +Infinity １")
_NO_NUMBERS = _pieces("NaN Infinity -Infinity")
_BAD_VALUES = (*_pieces("nul True none undefined 'a' /**/1 truefalse nullx"), "")
_WHITE = ("", "", "", " ", "\n", "\t\r\n ", "  ")
_BAD_WHITE = ("\x0b", "\x0c", "\xa0", "\ufeff", "\u2028", "\x00")


class ValueFuzzer:
    """Draws values of records from a seed."""

    def __init__(self, seed: int | str) -> None:
        """The same seed draws the same values."""
        self._random = random.Random(f"values {seed}")
        self._ways: tuple[Callable[[], bytes], ...] = (
            *(self._written, self._written, self._written, self._written, self._cut, self._damaged, self._signs),
            *(self._deep, self._dumped, self._inserted, self._bytes),
        )

    def records(self, count: int) -> Iterator[tuple[RawRecord, InputFormat]]:
        """Yield so many records, each with the format that it is read by."""
        for number in range(count):
            value = None if self._one_in(500) else self._value()
            yield RawRecord(self._key(), value, f"t-0-{number}"), self._random.choice(FORMATS)

    def _value(self) -> bytes:
        mark = b"\xef\xbb\xbf" if self._one_in(30) else b""
        return mark + self._random.choice(self._ways)()

    def _key(self) -> bytes | None:
        size = self._random.choice((0, 0, 3, 128, 170, 171, 512, 513, 600))
        kinds = (
            self._random.randbytes(size),
            b"k" * size,
            "键".encode() * (size // 3),
            None,
            b"\xe4\xb8k\xed\xa0\xbd",
            self._value(),
            self._pick(_NUMBERS, _BAD_NUMBERS, 3).encode(),
            self._text().encode("utf-8", "surrogatepass"),
        )
        return self._random.choice(kinds)

    def _one_in(self, count: int) -> bool:
        return self._random.randrange(count) == 0

    def _pick(self, good: tuple[str, ...], bad: tuple[str, ...], one_in: int) -> str:
        return self._random.choice(bad if self._one_in(one_in) else good)

    def _space(self) -> str:
        return self._pick(_WHITE, _BAD_WHITE, 400)

    def _text(self) -> str:
        """Draw a string as written, with its quotes."""
        size = self._random.choice((0, 1, 1, 2, 3, 8, 40))
        parts = [
            self._pick(_ESCAPES, _BAD_ESCAPES, 300) if self._one_in(3) else self._pick(_PLAIN, _RAW_CONTROLS, 1000)
            for _ in range(size)
        ]
        if self._one_in(20):
            parts = [self._random.choice((" ", "\\n", "\\u3000", "\u2003", "\\u001c", "\x85")) for _ in range(size)]
        if self._one_in(20):
            parts = [self._pick(_NUMBERS, _BAD_NUMBERS, 3)]
        return f'"{"".join(parts)}"'

    def _sized(self) -> str:
        """Draw a text about as long as an id may be."""
        one, each = self._random.choice((("a", 1), ("中", 3), ("\\ud83d", 6), ("😀", 4), ("\\u00e9", 2), ("\\n", 1)))
        return f'"{one * (512 // each + self._random.randrange(-1, 3))}"'

    def _name(self) -> str:
        name = self._written_name(self._random.choice(NAMES))
        return name if not self._one_in(400) else self._random.choice(("id", "", "'id'", "1"))

    def _written_name(self, name: str) -> str:
        """Write a name with its quotes; half a surrogate pair only rarely as no UTF-8 has it."""
        if self._one_in(4):
            return (
                '"'
                + "".join(f"\\u{ord(sign):04x}" if self._one_in(2) else json.dumps(sign)[1:-1] for sign in name)
                + '"'
            )
        return json.dumps(name, ensure_ascii=self._one_in(2) or (name == "\ud83d" and not self._one_in(100)))

    def _any(self, levels: int = 3) -> str:
        kinds: tuple[Callable[[], str], ...] = (
            *(self._text, self._text, self._text, self._text, self._sized, self._number, self._number, self._literal),
            *(lambda: self._container(levels),) * 4,
        )
        return self._random.choice(kinds)()

    def _number(self) -> str:
        return self._pick(_NUMBERS, _BAD_NUMBERS, 60)

    def _literal(self) -> str:
        return self._pick(("true", "false", "null", "null", *_NO_NUMBERS), _BAD_VALUES, 100)

    def _container(self, levels: int) -> str:
        if levels == 0:
            return self._pick(("{}", "[]", "[ ]", "{ }"), ("[,]", "{,}", "[1,]", "{", "[1 2]", "]"), 20)
        parts = [self._any(levels - 1) for _ in range(self._random.randrange(4))]
        return f"[{self._joined(parts)}]" if self._one_in(2) else self._object(parts)

    def _object(self, values: list[str]) -> str:
        return "{" + self._joined([f"{self._name()}{self._space()}:{self._space()}{one}" for one in values]) + "}"

    def _joined(self, parts: list[str]) -> str:
        comma = self._pick((",",), (",,", ";", " ", ", ,"), 400)
        end = "," if parts and self._one_in(400) else ""
        return self._space() + comma.join(f"{self._space()}{one}{self._space()}" for one in parts) + end

    def _article(self) -> str:
        """Draw an object that has most of the fields, some of them twice, of any kind."""
        names = ["id", "text", *self._random.choices(NAMES, k=self._random.randrange(4))]
        names = [name for name in self._random.sample(names, len(names)) if not self._one_in(8)]
        values = [self._any(2) if self._one_in(3) else self._text() for _ in names]
        written = [f"{self._written_name(name)}{self._space()}:" for name in names]
        return "{" + self._joined([name + one for name, one in zip(written, values, strict=True)]) + "}"

    def _written(self) -> bytes:
        text = self._article() if not self._one_in(5) else self._any()
        text = self._space() + text + self._space() + ("" if not self._one_in(100) else self._any(0))
        return text.encode("utf-8", "surrogatepass")

    def _dumped(self) -> bytes:
        values = [
            "a",
            "\ud83d",
            "中文😀",
            1,
            1.5,
            10**30,
            None,
            True,
            [],
            {},
            {"a": ["b", {"c": 1}]},
            float("nan"),
            -0.0,
        ]
        members = {name: self._random.choice(values) for name in self._random.choices(NAMES, k=4)}
        return json.dumps(members, ensure_ascii=self._one_in(2)).encode("utf-8", "surrogatepass")

    def _cut(self) -> bytes:
        value = self._written()
        return value[: self._random.randrange(len(value) + 1)]

    def _damaged(self) -> bytes:
        damaged = bytearray(self._written() or b" ")
        for _ in range(self._random.randrange(1, 4)):
            damaged[self._random.randrange(len(damaged))] = self._random.randrange(256)
        return bytes(damaged)

    def _inserted(self) -> bytes:
        value = self._written()
        at = self._random.randrange(len(value) + 1)
        return value[:at] + self._random.choice(_SIGN_BYTES) + value[at:]

    def _signs(self) -> bytes:
        return b"".join(self._random.choices(_SIGN_BYTES, k=self._random.randrange(12)))

    def _bytes(self) -> bytes:
        return self._random.randbytes(self._random.randrange(20))

    def _deep(self) -> bytes:
        """Draw a value about as deep as one may be, with brackets in strings and side by side, and maybe an end."""
        levels = NESTING + self._random.randrange(-3, 3)
        opening, closing = self._random.choice(
            (("[", "]"), ('{"a":', "}"), ('[{"id":', "}]"), ('["[{",', "]"), ("[[],", "]"))
        )
        count = levels // (opening.count("[") + opening.count("{") if opening[-1] != "," else 1) - 1
        inner = opening * count + self._random.choice(("1", "[]", '"]]"', "")) + closing * (count - self._one_in(10))
        head = self._random.choice(
            ('"text": "a"', '"text": "\\ud83d"', '"id": 1.50', '"te\\"xt": "[[{"', '"text": "\xff"')
        )
        value = f'{{{head}, "x": {inner}}}'.encode("latin-1")
        value += self._random.choice((b"", b"", b"]", b'"', b"[" * 9))
        return value if not self._one_in(4) else self._random.choice((b"]", b"}}}", b'"[["')) + value


def fuzz_values(count: int, seed: int | str) -> list[str]:
    """Decode drawn values by the product and by the definition; return the differences."""
    faults = []
    for record, fmt in ValueFuzzer(seed).records(count):
        ours, expected = decode.decode(record, fmt), reference.decode(record, fmt)
        if repr(ours) != repr(expected):
            faults.append(f"{record}, {fmt}: {ours}, not {expected}")
        if record.value is not None:
            # As text: floats that are not equal may look alike, and -0 may not.
            made, expected_object = decode.parse_object(record.value), reference.python_object(record.value)
            if repr(made) != repr(expected_object):
                faults.append(f"{record}, {fmt}: {made}, not {expected_object}")
    return faults
