r"""Drops from plain text what subtitles have beside it: times of cues, their numbers and names, and WebVTT's heading.

A cue of SubRip or WebVTT begins with ``00:00:04,148 --> 00:00:08,296``, perhaps in brackets, and settings behind it. On
the line before stands its number or, in WebVTT, behind an empty line, its name. Within a cue stand times in brackets
(``<00:00:05.000>``), as they do in lyrics (``[00:05.00]``). A text whose lines were joined has the same parts.
On a line of their own, the times of a cue may have no fractions, or a comma between them (SBV).

A cue of SubStation Alpha is a line of nine fields and the text, which has breaks and styles of its own:
``Dialogue: 0,0:00:04.14,0:00:08.29,Default,,0,0,0,,{\i1}a{\i0}\Nb``. Before the first one stand its other sections.
"""

from __future__ import annotations

import re

NAME, NUMBER = 100, 6
"""Most characters of a name and of a number of a cue."""
FIELD = 32
"""Most characters of each of the first three fields of a dialogue, the layer and two times."""
_EXACT = r"(?:[0-9]{1,3}:)?[0-9]{1,2}:[0-9]{2}[.,][0-9]{1,3}(?![0-9:.,])"
_TIME = rf"(?:{_EXACT}|[0-9]{{1,3}}:[0-9]{{1,2}}:[0-9]{{2}}(?![0-9:.,]))"
_LONGEST = 13
_BEFORE = re.compile(rf"(?<![0-9:.,]){_TIME}\Z")
_BEHIND = re.compile(rf"[ \t]*({_TIME})")
_BETWEEN = re.compile("-->|,")
_SETTINGS = re.compile(r"(?:[ \t]+(?:align|line|position|region|size|vertical|[XY][12]):[^ \t\r\n]*)*")
_TITLE = re.compile(rf"[!-~]{{1,{NAME}}}\Z")
_HEADING = re.compile(r"\A\ufeff?[ \t\r\n]*(WEBVTT(?![^ \t\r\n])(?:.*?(?=\n\r?\n))?)", re.DOTALL)
_STAMP = re.compile(rf"<{_EXACT}>|\[{_EXACT}\]")
_SCRIPT = re.compile(r"\ufeff?[ \t\r\n]*\[Script Info\]")
_DIALOGUE = re.compile("Dialogue:")
_FIELDS = (re.compile("[!-~]*"), re.compile(_EXACT), re.compile(_EXACT), *[re.compile("[^\n]*")] * 6)
_STYLE = re.compile(r"(\\[Nnh])|\{\\[^{}\n]*\}")


def drop_cues(text: str) -> str:
    """Drop the times of cues, with what belongs to them, and times in brackets."""
    text = _without_fields(text)
    parts, done = [], 0
    for arrow in _BETWEEN.finditer(text):
        cue = _cue_at(text, *arrow.span()) if arrow.start() >= done else None
        if cue is not None:
            before = text[done : max(cue[0], done)]
            parts += [before if done else _without_heading(before), " "]
            done = cue[1]
    parts.append(text[done:])
    return _STAMP.sub("", "".join(parts))


def _without_fields(text: str) -> str:
    """Drop the fields, styles and breaks of dialogues."""
    parts, done = [], 0
    for dialogue in _DIALOGUE.finditer(text):
        end = _fields_end(text, dialogue.end()) if dialogue.start() >= done else None
        if end is not None:
            is_first = not done and _SCRIPT.match(text)
            parts += ["" if is_first else text[done : dialogue.start()], " "]
            done = end
    if not done:
        return text
    return _STYLE.sub(lambda style: " " if style[1] else "", "".join([*parts, text[done:]]))


def _fields_end(text: str, at: int) -> int | None:
    for number, field in enumerate(_FIELDS):
        comma = text.find(",", at, at + FIELD if number < 3 else len(text))
        if comma < 0 or not field.fullmatch(text[at:comma].lstrip(" \t")):
            return None
        at = comma + 1
    return at


def _cue_at(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Return what a cue has beside its text that has an arrow or a comma between its times."""
    comma = text[start] == ","
    time_end = _back_over_spaces(text, start)
    before, behind = _BEFORE.search(text[max(0, time_end - _LONGEST - 1) : time_end]), _BEHIND.match(text, end)
    if before is None or behind is None:
        return None
    begin, end = time_end - len(before[0]), behind.end()
    is_exact = all(re.search("[.,]", time) for time in (before[0], behind[1]))
    is_bracketed = text[begin - 1 : begin] == "[" and text[end : end + 1] == "]"
    if is_bracketed:
        begin, end = begin - 1, end + 1
    if (comma and not is_exact) or ((comma or not (is_exact or is_bracketed)) and not _has_line(text, begin, end)):
        return None
    settings = _SETTINGS.match(text, end)
    assert settings is not None
    return _title_before(text, begin), settings.end()


def _has_line(text: str, begin: int, end: int) -> bool:
    """Whether a line has nothing but this, and spaces."""
    behind = text[end:].lstrip(" \t")[:1]
    return text[:begin].rstrip(" \t")[-1:] in {"", "\r", "\n"} and behind in {"", "\r", "\n"}


def _title_before(text: str, time: int) -> int:
    """Return where the number or name of a cue begins, or its time."""
    line = _back_over_spaces(text, time)
    before = _line_before(text, line)
    end = _back_over_spaces(text, line if before is None else before)
    title = _TITLE.search(text[max(0, end - NAME) : end])
    if title is None or end == time:
        return time
    begin = end - len(title[0])
    behind = text[begin - 1 : begin]
    if title[0].isdecimal() and len(title[0]) <= NUMBER and behind in {"", " ", "\t", "\r", "\n"}:
        return begin
    last = _line_before(text, begin)
    is_alone = begin == 0 or (last is not None and text[last - 1 : last] == "\n")
    return begin if before is not None and is_alone else time


def _line_before(text: str, at: int) -> int | None:
    """Return the end of the line before the one that begins here."""
    if text[at - 1 : at] != "\n":
        return None
    at -= 1
    while text[at - 1 : at] == "\r":
        at -= 1
    return at


def _back_over_spaces(text: str, at: int) -> int:
    while at and text[at - 1] in " \t":
        at -= 1
    return at


def _without_heading(text: str) -> str:
    heading = _HEADING.match(text)
    return text if heading is None else text[: heading.start(1)] + text[heading.end(1) :]
