"""Profiles: named, versioned sets of what a log entry depends on and of how entries are judged.

* ``article``: news, posts, pages. Long text by its words, short text as comments are treated; directed search.
* ``comment``: comments, messages, reviews. Every length by characters, tricks of spam undone; directed search.
* ``simhash``: the classic by the book. Words by TF-IDF, fingerprints within k = 3 bits; exact search.

A change of any number here that an entry depends on needs a new version of the profile; ``tests/core/golden``
notices. What only the verdict depends on (search, distance, probes, limits) are defaults of the rules.
"""

from __future__ import annotations

from dataclasses import dataclass

from stream_dedup.core.rules import CLASSIC_DISTANCE, DIRECTED, EXACT
from stream_dedup.core.scheme import Features, FingerprintSettings, Normalisation, Treatment

ARTICLE_SIZE = 300
"""Characters below which a text of the ``article`` profile is short: it has too few words."""
EXACT_SIZE = 8
"""Characters below which one that is changed changes more than a tenth of the text: its exact form decides."""

_WORDS = Treatment(
    Normalisation(invisible=True, tags=True, urls="drop", join_numbers=True, simplify=True),
    Features(kind="words", words="marked", idf="languages", root=True, damping=2),
)
_CHARACTERS = Treatment(
    Normalisation(
        invisible=True,
        tags=True,
        urls="drop",
        emails="drop",
        users="drop",
        simplify=True,
        unspace=True,
        repeats=True,
        lookalikes=True,
    ),
    Features(kind="chars"),
)


@dataclass(frozen=True, slots=True)
class Profile:
    """Settings of the scheme, and defaults of the rules as ``rules.Rules`` has them."""

    settings: FingerprintSettings
    search: str
    distance: int | None = None
    probes: int | None = None
    limit: int | None = None
    short_limit: int | None = None


_ALL = (
    Profile(
        FingerprintSettings(
            profile="article",
            version=1,
            long=_WORDS,
            short=_CHARACTERS,
            article_size=ARTICLE_SIZE,
            exact_size=EXACT_SIZE,
        ),
        search=DIRECTED,
        probes=64,
        limit=52,
        short_limit=52,
    ),
    Profile(
        FingerprintSettings(
            profile="comment",
            version=1,
            long=_WORDS,
            short=_CHARACTERS,
            article_size=None,
            exact_size=EXACT_SIZE,
        ),
        search=DIRECTED,
        probes=128,
        limit=52,
        short_limit=52,
    ),
    Profile(FingerprintSettings(), search=EXACT, distance=CLASSIC_DISTANCE),
)
PROFILES = {one.settings.profile: one for one in _ALL}
DEFAULT_PROFILE = "article"
