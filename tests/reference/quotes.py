"""Drops what others wrote: quoted lines and passages, and the mails and posts that a text answers or passes on.

* Lines that begin with ``>``. A block of such lines is no quote without a letter, or if all of them begin with ``>>>``,
  as sessions of Python do; nor is a line with punctuation right behind the sign. Block quotations between their tags,
  which go in any case. Both are quotes if the line before them says who wrote them, or if fewer than ``LEAST`` letters
  stand before or behind them.
* Passages between ``[quote]`` and ``[/quote]``.
* Posts behind the heading of a forum, up to the next empty line.
* Tails, up to the end of the text: ``//@name:`` and all behind it; a block of headers of mail, with the line of dashes
  before it; a line with an address, a time of day and a colon at its end.

Where fewer than ``LEAST`` letters of its own remain, a text is taken whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import dropwhile, groupby
from pathlib import Path
from typing import NamedTuple

from tests.reference.unicode14 import unassigned

LEAST, DENSE = 24, 3
"""Least letters that a text has of its own, and how many an ideograph, a kana or a syllable of Hangul counts."""
_NAMES = re.compile(r"(?:@|://)[^:：\0\s]*")
"""Names of users and addresses, from the sign that begins them on."""
HEADING, FORUM, NAME, SOURCE, ATTRIBUTES = 200, 60, 30, 100, 500
FROM, HEADERS_OF_BLOCK = 1, 3
QUOTE_WORDS = Path(__file__).parents[2] / "native" / "src" / "text" / "quote_words.txt"
_LINES = [line for line in QUOTE_WORDS.read_text("utf-8").splitlines() if not line.startswith("#")]
*HEADERS, FORUMS, WROTE = (line.partition(": ")[2].split(", ") for line in _LINES)
_WHITE = " \t\r\xa0\u3000"
_MARKS = re.compile(rf">(?:[{_WHITE}]*>)*")
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")
_LETTER = re.compile(r"[A-Za-z\u0080-\U0010ffff]")
_TIME = re.compile(r"[0-9]:[0-9][0-9]")
_ADDRESS = re.compile(r"(?<=[A-Za-z0-9])@(?=[A-Za-z0-9])")
_ANY_HEADER = "|".join(f"({'|'.join(names)})" for names in HEADERS)
_HEADER = re.compile(rf"\*{{0,2}}(?:{_ANY_HEADER})\*{{0,2}} ?[:：]", re.IGNORECASE | re.ASCII)
_PASSED_ON = re.compile(r"(?:(?<!:)//|\|\||(?<![A-Za-z0-9])RT )@")
_BRACKET = re.compile(rf"\[(/?)quote(?=[\]= ])[^\]]{{0,{SOURCE}}}\]", re.IGNORECASE | re.ASCII)
_TAG = re.compile(rf"<(/?)b[^<>]{{0,{ATTRIBUTES}}}>", re.IGNORECASE)
_NAME = re.compile(r"</?blockquote\b", re.IGNORECASE)
_POST = re.compile(rf"\*{{0,2}}(?:引用|原帖由|인용|(?:{'|'.join(FORUMS)})[ :：])", re.IGNORECASE | re.ASCII)
_COLONS = (":", "：")

Span = tuple[int, int]


def drop_quotes(text: str) -> str:
    """Drop what others wrote, unless next to nothing remains; the tags of block quotations in any case."""
    tags = [tag for tag in _TAG.finditer(text) if _NAME.match(tag[0])]
    quotes, loose = [*_passages(_BRACKET.finditer(text))], [*_passages(iter(tags))]
    of_lines, loose_lines, tail = _of_lines(text, _around(_merged(quotes + loose)))
    quotes, loose = quotes + of_lines, loose + loose_lines
    tails = [tail, _passed_on(text, _around(quotes + loose))]
    quotes += [(start, len(text)) for start in tails if start is not None]
    quotes += _at_ends(text, _merged(quotes + loose))
    own = _without(text, quotes, "\0")
    if quotes and own_letters(own) < LEAST:
        quotes = []
    return _without(text, [*quotes, *(tag.span() for tag in tags)], "\n")


def _at_ends(text: str, spans: list[Span]) -> list[Span]:
    """Return the spans before or behind which there are fewer than ``LEAST`` letters outside of them."""
    gaps = zip([0, *(end for _, end in spans)], [*(start for start, _ in spans), len(text)], strict=True)
    sizes = [own_letters(text[start:end]) for start, end in gaps]
    return [span for at, span in enumerate(spans) if sum(sizes[: at + 1]) < LEAST or sum(sizes[at + 1 :]) < LEAST]


def own_letters(text: str) -> int:
    """Return how many letters a text has beside names of users and addresses; a zero keeps its parts apart."""
    return sum(map(_size, _NAMES.sub("", text)))


@cache
def _size(one: str) -> int:
    """Return how many letters a character counts as."""
    if not one.isalnum() or unassigned()[ord(one)]:
        return 0
    return DENSE if one >= "\u1100" else 1


def _without(text: str, spans: list[Span], stand_in: str) -> str:
    """Replace spans, of which those that overlap are one."""
    parts, done = [], 0
    for start, end in _merged(spans):
        parts += [text[done:start], stand_in]
        done = end
    return "".join([*parts, text[done:]])


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


def _around(spans: list[Span]) -> Callable[[int], Span | None]:
    known = {at: (start, end) for start, end in spans for at in range(start, end)}
    return known.get


def _passages(tags: Iterator[re.Match[str]]) -> Iterator[Span]:
    """Return what tags enclose, the outermost."""
    depth, start = 0, 0
    for tag in tags:
        if not tag[1]:
            start = tag.start() if depth == 0 else start
            depth += 1
        elif depth:
            depth -= 1
            if not depth:
                yield start, tag.end()


def _passed_on(text: str, around: Callable[[int], Span | None]) -> int | None:
    for found in _PASSED_ON.finditer(text):
        size = next((size for size, one in enumerate(text[found.end() :][: NAME + 1]) if _ends_name(one)), 0)
        if size and text[found.end() + size] in _COLONS and around(found.start()) is None:
            return found.start()
    return None


def _ends_name(one: str) -> bool:
    return one in "/:@|：" or one.isspace()


class _Line(NamedTuple):
    """A line without the white space around it."""

    start: int
    end: int
    own: str
    passage: Span | None
    """In which it begins."""

    @property
    def is_plain(self) -> bool:
        return self.own != "" and self.passage is None and _quoted(self.own) is None

    @property
    def may_say_who(self) -> bool:
        is_short = len(self.own) <= HEADING and self.own.endswith(_COLONS)
        return self.is_plain and is_short and not _begins_post(self.own) and _header_of(self.own) is None


def _of_lines(text: str, around: Callable[[int], Span | None]) -> tuple[list[Span], list[Span], int | None]:
    """Return the quotes that are lines, those of which nothing says who wrote them, and where all else is quoted."""
    lines = list(_lines(text, around))
    quotes, loose = list(_posts(text, lines)), []
    at = 0
    for passage, group in groupby(lines, lambda line: line.passage or (line.own != "" and not line.is_plain)):
        block = list(group)
        if isinstance(passage, tuple) or (passage and _is_quote([line.own for line in block])):
            span = passage if isinstance(passage, tuple) else (block[0].start, block[-1].end)
            heading = _heading_before(text, lines[:at])
            if heading is None:
                loose.append(span)
            else:
                quotes.append((heading, span[1]))
        at += len(block)
    return quotes, loose, min([*_mails(lines), *_unmarked(lines)], default=None)


def _lines(text: str, around: Callable[[int], Span | None]) -> Iterator[_Line]:
    start = 0
    for line in text.split("\n"):
        begin = start + len(line) - len(line.lstrip(_WHITE))
        own = line.strip(_WHITE)
        yield _Line(begin, begin + len(own), own, around(begin) if own else None)
        start += len(line) + 1


def _is_quote(block: list[str]) -> bool:
    has_letters = any(_LETTER.search(_quoted(line) or "") for line in block)
    return has_letters and not all(line.startswith(">>>") for line in block)


def _heading_before(text: str, lines: list[_Line]) -> int | None:
    """Return where the line, or two, begins that says who wrote what follows these lines."""
    while lines and not lines[-1].own:
        lines = lines[:-1]
    if not lines or not lines[-1].may_say_who:
        return None
    heading, start = lines[-1], lines[-1].start
    if len(lines) > 1 and lines[-2].is_plain and not _TIME.search(heading.own):
        before = lines[-2]
        if len(before.own) <= HEADING and _TIME.search(before.own):
            start = before.start
    said = text[start : heading.end]
    return start if any(word in said for word in WROTE) or _has_address_and_time(said) else None


def _posts(text: str, lines: list[_Line]) -> Iterator[Span]:
    """Return posts of forums, each up to an empty line that another one precedes."""
    done = 0
    for at, line in enumerate(lines):
        if line.start >= done and line.is_plain and _begins_post(line.own):
            behind = list(dropwhile(lambda one: not one.own, lines[at + 1 :]))
            done = next((text.rfind("\n", 0, one.start) + 1 for one in behind if not one.own), len(text))
            yield line.start, done


def _mails(lines: list[_Line]) -> Iterator[int]:
    """Return where mails begin that have headers."""
    begin, seen = None, set[int]()
    for line in lines:
        header = _header_of(line.own) if line.is_plain else None
        if header is not None:
            begin, seen = line.start if begin is None else begin, {*seen, header}
            if FROM in seen and len(seen) >= HEADERS_OF_BLOCK:
                yield begin
        elif line.own:
            begin, seen = line.start if line.is_plain and _is_dashes(line.own) else None, set()


def _unmarked(lines: list[_Line]) -> Iterator[int]:
    """Return where lines begin that say who wrote all that follows."""
    for at, line in enumerate(lines):
        behind = next((one for one in lines[at + 1 :] if one.own), None)
        if line.may_say_who and _has_address_and_time(line.own) and behind is not None and behind.is_plain:
            yield line.start


def _quoted(line: str) -> str | None:
    """Return what stands behind the marks of a quoted line."""
    marks = _MARKS.match(line)
    if marks is None or _PUNCTUATION.match(line, marks.end()):
        return None
    return line[marks.end() :].lstrip(_WHITE)


def _header_of(line: str) -> int | None:
    header = _HEADER.match(line)
    return None if header is None else header.lastindex


def _is_dashes(line: str) -> bool:
    return (line.startswith("---") and line.endswith("---")) or (line.startswith("____") and line.endswith("____"))


def _begins_post(line: str) -> bool:
    if len(line) > FORUM:
        return False
    return (line.endswith(_COLONS) or "@" in line) and _POST.match(line) is not None


def _has_address_and_time(heading: str) -> bool:
    return _ADDRESS.search(heading) is not None and _TIME.search(heading) is not None


@cache
def every_word() -> tuple[str, ...]:
    """Return each word that is looked for."""
    return (*WROTE, *FORUMS, *(name for names in HEADERS for name in names))
