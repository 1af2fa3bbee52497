"""Characters and units of several texts, each as one array for the whole batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import U8, U32, U64
from stream_dedup.core.fingerprint.features import is_word
from stream_dedup.core.fingerprint.points import Kind, code_point_tables
from stream_dedup.core.text import clean

WORD_POINT = np.uint64(0)
"""Stands for a word among the code points of other units."""

Flags = NDArray[np.bool_]
Numbers = NDArray[np.intp]


class Characters(NamedTuple):
    """Characters of several texts, joined; a 0 ends each text and occurs nowhere else."""

    points: U32
    texts: Numbers
    """Row of the text of each character."""

    def where(self, keep: Flags | Numbers) -> Characters:
        """Return some of the characters."""
        return Characters(self.points[keep], self.texts[keep])

    def of(self, wanted: Flags) -> Characters:
        """Return the characters of the wanted texts; ``wanted`` has a flag for each text."""
        return self if wanted.all() else self.where(wanted.take(self.texts))

    def kinds(self) -> U8:
        """Return the bits of ``points.Kind`` of each character."""
        return code_point_tables().kinds.take(self.points, mode="clip")

    def joined(self) -> str:
        """Return all characters as one string."""
        return self.points.astype("<u4", copy=False).tobytes().decode("utf-32-le")

    def strings(self) -> dict[int, str]:
        """Return each text, by row."""
        rows = self.texts[self.points == 0].tolist()
        return dict(zip(rows, self.joined().split("\0")[:-1], strict=True))


class Units(NamedTuple):
    """Units of several texts."""

    points: U64
    """Code point of each unit; ``WORD_POINT`` where it is a word."""
    texts: Numbers
    lengths: Numbers
    """Characters of each unit."""
    words: list[str]
    """The words among them, in order."""

    def letters(self) -> Numbers:
        """Return the letters of each unit: its characters, none of a token."""
        tokens = [word in clean.TOKEN_NAMES for word in self.words]
        if not any(tokens):
            return self.lengths
        letters = self.lengths.copy()
        letters[np.flatnonzero(self.points == WORD_POINT)[tokens]] = 0
        return letters

    def where(self, keep: Flags) -> Units:
        """Return some of the units."""
        words = compress(self.words, keep[self.points == WORD_POINT].tolist())
        return Units(self.points[keep], self.texts[keep], self.lengths[keep], list(words))


def units_in(whole: Characters) -> Units:
    """Return the units of texts without marks."""
    kinds = whole.kinds()
    letter = kinds & Kind.LETTER != 0
    first, last = letter.copy(), letter.copy()
    first[1:] &= ~letter[:-1]
    last[:-1] &= ~letter[1:]
    indices = np.flatnonzero(first | (kinds & Kind.SINGLE != 0))
    points, lengths = whole.points.take(indices).astype(np.uint64), np.ones(len(indices), np.intp)
    starts, ends = np.flatnonzero(first), np.flatnonzero(last) + 1
    words: list[str] = []
    if len(starts):
        joined, at = whole.joined(), np.searchsorted(indices, starts)
        words = [joined[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        points[at], lengths[at] = WORD_POINT, ends - starts
    return Units(points, whole.texts.take(indices), lengths, words)


def joined_units(plain: Units, defined: Mapping[int, list[str]]) -> Units:
    """Return the units of texts without marks, and those that the definition found in others, by row."""
    if not defined:
        return plain
    more = [unit for units in defined.values() for unit in units]
    words = [is_word(unit) for unit in more]
    points = (WORD_POINT if word else ord(unit) for unit, word in zip(more, words, strict=True))
    rows = np.repeat(np.array(list(defined), np.intp), list(map(len, defined.values())))
    return Units(
        np.concatenate((plain.points, np.fromiter(points, np.uint64, len(more)))),
        np.concatenate((plain.texts, rows)),
        np.concatenate((plain.lengths, np.fromiter(map(len, more), np.intp, len(more)))),
        plain.words + list(compress(more, words)),
    )


def characters_of(texts: Sequence[str], rows: Numbers) -> Characters:
    """Return the characters of texts in these rows."""
    joined = "\0".join([*texts, ""])
    lengths = np.fromiter(map(len, texts), np.intp, len(texts)) + 1
    points = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), "<u4")
    return Characters(points, np.repeat(rows, lengths))


def of_strings(strings: Mapping[int, str]) -> Characters:
    """Return the characters of texts by row."""
    return characters_of(list(strings.values()), np.array(list(strings), np.intp))


def joined_characters(one: Characters, other: Characters) -> Characters:
    """Return the characters of some texts and of others."""
    return Characters(np.concatenate((one.points, other.points)), np.concatenate((one.texts, other.texts)))
