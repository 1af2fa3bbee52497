"""Drops tags, comments and entities of HTML, targets of links, and addresses of pages, compiled.

These are ``drop_tags`` and ``replace_urls`` of ``text.clean``, which defines them. Each function takes one text, the
first ``end`` elements of an array of code points, and writes what becomes of it to another array; nothing grows.
Importing this file loads the compiler.
"""

from __future__ import annotations

import numpy as np

from stream_dedup.core.arrays import U16, U32
from stream_dedup.core.kernel import inlined, whole
from stream_dedup.core.text.clean import (
    ATTRIBUTE_CHARACTERS,
    COMMENT_CHARACTERS,
    LOOK_BACK,
    TARGET_CHARACTERS,
    TITLE_CHARACTERS,
)

IS_WHITE, IS_LETTER, IS_DIGIT, IS_BODY = 1 << 0, 1 << 1, 1 << 2, 1 << 3
"""Traits of a character, as bits: white space, what [a-z] finds without regard to case, a digit of ASCII, and what may
stand in an address behind the host."""

_SPACE, _DOT, _SLASH, _OPEN, _CLOSED, _TARGET, _QUOTE, _AND, _HASH = map(ord, ' ./()]"&#')
_LESS, _GREATER, _BANG, _MINUS, _PLUS, _SEMICOLON, _COLON, _ASK, _AT = map(ord, "<>!-+;:?@")
_C, _O, _M, _N, _E, _T, _R, _G, _W, _X, _A, _F = map(ord, "comnetrgwxaf")
_WIDE_COLON = ord("：")
_ASCII = 128
_LOWER = 32
_LONGEST_SCHEME = 10
_LONGEST_NAME, _MOST_DIGITS, _MOST_HEX = 8, 6, 5


@inlined
def _at(points: U32, at: int, end: int) -> int:
    """Return a character of a text, or -1 behind its end."""
    return whole(points[at]) if at < end else whole(-1)


@inlined
def _has(point: int, traits: U16, trait: int) -> bool:
    return point >= 0 and traits[min(point, len(traits) - 1)] & trait != 0


@inlined
def _lower(point: int) -> int:
    return point | _LOWER if 0 <= point < _ASCII else whole(-1)


@inlined
def _copied(points: U32, begin: int, end: int, done: U32, size: int) -> int:
    """Copy a part of a text; return the new size of the copy."""
    count = max(end - begin, 0)
    for at in range(np.uint64(count)):
        done[np.uint64(size) + at] = points[np.uint64(begin) + at]
    return size + count


@inlined
def _link_end(points: U32, start: int, end: int, traits: U16) -> int:
    """Return the end of the target of a link, whose first character is that behind the bracket; -1 if there is none."""
    at, most = start, min(end, start + TARGET_CHARACTERS)
    while at < most and points[at] != _OPEN and points[at] != _CLOSED and not _has(points[at], traits, IS_WHITE):
        at += 1
    title = at
    while title < end and _has(points[title], traits, IS_WHITE):
        title += 1
    if title > at and _at(points, title, end) == _QUOTE:
        at, most = title + 1, min(end, title + 1 + TITLE_CHARACTERS)
        while at < most and points[at] != _QUOTE:
            at += 1
        at = at + 1 if _at(points, at, end) == _QUOTE else end
    return at + 1 if _at(points, at, end) == _CLOSED else -1


@inlined
def drop_targets(points: U32, end: int, traits: U16, done: U32) -> int:
    """Replace the targets of links by a space; return the size of the result."""
    size, kept, at = 0, 0, 0
    while at < end:
        at += 1
        if points[np.uint64(at - 1)] != _TARGET or _at(points, at, end) != _OPEN:
            continue
        behind = _link_end(points, at + 1, end, traits)
        if behind >= 0:
            size = _copied(points, kept, at, done, size)
            done[size] = _SPACE
            size, kept, at = size + 1, behind, behind
    return _copied(points, kept, end, done, size)


@inlined
def _tag_end(points: U32, start: int, end: int, traits: U16) -> int:
    """Return the end of a tag that begins here; -1 if there is none."""
    at = start + 2 if _at(points, start + 1, end) == _SLASH else start + 1
    if not _has(_at(points, at, end), traits, IS_LETTER):
        return -1
    at, most = at + 1, min(end, at + 1 + ATTRIBUTE_CHARACTERS)
    while at < most and points[at] != _LESS and points[at] != _GREATER:
        at += 1
    return at + 1 if _at(points, at, end) == _GREATER else -1


@inlined
def _comment_end(points: U32, start: int, end: int) -> int:
    """Return the end of a comment whose beginning ends here; -1 if there is none."""
    for at in range(start, min(end - 2, start + COMMENT_CHARACTERS + 1)):
        if points[at] == _MINUS and points[at + 1] == _MINUS and points[at + 2] == _GREATER:
            return at + 3
    return -1


@inlined
def _begins_comment(points: U32, at: int, end: int) -> bool:
    return (
        _at(points, at + 1, end) == _BANG and _at(points, at + 2, end) == _MINUS and _at(points, at + 3, end) == _MINUS
    )


@inlined
def drop_tags(points: U32, end: int, traits: U16, done: U32) -> int:
    """Replace tags and comments by spaces; return the size of the result."""
    size, kept, at = 0, 0, 0
    while at < end:
        if points[np.uint64(at)] != _LESS:
            at += 1
            continue
        behind = _tag_end(points, at, end, traits)
        further = behind
        if behind < 0 and _begins_comment(points, at, end):
            behind, further = _comment_end(points, at + 4, end), at + 4
        # What begins within a comment goes with it.
        if behind >= 0 and at >= kept:
            size = _copied(points, kept, at, done, size)
            done[size] = _SPACE
            size, kept = size + 1, behind
        at = further if further >= 0 else at + 1
    return _copied(points, kept, end, done, size)


@inlined
def _is_hex(point: int) -> bool:
    return _A <= _lower(point) <= _F


@inlined
def _entity_end(points: U32, start: int, end: int, traits: U16) -> int:
    """Return the end of an entity that begins here; -1 if there is none."""
    at = first = start + 1
    least, most = 2, _LONGEST_NAME
    if _at(points, at, end) != _HASH:
        while _has(_at(points, at, end), traits, IS_LETTER):
            at += 1
    elif _lower(_at(points, at + 1, end)) == _X:
        at = first = start + 3
        least, most = 1, _MOST_HEX
        while _has(_at(points, at, end), traits, IS_DIGIT) or _is_hex(_at(points, at, end)):
            at += 1
    else:
        at = first = start + 2
        least, most = 1, _MOST_DIGITS
        while _has(_at(points, at, end), traits, IS_DIGIT):
            at += 1
    return at + 1 if least <= at - first <= most and _at(points, at, end) == _SEMICOLON else -1


@inlined
def drop_entities(points: U32, end: int, traits: U16, done: U32) -> int:
    """Replace entities by spaces; return the size of the result."""
    size, at = 0, 0
    while at < end:
        point = points[np.uint64(at)]
        behind = _entity_end(points, at, end, traits) if point == _AND else whole(-1)
        done[np.uint64(size)] = point if behind < 0 else _SPACE
        size, at = size + 1, at + 1 if behind < 0 else behind
    return size


@inlined
def _scheme_begin(points: U32, slashes: int, traits: U16) -> int:
    """Return where the scheme before // begins; where // begins if there is none."""
    begin = slashes
    if slashes == 0 or (points[slashes - 1] != _COLON and points[slashes - 1] != _WIDE_COLON):
        return begin
    last = slashes - 2
    for at in range(last, max(-1, last - _LONGEST_SCHEME), -1):
        point = whole(points[at])
        letter = _has(point, traits, IS_LETTER)
        if not (letter or _has(point, traits, IS_DIGIT) or point in (_PLUS, _MINUS)):
            break
        if letter and at < last:
            begin = at
    return begin


@inlined
def _stand_in(done: U32, size: int, token: int) -> int:
    """Add what stands for an address: the token between two spaces, or a space; return the new size."""
    done[size] = _SPACE
    if token:
        done[size + 1], done[size + 2] = token, _SPACE
        return size + 3
    return size + 1


@inlined
def replace_schemed(points: U32, end: int, traits: U16, done: U32, token: int) -> tuple[int, bool]:
    """Replace addresses with a scheme by a token, or by a space if it is 0.

    Return the size of the result, and whether there were any.
    """
    size, kept, at = 0, 0, 0
    while at < end:
        if points[np.uint64(at)] != _SLASH or _at(points, at + 1, end) != _SLASH:
            at += 1
            continue
        begin = _scheme_begin(points, at, traits) if at >= kept else at
        behind = at + 2
        # Only behind a scheme: else each of many slashes would look through all those behind it.
        while begin < at and _has(_at(points, behind, end), traits, IS_BODY):
            behind += 1
        if behind > at + 2:
            size = _stand_in(done, _copied(points, kept, begin, done, size), token)
            kept = behind
        at += 2
    return _copied(points, kept, end, done, size), kept > 0


@inlined
def _is_host(point: int, traits: U16) -> bool:
    """Whether a character may stand in a host, between two dots."""
    return point == _MINUS or _has(point, traits, IS_LETTER | IS_DIGIT)


@inlined
def _is_top_domain(points: U32, at: int, end: int, traits: U16) -> bool:
    """Whether com, cn, net or org is here, and ends here."""
    first, second, third = (
        _lower(_at(points, at, end)),
        _lower(_at(points, at + 1, end)),
        _lower(_at(points, at + 2, end)),
    )
    if first == _C and second == _N:
        return not _is_host(_at(points, at + 2, end), traits)
    known = (
        (first == _C and second == _O and third == _M)
        or (first == _N and second == _E and third == _T)
        or (first == _O and second == _R and third == _G)
    )
    return known and not _is_host(_at(points, at + 3, end), traits)


@inlined
def _is_behind_www(points: U32, dot: int, traits: U16) -> bool:
    begin = dot - 3
    if begin < 0 or not _lower(points[begin]) == _lower(points[begin + 1]) == _lower(points[begin + 2]) == _W:
        return False
    return begin == 0 or not _has(points[begin - 1], traits, IS_LETTER | IS_DIGIT)


@inlined
def _host_begin(points: U32, dot: int, traits: U16) -> int:
    """Return where the part of a host before a dot begins; the dot if there is none, or a host of e-mail."""
    begin = dot
    for at in range(dot - 1, max(-1, dot - 1 - LOOK_BACK), -1):
        point = whole(points[at])
        if _has(point, traits, IS_LETTER | IS_DIGIT):
            begin = at
        elif point not in (_DOT, _MINUS):
            break
    return dot if begin > 0 and points[begin - 1] == _AT else begin


@inlined
def _name_end(points: U32, start: int, end: int, traits: U16) -> int:
    """Return the end of a run of ASCII letters, digits and hyphens."""
    at = start
    while _at(points, at, end) < _ASCII and _is_host(_at(points, at, end), traits):
        at += 1
    return at


@inlined
def _tail_end(points: U32, start: int, end: int, traits: U16) -> int:
    """Return the end of an address from behind a dot of its host on; ``start`` if there is nothing."""
    at = _name_end(points, start, end, traits)
    if at == start:
        return start
    while _at(points, at, end) == _DOT and _name_end(points, at + 1, end, traits) > at + 1:
        at = _name_end(points, at + 1, end, traits)
    if _at(points, at, end) == _COLON and _has(_at(points, at + 1, end), traits, IS_DIGIT):
        at += 2
        while _has(_at(points, at, end), traits, IS_DIGIT):
            at += 1
    mark = _at(points, at, end)
    if mark in (_SLASH, _ASK, _HASH):
        at += 1
        while _has(_at(points, at, end), traits, IS_BODY):
            at += 1
    return at


@inlined
def replace_hosts(points: U32, end: int, traits: U16, done: U32, token: int) -> tuple[int, bool]:
    """Replace addresses that are known by their host by a token, or by a space if it is 0.

    Return the size of the result, and whether there were any.
    """
    size, kept = 0, 0
    for index in range(np.uint64(end)):
        at = whole(index)
        if points[index] != _DOT or at < kept:
            continue
        if not (_is_top_domain(points, at + 1, end, traits) or _is_behind_www(points, at, traits)):
            continue
        begin = _host_begin(points, at, traits)
        behind = _tail_end(points, at + 1, end, traits) if begin < at else at + 1
        if behind > at + 1:
            size = _stand_in(done, _copied(points, kept, max(kept, begin), done, size), token)
            kept = behind
    return _copied(points, kept, end, done, size), kept > 0
