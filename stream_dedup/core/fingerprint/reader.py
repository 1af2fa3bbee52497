"""What kind of text this is, long, short or so short that its exact form decides, and its features.

Owns what is counted where a size is asked for: characters of the normalised text, single spaces and punctuation among
them, all fields together, before tricks of spam are undone (a word that is kept apart by dots has those dots).
Against the article size the text is held as the normalisation of long text leaves it, against the exact size as that of
short text does. However many characters it has, text of less than ``LEAST_UNITS`` characters and words that count
is decided by its exact form too.

What counts in short text are letters and digits. In text of nearly nothing but symbols (drawings, a row of
emoji with a word) all visible characters do, each run of a symbol once; text without a letter, a digit
or such a symbol has no features.

Most long text is known to be long from its words alone, which are part of it; only where these do not reach
the size is the text normalised as a whole and counted.

Key sentences are the first and the last of each paragraph (a line) and the longest of a field; words of long text that
stand in them count ``key_sentences`` times more.

Must never depend on anything but the text and the settings.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from stream_dedup.core.fingerprint.features import count_words, grams_of, pair_up, read_lines, segmenter, units_of
from stream_dedup.core.model import Status
from stream_dedup.core.scheme import FingerprintSettings, Normalisation, Treatment
from stream_dedup.core.text import clean, markup
from stream_dedup.core.text import normalise as text
from stream_dedup.core.text.normalise import Runs, normalise, split, split_normalised
from stream_dedup.core.text.simplify import simplify

LEAST_UNITS = 4
"""Characters or words that short text must have to be compared by them: of three, one that is changed is most of it."""
SYMBOLS = 4
"""Visible characters to one letter from which symbols are what the text says."""

_SYMBOLS = re.compile(r"([^\w\s])\1+")
# A dot ends a sentence only before white space: 3.14 and example.com go on.
_SENTENCE = re.compile(r"(?:[^。！？!?；;…\n.]|\.(?=\S))+")


class Counted(NamedTuple):
    """A text's kind, and how often each of its features stands there; of an exact text, the text itself once."""

    status: Status
    counts: Counter[str]


class Reader:
    """Tells kinds and counts features under one scheme."""

    def __init__(self, settings: FingerprintSettings) -> None:
        """Nothing is loaded before the first text."""
        self._settings = settings
        self._article_size = settings.article_size or 0
        self._surely_long = max(self._article_size, settings.exact_size)

    def warm(self) -> None:
        """Load dictionaries and tables now.

        Raises:
            UserError: a package or a file that the settings name cannot be loaded.
        """
        text.warm()
        if self._settings.has_long:
            self._warm(self._settings.long)
        if self._settings.has_short:
            self._warm(self._settings.short)

    def read(self, texts: Sequence[str]) -> Counted:
        """One text by its fields, in the order of the settings.

        Raises:
            UserError: as ``warm``.
        """
        fields = self._plain(texts)
        runs: list[Runs] = []
        if self._settings.has_long:
            runs = [words_in(field, self._settings.long) for field in fields]
            if _reaches(runs, self._surely_long):
                return self._long(fields, runs)
        size, short = self._normalised(fields)
        units = [units_that_count(one) for one in short]
        if size < self._settings.exact_size or (self._settings.exact_size and sum(map(len, units)) < LEAST_UNITS):
            return _exact(short) if any(units) else Counted(Status.FEATURELESS, Counter())
        if self._settings.has_long and self._size(fields) >= self._article_size:
            return self._long(fields, runs)
        return self._short(short, units)

    def size(self, texts: Sequence[str]) -> int:
        """Characters that are held against the article size."""
        return self._size(self._plain(texts))

    def compared(self, texts: Sequence[str], status: Status) -> str:
        """The text as it was compared: long text normalised, of short text what counts, apart by spaces."""
        fields = self._plain(texts)
        if status is Status.LONG:
            return "\n".join(normalise_by(field, self._settings.long.normalisation) for field in fields)
        _, short = self._normalised(fields)
        return "\n".join(short if status is Status.EXACT else (" ".join(units_that_count(one)) for one in short))

    def _warm(self, treatment: Treatment) -> None:
        steps = treatment.normalisation
        clean.warm()
        if steps.simplify:
            simplify("")
        if treatment.features.kind == "chars":
            units_of("")
        else:
            split_normalised("\u00e9", marked=treatment.features.words == "marked")
            self._count(Runs("", []), treatment)

    def _plain(self, texts: Sequence[str]) -> list[str]:
        return [markup.text_of(one) if html else one for one, html in zip(texts, self._settings.html, strict=True)]

    def _size(self, fields: Sequence[str]) -> int:
        return sum(len(normalise(clean.before_nfkc(field, self._settings.long.normalisation))) for field in fields)

    def _normalised(self, fields: Sequence[str]) -> tuple[int, list[str]]:
        """Characters that are held against the exact size, and each field as short text."""
        steps = self._settings.short.normalisation
        normalised = [normalise(clean.before_nfkc(field, steps)) for field in fields]
        return sum(map(len, normalised)), [normalise_short(one, steps) for one in normalised]

    def _long(self, fields: Sequence[str], runs: Sequence[Runs]) -> Counted:
        treatment, weights = self._settings.long, self._settings.field_weights
        counts = _weighted((self._count(one, treatment) for one in runs), weights)
        if self._settings.key_sentences:
            key = (words_in("\n".join(key_sentences(field)), treatment) for field in fields)
            more = [weight * self._settings.key_sentences for weight in weights]
            counts.update(_weighted((self._count(one, treatment) for one in key), more))
        return Counted(Status.LONG if counts else Status.FEATURELESS, counts)

    def _short(self, normalised: Sequence[str], units: Sequence[list[str]]) -> Counted:
        treatment = self._settings.short
        if treatment.features.kind == "chars":
            fields = [grams_of(one) for one in units]
        else:
            runs = (split_normalised(one, marked=treatment.features.words == "marked") for one in normalised)
            fields = [self._count(one, treatment) for one in runs]
        counts = _weighted(fields, self._settings.field_weights)
        return Counted(Status.SHORT if counts else Status.FEATURELESS, counts)

    def _count(self, runs: Runs, treatment: Treatment) -> Counter[str]:
        """Words of one field, without the user's stop words."""
        own = self._settings.user_dictionary
        cut = segmenter(self._settings.segmenter, own, simplified=own is not None and treatment.normalisation.simplify)
        if treatment.features.words == "marked":
            runs = Runs(runs.han, pair_up(runs.words))
        counts = count_words(runs, cut)
        if self._settings.stop_words is not None:
            for word in counts.keys() & stop_words(self._settings.stop_words, treatment.normalisation):
                del counts[word]
        return counts


def normalise_by(one: str, steps: Normalisation) -> str:
    """The text as it is compared under these steps, numbers aside: the definition."""
    normalised = normalise(clean.before_nfkc(one, steps))
    return clean.after_nfkc(normalised, steps) if clean.changes_after_nfkc(steps) else normalised


def words_in(one: str, treatment: Treatment) -> Runs:
    """Han runs and other words of the normalised text."""
    steps, marked = treatment.normalisation, treatment.features.words == "marked"
    if clean.changes_after_nfkc(steps):
        return _numbers(split_normalised(normalise_by(one, steps), marked=marked), treatment)
    return _numbers(split(clean.before_nfkc(one, steps), marked=marked), treatment)


def normalise_short(normalised: str, steps: Normalisation) -> str:
    """Short text when the steps that follow NFKC have been taken."""
    done = clean.after_nfkc(normalised, steps) if clean.changes_after_nfkc(steps) else normalised
    return clean.replace_numbers(done, steps.numbers)


def units_that_count(normalised: str) -> list[str]:
    """The characters and words that count in short text."""
    units = units_of(normalised)
    letters = sum(map(len, units))
    if letters * SYMBOLS < len(normalised) - normalised.count(" "):
        bare = _SYMBOLS.sub(r"\1", normalised).replace(" ", "")
        if letters * SYMBOLS < len(bare) and (letters or clean.has_symbol(bare)):
            return list(bare)
    return units


def key_sentences(field: str) -> list[str]:
    """First and last sentence of each paragraph, and the longest of all; one that is several of these, once."""
    paragraphs = [found for found in map(_SENTENCE.findall, field.splitlines()) if found]
    ends = [sentence for found in paragraphs for sentence in dict.fromkeys((found[0], found[-1]))]
    longest = max((sentence for found in paragraphs for sentence in found), key=len, default="")
    return ends if longest in ends or not longest else [*ends, longest]


@cache
def stop_words(path: Path, steps: Normalisation) -> frozenset[str]:
    """A user's stop words, as they stand in texts that are normalised by these steps.

    Raises:
        UserError: the file cannot be read.
    """
    return frozenset(normalise_by(line, steps) for line in read_lines(path))


def _exact(normalised: Sequence[str]) -> Counted:
    return Counted(Status.EXACT, Counter(("\n".join(normalised),)))


def _reaches(runs: Sequence[Runs], size: int) -> bool:
    """Whether the words alone, of which the normalised text has all characters, are of this size."""
    # Behind each run of ideographs is one space: at least half are ideographs, which is enough to know for most text.
    if sum(len(one.han) for one in runs) >= 2 * size:
        return True
    return sum(len(one.han) - one.han.count(" ") + sum(map(len, one.words)) for one in runs) >= size


def _numbers(runs: Runs, treatment: Treatment) -> Runs:
    return Runs(runs.han, clean.replace_number_words(runs.words, treatment.normalisation.numbers))


def _weighted(fields: Iterable[Counter[str]], weights: Sequence[int]) -> Counter[str]:
    """Counts of all fields together, each as often as it weighs."""
    total: Counter[str] | None = None
    for counts, weight in zip(fields, weights, strict=True):
        own = counts if weight == 1 else Counter({name: count * weight for name, count in counts.items()})
        if total is None:
            total = own
        else:
            total.update(own)
    return Counter() if total is None else total
