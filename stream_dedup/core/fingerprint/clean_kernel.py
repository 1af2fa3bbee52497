"""Takes the steps before NFKC, compiled. Importing this file loads the compiler.

``text.clean`` defines these steps and their order. A text is left to the definition if it may have a character that is
escaped, or an address with @: a false alarm costs time and changes no result. The last step, simplified characters, is
left to the caller, who is told which texts have a character that has a simplified form.

1. Invisible characters are dropped, and what the text may have is noted.
2. Where it has their signs, tags, targets of links, entities and addresses are replaced (``markup_kernel``).
3. Pictures, numbers, and white space between ideographs.

Most texts have nothing that the last two change: the first one sees that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, int64, uint16, uint32

from stream_dedup.core.arrays import I64, U16, U32
from stream_dedup.core.fingerprint.markup_kernel import (
    IS_BODY,
    IS_DIGIT,
    IS_LETTER,
    IS_WHITE,
    drop_entities,
    drop_tags,
    drop_targets,
    replace_hosts,
    replace_schemed,
)
from stream_dedup.core.kernel import ONE, compiled, copied, inlined, read, several, whole, written
from stream_dedup.core.text.clean import NARROWER

IS_INVISIBLE, IS_PICTURE, IS_WIDE, IS_LEFT, IS_SIGN, IS_IDEOGRAPH, BEGINS_WHITE, IS_ALNUM, IS_TRADITIONAL = (
    IS_BODY << bit for bit in range(1, 10)
)
"""More traits of a character: it is dropped first; it is a picture; a full-width one becomes that of ASCII; its text is
left to the definition; it belongs to the signs of tags and addresses; it is an ideograph or kana; white space that
``rejoin`` looks for; a letter or digit of ASCII; it has a simplified form."""
SEEK_ESCAPED, SEEK_TAGS, SEEK_HOSTS, SEEK_NAMES = 1, 2, 4, 8
"""What is looked for, as bits: escaped characters, tags, addresses of pages, addresses and names with @."""
KEEP = -1
"""What stands in place of a picture that stays; 0: nothing."""
CLEANED = several(written(uint32), written(int64, 2), *(written(boolean),) * 3)
"""Type of code points, begin and end of each text, which texts are left to the definition, which the steps of addresses
changed, and which had a character with a simplified form."""
_STEPS = several(int64, int64, int64, boolean, boolean)
_TAG, _TARGET, _ENTITY, _SCHEME, _HOST, _NAME = (1 << bit for bit in range(6))

_SPACE, _DOT, _SLASH, _OPEN, _CLOSED, _AND, _LESS, _AT = map(ord, " ./(]&<@")
_COMMA, _COLON, _MINUS, _SEMICOLON, _HASH = map(ord, ",:-;#")
_LONGEST_ESCAPE = 34
_BLOCK = np.uint64(16)
"""Characters that are looked at together: few have an invisible character or a sign."""


@inlined
def _signs_of(before: int, point: int) -> int:
    """Return what a character may belong to, behind the one before."""
    if point == _DOT:
        return _HOST
    if point == _SLASH:
        return _SCHEME if before == _SLASH else 0
    if point == _OPEN:
        return _TARGET if before == _CLOSED else 0
    if point == _LESS:
        return _TAG
    if point == _AND:
        return _ENTITY
    return _NAME if point == _AT else 0


@inlined
def _may_be_escaped(points: U32, at: int, end: int, traits: U16) -> bool:
    """Whether a character may be escaped from here on."""
    if at + 1 >= end:
        return False
    point = whole(points[at + 1])
    if point != _HASH and not traits[min(point, len(traits) - 1)] & IS_LETTER:
        return False
    behind, last = at + 2, min(end, at + _LONGEST_ESCAPE)
    while behind < last and points[behind] != _SEMICOLON:
        behind += 1
    return behind < last


@inlined
def _is_joint(point: int) -> bool:
    """Whether ``join_numbers`` drops this sign between two digits."""
    return point in (_DOT, _COMMA, _COLON, _SLASH, _MINUS)


@inlined
def _without_white(points: U32, start: int, size: int, traits: U16) -> int:
    """Drop the white space at the end of a text if ``rejoin`` drops it before an ideograph; return the new end."""
    first = size
    while first > start and traits[min(whole(points[first - 1]), len(traits) - 1)] & IS_WHITE:
        first -= 1
    if first == start or not traits[min(whole(points[first - 1]), len(traits) - 1)] & IS_IDEOGRAPH:
        return size
    return first if traits[min(whole(points[first]), len(traits) - 1)] & BEGINS_WHITE else size


@inlined
def _without_lone_spaces(points: U32, start: int, size: int, traits: U16) -> int:
    """Drop one space between two lone letters or digits; return the new end."""
    end, first, second = start, 0, 0
    for at in range(start, size):
        point = points[at]
        lone = False
        if point == _SPACE and second and not first and at + 1 < size and traits[points[at + 1]] & IS_ALNUM:
            lone = at + 2 == size or not traits[points[at + 2]] & IS_ALNUM
        first, second = second, whole(traits[point] & IS_ALNUM)
        if not lone:
            points[end] = point
            end += 1
    return end


@inlined
def _narrow(point: int, traits: U16) -> int:
    """Return the character of ASCII that a full-width one becomes; others are returned as they are."""
    return point - NARROWER if traits[min(point, len(traits) - 1)] & IS_WIDE else point


@inlined
def drop_invisible(points: U32, begin: int, end: int, traits: U16, marks: int, done: U32) -> tuple[int, int, int]:
    """Copy a text without invisible characters.

    Return its size, all traits that its characters have, and which signs it has, as bits. A text that is left to the
    definition has the trait IS_LEFT.
    """
    size, seen, signs, last, at = np.uint64(0), 0, 0, len(traits) - 1, np.uint64(begin)
    # Indices without a sign: else each one is asked whether it counts from the end.
    while at < np.uint64(end):
        stop, start, found = min(at + _BLOCK, np.uint64(end)), at, 0
        for one in range(at, stop):
            done[size + (one - at)] = points[one]
            found |= whole(traits[np.uint64(min(whole(points[one]), last))])
        seen, at = seen | found, stop
        if not found & (IS_INVISIBLE | IS_SIGN):
            size += stop - start
            continue
        for one in range(start, stop):
            point = whole(points[one])
            trait = whole(traits[np.uint64(min(point, last))])
            if trait & IS_INVISIBLE:
                continue
            done[size] = point
            if trait & IS_SIGN:
                point = _narrow(point, traits)
                signs |= _signs_of(_narrow(whole(done[size - ONE]), traits) if size else whole(-1), point)
                if point == _AND and marks & SEEK_ESCAPED and _may_be_escaped(points, whole(one), end, traits):
                    seen |= IS_LEFT
            size += ONE
    if marks & SEEK_NAMES and signs & _NAME:
        seen |= IS_LEFT
    return whole(size), seen, signs


@inlined
def replace_marked(text: U32, other: U32, size: int, traits: U16, steps: Any) -> tuple[int, bool, bool]:  # noqa: ANN401
    """Replace tags, targets, entities and addresses of a text.

    Return its new size, whether it is in ``other`` now, and whether addresses were replaced. ``steps``: what is looked
    for, what stands for addresses (see ``markup_kernel``), the text's signs and traits.
    """
    marks, token, signs, seen = steps
    moved, schemed, hosted = False, False, False
    if marks & SEEK_TAGS and signs & _TARGET:
        size = drop_targets(text, size, traits, other)
        text, other, moved = other, text, not moved
    if marks & SEEK_TAGS and signs & _TAG:
        size = drop_tags(text, size, traits, other)
        text, other, moved = other, text, not moved
    if marks & SEEK_TAGS and signs & _ENTITY:
        size = drop_entities(text, size, traits, other)
        text, other, moved = other, text, not moved
    if seen & IS_WIDE:
        for at in range(size):
            point = text[at]
            if traits[min(whole(point), len(traits) - 1)] & IS_WIDE:
                text[at] = point - NARROWER
    if marks & SEEK_HOSTS and signs & _SCHEME:
        size, schemed = replace_schemed(text, size, traits, other, token)
        text, other, moved = other, text, not moved
    if marks & SEEK_HOSTS and signs & _HOST:
        size, hosted = replace_hosts(text, size, traits, other, token)
        text, other, moved = other, text, not moved
    return size, moved, schemed or hosted


@inlined
def close_up(text: U32, end: int, traits: U16, steps: Any, cleaned: U32, start: int) -> int:  # noqa: ANN401
    """Add a text to others, without its pictures, signs in numbers and needless white space; return the new end.

    ``steps``: what stands for a picture, whether numbers are joined, whether ideographs are, and the text's traits.
    """
    (picture, joins, rejoins, seen), last = steps, len(traits) - 1
    size, before, lone, last_point = start, 0, False, whole(-1)
    for at in range(np.uint64(end)):
        point = whole(text[at])
        trait = whole(traits[np.uint64(min(point, last))])
        if trait & IS_PICTURE and picture != KEEP:
            if picture == 0:
                continue
            point, trait = picture, 0
        if trait & IS_ALNUM and size > start + 1:
            if last_point == _SPACE:
                lone = lone or traits[min(whole(cleaned[size - 2]), last)] & IS_ALNUM != 0
            elif joins and trait & IS_DIGIT and _is_joint(last_point):
                size -= whole(traits[min(whole(cleaned[size - 2]), last)] & IS_DIGIT != 0)
        elif rejoins and trait & IS_IDEOGRAPH and before & IS_WHITE:
            size = _without_white(cleaned, start, size, traits)
        cleaned[np.uint64(size)] = point
        size, before, last_point = size + 1, trait, point
    # Lone letters are joined beside ideographs only.
    return _without_lone_spaces(cleaned, start, size, traits) if lone and rejoins and seen & IS_IDEOGRAPH else size


@inlined
def _is_clean(signs: int, seen: int, steps: Any) -> bool:  # noqa: ANN401 - a tuple
    """Whether a text with these signs and traits is left as it is by the steps behind the first.

    ``steps``: what stands for a picture, whether numbers are joined, and whether ideographs are.
    """
    picture, joins, rejoins = steps
    if signs != 0 or seen & IS_WIDE or (seen & IS_PICTURE and picture != KEEP):
        return False
    return not (joins and seen & IS_DIGIT) and not (rejoins and seen & IS_IDEOGRAPH and seen & IS_WHITE)


@compiled(int64, read(uint32), read(int64), read(uint16), _STEPS, CLEANED)
def take_steps(points: U32, ends: I64, traits: U16, steps: Any, found: Any) -> int:  # noqa: ANN401 - tuples of arrays
    """Take the steps before NFKC; return how many code points the texts have then.

    Args:
        points: code points of all texts.
        ends: end of each text.
        traits: of each code point; the last ones are those of all beyond.
        steps: what is looked for, what stands for addresses and for pictures, and whether numbers are joined and
            ideographs rejoined.
        found: see ``CLEANED``; a text that is left has no code points.
    """
    (marks, address, picture, joins, rejoins), (cleaned, spans, left, addressed, traditional) = steps, found
    longest, begin = 0, 0
    for end in ends:
        longest, begin = max(longest, end - begin), end
    text, other = np.empty(longest, np.uint32), np.empty(longest, np.uint32)
    size, begin = 0, 0
    for row in range(len(ends)):
        start = size
        own, seen, signs = drop_invisible(points, begin, ends[row], traits, marks, text)
        left[row], addressed[row] = seen & IS_LEFT != 0, False
        traditional[row] = not left[row] and seen & IS_TRADITIONAL != 0
        if not left[row] and _is_clean(signs, seen, (picture, joins, rejoins)):
            size = copied(text, own, cleaned, size)
        elif not left[row]:
            own, moved, replaced = replace_marked(text, other, own, traits, (marks, address, signs, seen))
            addressed[row] = replaced or seen & IS_WIDE != 0
            size = close_up(other if moved else text, own, traits, (picture, joins, rejoins, seen), cleaned, start)
        spans[row, 0], spans[row, 1] = start, size
        begin = ends[row]
    return size
