"""Reads short texts a batch at a time: statuses and counts of grams, as ``reader`` defines them.

All texts of a batch are one array of code points. Looking up each character (``points``) and comparing neighbours tells
what each text needs:

1. A text of plain characters is normalised by look-ups and by dropping white space.
2. A text that a step of ``clean`` may change is normalised by the definition, up to NFKC.
3. A text that may have a trick of spam goes through the steps that undo tricks.
4. Units and pairs are found for all texts at once, except for texts with marks or with few letters among symbols: the
   definition finds their units.

A false alarm in one of these tests costs time and changes no result. The results are those of ``reader.Reader``, to
which some texts are deferred.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from stream_dedup.core.arrays import I64, U8, U64
from stream_dedup.core.fingerprint.characters import (
    WORD_POINT,
    Characters,
    Flags,
    Numbers,
    Units,
    characters_of,
    joined_characters,
    joined_units,
    of_strings,
    units_in,
)
from stream_dedup.core.fingerprint.grams import GRAM_BITS, Hashes, Trigrams, classes_of, pairs_of
from stream_dedup.core.fingerprint.mixing import mixing_begin
from stream_dedup.core.fingerprint.points import NO_TABLE, Kind, Raw, code_point_tables
from stream_dedup.core.fingerprint.reader import (
    LEAST_LETTERS,
    SYMBOLS,
    before_tricks,
    characters_to_sketch,
    letters_of_units,
    normalise_short,
    units_that_count,
)
from stream_dedup.core.fingerprint.sums_kernel import sums_of_weights
from stream_dedup.core.fingerprint.weights import Sums, gram_idf, that_count, weigh
from stream_dedup.core.model import Status
from stream_dedup.core.scheme import FingerprintSettings, Normalisation
from stream_dedup.core.text import clean
from stream_dedup.core.text.normalise import HAN_FIRST, HAN_LAST
from stream_dedup.core.text.spam import MAX_SEPARATOR

MAX_CHARACTERS = 1 << 16
"""Most characters in a batch: even if NFKC makes 18 characters of each, ``grams`` has numbers for all units."""

_FIRST_IDEOGRAPH, _LAST_IDEOGRAPH = ord(HAN_FIRST), ord(HAN_LAST)
_SPACE, _DOT, _SLASH, _OPEN, _CLOSE, _W = map(ord, " ./(]w")
_ADDRESS = ord(clean.TOKENS["url"])
_FIRST_OF_DOMAINS = np.array([ord(domain[0]) for domain in clean.TOP_DOMAINS])
_GRAM_BITS = np.uint64(GRAM_BITS)

HashesOf = Callable[[Sequence[str]], bytes]
"""Returns the hashes of features, joined."""


class ShortTexts(NamedTuple):
    """Statuses and grams of n short texts."""

    statuses: U8
    deferred: list[int]
    """Texts that ``reader.Reader`` has to read; they have no grams here."""
    exact: dict[int, str]
    """The exact texts, by row."""
    texts: Numbers
    """Row of the text of each gram, rising."""
    grams: U64
    counts: I64
    sketched: dict[int, str]
    """What the sketch of each text is made of, by row; none if the scheme has no sketch."""
    formed: Mapping[int, str] = MappingProxyType({})
    """What the form of each text is made of, by row; none if the scheme has no forms."""


class ShortFingerprinter:
    """Computes statuses and sums of short texts under one scheme."""

    def __init__(self, settings: FingerprintSettings, hashes_of: HashesOf) -> None:
        """Load nothing yet."""
        self._features = settings.short.features
        self._trigrams = Trigrams()
        self._hashes = Hashes(self._trigrams, hashes_of)
        self._reader = ShortReader(settings, self._trigrams)
        self._idf = np.array(gram_idf(self._features), np.int64)
        # Longer text is long in part, or close to it.
        self._longest = MAX_CHARACTERS
        if settings.has_long:
            self._longest = min(MAX_CHARACTERS, mixing_begin(settings.article_size or 0))

    def warm(self) -> None:
        """Make the tables now, not with the first text."""
        code_point_tables()

    def batches(self, texts: Sequence[str], deferred: list[int]) -> Iterator[list[int]]:
        """Divide the texts into batches of rows; append the rows of texts that are too long to ``deferred``."""
        rows: list[int] = []
        size = 0
        for row, text in enumerate(texts):
            if len(text) > self._longest:
                deferred.append(row)
                continue
            if size + len(text) > MAX_CHARACTERS:
                yield rows
                rows, size = [], 0
            rows.append(row)
            size += len(text)
        if rows:
            yield rows

    def __call__(self, texts: Sequence[str]) -> tuple[ShortTexts, Sums]:
        """Read one batch; return the texts, and the sums of those that are short, in order."""
        if self._trigrams.make_room():
            self._hashes.clear()
        found = self._reader.read(texts)
        grams = found.grams
        idf = self._idf.take(classes_of(grams))
        sizes = np.bincount(found.texts, minlength=len(texts))[found.statuses == Status.SHORT]
        weights = weigh(found.counts, idf, self._features)
        return found, sums_of_weights(*that_count(weights, self._hashes.of(grams), np.cumsum(sizes), self._features))


class ShortReader:
    """Reads batches of short texts under one scheme."""

    def __init__(self, settings: FingerprintSettings, trigrams: Trigrams) -> None:
        """Load nothing yet."""
        self._settings, self._steps = settings, settings.short.normalisation
        self._trigrams = trigrams
        self._closer = _closer_look(self._steps)

    def read(self, texts: Sequence[str]) -> ShortTexts:
        """Read texts with at most ``MAX_CHARACTERS`` characters in total."""
        normalised, closer = self._plain(texts)
        deferred, strings = self._by_definition(texts, np.flatnonzero(closer).tolist())
        if strings:
            normalised = joined_characters(normalised, of_strings(strings))
        sizes = np.bincount(normalised.texts, minlength=len(texts)) - 1
        tricky = self._may_change(normalised, len(texts))
        # The tables know these characters; other texts are searched.
        tricky[[row for row, one in strings.items() if NO_TABLE.search(one)]] = True
        done = normalised.of(~tricky)
        if self._steps.repeats:
            done = _shorten_repeats(done)
        if tricky.any():
            changed = {row: normalise_short(one, self._steps) for row, one in normalised.of(tricky).strings().items()}
            done = joined_characters(done, of_strings(changed))
        found = self._counted(done, sizes, deferred)
        if self._settings.sketch and self._settings.sketch_text == "characters":
            found.sketched.update((row, characters_to_sketch(texts[row], self._steps)) for row in strings)
        return found._replace(formed=normalised.strings()) if self._settings.form else found

    def _by_definition(self, texts: Sequence[str], rows: list[int]) -> tuple[list[int], dict[int, str]]:
        """Normalise the texts that are not plain; return the deferred rows, and the others normalised."""
        if self._settings.has_long:
            return rows, {}
        strings = {row: before_tricks(texts[row], self._steps) for row in rows}
        deferred = [row for row, one in strings.items() if "\0" in one]
        return deferred, {row: one for row, one in strings.items() if "\0" not in one}

    def _plain(self, texts: Sequence[str]) -> tuple[Characters, Flags]:
        """Return the normalised characters of the plain texts, and which texts are not plain."""
        raw = characters_of(texts, np.arange(len(texts)))
        flags = code_point_tables().raw.take(raw.points, mode="clip")
        normalised = code_point_tables().normalised.take(raw.points, mode="clip")
        # Zeros within a text are no ends.
        ends = np.append(raw.texts[1:] != raw.texts[:-1], True)
        flags[ends], normalised[ends] = 0, 0
        closer = np.zeros(len(texts), np.bool_)
        closer[raw.texts[flags & self._closer != 0]] = True
        found = Characters(normalised, raw.texts)
        if flags.any() or self._settings.has_long:
            times = code_point_tables().times.take(raw.points, mode="clip")
            if self._settings.has_long:
                # Characters that short text drops count in long text: such a text could be long.
                closer |= np.bincount(raw.texts, times) > mixing_begin(self._settings.article_size or 0)
            times[flags & Raw.DROPPED != 0] = 0
            found = Characters(np.repeat(normalised, times), np.repeat(raw.texts, times))
        closer[found.texts[_addresses(found)]] = True
        if self._steps.rejoin:
            spaced = np.bincount(found.texts, found.points == _SPACE) > 0
            closer |= spaced & (np.bincount(found.texts, found.kinds() & Kind.SINGLE) > 0)
        if self._steps.join_numbers:
            closer[found.texts[found.kinds() & Kind.LEET != 0]] = True
        return _with_single_spaces(found.of(~closer)), closer

    def _may_change(self, normalised: Characters, n: int) -> Flags:
        """Return which of n texts the steps after NFKC may change, other than ``repeats``."""
        tricky = _may_hold_tricks(normalised, n)
        if self._steps.numbers != "keep":
            tricky[normalised.texts[normalised.kinds() & Kind.LEET != 0]] = True
        return tricky

    def _counted(self, whole: Characters, sizes: Numbers, deferred: list[int]) -> ShortTexts:
        odd = _needs_definition(whole, len(sizes))
        plain, defined = whole.of(~odd), {}
        if odd.any():
            defined = {row: units_that_count(one) for row, one in whole.of(odd).strings().items()}
        units = joined_units(units_in(plain), defined)
        found = np.bincount(units.texts, units.letters(), minlength=len(sizes))
        if self._settings.exact == "letters":
            sizes = found
        bare = _letters_alone(plain) if self._settings.sketch or self._settings.exact == "letters" else plain
        statuses = np.full(len(sizes), Status.SHORT, np.uint8)
        if self._settings.exact_size:
            statuses[(sizes < self._settings.exact_size) | (found < LEAST_LETTERS)] = Status.EXACT
        statuses[found == 0] = Status.FEATURELESS
        if self._settings.exact_size:
            # The reader knows what is compared of addresses; until then such a text has nothing.
            linked = np.unique(whole.texts[whole.points == _ADDRESS])
            rows = linked[statuses[linked] != Status.SHORT]
            deferred += rows.tolist()
            statuses[rows] = Status.FEATURELESS
        exact = statuses == Status.EXACT
        grams = self._grams(units.where((statuses == Status.SHORT).take(units.texts)))
        sketched: dict[int, str] = {}
        if self._settings.sketch and self._settings.sketch_text == "letters":
            sketched = _ideographs_first(bare, defined)
        elif self._settings.sketch:
            sketched = whole.where(whole.points != _SPACE).strings()
        if self._settings.exact == "characters":
            return ShortTexts(statuses, deferred, whole.of(exact).strings(), *grams, sketched)
        strings = {row: "".join(units) for row, units in defined.items() if exact[row]}
        return ShortTexts(statuses, deferred, bare.of(exact).strings() | strings, *grams, sketched)

    def _grams(self, units: Units) -> tuple[Numbers, U64, I64]:
        """Return the row, the number and the count of each gram."""
        word = units.points == WORD_POINT
        trigrams, each = self._trigrams.numbers(units.words)
        paired = (units.texts[1:] == units.texts[:-1]) & ~word[1:] & ~word[:-1]
        pairs = pairs_of(units.points[:-1], units.points[1:])[paired]
        owners = (units.texts[~word], units.texts[1:][paired], np.repeat(units.texts[word], each))
        every = np.concatenate(owners).astype(np.uint64) << _GRAM_BITS
        every |= np.concatenate((units.points[~word], pairs, trigrams))
        found, counts = np.unique(every, return_counts=True)
        grams = found & ((np.uint64(1) << _GRAM_BITS) - np.uint64(1))
        return (found >> _GRAM_BITS).astype(np.intp), grams, counts.astype(np.int64)


def _closer_look(steps: Normalisation) -> int:
    """Return the bits of ``points.Raw`` that make a character not plain under these steps."""
    given = {Raw.TRADITIONAL: steps.simplify, Raw.PICTURE: steps.emoji != "keep", Raw.DROPPED: not steps.invisible}
    return Raw.CLOSER | sum(flag for flag, holds in given.items() if holds)


def _addresses(found: Characters) -> Numbers:
    """Return where an address or a link target may be; characters of other landmarks are not plain."""
    points = found.points
    # A host ends with a top domain that begins with one of these letters, or begins with ``www.``.
    domain = np.isin(points[1:], _FIRST_OF_DOMAINS)
    dot, slash = points == _DOT, points == _SLASH
    host = (dot[:-1] & domain) | ((points[:-1] == _W) & dot[1:])
    return np.flatnonzero(host | (slash[:-1] & slash[1:]) | ((points[:-1] == _CLOSE) & (points[1:] == _OPEN)))


def _with_single_spaces(found: Characters) -> Characters:
    """Drop spaces beside other spaces and at the ends of texts."""
    space, edge = found.points == _SPACE, found.points <= _SPACE
    extra = space[1:] & edge[:-1]
    if extra.any() or space[:1].any():
        found = found.where(~np.concatenate((space[:1], extra)))
    trailing = (found.points[:-1] == _SPACE) & (found.points[1:] == 0)
    return found.where(~np.append(trailing, False)) if trailing.any() else found


def _may_hold_tricks(found: Characters, n: int) -> Flags:
    """Return which of n texts may have tricks of spam other than repeats: separated or lookalike characters."""
    kinds = found.kinds()
    tricky = np.zeros(n, np.bool_)
    joined, lone = kinds & Kind.JOINED != 0, kinds & Kind.APART != 0
    lone[1:] &= ~joined[:-1]
    lone[:-1] &= ~joined[1:]
    indices = np.flatnonzero(lone)
    near = np.diff(indices) <= MAX_SEPARATOR + 1
    tricky[found.texts[indices[2:][near[1:] & near[:-1]]]] = True
    latin, leet = kinds & Kind.LATIN != 0, kinds & Kind.LEET != 0
    tricky[found.texts[1:][(latin[:-1] & leet[1:]) | (leet[:-1] & latin[1:])]] = True
    return tricky


def _shorten_repeats(found: Characters) -> Characters:
    """Shorten runs of one character; see ``spam.shorten_repeats``."""
    points = found.points
    third = (points[2:] == points[1:-1]) & (points[2:] == points[:-2])
    if not third.any():
        return found
    third &= found.kinds()[2:] & Kind.FIXED == 0
    return found.where(~np.concatenate((np.zeros(2, np.bool_), third)))


def _needs_definition(whole: Characters, n: int) -> Flags:
    """Return which of n texts have marks, or so many symbols that symbols may count."""
    kinds = whole.kinds()
    letters = np.bincount(whole.texts[kinds & (Kind.LETTER | Kind.SINGLE) != 0], minlength=n)
    visible = np.bincount(whole.texts[(whole.points != _SPACE) & (whole.points != 0)], minlength=n)
    needs: Flags = letters * SYMBOLS < visible
    needs[whole.texts[kinds & Kind.MARK != 0]] = True
    return needs


def _letters_alone(plain: Characters) -> Characters:
    """Return letters and digits, and the ends of the texts."""
    return plain.where((plain.kinds() & (Kind.LETTER | Kind.SINGLE) != 0) | (plain.points == 0))


def _ideographs_first(bare: Characters, defined: Mapping[int, list[str]]) -> dict[int, str]:
    """Return the letters of each text in the order in which a sketch has them."""
    other = (bare.points < _FIRST_IDEOGRAPH) | (bare.points > _LAST_IDEOGRAPH)
    order = np.argsort(bare.texts * 3 + other + (bare.points == 0), kind="stable")
    found = bare.where(order).strings()
    return found | {row: letters_of_units(units) for row, units in defined.items()}
