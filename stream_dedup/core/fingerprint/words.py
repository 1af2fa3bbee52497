"""Counts the words of long texts, a batch at a time. Importing this file loads the compiler.

A text goes through ``clean`` first. Each of its code points is then looked up in a table: it is an ideograph, or
becomes an ASCII letter, a digit or a space whatever its neighbours are, or needs a closer look (see ``normalise``). A
text with a character that needs a closer look is normalised by the definition, and so is every text under settings with
a step behind NFKC. ``words_kernel`` finds and counts the words of a batch.

The results are those of ``reader.Reader``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import chain
from typing import NamedTuple

import numpy as np

from stream_dedup.core.arrays import I32, I64, U8, U32, Bools
from stream_dedup.core.fingerprint import words_kernel
from stream_dedup.core.fingerprint.dictionary import Dictionary, room_for
from stream_dedup.core.fingerprint.features import UNSPACED, loaded_dictionary
from stream_dedup.core.fingerprint.reader import characters_to_sketch, key_text, stop_words, words_in
from stream_dedup.core.fingerprint.sketcher import Letters
from stream_dedup.core.fingerprint.spans import Spans
from stream_dedup.core.fingerprint.sums_kernel import sums_of_rows, sums_of_weights
from stream_dedup.core.fingerprint.vocabulary import NO_WORD_IDF, Vocabulary
from stream_dedup.core.fingerprint.weights import Sums, idf_of, that_count, weigh, word_idf
from stream_dedup.core.kept_tables import kept_table, only
from stream_dedup.core.scheme import FingerprintSettings
from stream_dedup.core.text import clean
from stream_dedup.core.text.normalise import HAN_FIRST, HAN_LAST, Runs, marks, plain_points, words_apart
from stream_dedup.core.text.unicode14 import unassigned

BATCH_CHARACTERS = 1 << 17
"""Most characters in a batch, but for a text that is longer. A batch costs some 0.3 ms whatever is in it, so texts of
1,000 characters take a fifteenth less than by half as many; by twice as many they take no less."""


class LongTexts(NamedTuple):
    """n texts, read as long text; at least one."""

    sizes: I64
    """Letters of each text, of all fields."""
    featured: Bools
    """Whether each text has words that count."""
    sums: Sums
    letters: Letters
    """What the sketches are made of; nothing of shorter texts than ``LongFingerprinter`` was asked for."""

    def where(self, keep: Bools) -> LongTexts:
        """Return some of the texts."""
        return (
            self
            if keep.all()
            else LongTexts(self.sizes[keep], self.featured[keep], self.sums.where(keep), self.letters.where(keep))
        )


class LongFingerprinter:
    """Computes sizes and sums of long texts under one scheme."""

    def __init__(self, settings: FingerprintSettings, least_sketched: int = 0) -> None:
        """Load nothing yet. ``least_sketched``: letters from which on sketches are made of what is read here."""
        self._settings, self._steps, self._features = settings, settings.long.normalisation, settings.long.features
        self._least_sketched = least_sketched
        self._marked = self._features.words == "marked"
        self._looked_up = not clean.changes_after_nfkc(self._steps) and self._steps.numbers == "keep"
        # The weights of grams are no IDF.
        words = partial(word_idf, self._features) if self._features.kind == "words" else lambda: NO_WORD_IDF
        self.vocabulary = Vocabulary(idf_of(self._features), settings.seed, self._stop_words, words)
        self._has_pieces = bool(settings.key_sentences) or not self._looked_up
        self._room = room_for(words_kernel.LONGEST_STRETCH)

    def warm(self) -> None:
        """Load the dictionary and make the tables now, not with the first text.

        Raises:
            UserError: a package or a file that the settings name cannot be loaded.
        """
        self._dictionary()
        self._stop_words()
        self.vocabulary.numbers_of([""])
        plain_points(marked=self._marked)
        _kinds(marked=self._marked)

    @staticmethod
    def batches(texts: Sequence[Sequence[str]]) -> Iterator[slice]:
        """Divide texts, given by their fields, into batches of consecutive ones."""
        lengths = np.fromiter(map(len, chain.from_iterable(texts)), np.int64)
        ends = np.cumsum(lengths.reshape(len(texts), -1).sum(axis=1))
        start = size = 0
        while start < len(texts):
            stop = max(start + 1, int(np.searchsorted(ends, size + BATCH_CHARACTERS, side="right")))
            yield slice(start, stop)
            start, size = stop, int(ends[stop - 1])

    def __call__(self, texts: Sequence[Sequence[str]]) -> LongTexts:
        """Read texts, given by their fields as plain text."""
        read = [self._read(texts[batch]) for batch in self.batches(texts)]
        if len(read) == 1:
            return read[0]
        sizes, featured, sums, letters = zip(*read, strict=True)
        return LongTexts(np.concatenate(sizes), np.concatenate(featured), Sums.joined(sums), Letters.joined(letters))

    def _read(self, texts: Sequence[Sequence[str]]) -> LongTexts:
        """Read one batch."""
        self.vocabulary.make_room()
        names = list(chain.from_iterable(map(self._pieces, texts) if self._has_pieces else texts))
        points, pieces = self._points(names)
        starts, sizes, found = np.empty(len(points), np.int32), np.empty(len(points), np.int32), np.empty_like(pieces)
        cutter = (self._dictionary().arrays, self._room)
        words = words_kernel.split(points, pieces, self._kinds, cutter, (starts, sizes, found))
        numbers = self.vocabulary.numbers(points, starts[:words], sizes[:words])
        own, counts, ends = self._tally(numbers, found, len(texts))
        sums = self._sums(own, counts, ends)
        each = found[:, 1].reshape(len(texts), -1)[:, : self._fields]
        letters = self._letters(texts, points, pieces, each)
        return LongTexts(each.sum(axis=1), np.diff(ends, prepend=0) > 0, sums, letters)

    def _pieces(self, fields: Sequence[str]) -> list[str]:
        """Return the fields of a text, then their key sentences if these count more."""
        key = [key_text(field) for field in fields] if self._settings.key_sentences else []
        if self._looked_up:
            return [*fields, *key]
        return [_text_of(words_in(one, self._settings.long)) for one in (*fields, *key)]

    def _points(self, pieces: list[str]) -> Spans:
        """Return the normalised code points of all pieces."""
        if not self._looked_up:
            return Spans.of(pieces)
        cleaned = Spans.of(clean.clean(pieces, self._steps).texts)
        points, left = np.empty_like(cleaned.points), np.empty(len(pieces), np.bool_)
        words_kernel.look_up(*cleaned, plain_points(marked=self._marked), (points, left))
        closer = np.flatnonzero(left).tolist()
        others = {row: words_apart(cleaned.text(row), marked=self._marked) for row in closer}
        return Spans(points, cleaned.spans).replaced(others)

    def _tally(self, numbers: I32, found: I64, texts: int) -> tuple[I32, I64, I64]:
        """Return the numbers of the words of each text, their counts, and the end of each text."""
        weights = list(self._settings.field_weights)
        if self._settings.key_sentences:
            weights += [weight * self._settings.key_sentences for weight in weights]
        own, counts = np.empty(len(numbers), np.int32), np.empty(len(numbers), np.int64)
        ends, last = np.empty(texts, np.int64), np.arange(1, texts + 1) * len(weights)
        vocabulary, each = self.vocabulary, np.array(weights * texts, np.int64)
        room = (vocabulary.counts, vocabulary.times)
        size = words_kernel.tally(numbers, found, each, last, room, (own, counts, ends))
        return own[:size], counts[:size], ends

    def _sums(self, own: I32, counts: I64, ends: I64) -> Sums:
        """Return the sums of texts, from the numbers of their words."""
        vocabulary = self.vocabulary
        weights = weigh(counts, vocabulary.idf.take(own), self._features)
        if self._features.top_k is None:
            return sums_of_rows(weights, own, vocabulary.hashes, ends)
        return sums_of_weights(*that_count(weights, vocabulary.hashes.take(own, axis=0), ends, self._features))

    def _letters(self, texts: Sequence[Sequence[str]], points: U32, pieces: I64, each: I64) -> Letters:
        """Return what the sketches of the texts are made of."""
        lengths = each.sum(axis=1)
        lengths[lengths < self._least_sketched if self._settings.sketch else slice(None)] = 0
        sketched = np.flatnonzero(lengths)
        if not len(sketched):
            return Letters(np.empty(0, np.uint32), lengths)
        if self._settings.sketch_text == "characters":
            steps = self._settings.short.normalisation
            strings = [""] * len(texts)
            for row in sketched.tolist():
                strings[row] = "".join(characters_to_sketch(field, steps) for field in texts[row])
            return Letters.of(strings)
        own = np.ascontiguousarray(pieces.reshape(len(texts), -1, 2)[sketched, : self._fields].reshape(-1, 2))
        letters = np.empty(int(lengths.sum()) + 1, np.uint32)
        size = words_kernel.letters_of(points, own, self._kinds, letters)
        return Letters(letters[:size], lengths)

    @property
    def _kinds(self) -> U8:
        return _kinds(marked=self._marked)

    @property
    def _fields(self) -> int:
        return len(self._settings.field_weights)

    def _dictionary(self) -> Dictionary:
        own = self._settings.user_dictionary
        return loaded_dictionary(own, simplified=own is not None and self._steps.simplify)

    def _stop_words(self) -> frozenset[str]:
        path = self._settings.stop_words
        return frozenset() if path is None else stop_words(path, self._steps)


def _text_of(runs: Runs) -> str:
    """Return a text that has these words."""
    return " ".join((runs.han, *runs.words))


@cache
@kept_table(only)
def _kinds(*, marked: bool) -> U8:
    """Return the traits of each character of normalised text, as bits of ``words_kernel``."""
    known = np.flatnonzero(~unassigned())
    characters = known.astype("<u4").tobytes().decode("utf-32-le")
    kinds = np.zeros(sys.maxunicode + 1, np.uint8)
    kinds[known[np.fromiter(map(str.isalnum, characters), np.bool_, len(known))]] = words_kernel.LETTER
    kinds[ord(HAN_FIRST) : ord(HAN_LAST) + 1] = words_kernel.HAN
    if marked:
        kinds[list(map(ord, marks()))] |= np.uint8(words_kernel.MARK)
        for run in re.finditer(f"[{UNSPACED}]+", characters):
            kinds[known[run.start() : run.end()]] |= np.uint8(words_kernel.NO_SPACES)
    kinds.setflags(write=False)
    return kinds
