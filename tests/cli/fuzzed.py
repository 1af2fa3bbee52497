"""Lines that nobody would write, and what must come out of `filter` for each of them.

    python -m tests.fuzz [--lines 200000] [--seed 7]

The command runs them through `filter` under four settings and says what is wrong; the suite does the same with few.
What must come out is said here by other means than the product's: the standard library's JSON, and splitting.
"""

from __future__ import annotations

import base64
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

SETTINGS: dict[str, tuple[str, ...]] = {
    "article": (),
    "comment": ("--profile", "comment", "--threads", "2"),
    "simhash": ("--profile", "simhash"),
    "article, with all": ("--scope", "scope", "--recrawl", "update", "--time-field", "n", "--window", "1h"),
}
"""Flags of the four calls; the last reads every field there is."""

_TEXTS = (
    "今天天气很好，我们去公园玩",
    "The quick brown fox jumps over the lazy dog again and again",
    "微 信 号 abc123 http://x.cn/a @user me@x.com",
    "\u202e\x7f\u009b31m",
    "ﷺ" * 5,
    "e\u0301\u0316" * 20,
    "😀" * 4 + "\u200b",
    "<p>one <b>two</b></p>&amp;",
    "0123456789.5,6",
)
_NUMBERS = ("0", "-0", "1e400", "1E-9", "123456789012345678901234567890", "0.1", "1." + "3" * 30, "9" * 5000)
_TIMES = ("1714521600", "1714521600000", '"2024-05-01T00:00:00Z"', '"2024-05-01"', '"yesterday"')
_NO_JSON = ("NaN", "Infinity", "01", "+1", ".5", "'x'", "")
_NAMES = ('"text"', '"text"', '"id"', '"dedup"', '"\\u0064edup"', '"tex\\u0074"', '"scope"', '"n"', '""', '"text "')
_SPACES = (b"", b" ", b"\t ", b"\r", b"\x0b\x0c")


class Fuzzer:
    """Draws lines from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def lines(self, count: int) -> Iterator[bytes]:
        """So many lines, without their line ends."""
        for _ in range(count):
            yield self._line().replace(b"\n", b"")

    def _line(self) -> bytes:
        kind = self._random.randrange(20)
        if kind == 0:
            return self._random.choice(_SPACES) * self._random.randrange(4)
        if kind == 1:
            return self._random.randbytes(self._random.randrange(60))
        line = self._object().encode("utf-8", "surrogatepass")
        if kind == 2:
            return line[: self._random.randrange(len(line) + 1)]
        if kind == 3:
            return self._damaged(line)
        before, after = {4: (b"\xef\xbb\xbf", b""), 5: (b"", b"\r"), 6: (b" \t", b"\x0b"), 7: (line, b"")}.get(
            kind, (b"", b"")
        )
        return before + line + after

    def _damaged(self, line: bytes) -> bytes:
        damaged = bytearray(line)
        for _ in range(3):
            damaged[self._random.randrange(len(line))] = self._random.randrange(256)
        return bytes(damaged)

    def _object(self) -> str:
        members = [(self._random.choice(_NAMES), self._value()) for _ in range(self._random.randrange(6))]
        if self._random.random() < 0.75:
            members += [('"n"', self._random.choice(_TIMES)), ('"text"', self._text())]
        separator, colon = self._random.choice((", ", ",", " ,\t")), self._random.choice((":", " : "))
        return "{" + separator.join(name + colon + value for name, value in members) + "}"

    def _value(self) -> str:
        kind = self._random.randrange(12)
        if kind > 7:
            return self._text()
        depth = self._random.choice((1, 3, 50, 400))
        values = (
            lambda: self._random.choice(_NUMBERS),
            lambda: self._random.choice(_NO_JSON if self._random.random() < 0.1 else _TIMES),
            lambda: "[" * depth + "]" * depth,
            lambda: '{"a":' * depth + "1" + "}" * depth,
            lambda: '{"dedup":{"x":[1,2,{"dedup":"},{"}]}}',
            lambda: self._random.choice(('"\\ud83d"', '"\\u0000\\u001b[31m"', '"\\ud83d\\ude00"')),
            lambda: self._random.choice(("true", "false", "null", "[]", "{}")),
            lambda: '"' + "x" * self._random.choice((1, 511, 512, 513, 3000)) + '"',
        )
        return values[kind]()

    def _text(self) -> str:
        text = list(self._random.choice(_TEXTS) * self._random.randrange(6))
        ranges = ((0, 0x20), (0x20, 0x3000), (0xD800, 0xE000), (0x10000, 0x110000))
        for _ in range(self._random.randrange(4)):
            text.insert(
                self._random.randrange(len(text) + 1), chr(self._random.randrange(*self._random.choice(ranges)))
            )
        return json.dumps("".join(text), ensure_ascii=self._random.random() < 0.7)


def faults(lines: Sequence[bytes], out: bytes) -> Iterator[str]:
    """What is wrong with the output for these lines: nothing, where there is one right line for each not blank."""
    expected = [line for line in map(_content, lines) if line.strip()]
    told = out.split(b"\n")
    if told.pop() != b"":
        yield "the last line has no end"
    if len(told) != len(expected):
        yield f"{len(told)} lines for {len(expected)}"
    for number, (line, answer) in enumerate(zip(expected, told, strict=False), 1):
        if not _is_right(line, answer):
            yield f"line {number} that is not blank: {line[:200]!r} gave {answer[:300]!r}"


def _content(line: bytes) -> bytes:
    """A line without white space around it, and without byte order marks before it."""
    line = line.strip(b" \t\r")
    return _content(line[3:]) if line.startswith(b"\xef\xbb\xbf") else line


def _is_right(line: bytes, answer: bytes) -> bool:
    """Whether an output line is the record with its verdict, or says of the line why it is none."""
    cut = answer.rfind(b',"dedup":{"verdict":"')
    if cut < 0:
        return _says_line(line, answer)
    said = json.loads(b"{" + answer[cut + 1 :])["dedup"]
    return _is_verdict(said) and _same_record(line, answer[:cut] + b"}")


def _same_record(line: bytes, kept: bytes) -> bool:
    """The record as it came; only where it had a ``dedup`` of its own, as values, without that."""
    try:
        before, after = _pairs(line), _pairs(kept)
    except ValueError:
        return False
    others = [pair for pair in before if pair[0] != "dedup"]
    return kept == line if others == before else after == others


def _pairs(line: bytes) -> list[tuple[str, Any]]:
    """Members of an object, numbers as they are written; inner objects as lists of their members."""
    made: list[tuple[str, Any]] = json.loads(
        line.decode("utf-8-sig"), object_pairs_hook=list, parse_float=str, parse_int=str
    )
    return made


def _says_line(line: bytes, answer: bytes) -> bool:
    said = json.loads(answer)
    inner = said.pop("dedup")
    kept = inner["line"].encode() if "line" in inner else base64.b64decode(inner["line_base64"])
    return not said and bool(inner["reason"]) and inner["verdict"] == "rejected" and kept == line


def _is_verdict(said: dict[str, Any]) -> bool:
    names = {
        "unique": (
            {"verdict", "fingerprint"},
            {"verdict", "fingerprint", "copies"},
            {"verdict", "fingerprint", "match", "copies"},
        ),
        "duplicate": ({"verdict", "fingerprint", "match", "copies"},),
        "rejected": ({"verdict", "reason"},),
    }
    return set(said) in names[said["verdict"]]


def are_judged_alike(lines: Sequence[bytes], filtered: Callable[[bytes], bytes]) -> bool:
    """Whether ordinary records among these lines have the answers that they have without them.

    They have words of their own, so that none of the lines is the match of one.
    """
    texts = (
        f"渡口 {number % 37} 号 ferry number {number % 37 * 7919} to the island" for number in range(len(lines) // 50)
    )
    ordinary = [json.dumps({"id": f"r{number}", "n": 0, "text": text}).encode() for number, text in enumerate(texts)]
    mixed = [each for at, record in enumerate(ordinary) for each in (*lines[at * 50 : at * 50 + 50], record)]
    among = [answer for answer in filtered(b"\n".join(mixed)).split(b"\n") if answer.startswith(b'{"id": "r')]
    return among == filtered(b"\n".join(ordinary)).split(b"\n")[:-1]


def filtered_by(flags: Sequence[str]) -> Callable[[bytes], bytes]:
    """`filter` with these flags, as a process of its own."""

    def call(content: bytes) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path, out = Path(folder) / "in.jsonl", Path(folder) / "out.jsonl"
            path.write_bytes(content)
            with out.open("wb") as file:
                command = [sys.executable, "-m", "stream_dedup", "filter", *flags, str(path)]
                code = subprocess.run(command, stdout=file, check=False).returncode
            if code not in {0, 3}:
                raise AssertionError(f"filter {' '.join(flags)} ended with {code}")
            return out.read_bytes()

    return call


def _report(lines: Sequence[bytes], name: str) -> list[str]:
    """Run one setting, print what came out, and return the faults."""
    begun, filtered = time.monotonic(), filtered_by(SETTINGS[name])
    out = filtered(b"\n".join(lines))
    found = list(faults(lines, out))
    if not are_judged_alike(lines, filtered):
        found.append("ordinary records are judged otherwise among these lines")
    verdicts = Counter(verdict.decode() for verdict in re.findall(rb'"dedup":{"verdict":"(\w+)"[^\n]*\n', out))
    took = time.monotonic() - begun
    sys.stdout.write(f"{name}: {dict(verdicts)}, {len(found)} faults, {took:.0f} s\n")
    return [f"{name}: {fault}" for fault in found]


def fuzz_lines(count: int, seed: int) -> list[str]:
    """Take lines through `filter` in every setting; print what came out, and return the faults."""
    lines = list(Fuzzer(seed).lines(count))
    blank = sum(not line.strip() for line in lines)
    sys.stdout.write(f"{len(lines):,} lines, {blank:,} of them blank, {sum(map(len, lines)):,} bytes, seed {seed}\n")
    return [fault for name in SETTINGS for fault in _report(lines, name)]
