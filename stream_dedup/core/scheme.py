"""The scheme: everything that a log entry depends on, by name, version and content.

Two entries may be compared only if they were made under one scheme. So everything that can change a signature, a
margin, a scope hash or a status must change the result of ``scheme_of``: a setting is one of its parameters, code has a
version in ``_STEPS``, a data file is represented by the hash of its content. A step that calls code of a package or of
Python (the HTML parser, the JSON parsers, OpenCC, Unicode's tables) has a version of our own, not the package's: an
upgrade that changes no entry must not refuse a log. ``tests/core/test_steps.py`` holds each of these steps to its
results, and pyproject.toml names the versions for which they were seen. A change of the results is a new version here.

Not part of it are settings that cannot change an entry (the number of threads, settings without effect under the
others), and those that say what of a record is the article: the format, the names of
the fields of id and text, and the size limit. The same text gives a comparable entry wherever it was read.

Each data file is read and hashed once in a process. jieba's data are part of the native core, which says the hashes of
the files that it was built with.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import xxhash

from stream_dedup import _native
from stream_dedup.core.logged_scheme import DELETES, Scheme
from stream_dedup.core.model import (
    BLOCK_WIDTHS,
    FORM_BYTES,
    SIGNATURE_BITS,
    SKETCH_WORD_VALUES,
    TABLE_COUNTS,
    BlockBits,
    TableCount,
    Widths,
)
from stream_dedup.errors import UserError

Treat = Literal["keep", "drop", "token"]
"""What normalising does with URLs, numbers and so on: keep each, drop it, or replace it by one token for its kind."""

_STEPS = {
    "decode": "json-or-text/2",
    "deletes": "by-id/1",
    "normalise": "nfkc-casefold-unicode14/1",
    "hash": "xxh3-128-seeds-2n-2n+1/1",
    "margins": "8-steps-of-4-bits/1",
    "html": "html5ever/3",
    "characters": "hash-of-characters/1",
    "letters": "hash-of-letters/1",
    "mixing": "three-octaves-of-letters/1",
    "key_sentences": "first-last-longest/1",
    "invisible": "drop/1",
    "entities": "undo-twice/1",
    "quotes": "1",
    "tags": "drop/2",
    "urls": "1",
    "emails": "1",
    "users": "1",
    "numbers": "1",
    "emoji": "1",
    "fold": "unicode14/1",
    "join_numbers": "1",
    "rejoin": "1",
    "simplify": "opencc-t2s/1",
    "unspace": "1",
    "repeats": "1",
    "lookalikes": "1",
    "plain": "han-runs-by-jieba+letters-and-digits/1",
    "marked": "han-runs-by-jieba+letters-digits-marks+fours-of-unspaced/1",
    "chars": "characters+pairs+trigrams-of-words/2",
    "languages": "jieba+length+function-words/1",
    "stop_words": "drop/1",
    "form": "grammar-and-digits/1",
    "sketch": "one-permutation-minhash-of-{}/1",
}
"""Version of the code of each step."""
_SEGMENTER = ("dict.txt", "finalseg/prob_start.py", "finalseg/prob_trans.py", "finalseg/prob_emit.py")
"""The files of jieba's package on which the cuts depend: its dictionary and its model."""
_IDF, _COMMON_WORDS = "analyse/idf.txt", "common_words.txt"
"""jieba's IDF table, and our list of common words of languages other than Chinese."""


@dataclass(frozen=True, slots=True)
class Normalisation:
    """Optional steps of normalising, beside those that are always taken (``native/src/text/normalise.rs``).

    ``entities`` undoes escapes of HTML in plain text (&lt;p&gt;), so that ``tags`` finds what was escaped.
    ``invisible`` drops zero-width and control characters. ``quotes`` drops what others wrote, unless next to nothing
    else remains: quoted lines and passages, the mails that a text answers, the posts that it passes on. ``tags`` drops
    tags and entities of HTML, the targets of Markdown links, and the times of subtitles from plain text. ``fold`` makes
    one text of those that readers take for the same: with and without optional marks and stretched words, with radicals
    for ideographs, with letters that a language writes in two ways. ``join_numbers`` makes one number each of 3.50 and
    2024-05-01. ``rejoin`` drops spaces and line breaks between two ideographs, and spaces between lone letters beside
    these: text from PDF and scans has them. ``simplify`` turns traditional characters into simplified ones.
    Against spam: ``unspace`` joins single characters that separators keep apart, ``repeats`` shortens runs of one
    character, ``lookalikes`` replaces letters and digits by those that they look like.
    """

    invisible: bool = False
    quotes: Literal["keep", "drop"] = "keep"
    tags: bool = False
    entities: bool = False
    urls: Treat = "keep"
    emails: Treat = "keep"
    users: Treat = "keep"
    numbers: Treat = "keep"
    emoji: Treat = "keep"
    fold: bool = False
    join_numbers: bool = False
    rejoin: bool = False
    simplify: bool = False
    unspace: bool = False
    repeats: bool = False
    lookalikes: bool = False


@dataclass(frozen=True, slots=True)
class Features:
    """The features of a text and their weights.

    ``kind`` is ``words``, or ``chars``: characters and pairs of neighbours, and of the words of languages with spaces
    every three neighbouring letters. ``words`` says how words are split: ``plain`` is the way of the ``simhash``
    profile; ``marked`` keeps combining marks within words and splits languages without spaces into runs of characters.

    ``weights``: see ``native/src/features/weights.rs``. ``top_k`` keeps only the heaviest features; None: all.
    ``damped`` uses 1 + ``damping`` ln tf instead of tf (``tfidf`` only). ``idf`` is the source of the IDF of words:
    ``jieba``'s table alone, or also other ``languages``; ``root`` takes its square root. For ``chars``,
    ``gram_weights`` replace the IDF, in hundredths, at most 1,000: of an ideograph, of a pair of ideographs, of another
    character and another pair, and of a trigram. Scripts with few letters and without spaces repeat their letters in
    every text: pairs tell more there.
    """

    kind: Literal["words", "chars"] = "words"
    words: Literal["plain", "marked"] = "plain"
    weights: Literal["tfidf", "tf", "level"] = "tfidf"
    top_k: int | None = None
    damped: bool = True
    damping: int = 1
    idf: Literal["jieba", "languages"] = "jieba"
    root: bool = False
    gram_weights: tuple[int, int, int, int, int] = (100, 50, 30, 100, 60)


@dataclass(frozen=True, slots=True)
class Treatment:
    """Normalisation and features of one kind of text, long or short."""

    normalisation: Normalisation = field(default_factory=Normalisation)
    features: Features = field(default_factory=Features)


@dataclass(frozen=True, slots=True)
class FingerprintSettings:
    """How texts become entries. The defaults are the ``simhash`` profile.

    A text of less than ``article_size`` letters is short (0: no text; None: every text). A text of less than
    ``exact_size`` characters is near equal texts only (0: no text). ``exact`` says what is compared of such a text, and
    counted for its size: all characters or ``letters`` alone. ``native/src/reader.rs`` says which of them count.

    ``fields``: names and weights of the fields that make a text, in order; none: one text. A field of weight 3
    counts as if it occurred three times; weights are at most 100. ``key_sentences``: how many more times the first and
    last sentence of each paragraph and the longest sentence count. ``markup`` says whether texts are HTML;
    ``html_fields`` names the fields that are HTML if the others are not. ``user_dictionary`` (in jieba's format) and
    ``stop_words`` (one word per line, which does not count) are files of words; the scheme has the hash of their
    content.

    ``sketch``: lengths of shingles, and how many values of an entry's sketch are made of each; none: no sketch. It is
    made of the ``letters`` of the text, or of all ``characters``, addresses included. ``form``: whether it ends with
    the form of the text (``native/src/signature/form.rs``).

    ``scope_field``: articles match only within one value of this field. ``deletes``: whether there are entries that
    withdraw the articles with their id. ``seed`` changes the hash of every feature,
    ``tables`` is the number of block tables, ``block_bits`` the width of their keys.
    """

    profile: str = "simhash"
    version: int = 1
    long: Treatment = field(default_factory=Treatment)
    short: Treatment = field(default_factory=Treatment)
    article_size: int | None = 0
    exact_size: int = 0
    exact: Literal["characters", "letters"] = "characters"
    fields: tuple[tuple[str, int], ...] = ()
    key_sentences: int = 0
    markup: Literal["plain", "html"] = "plain"
    html_fields: tuple[str, ...] = ()
    user_dictionary: Path | None = None
    stop_words: Path | None = None
    sketch: tuple[tuple[int, int], ...] = ()
    sketch_text: Literal["letters", "characters"] = "letters"
    form: bool = False
    scope_field: str | None = None
    deletes: bool = False
    seed: int = 0
    tables: TableCount = TABLE_COUNTS[0]
    block_bits: BlockBits = BLOCK_WIDTHS[0]

    @property
    def widths(self) -> Widths:
        """Widths of the columns of the entries."""
        form = FORM_BYTES if self.form else 0
        return Widths(self.tables, self.sketch_values * 8 // SKETCH_WORD_VALUES + form)

    @property
    def sketch_values(self) -> int:
        """Values of an entry's sketch."""
        return sum(values for _, values in self.sketch)

    @property
    def has_long(self) -> bool:
        """Whether a text can be long."""
        return self.article_size is not None

    @property
    def has_short(self) -> bool:
        """Whether a text can be short or exact."""
        return self.article_size != 0 or self.exact_size > 0

    @property
    def drops_quotes(self) -> bool:
        """Whether what others wrote is dropped of every text, so that HTML keeps the tags of block quotations."""
        return (self.long.normalisation.quotes, self.short.normalisation.quotes) == ("drop", "drop")

    @property
    def field_weights(self) -> tuple[int, ...]:
        """Weights of the fields, in order."""
        return tuple(weight for _, weight in self.fields) or (1,)

    @property
    def html(self) -> tuple[bool, ...]:
        """Whether each field is HTML, in order."""
        names = tuple(name for name, _ in self.fields) or ("",)
        return tuple(self.markup == "html" or name in self.html_fields for name in names)

    def with_normalisation(self, **given: Any) -> FingerprintSettings:  # noqa: ANN401 - as replace() takes them
        """Return these settings with other normalisation of long and short text; None leaves a step as it is."""
        changed = [
            replace(one, normalisation=replace(one.normalisation, **_given(given))) for one in (self.long, self.short)
        ]
        return replace(self, long=changed[0], short=changed[1])

    def with_features(self, **given: Any) -> FingerprintSettings:  # noqa: ANN401 - as replace() takes them
        """Return these settings with other features of long text; None leaves a setting as it is."""
        return replace(self, long=replace(self.long, features=replace(self.long.features, **_given(given))))


def scheme_of(settings: FingerprintSettings) -> Scheme:
    """Return the scheme of entries made with these settings.

    Raises:
        UserError: a data file (OpenCC's, a user's) cannot be read, or a package is missing.
    """
    parameters: dict[str, Any] = {
        "bits": SIGNATURE_BITS,
        "hash": _STEPS["hash"],
        "margins": _STEPS["margins"],
        "seed": settings.seed,
        "tables": settings.tables,
        "block_bits": settings.block_bits,
    }
    if settings.sketch:
        parameters["sketch"] = [
            _STEPS["sketch"].format(settings.sketch_text),
            settings.widths.sketch_bytes,
            settings.sketch,
        ]
    if settings.form:
        parameters["form"] = f"{_STEPS['form']}-{_native.DATA_HASHES[_COMMON_WORDS]}"
    parameters |= _sizes(settings) | _input(settings)
    if settings.has_long:
        parameters["long"] = _treatment(settings.long, settings)
    if settings.has_short:
        parameters["short"] = _treatment(settings.short, settings)
    return Scheme(settings.profile, settings.version, json.dumps(parameters, sort_keys=True, separators=(",", ":")))


def _sizes(settings: FingerprintSettings) -> dict[str, Any]:
    sizes: dict[str, Any] = {}
    if settings.has_short:
        sizes["article_size"] = settings.article_size
    if settings.article_size:
        sizes["mixing"] = _STEPS["mixing"]
    if settings.exact_size:
        sizes |= {"exact": _STEPS[settings.exact], "exact_size": settings.exact_size}
    return sizes


def _input(settings: FingerprintSettings) -> dict[str, Any]:
    """Return the parameters of the step from a record to its texts."""
    taken: dict[str, Any] = {"decode": _STEPS["decode"]}
    if settings.fields:
        taken["fields"] = settings.fields
    if any(settings.html):
        taken |= {"html": _STEPS["html"], "html_fields": settings.html}
    if settings.key_sentences:
        taken |= {"key_sentences": [_STEPS["key_sentences"], settings.key_sentences]}
    if settings.scope_field is not None:
        taken["scope_field"] = settings.scope_field
    if settings.deletes:
        taken[DELETES] = _STEPS[DELETES]
    return taken


def _treatment(treatment: Treatment, settings: FingerprintSettings) -> dict[str, Any]:
    steps = {"normalise": _STEPS["normalise"]} | _normalisation(treatment.normalisation)
    kind = treatment.features.kind
    return steps | (_words(treatment.features, settings) if kind == "words" else _chars(treatment.features))


def _normalisation(normalisation: Normalisation) -> dict[str, str]:
    """Return the steps that are taken, with their versions."""
    steps = {}
    for one in fields(normalisation):
        value = getattr(normalisation, one.name)
        if value not in {False, "keep"}:
            steps[one.name] = _STEPS[one.name] if value is True else f"{value}/{_STEPS[one.name]}"
    if normalisation.simplify:
        steps["simplify"] += "-" + "-".join(_native.OPENCC_HASHES)
    return steps


def _words(features: Features, settings: FingerprintSettings) -> dict[str, Any]:
    steps: dict[str, Any] = {"words": _STEPS[features.words]}
    steps["dictionary"] = "-".join(_native.DATA_HASHES[name] for name in _SEGMENTER)
    if settings.user_dictionary is not None:
        steps["user_dictionary"] = content_hash(settings.user_dictionary)
    if settings.stop_words is not None:
        steps["stop_words"] = f"{_STEPS['stop_words']}-{content_hash(settings.stop_words)}"
    weights = _weights(features)
    if features.weights != "tf":
        weights["idf"] = _native.DATA_HASHES[_IDF]
        if features.idf == "languages":
            weights["languages"] = f"{_STEPS['languages']}-{_native.DATA_HASHES[_COMMON_WORDS]}"
        if features.root:
            weights["root"] = True
    return steps | {"weights": weights}


def _chars(features: Features) -> dict[str, Any]:
    weights = _weights(features)
    if features.weights != "tf":
        weights["grams"] = features.gram_weights
    return {"chars": _STEPS["chars"], "weights": weights}


def _weights(features: Features) -> dict[str, Any]:
    weights: dict[str, Any] = {"kind": features.weights, "top_k": features.top_k}
    if features.weights == "tfidf":
        weights["damped"] = features.damping if features.damped else 0
    return weights


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


@cache
def content_hash(path: Path) -> str:
    """Return the hash of a data file's content.

    Raises:
        UserError: the file cannot be read.
    """
    try:
        return xxhash.xxh3_64_hexdigest(path.read_bytes())
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror}): name a file that can be, or install its package again"
        ) from error
