"""The section of the configuration that says when an article is a duplicate (``sections`` has the others)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator

from stream_dedup.config import checks
from stream_dedup.config.checks import parse_duration_ms
from stream_dedup.config.keys import PROFILE_DEFAULT, key
from stream_dedup.config.sections import Section
from stream_dedup.core.model import BLOCK_WIDTHS, SIGNATURE_BITS, SKETCH_SIZES, SKETCH_WORD_VALUES, TABLE_COUNTS
from stream_dedup.core.rules import (
    BUCKET_LIMIT,
    CANDIDATES,
    COPIES_LIMIT,
    MAX_BUCKET_LIMIT,
    MAX_CANDIDATES,
    greatest_distance,
    most_probes,
)

MAX_SKETCH_VALUES = SKETCH_SIZES[-1] * SKETCH_WORD_VALUES // 8


class MatchConfig(Section):
    """The rules by which an article is a duplicate."""

    profile: Literal["article", "comment", "simhash"] = key(
        "article", "named set of defaults for text, features and search"
    )
    search: Literal["exact", "directed"] | None = key(
        None,
        "exact: every fingerprint within distance; directed: the look-ups most likely to find a match",
        unset=PROFILE_DEFAULT,
    )
    distance: int | None = key(
        None,
        "exact search: bits of 64 in which two fingerprints may differ",
        unset=PROFILE_DEFAULT,
        ge=0,
        le=greatest_distance(BLOCK_WIDTHS[0]),
    )
    probes: int | None = key(
        None,
        "directed search: posting lists looked up for one article",
        unset=PROFILE_DEFAULT,
        ge=1,
        le=most_probes(TABLE_COUNTS[-1], BLOCK_WIDTHS[-1]),
    )
    limit: int | None = key(
        None,
        "directed search: bits of 256 in which two signatures may differ",
        unset=PROFILE_DEFAULT,
        ge=0,
        le=SIGNATURE_BITS,
    )
    short_limit: int | None = key(
        None,
        "directed search: the limit for short texts; where every text is short, match.limit applies",
        unset=PROFILE_DEFAULT,
        ge=0,
        le=SIGNATURE_BITS,
    )
    min_equal: int | None = key(
        None,
        "directed search: values of the sketches of two articles that must at least be equal",
        unset=PROFILE_DEFAULT,
        note="0: sketches are not compared",
        ge=0,
        le=MAX_SKETCH_VALUES,
    )
    short_min_equal: int | None = key(
        None,
        "directed search: the same for short texts; where every text is short, match.min_equal applies",
        unset=PROFILE_DEFAULT,
        ge=0,
        le=MAX_SKETCH_VALUES,
    )
    certain: int | None = key(
        None,
        "directed search: bits within which the signatures decide alone, and sketches are not compared",
        unset=PROFILE_DEFAULT,
        ge=0,
        le=SIGNATURE_BITS,
    )
    form_limit: int | None = key(
        None,
        "directed search: the limit for texts of one form that differ in their numbers",
        unset=PROFILE_DEFAULT,
        note="256: forms tell nothing",
        ge=0,
        le=SIGNATURE_BITS,
    )
    far: int | None = key(
        None,
        "directed search: bits beyond which match.far_min_equal values of the sketches must be equal",
        unset=PROFILE_DEFAULT,
        ge=0,
        le=SIGNATURE_BITS,
    )
    far_min_equal: int | None = key(
        None,
        "directed search: values of the sketches that must at least be equal beyond match.far bits",
        unset=PROFILE_DEFAULT,
        note="0: as many as within them",
        ge=0,
        le=MAX_SKETCH_VALUES,
    )
    bucket_limit: int = key(
        BUCKET_LIMIT, "newest entries of each posting list that are compared", ge=1, le=MAX_BUCKET_LIMIT
    )
    candidates: int = key(
        CANDIDATES,
        "entries that pass the sieve and are checked for one article: in the order of the look-ups, the newest first",
        note="0: all of them; a flood then slows the search",
        ge=0,
        le=MAX_CANDIDATES,
    )
    copies: int = key(
        1,
        "near earlier articles from which on an article is a duplicate; with fewer it is unique",
        ge=1,
        le=COPIES_LIMIT,
    )
    window: Annotated[str, AfterValidator(checks.duration)] | None = key(
        None,
        "time for which an article is remembered",
        form="a number with s, m, h or d, such as 90s, 15m, 24h, 7d",
        unset="for ever",
    )
    featureless: Literal["unique", "rejected"] = key("unique", "verdict of a text without words (only punctuation)")
    recrawl: Literal["duplicate", "update"] = key(
        "duplicate",
        "result for an article that is near an earlier one with the same id; an update is sent as unique",
    )
    observe: bool = key(default=False, meaning="send every record to the unique topic, with its verdict in its headers")

    @property
    def window_ms(self) -> int | None:
        """The window in milliseconds, or None for ever."""
        return None if self.window is None else parse_duration_ms(self.window)
