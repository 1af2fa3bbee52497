"""Reads short texts a batch at a time: statuses, sums and sketches, as ``reader`` and ``weigher`` define them.

All texts of a batch are one array of code points, and each text is a span of it. What a text needs decides who does it:

1. The steps before NFKC are taken by ``text.clean``.
2. A text of plain characters (``points``) is normalised by ``short_kernel``; others are normalised by the definition.
3. A text that may have a trick of spam goes through the steps that undo tricks.
4. ``short_kernel`` finds the units, except in texts with rare ideographs or with few letters among symbols: the
   definition finds theirs.
5. ``grams_kernel`` counts, weighs and hashes the grams, and adds them up.

What the definition makes of a text is put behind the code points of the others, and the text is a span of these then.
A false alarm in one of these tests costs time and changes no result. The results are those of ``reader.Reader``, to
which some texts are deferred.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import I32, I64, U8, U32
from stream_dedup.core.fingerprint import grams_kernel, short_kernel
from stream_dedup.core.fingerprint.form import MOST_LETTERS, Form, form_of, grammar_arrays
from stream_dedup.core.fingerprint.hashing import feature_hash
from stream_dedup.core.fingerprint.keys_kernel import random_seed
from stream_dedup.core.fingerprint.mixing import mixing_begin
from stream_dedup.core.fingerprint.points import MOST_TIMES, Kind, code_point_tables
from stream_dedup.core.fingerprint.reader import (
    LEAST_LETTERS,
    letters_of_units,
    units_that_count,
    with_addresses_kept,
)
from stream_dedup.core.fingerprint.sketcher import Letters
from stream_dedup.core.fingerprint.spans import Spans, points_of, text_of
from stream_dedup.core.fingerprint.sums_kernel import sums_of_weights
from stream_dedup.core.fingerprint.weights import MAX_COUNT, Sums, gram_idf, that_count, weigh
from stream_dedup.core.model import SIGNATURE_BITS, Status
from stream_dedup.core.scheme import Features, FingerprintSettings
from stream_dedup.core.text import clean
from stream_dedup.core.text.normalise import normalise

MAX_CHARACTERS = 1 << 17
"""Most characters in a batch, as of long text, but for a text that is longer."""
LONGEST_CHARACTERS = 1 << 20
"""Most characters of a text: it takes some 150 bytes for each of them. The definition reads what is longer."""

_ADDRESS = ord(clean.TOKENS["url"])
_NO_LIMIT = 1 << 62
_EXACT_IS = {"letters": short_kernel.LETTERS, "characters": short_kernel.ALL}
_SKETCHED_ARE = {"letters": short_kernel.LETTERS_FIRST, "characters": short_kernel.VISIBLE}


class ShortTexts(NamedTuple):
    """n short texts."""

    statuses: U8
    deferred: list[int]
    """Texts that ``reader.Reader`` has to read; they have no features here."""
    exact: Mapping[int, str]
    """The exact texts, by row."""
    sums: Sums
    """Sums of the texts that are short, in order."""
    letters: Letters
    """What their sketches are made of; nothing if the scheme has no sketch."""
    forms: Mapping[int, Form] = MappingProxyType({})
    """Forms by row, without those of texts that surely have none; empty if the scheme has no forms."""


class Units(NamedTuple):
    """Units of several texts; see ``grams_kernel``."""

    points: U32
    starts: I32
    sizes: I32
    spans: I64
    """Begin and end of the units of each text."""

    def joined(self, defined: Mapping[int, list[str]]) -> Units:
        """Return the same with the units that the definition found in some texts, by row."""
        if not defined:
            return self
        every = [unit for units in defined.values() for unit in units]
        points, lengths = points_of(every)
        starts = np.cumsum(lengths) - lengths + len(self.points)
        kinds, firsts = code_point_tables().kinds, points[np.cumsum(lengths) - lengths]
        # Letters beyond the tables are units by themselves.
        sizes = np.where(kinds[np.minimum(firsts, len(kinds) - 1)] & Kind.LETTER, lengths, 0)
        ends = np.cumsum(list(map(len, defined.values()))) + len(self.starts)
        self.spans[list(defined)] = np.stack((np.concatenate(([len(self.starts)], ends[:-1])), ends), axis=1)
        return Units(
            np.concatenate((self.points, points)),
            np.concatenate((self.starts, starts.astype(np.int32))),
            np.concatenate((self.sizes, sizes.astype(np.int32))),
            self.spans,
        )


class ShortFingerprinter:
    """Computes statuses, sums and sketches of short texts under one scheme."""

    def __init__(self, settings: FingerprintSettings) -> None:
        """Load nothing yet."""
        self._settings, self._steps, self._features = settings, settings.short.normalisation, settings.short.features
        self._weights = _weights(self._features)
        self._spread = random_seed()
        # Longer text is long in part, or close to it.
        self._longest = LONGEST_CHARACTERS
        if settings.has_long:
            self._longest = min(LONGEST_CHARACTERS, mixing_begin(settings.article_size or 0))

    def warm(self) -> None:
        """Make the tables now, not with the first text."""
        code_point_tables()
        if self._settings.form:
            grammar_arrays()

    def batches(self, texts: Sequence[str], deferred: list[int]) -> Iterator[list[int]]:
        """Divide the texts into batches of rows; append the rows of texts that are too long to ``deferred``."""
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        deferred += np.flatnonzero(lengths > self._longest).tolist()
        rows = np.flatnonzero(lengths <= self._longest)
        ends = np.cumsum(lengths[rows])
        start = size = 0
        while start < len(rows):
            stop = max(start + 1, int(np.searchsorted(ends, size + MAX_CHARACTERS, side="right")))
            yield rows[start:stop].tolist()
            start, size = stop, int(ends[stop - 1])

    def __call__(self, texts: Sequence[str]) -> ShortTexts:
        """Read the texts of a batch."""
        normalised, kept, deferred = self._normalised(texts)
        every = self._without_tricks(normalised)
        done = every.first(len(texts))
        units, letters, defined = _units_of(done)
        sizes = letters if self._settings.exact == "letters" else normalised.first(len(texts)).sizes
        statuses = self._statuses(done, letters, sizes, deferred)
        short = np.flatnonzero(statuses == Status.SHORT)
        exact = np.flatnonzero(statuses == Status.EXACT)
        return ShortTexts(
            statuses,
            deferred,
            dict(zip(exact.tolist(), self._exact(done, exact, defined), strict=True)),
            self._sums(units._replace(spans=units.spans[short])),
            self._sketched(every, short, kept, defined),
            _forms(normalised, short) if self._settings.form else {},
        )

    def _normalised(self, texts: Sequence[str]) -> tuple[Spans, dict[int, int], list[int]]:
        """Return the texts up to NFKC, and the rows that are deferred.

        Of some texts there is one more behind these, with its addresses kept: the dictionary has its row.
        """
        found = clean.clean(texts, self._steps)
        cleaned = Spans.of(found.texts)
        if self._settings.has_long:
            # Characters that short text drops count in long text: such a text could be long. The token of a user name
            # may be one character longer than the name.
            lengths = np.array([len(text) + text.count("@") for text in texts], np.int64)
            dropped = (lengths - cleaned.sizes) * MOST_TIMES
            plain, others = _plain(cleaned, dropped, mixing_begin(self._settings.article_size or 0) - 1)
            # A simplified form may have other characters, in number too.
            others += found.simplified
            if self._settings.sketch_text == "characters":
                # Their sketches are made of their addresses, too.
                others += found.addressed
            # A text that is deferred has nothing here.
            plain.spans[others] = 0
            return plain, {}, sorted(set(others))
        kept = found.addressed if self._settings.sketch_text == "characters" else []
        if kept:
            keeping = with_addresses_kept(self._steps)
            cleaned = Spans.of([*found.texts, *clean.clean([texts[row] for row in kept], keeping).texts])
        plain, others = _plain(cleaned, np.zeros(len(cleaned.spans), np.int64), _NO_LIMIT)
        normalised = plain.replaced({row: normalise(cleaned.text(row)) for row in others})
        return normalised, dict(zip(kept, range(len(texts), len(normalised.spans)), strict=True)), []

    def _without_tricks(self, normalised: Spans) -> Spans:
        """Return the texts after the steps that follow NFKC."""
        if not clean.changes_after_nfkc(self._steps) and self._steps.numbers == "keep":
            return normalised
        every = text_of(normalised.points)
        texts = [every[begin:end] for begin, end in normalised.spans.tolist()]
        done = clean.after_nfkc_and_numbers(texts, self._steps)
        # A text without tricks is the same object.
        return normalised.replaced({row: one for row, one in enumerate(done) if one is not texts[row]})

    def _statuses(self, done: Spans, letters: I64, sizes: I64, deferred: list[int]) -> U8:
        """Return the status of each text; defer exact texts with addresses."""
        statuses = np.full(len(letters), Status.SHORT, np.uint8)
        if self._settings.exact_size:
            statuses[(sizes < self._settings.exact_size) | (letters < LEAST_LETTERS)] = Status.EXACT
        statuses[letters == 0] = Status.FEATURELESS
        if self._settings.exact_size:
            # The reader knows what is compared of addresses; until then such a text has nothing.
            others = np.flatnonzero(statuses != Status.SHORT).tolist()
            others = others if others and (done.points == _ADDRESS).any() else []
            rows = [row for row in others if _ADDRESS in done.points[slice(*done.spans[row].tolist())]]
            deferred += rows
            statuses[rows] = Status.FEATURELESS
        return statuses

    def _exact(self, done: Spans, rows: NDArray[np.intp], defined: Mapping[int, list[str]]) -> list[str]:
        """Return what is compared of exact texts."""
        if not len(rows):
            return []
        units: dict[int, str] = {}
        if self._settings.exact == "letters":
            units = {row: "".join(defined[row]) for row in rows.tolist() if row in defined}
        return _split(_letters_of(done, rows, _EXACT_IS[self._settings.exact], units))

    def _sketched(
        self, done: Spans, rows: NDArray[np.intp], kept: Mapping[int, int], defined: Mapping[int, list[str]]
    ) -> Letters:
        """Return what the sketches of these texts are made of."""
        if not self._settings.sketch:
            return Letters(np.empty(0, np.uint32), np.zeros(len(rows), np.int64))
        which = _SKETCHED_ARE[self._settings.sketch_text]
        if which == short_kernel.LETTERS_FIRST:
            wanted = set(rows.tolist())
            units = {row: letters_of_units(own) for row, own in defined.items() if row in wanted}
            return _letters_of(done, rows, which, units)
        return _letters_of(done, np.array([kept.get(row, row) for row in rows.tolist()], np.intp), which, {})

    def _sums(self, units: Units) -> Sums:
        """Return the sums of texts."""
        weights, hashes, ends, made = self._weighed(units, adds=self._features.top_k is None)
        kept = np.flatnonzero(np.diff(ends, prepend=0))
        if len(kept):
            more = sums_of_weights(*that_count(weights, hashes, ends[kept], self._features))
            made.sums[kept], made.squares[kept] = more
        return made

    def _weighed(self, units: Units, *, adds: bool = False) -> tuple[I64, U8, I64, Sums]:
        """Return weights and hashes of the grams of texts, the end of each text, and the sums of texts without grams.

        ``adds``: whether the grams of a text are added up where they are hashed; otherwise all sums are 0.
        """
        most = int(np.maximum(units.sizes, 2).sum())
        weights, hashes = np.empty(most, np.int64), np.empty((most, grams_kernel.HASH_WORDS), np.uint64)
        ends, left = np.empty(len(units.spans), np.int64), np.empty((len(units.starts), 2), np.int32)
        made = Sums(np.zeros((len(ends), SIGNATURE_BITS)), np.zeros(len(ends), np.int64))
        seeds, how = (self._spread, np.uint64(self._settings.seed)), (self._weights, adds)
        found = (weights, hashes, ends, left, *made)
        grams, more = grams_kernel.count(units[:], code_point_tables().kinds, how, seeds, found)
        packed = hashes[:grams].view(np.uint8)
        for gram, unit in left[:more].tolist():
            number = text_of(units.points[units.starts[unit] :][: units.sizes[unit]])
            packed[gram] = np.frombuffer(feature_hash(f"_{number}_", self._settings.seed), np.uint8)
        return weights[:grams], packed, ends, made


def _plain(texts: Spans, dropped: I64, most: int) -> tuple[Spans, list[int]]:
    """Return the normalised texts, and the rows of those that are not plain, which are empty."""
    tables, spans, left = code_point_tables(), np.empty_like(texts.spans), np.empty(len(texts.spans), np.bool_)
    found = (np.empty(int(texts.sizes.sum()) * MOST_TIMES, np.uint32), spans, left)
    size = short_kernel.normalise(*texts, (tables.raw, tables.normalised, tables.times), (dropped, most), found)
    return Spans(found[0][:size], spans), np.flatnonzero(left).tolist()


@cache
def _weights(features: Features) -> I64:
    """Return the weights of grams: a row for each class, a column for each count; made once for each settings."""
    counts = np.arange(MAX_COUNT + 1)
    weights = np.stack([weigh(counts, np.full_like(counts, idf), features) for idf in gram_idf(features)])
    weights.setflags(write=False)
    return weights


def _units_of(done: Spans) -> tuple[Units, I64, dict[int, list[str]]]:
    """Return the units of texts, the letters of each, and which units the definition found, by row."""
    points, spans = done
    starts, sizes = np.empty(len(points), np.int32), np.empty(len(points), np.int32)
    letters, left, of_units = np.empty(len(spans), np.int64), np.empty(len(spans), np.bool_), np.empty_like(spans)
    found = (starts, sizes, of_units, letters, left)
    size = short_kernel.find_units(points, spans, code_point_tables().kinds, found)
    defined = {row: units_that_count(done.text(row)) for row in np.flatnonzero(left).tolist()}
    for row, units in defined.items():
        joined = "".join(units)
        letters[row] = len(joined)
        if any(token in joined for token in clean.TOKEN_NAMES):
            letters[row] -= sum(map(clean.TOKEN_NAMES.__contains__, units))
    return Units(points, starts[:size], sizes[:size], of_units).joined(defined), letters, defined


def _letters_of(done: Spans, rows: NDArray[np.intp], which: int, others: Mapping[int, str]) -> Letters:
    """Return characters of texts in these rows, as ``which`` says; ``others``: those of some rows, as they are."""
    wanted = done._replace(spans=done.spans.copy()).replaced(others)
    how = np.full(len(done.spans), which, np.uint8)
    how[list(others)] = short_kernel.ALL
    spans, how = wanted.spans[rows], how[rows]
    letters = np.empty(int((spans[:, 1] - spans[:, 0]).sum()) + 1, np.uint32)
    sizes = np.empty(len(rows), np.int64)
    size = short_kernel.letters_of(wanted.points, spans, how, code_point_tables().kinds, (letters, sizes))
    return Letters(letters[:size], sizes)


def _split(letters: Letters) -> list[str]:
    """Return texts one by one."""
    whole, ends = text_of(letters.points), np.cumsum(letters.lengths).tolist()
    return [whole[begin:end] for begin, end in pairwise([0, *ends])]


def _forms(normalised: Spans, rows: NDArray[np.intp]) -> dict[int, Form]:
    """Return the forms of the texts in these rows; those that surely have none are left out."""
    own, characters = np.ascontiguousarray(normalised.spans[rows]), int(normalised.sizes[rows].sum())
    words, digits = np.empty(2 * characters + 1, np.uint32), np.empty(characters + 1, np.uint32)
    spans, left = np.empty((len(rows), 4), np.int64), np.empty(len(rows), np.bool_)
    found = (words, digits, spans, left)
    kinds, grammar = code_point_tables().kinds, grammar_arrays()
    size = short_kernel.find_forms(normalised.points, own, kinds, grammar, MOST_LETTERS, found)
    forms = {row: form_of(normalised.text(row)) for row in rows[left].tolist()}
    frames, numbers = text_of(words[:size]), text_of(digits[: spans[-1, 3]] if len(rows) else digits[:0])
    with_form = np.flatnonzero(spans[:, 0] < spans[:, 1])
    for row, (begin, end, first, last) in zip(rows[with_form].tolist(), spans[with_form].tolist(), strict=True):
        forms[row] = Form(frames[begin : end - 1], numbers[first:last])
    return forms
