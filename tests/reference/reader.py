"""Tells whether a text is long, short or exact, and counts its features. This is the definition of both.

The article size is compared with the number of letters, digits and ideographs in the words of the text, read as long
text, of all fields together: spaces, punctuation and markup make no text longer. The exact size is compared with the
number of characters of the text normalised as short text, including single spaces and punctuation, before tricks of
spam are undone (a word kept apart by dots includes the dots). A text with fewer than ``LEAST_LETTERS`` letters that
count is exact, whatever its size. If ``exact`` is ``letters``, the exact size is compared with the number of letters
that count, and an exact text is these alone: "Nice" and "nice!!" are equal.

In short text letters and digits count. In a text of almost nothing but symbols (drawings, a row of emoji with a word)
all visible characters count, each run of one symbol once. A text without a letter, a digit or such a symbol has no
features, and a token for an address is none of these. Of an exact text with addresses all characters are compared, the
addresses as they stand but for their schemes: a link alone is near the same link, and near no other.

Key sentences are the first and the last sentence of each paragraph (a line) and the longest sentence of a field. Words
of long text in key sentences count ``key_sentences`` more times.

A sketch is made of the letters of a text: the ideographs in order, then the other characters and words that count, in
order, without spaces. Both ways to read a text have the ideographs apart already. If ``sketch_text`` is ``characters``,
it is made of all characters of the text as short text but white space, and addresses are kept: of texts that differ in
little but a link, the signature sees the same text, and the sketch another one.

The result may depend only on the text and the settings.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from stream_dedup.core.model import Status
from stream_dedup.core.reader import read_lines
from stream_dedup.core.scheme import FingerprintSettings, Normalisation, Treatment
from tests.reference import clean, markup
from tests.reference.features import count_words, cut_unspaced, grams_of, segmenter, units_of
from tests.reference.form import MOST_LETTERS
from tests.reference.mixing import WHOLE, mixing_end, share_of_short
from tests.reference.normalise import HAN_FIRST, HAN_LAST, Runs, normalise, split_normalised
from tests.reference.quotes import drop_quotes

LEAST_LETTERS = 4
"""Least letters of a short text: of three, one changed is a large part of the text."""
SYMBOLS = 4
"""Visible characters for each letter from which on symbols count."""

_IDEOGRAPHS = re.compile(f"[{HAN_FIRST}-{HAN_LAST}]+")
_SYMBOLS = re.compile(r"([^\w\s])\1+")
# A dot ends a sentence only before white space, not in 3.14 or example.com.
_SENTENCE = re.compile(r"(?:[^。！？!?；;…\n.]|\.(?=\S))+")


_NONE: Counter[str] = Counter()


class Counted(NamedTuple):
    """Status and feature counts of a text."""

    status: Status
    long: Counter[str] = _NONE
    """Features of the text as long text; none of a text that is short enough."""
    short: Counter[str] = _NONE
    """Features of the text as short text; none of a text that is long enough. An exact text is its only feature."""
    share: int = 0
    """Share of the short text's features in the signature, of ``mixing.WHOLE``."""
    sketched: str = ""
    """Empty if the scheme has no sketch."""
    formed: str = ""
    """What the form is made of; empty if the scheme has no forms, or the text is too long to have one."""


class Reader:
    """Tells the status of texts and counts their features under one scheme."""

    def __init__(self, settings: FingerprintSettings) -> None:
        """Load nothing yet."""
        self._settings = settings
        self._article_size, self._any_html = settings.article_size or 0, any(settings.html)
        mixed = mixing_end(self._article_size) if settings.has_short else 0
        self.surely_long = max(mixed, settings.exact_size, MOST_LETTERS + 1 if settings.form else 0)
        """Size, in letters, from which on a text is long, whatever it is as short text."""

    def read(self, texts: Sequence[str]) -> Counted:
        """Return status and counts of one text, given by its fields in the order of the settings."""
        fields = self.plain(texts)
        runs = self._runs(fields)
        if runs and size_of(runs) >= self.surely_long:
            return self._long(fields, runs)
        normalised = self._before_tricks(fields)
        counted = self._read_normalised(fields, runs, normalised)
        return counted._replace(formed="\n".join(normalised)) if self._settings.form else counted

    def _read_normalised(self, fields: Sequence[str], runs: list[Runs], normalised: Sequence[str]) -> Counted:
        """Return status and counts of a text that may be short; ``normalised``: each field up to NFKC."""
        size, characters = size_of(runs), sum(map(len, normalised))
        short = self._as_short(normalised)
        units = [units_that_count(one) for one in short]
        letters = sum(len(unit) for one in units for unit in one if unit not in clean.TOKEN_NAMES)
        exact = letters if self._settings.exact == "letters" else characters
        if exact < self._settings.exact_size or (self._settings.exact_size and letters < LEAST_LETTERS):
            if not letters and not has_address(short):
                return Counted(Status.FEATURELESS)
            whole = Counter((self._exact(fields, short, units),))
            return Counted(Status.EXACT, short=whole, share=WHOLE)
        if not self._settings.has_long:
            return self._short(fields, short, units)
        share = share_of_short(size, self._article_size)
        if share == WHOLE:
            return self._short(fields, short, units)
        long = self._long(fields, runs)
        if long.long and share == 0:
            return long
        return self._mixed(long, self._short(fields, short, units), size, share)

    def plain(self, texts: Sequence[str]) -> list[str]:
        """Return each field as plain text."""
        if not self._any_html:
            return list(texts)
        marks = self._settings.drops_quotes
        return [
            markup.text_of(one, marks_quotes=marks) if html else one
            for one, html in zip(texts, self._settings.html, strict=True)
        ]

    def compared(self, texts: Sequence[str], status: Status) -> str:
        """Return the normalised text; of short text only what counts, separated by spaces."""
        fields = self.plain(texts)
        if status is Status.LONG:
            return "\n".join(normalise_by(field, self._settings.long.normalisation) for field in fields)
        short = self._as_short(self._before_tricks(fields))
        units = [units_that_count(one) for one in short]
        if status is Status.EXACT and (has_address(short) or self._settings.exact == "characters"):
            return self._exact(fields, short, units)
        return "\n".join(map(" ".join, units))

    def _before_tricks(self, fields: Sequence[str]) -> list[str]:
        """Return each field as short text up to NFKC."""
        return [before_tricks(field, self._settings.short.normalisation) for field in fields]

    def _as_short(self, normalised: Sequence[str]) -> list[str]:
        """Return each field as short text, from its text up to NFKC."""
        return [normalise_short(one, self._settings.short.normalisation) for one in normalised]

    def _long(self, fields: Sequence[str], runs: Sequence[Runs]) -> Counted:
        treatment, weights = self._settings.long, self._settings.field_weights
        counts = _weighted((self._count(one, treatment) for one in runs), weights)
        if self._settings.key_sentences:
            quoteless = (without_quotes(field, treatment.normalisation) for field in fields)
            key = (words_in(key_text(field), treatment) for field in quoteless)
            more = [weight * self._settings.key_sentences for weight in weights]
            counts.update(_weighted((self._count(one, treatment) for one in key), more))
        if not counts:
            return Counted(Status.FEATURELESS)
        return Counted(Status.LONG, long=counts, sketched=self._sketched(fields, lambda: map(_letters, runs)))

    def _short(self, fields: Sequence[str], normalised: Sequence[str], units: Sequence[list[str]]) -> Counted:
        treatment = self._settings.short
        if treatment.features.kind == "chars":
            each = [grams_of(one) for one in units]
        else:
            runs = (split_normalised(one, marked=treatment.features.words == "marked") for one in normalised)
            each = [self._count(one, treatment) for one in runs]
        counts = _weighted(each, self._settings.field_weights)
        if not counts:
            return Counted(Status.FEATURELESS)
        sketched = self._sketched(fields, lambda: map(letters_of_units, units))
        return Counted(Status.SHORT, short=counts, share=WHOLE, sketched=sketched)

    def _mixed(self, long: Counted, short: Counted, size: int, share: int) -> Counted:
        """Return the counts of a text between short and long; where one has no features, those of the other."""
        if not (long.long and short.short):
            return short if short.short else long
        return Counted(self._status(size), long.long, short.short, share, short.sketched)

    def _status(self, size: int) -> Status:
        return Status.LONG if size >= self._article_size else Status.SHORT

    def _runs(self, fields: Sequence[str]) -> list[Runs]:
        """Return the words of each field; none where no text is long."""
        return [words_in(field, self._settings.long) for field in fields] if self._settings.has_long else []

    def _exact(self, fields: Sequence[str], short: Sequence[str], units: Sequence[list[str]]) -> str:
        """Return what is compared of an exact text; ``short``: its fields as short text, ``units``: what counts."""
        if has_address(short):
            return "\n".join(with_addresses(field, self._settings.short.normalisation) for field in fields)
        return "\n".join(map("".join, units) if self._settings.exact == "letters" else short)

    def _sketched(self, fields: Sequence[str], letters: Callable[[], Iterable[str]]) -> str:
        """Return what the sketch of a text is made of; empty if the scheme has no sketch."""
        if not self._settings.sketch:
            return ""
        if self._settings.sketch_text == "letters":
            return "".join(letters())
        return "".join(characters_to_sketch(field, self._settings.short.normalisation) for field in fields)

    def _count(self, runs: Runs, treatment: Treatment) -> Counter[str]:
        """Count the words of one field, without the user's stop words."""
        own = self._settings.user_dictionary
        cut = segmenter(own, simplified=own is not None and treatment.normalisation.simplify)
        if treatment.features.words == "marked":
            runs = Runs(runs.han, cut_unspaced(runs.words))
        counts = count_words(runs, cut)
        if self._settings.stop_words is not None:
            for word in counts.keys() & stop_words(self._settings.stop_words, treatment.normalisation):
                del counts[word]
        return counts


def normalise_by(one: str, steps: Normalisation) -> str:
    """Normalise a text with these steps except that of numbers. This is the definition."""
    normalised = normalise(clean.before_nfkc(one, steps))
    return clean.after_nfkc(normalised, steps) if clean.changes_after_nfkc(steps) else normalised


def without_quotes(field: str, steps: Normalisation) -> str:
    """Return a field without what others wrote, from which key sentences are taken."""
    if steps.quotes == "keep":
        return field
    return drop_quotes(clean.undo_entities(field) if steps.entities else field)


def words_in(one: str, treatment: Treatment) -> Runs:
    """Return Han runs and other words of the normalised text."""
    steps, marked = treatment.normalisation, treatment.features.words == "marked"
    return _numbers(split_normalised(normalise_by(one, steps), marked=marked), treatment)


def before_tricks(field: str, steps: Normalisation) -> str:
    """Take the steps of short text up to NFKC and case folding."""
    return normalise(clean.before_nfkc(field, steps))


def has_address(short: Iterable[str]) -> bool:
    """Whether a text that is normalised as short text has a token for an address."""
    return any(clean.TOKENS["url"] in one for one in short)


def with_addresses(field: str, steps: Normalisation) -> str:
    """Return the characters of a field but white space, its addresses without schemes."""
    kept = before_tricks(field, replace(steps, urls="keep"))
    return clean.drop_schemes(kept).replace(" ", "")


def normalise_short(normalised: str, steps: Normalisation) -> str:
    """Take the steps of short text that follow NFKC."""
    done = clean.after_nfkc(normalised, steps) if clean.changes_after_nfkc(steps) else normalised
    return clean.replace_numbers(done, steps.numbers)


def units_that_count(normalised: str) -> list[str]:
    """Return the characters and words that count in short text."""
    units = units_of(normalised)
    letters = sum(map(len, units))
    if letters * SYMBOLS < len(normalised) - normalised.count(" "):
        bare = _SYMBOLS.sub(r"\1", normalised).replace(" ", "")
        if letters * SYMBOLS < len(bare) and (letters or clean.has_symbol(bare)):
            return list(bare)
    return units


def size_of(runs: Iterable[Runs]) -> int:
    """Return the number of letters, digits and ideographs of words, which is compared with the article size."""
    return sum(map(len, map(_letters, runs)))


def key_sentences(field: str) -> list[str]:
    """Return the first and last sentence of each paragraph and the longest of all, each sentence once."""
    paragraphs = [found for found in map(_SENTENCE.findall, field.splitlines()) if found]
    ends = [sentence for found in paragraphs for sentence in dict.fromkeys((found[0], found[-1]))]
    longest = max((sentence for found in paragraphs for sentence in found), key=len, default="")
    return ends if longest in ends or not longest else [*ends, longest]


def key_text(field: str) -> str:
    """Return the key sentences as a text, in which they stay apart where line breaks are dropped."""
    return "。\n".join(key_sentences(field))


@cache
def stop_words(path: Path, steps: Normalisation) -> frozenset[str]:
    """Return the user's stop words, normalised with these steps.

    Raises:
        UserError: the file cannot be read.
    """
    return frozenset(normalise_by(line, steps) for line in read_lines(path).values())


def characters_to_sketch(text: str, steps: Normalisation) -> str:
    """Return the characters of a text that its sketch is made of: all but white space, addresses included."""
    return normalise_short(before_tricks(text, with_addresses_kept(steps)), steps).replace(" ", "")


@cache
def with_addresses_kept(steps: Normalisation) -> Normalisation:
    """Return the steps without those that drop or replace addresses."""
    return replace(steps, urls="keep", emails="keep", users="keep")


def letters_of_units(units: list[str]) -> str:
    """Return the letters of a short text, its ideographs first: each of these is a unit."""
    joined = "".join(units)
    return "".join(_IDEOGRAPHS.findall(joined)) + _IDEOGRAPHS.sub("", joined)


def _letters(runs: Runs) -> str:
    return "".join((*runs.han, *runs.words))


def _numbers(runs: Runs, treatment: Treatment) -> Runs:
    return Runs(runs.han, clean.replace_number_words(runs.words, treatment.normalisation.numbers))


def _weighted(fields: Iterable[Counter[str]], weights: Sequence[int]) -> Counter[str]:
    """Add the counts of all fields, each multiplied by its weight."""
    total: Counter[str] | None = None
    for counts, weight in zip(fields, weights, strict=True):
        own = counts if weight == 1 else Counter({name: count * weight for name, count in counts.items()})
        if total is None:
            total = own
        else:
            total.update(own)
    return Counter() if total is None else total
