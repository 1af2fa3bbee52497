"""A profile of one's own: a TOML file that starts from a built-in profile and says what is different.

    from = "article"

    [text]
    numbers = "drop"

    [search]
    limit = 60

``text`` and ``features`` have what the scheme depends on, ``search`` has rules. A key that is not given has the value
of the profile named by ``from``. ``load`` reads a file, as it reads the configuration; here are the keys, each declared
once, the rules between them, the profile that they make, and its keys and values as text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Literal

from stream_dedup.config.keys import (
    MAX_FIELD_WEIGHT,
    ConfigProblem,
    Section,
    all_keys,
    file_problem,
    key,
    toml_value,
)
from stream_dedup.core.model import (
    BLOCK_WIDTHS,
    FINGERPRINT_BITS,
    SIGNATURE_BITS,
    SKETCH_SIZES,
    SKETCH_WORD_VALUES,
    TABLE_COUNTS,
    BlockBits,
    TableCount,
)
from stream_dedup.core.profiles import PROFILES, Profile
from stream_dedup.core.rules import (
    EXACT,
    MAX_BUCKET_LIMIT,
    MAX_CANDIDATES,
    SEARCH_RULES,
    Rules,
    greatest_distance,
    most_probes,
)
from stream_dedup.core.scheme import FingerprintSettings, Normalisation, scheme_of

SUFFIX = ".toml"
"""Ends the path of a profile's file, and the name of no built-in profile."""
MAX_TEXT_SIZE = 1_000_000
"""Characters: no text that is fingerprinted as short is longer."""
MAX_SKETCH_VALUES = SKETCH_SIZES[-1] * SKETCH_WORD_VALUES // 8
EVERY_TEXT = "every text is short"
"""Shown for an article size that no text reaches."""

Value = str | int | bool | Path | None

_Handling = Literal["keep", "drop", "token"] | None
*_FIRST, _LAST = PROFILES
BUILT_IN = f"{', '.join(_FIRST)} or {_LAST}"
"""The names of the built-in profiles."""


def _handling(subject: str) -> _Handling:
    """Declare a key that says what normalisation does with one kind of character sequence."""
    handling: _Handling = key(None, f"handling of {subject}", note="token: all of them count as one word")
    return handling


def _bits(meaning: str, note: str = "") -> int | None:
    """Declare a key that is a number of bits of the signature."""
    bits: int | None = key(None, f"directed search: {meaning}", note=note, ge=0, le=SIGNATURE_BITS)
    return bits


def _values(meaning: str, note: str = "") -> int | None:
    """Declare a key that is a number of values of the sketch."""
    values: int | None = key(None, f"directed search: {meaning}", note=note, ge=0, le=MAX_SKETCH_VALUES)
    return values


class TextSection(Section):
    """The normalisation of a text before its features are taken: part of the scheme."""

    urls: _Handling = _handling("URLs")
    emails: _Handling = _handling("e-mail addresses")
    users: _Handling = _handling("user names (@name)")
    numbers: _Handling = _handling("numbers")
    emoji: _Handling = _handling("emoji")
    quotes: Literal["keep", "drop"] | None = key(None, "handling of what others wrote")
    invisible: bool | None = key(None, "remove zero-width and control characters")
    tags: bool | None = key(
        None, "remove stray HTML tags, the targets of Markdown links and the times of subtitles from plain text"
    )
    entities: bool | None = key(None, "read entities of HTML (&lt;) in plain text as characters")
    fold: bool | None = key(None, "read as equal what readers take for the same: optional marks, letters of two forms")
    join_numbers: bool | None = key(None, "read 3.50 and 2024-05-01 as one number each")
    rejoin: bool | None = key(None, "remove white space between two ideographs, as PDF and scans leave it")
    simplify: bool | None = key(None, "read traditional Chinese as simplified Chinese")
    unspace: bool | None = key(None, "remove spaces and symbols between single characters")
    repeats: bool | None = key(None, "shorten a character that is repeated many times")
    lookalikes: bool | None = key(None, "read look-alike letters and digits as the characters that they imitate")
    article_size: int | None = key(
        None,
        "a text below this size is short; from half to four times of it its features are characters and words",
        form="letters",
        ge=0,
        le=MAX_TEXT_SIZE,
    )
    exact_size: int | None = key(
        None, "a text below this size is near equal texts only", form="characters", ge=0, le=MAX_TEXT_SIZE
    )


class FeaturesSection(Section):
    """The features of a text and the tables of its signature: part of the scheme."""

    kind: Literal["words", "chars"] | None = key(None, "features of a long text")
    weights: Literal["tfidf", "tf", "level"] | None = key(None, "weighting of words")
    top_k: int | None = key(None, "number of features that count, the heaviest first", note="0: all", ge=0, le=100_000)
    damped: bool | None = key(None, "damp the count of a repeated word (1 + damping ln n)")
    damping: int | None = key(None, "weight that a repeated word gains where counts are damped", ge=1, le=16)
    idf: Literal["jieba", "languages"] | None = key(
        None, "word frequencies: jieba's table alone, or other languages as well"
    )
    root: bool | None = key(None, "take the square root of a word's IDF")
    key_sentences: int | None = key(
        None,
        "additional count of the longest sentence and of the first and last sentence of each paragraph",
        ge=0,
        le=MAX_FIELD_WEIGHT,
    )
    user_dictionary: Path | None = key(None, "words that are never split", form="a UTF-8 file, one word on each line")
    stop_words: Path | None = key(None, "words that do not count", form="a UTF-8 file, one word on each line")
    seed: int | None = key(None, "seed of the feature hash", ge=0, le=4_294_967_295)
    tables: TableCount | None = key(
        None, "number of block tables: 4 cover the fingerprint, 8 or 16 cover more of the signature"
    )
    block_bits: BlockBits | None = key(
        None, "bits of a key of a block table: wider keys have shorter posting lists, which pays in large indexes"
    )


class SearchSection(Section):
    """The search of the rules, which may change within a log."""

    kind: Literal["exact", "directed"] | None = key(
        None, "exact: every fingerprint within distance; directed: the look-ups most likely to find a match"
    )
    distance: int | None = key(
        None,
        "exact search: bits of 64 in which two fingerprints may differ",
        ge=0,
        le=greatest_distance(BLOCK_WIDTHS[0]),
    )
    probes: int | None = key(
        None,
        "directed search: posting lists looked up for one article",
        ge=1,
        le=most_probes(TABLE_COUNTS[-1], BLOCK_WIDTHS[-1]),
    )
    limit: int | None = _bits("bits of 256 in which two signatures may differ")
    short_limit: int | None = _bits("the limit for short texts; where every text is short, limit applies")
    min_equal: int | None = _values(
        "values of the sketches of two articles that must at least be equal", "0: sketches are not compared"
    )
    short_min_equal: int | None = _values("the same for short texts; where every text is short, min_equal applies")
    certain: int | None = _bits("bits within which the signatures decide alone, and sketches are not compared")
    form_limit: int | None = _bits(
        "the limit for texts of one form that differ in their numbers", "256: forms tell nothing"
    )
    far: int | None = _bits("bits beyond which far_min_equal values of the sketches must be equal")
    far_min_equal: int | None = _values(
        "values of the sketches that must at least be equal beyond far bits", "0: as many as within them"
    )
    dominated: int | None = key(
        None,
        "directed search: bits of the fingerprint with a small margin up to which one feature dominates a text, and "
        "sketches are compared at every distance",
        ge=0,
        le=FINGERPRINT_BITS,
    )
    bucket_limit: int | None = key(
        None, "newest entries of each posting list that are compared", ge=1, le=MAX_BUCKET_LIMIT
    )
    candidates: int | None = key(
        None,
        "entries that pass the sieve and are checked for one article: in the order of the look-ups, the newest first",
        note="0: all of them; a flood then slows the search",
        ge=0,
        le=MAX_CANDIDATES,
    )


class ProfileFile(Section):
    """What a file says beside ``from``."""

    read_first = ("from",)
    text: TextSection = TextSection()
    features: FeaturesSection = FeaturesSection()
    search: SearchSection = SearchSection()


_STEPS = tuple(field.name for field in fields(Normalisation))
"""Keys of ``text`` that are steps of the normalisation, of long and short text."""
_LONG_FEATURES = ("kind", "weights", "top_k", "damped", "damping", "idf", "root")
"""Keys of ``features`` that are features of a long text."""
_SETTINGS = ("key_sentences", "user_dictionary", "stop_words", "seed", "tables", "block_bits")
"""The other keys of ``features``: settings of fingerprinting."""


def with_values(base: Profile, given: ProfileFile) -> Profile:
    """Return a built-in profile with the given values."""
    text, features, search = given.text, given.features, given.search
    settings = base.settings.with_normalisation(**{name: getattr(text, name) for name in _STEPS})
    changed = {name: getattr(features, name) for name in _LONG_FEATURES} | {"top_k": features.top_k or None}
    settings = settings.with_features(**changed)
    own = {name: getattr(text, name) for name in ("article_size", "exact_size")}
    own |= {name: getattr(features, name) for name in _SETTINGS}
    settings = replace(settings, **{name: value for name, value in own.items() if value is not None})
    kind = search.kind or base.search
    rules = {name: getattr(search, name) for name in SEARCH_RULES}
    if kind != EXACT and not settings.has_long:
        rules |= {f"short_{name}": _or(rules[f"short_{name}"], rules[name]) for name in ("limit", "min_equal")}
    of_base = {"distance"} if kind == EXACT else {*SEARCH_RULES} - {"distance"}
    rules |= {name: _or(rules[name], getattr(base, name)) for name in of_base}
    return replace(
        base,
        settings=settings,
        search=kind,
        bucket_limit=search.bucket_limit or base.bucket_limit,
        candidates=base.candidates if search.candidates is None else search.candidates or None,
        **rules,
    )


def _or(given: int | None, else_this: int | None) -> int | None:
    return else_this if given is None else given


# Problems between keys that are each valid alone.


def profile_problems(base: Profile | None, given: ProfileFile) -> list[ConfigProblem]:
    """Return every problem between keys; none where the profile that the file starts from is not known."""
    if base is None:
        return []
    profile = with_values(base, given)
    return [
        *file_problem("features.user_dictionary", given.features.user_dictionary),
        *file_problem("features.stop_words", given.features.stop_words),
        *_size_problems(profile.settings),
        *_feature_problems(base, profile.settings, given.features),
        *_search_problems(profile),
        *_far_problems(profile, given.search),
    ]


def _size_problems(settings: FingerprintSettings) -> Iterator[ConfigProblem]:
    if settings.article_size and settings.exact_size > settings.article_size:
        yield ConfigProblem(
            "text.exact_size, text.article_size",
            f"no text is short: below {settings.exact_size} characters a text is compared whole, from "
            f"{settings.article_size} letters on it is long; set text.exact_size to a smaller value",
        )


def _feature_problems(
    base: Profile, settings: FingerprintSettings, features: FeaturesSection
) -> Iterator[ConfigProblem]:
    if not settings.has_long:
        for name in _LONG_FEATURES:
            if getattr(features, name) is not None:
                reason = f"it applies to long text, and in profile {base.name} every text is short"
                remedy = f"remove features.{name}, or set text.article_size"
                yield ConfigProblem(f"features.{name}, from, text.article_size", f"{reason}; {remedy}")
    if settings.has_long and settings.long.features.kind == "words":
        return
    for name in ("user_dictionary", "stop_words"):
        if getattr(features, name) is not None:
            reason = "it applies to words, and the features are characters"
            remedy = f"remove features.{name}, or start from article"
            yield ConfigProblem(f"features.{name}, features.kind, from", f"{reason}; {remedy}")


def _search_problems(profile: Profile) -> Iterator[ConfigProblem]:
    """Yield what is wrong with the rules that a log would get from the profile, in the words of ``Rules``."""
    scheme = scheme_of(replace(profile.settings, user_dictionary=None, stop_words=None))  # files of words are not read
    for problem in Rules(scheme, **profile.rules).problems():
        words = problem.partition(":")[0].split()
        keys = [f"search.{name}" for name in SEARCH_RULES if name in words] or ["search.kind", "features.tables"]
        yield ConfigProblem(", ".join(keys), problem)


def _far_problems(profile: Profile, search: SearchSection) -> Iterator[ConfigProblem]:
    """Yield what the given keys say of far entries in vain: the limit is lower, or as many values are asked anyway."""
    if profile.search == EXACT:
        return
    most = max(profile.limit or 0, profile.short_limit or 0)
    if search.far is not None and search.far > most:
        remedy = f"set search.far to at most {most}, or a greater search.limit"
        yield ConfigProblem(
            "search.far, search.limit, search.short_limit", f"no entry beyond {most} bits is near; {remedy}"
        )
    least = min(profile.min_equal or 0, profile.short_min_equal or 0)
    if 0 < (search.far_min_equal or 0) < least:
        reason = f"{least} values must be equal at any distance beyond search.certain"
        remedy = f"set at least {least}, or 0 for no other number beyond search.far"
        yield ConfigProblem("search.far_min_equal, search.min_equal, search.short_min_equal", f"{reason}; {remedy}")


# The values of a profile, as they are read.


def values_of(profile: Profile) -> dict[str, tuple[Value, Value]]:
    """Return the value of each key for long and for short text, in the order of declaration."""
    settings, long, short = profile.settings, profile.settings.long, profile.settings.short
    values: dict[str, tuple[Value, Value]] = {}
    for name, _ in all_keys(ProfileFile):
        section, _, inner = name.partition(".")
        if section == "text" and inner in _STEPS:
            values[name] = getattr(long.normalisation, inner), getattr(short.normalisation, inner)
            continue
        owner: object = settings
        if section == "search":
            owner, inner = profile, "search" if inner == "kind" else inner
        elif inner in _LONG_FEATURES:
            owner = long.features
        value: Value = getattr(owner, inner)
        value = 0 if value is None and inner in {"top_k", "candidates"} else value
        values[name] = value, value
    return values


def shown_values(profile: Profile) -> dict[str, str]:
    """Return, as text, the value of each key that the profile has a use for."""
    settings = profile.settings
    hidden = set() if settings.has_long else {f"features.{name}" for name in _LONG_FEATURES}
    shown = {name: _sides(settings, *value) for name, value in values_of(profile).items() if name not in hidden}
    if settings.article_size is None:
        shown["text.article_size"] = EVERY_TEXT
    return {name: word for name, word in shown.items() if word}


def own_keys(profile: Profile) -> dict[str, Value]:
    """Return the keys in which a profile differs from the built-in one that it starts from."""
    base = values_of(PROFILES[profile.settings.profile])
    return {
        name: long
        for name, (long, short) in values_of(profile).items()
        if long is not None and (long, short) != base[name]
    }


def file_text(profile: Profile) -> str:
    """Return a profile as the content of a file, which may stand in any folder."""
    lines, before = [f"from = {toml_value(profile.settings.profile)}"], ""
    for name, value in own_keys(profile).items():
        section, _, inner = name.partition(".")
        lines += [] if section == before else ["", f"[{section}]"]
        lines.append(f"{inner} = {toml_value(value)}")
        before = section
    return "\n".join(lines) + "\n"


def _sides(settings: FingerprintSettings, long: Value, short: Value) -> str:
    if long == short or not settings.has_short:
        return _word(long)
    return f"{_word(long)}; short text: {_word(short)}" if settings.has_long else _word(short)


def _word(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, Path):
        return toml_value(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
