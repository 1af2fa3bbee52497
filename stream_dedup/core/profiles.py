"""Profiles: named, versioned settings of the scheme, with defaults of the rules.

* ``article``: news, posts, pages. Long text is compared by its words, short text as comments are, and what is between
  by both; directed search.
* ``comment``: comments, messages, reviews. Text of every length is compared by characters, and tricks of spam are
  undone; directed search.
* ``simhash``: SimHash as published. Words with TF-IDF weights, fingerprints within k = 3 bits; exact search.

A change here of a setting that entries depend on needs a new version of the profile; the golden files of the tests
fail otherwise. Search, distance, probes and limits change verdicts only: a log gets them with its rules. Profiles of a
user's own are files that start from one of these (``config.profile_file``), read by ``config.load``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from stream_dedup.core.rules import CANDIDATES, CLASSIC_DISTANCE, DIRECTED, EXACT, SearchRules
from stream_dedup.core.scheme import Features, FingerprintSettings, Normalisation, Treatment

ARTICLE_SIZE = 250
"""Characters below which a text of the ``article`` profile is short: it has too few words to be compared by them."""
EXACT_SIZE = 4
"""Letters below which a text is near texts of the same letters only: one changed letter is a third of it."""
ARTICLE_SKETCH, COMMENT_SKETCH = ((2, 24), (4, 24)), ((3, 16), (4, 16), (5, 16))
"""Values of the sketches by the length of shingles, 24 bytes. An edited article keeps most of its pairs of letters; two
comments of the same common words share these too, and differ in longer shingles."""
CERTAIN = 20
"""Bits within which signatures decide alone. A signature is made of the text without what spam varies, such as links
and pictures; the sketch of a comment sees these too."""
FORM_LIMIT = 11
"""Bits within which texts of one form are near although their numbers differ: copies of a long notice, whose numbers
are a small part of it. Two notices from one template mostly differ in more bits."""
DOMINATED = 18
"""Bits of the fingerprint with a small margin up to which one feature dominates a text. Other texts have some 24. One
in twenty has as few, but its sketch agrees with those of its copies."""


_WORDS = Treatment(
    Normalisation(
        invisible=True,
        quotes="drop",
        tags=True,
        entities=True,
        urls="drop",
        fold=True,
        join_numbers=True,
        rejoin=True,
        simplify=True,
    ),
    Features(kind="words", words="marked", idf="languages", root=True, damping=2),
)
_CHARACTERS = Treatment(
    Normalisation(
        invisible=True,
        quotes="drop",
        tags=True,
        entities=True,
        urls="token",
        emails="drop",
        users="drop",
        fold=True,
        simplify=True,
        unspace=True,
        repeats=True,
        lookalikes=True,
    ),
    Features(kind="chars"),
)


@dataclass(frozen=True, slots=True)
class Profile(SearchRules):
    """Settings of the scheme, and the search of the rules."""

    settings: FingerprintSettings
    distance: int | None = field(default=None, kw_only=True)
    candidates: int | None = field(default=CANDIDATES, kw_only=True)
    path: Path | None = None
    """The file that it was read from; None of a built-in one."""

    @property
    def rules(self) -> dict[str, Any]:
        """The fields of ``rules.Rules`` that it sets: the search and its bounds."""
        return {one.name: getattr(self, one.name) for one in fields(SearchRules)}

    @property
    def name(self) -> str:
        """What the configuration calls it: a name, or the path of its file."""
        return self.settings.profile if self.path is None else str(self.path)


_ALL = (
    Profile(
        FingerprintSettings(
            profile="article",
            version=3,
            long=_WORDS,
            short=_CHARACTERS,
            article_size=ARTICLE_SIZE,
            exact_size=EXACT_SIZE,
            exact="letters",
            sketch=ARTICLE_SKETCH,
            form=True,
        ),
        search=DIRECTED,
        probes=768,
        limit=68,
        short_limit=68,
        min_equal=22,
        short_min_equal=22,
        certain=CERTAIN,
        form_limit=FORM_LIMIT,
        far=60,
        far_min_equal=35,
        dominated=DOMINATED,
    ),
    Profile(
        FingerprintSettings(
            profile="comment",
            version=3,
            long=_WORDS,
            short=_CHARACTERS,
            article_size=None,
            exact_size=EXACT_SIZE,
            exact="letters",
            sketch=COMMENT_SKETCH,
            sketch_text="characters",
        ),
        search=DIRECTED,
        probes=384,
        limit=72,
        short_limit=72,
        min_equal=24,
        short_min_equal=24,
        certain=CERTAIN,
        far=64,
        far_min_equal=32,
        dominated=DOMINATED,
    ),
    Profile(FingerprintSettings(), search=EXACT, distance=CLASSIC_DISTANCE),
)
PROFILES = {one.settings.profile: one for one in _ALL}
DEFAULT_PROFILE = "article"
