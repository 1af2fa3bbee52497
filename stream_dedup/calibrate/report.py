"""Runs all parts of ``calibrate`` in order, and makes the report.

1. Read and fingerprint every line (``reading``).
2. Choose the articles to measure: all, or a sample if all would take more than ``COMPARISONS`` comparisons. The
   sample is drawn with a fixed seed, so that a report can be made again.
3. Find their nearest earlier entries among all articles (``nearest``).
4. Make figures (``figures``) and pairs at the edge of the limit of them, and read the texts of the pairs again.
5. Make the profile with the suggested settings.

The pairs at the edge of the limit are for a person to judge. There are three lists under the present rules: the **least
similar duplicates**, the **most similar pairs beyond the limit**, and the pairs **missed**: within the limit, but no
look-up reaches the earlier article. With labels there is a fourth: the most similar duplicates whose match is not of
their family. A flood of equal texts gives one pair: no two pairs of a list have the same earlier article, or the same
two signatures. Of each text a pair shows the passage around the first difference.

The window of the rules is not applied (an article may be near any earlier one), and re-crawls count as duplicates.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from os.path import commonprefix
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.calibrate.figures import (
    Figures,
    Labels,
    Measured,
    ceiling,
    families,
    figures,
    lengths_for,
    should_be_found,
)
from stream_dedup.calibrate.nearest import NOWHERE, MeasuredSearch, measure, work
from stream_dedup.calibrate.reading import Collected, Where, collect, texts_at
from stream_dedup.config.effective import input_format_of, rules_of
from stream_dedup.config.model import Config
from stream_dedup.config.profile_file import file_text
from stream_dedup.core.arrays import I64, U8
from stream_dedup.core.columns import Columns
from stream_dedup.core.model import FINGERPRINT_BITS, SIGNATURE_BITS, ReportProgress, Status, similarity
from stream_dedup.core.paths import FieldPath
from stream_dedup.core.profiles import PROFILES, Profile
from stream_dedup.core.rules import EXACT, most_probes
from stream_dedup.errors import UserError
from stream_dedup.files.inputs import AS_RECOGNISED, Copies, Progress, printable
from stream_dedup.files.lines import MAX_LINE_BYTES
from stream_dedup.files.recognition import InputForm

COMPARISONS = 2_000_000_000
"""Most comparisons of signatures: all of 63,000 articles, or 4,000 of a million."""
SAMPLE_SEED = 0
BEFORE = 20
"""Characters shown before the first difference."""
SHOWN = 160
"""Characters shown of each text."""


class EdgeList(StrEnum):
    """The list that a pair is in."""

    DUPLICATE = "duplicate"
    MISSED = "missed"
    BEYOND = "beyond"
    DENIED = "denied"


TITLES = {
    EdgeList.DUPLICATE: "Least similar duplicates: are they right?",
    EdgeList.MISSED: "Within the limit, but missed: no look-up reaches the earlier one",
    EdgeList.BEYOND: "Most similar beyond the limit: are they no duplicates?",
    EdgeList.DENIED: "Most similar duplicates that the labels deny: is a label missing?",
}


class Edge(NamedTuple):
    """A pair as numbers of entries: the judged article and the earlier one."""

    kind: Status
    side: EdgeList
    later: int
    earlier: int
    distance: int


@dataclass(frozen=True, slots=True)
class ShownPair:
    """A pair for a person to judge: ids, distance, similarity, and a passage of each text."""

    kind: str
    side: EdgeList
    earlier: str
    later: str
    distance: int
    similarity: float
    earlier_passage: str
    later_passage: str
    lengths: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a call, beside the configuration."""

    files: tuple[str, ...]
    original: FieldPath | None = None
    pairs: int = 10
    comparisons: int = COMPARISONS
    form: InputForm = AS_RECOGNISED


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """The result; ``text``, ``page`` and JSON are made of it.

    ``profile`` is the content of a profile's file: the profile of the call with the suggested settings.
    """

    files: tuple[str, ...]
    scheme: str
    search: str
    probes: int | None
    limits: dict[str, int]
    lines: int
    articles: int
    rejected: int
    featureless: int
    exact: int
    exact_duplicates: int
    asked: int
    comparisons: int
    seconds: float
    labelled: bool
    notes: tuple[str, ...]
    figures: tuple[Figures, ...]
    pairs: tuple[ShownPair, ...]
    profile: str

    def edge_lists(self, kind: str) -> Iterator[tuple[str, list[ShownPair]]]:
        """Yield the title and the pairs of each list of a kind of text; missed and denied ones, mostly none, if any."""
        for side, title in TITLES.items():
            shown = [one for one in self.pairs if (one.kind, one.side) == (kind, side)]
            if shown or side not in {EdgeList.MISSED, EdgeList.DENIED}:
                yield title, shown


def calibrate(
    config: Config, options: Options, reading: Callable[[int, Progress], None], comparing: ReportProgress
) -> CalibrationReport:
    """Make the report; ``reading`` is called after each batch with the lines fingerprinted so far and the bytes read.

    Raises:
        UserError: a file cannot be used, holds fewer than two articles, or no labels where they are named.
    """
    begun = time.monotonic()
    with closing(Copies()) as copies:
        collected = collect(config, options.files, options.original, reading, copies, options.form)
        _check(collected, options)
        rules, entries = rules_of(config), collected.entries
        queries = _asked(entries, options.comparisons)
        lengths = lengths_for(rules, most_probes(rules.scheme.tables, rules.scheme.block_bits))
        search = MeasuredSearch(entries, rules, lengths)
        near = measure(entries, search, queries, ceiling(rules), comparing)
        measured = Measured(rules, search, near, _labels(collected))
        statuses = entries.statuses[queries]
        rows = {kind: np.flatnonzero(statuses == kind) for kind in (Status.LONG, Status.SHORT) if kind in statuses}
        edges = [
            edge for kind in rows for edge in _edges(measured, rows[kind], kind, entries.signatures, options.pairs)
        ]
        pairs = _pairs(config, options, collected, edges, copies)
    made = [figures(measured, some, kind, int((entries.statuses == kind).sum())) for kind, some in rows.items()]
    exact = np.flatnonzero(statuses == Status.EXACT)
    return CalibrationReport(
        files=tuple(map(printable, options.files)),
        scheme=rules.scheme.id,
        search=rules.search,
        probes=rules.probes,
        limits={kind.name.lower(): rules.reach(kind) for kind in rows},
        lines=collected.statuses.total(),
        articles=len(entries),
        rejected=collected.statuses[Status.REJECTED],
        featureless=collected.statuses[Status.FEATURELESS],
        exact=collected.statuses[Status.EXACT],
        exact_duplicates=int((near.distances[exact, measured.step_of(0)] == 0).sum()),
        asked=len(queries),
        comparisons=work(entries.scope_hashes, queries),
        seconds=round(time.monotonic() - begun, 1),
        labelled=collected.originals is not None,
        notes=tuple(_notes(config, collected, queries)),
        figures=tuple(made),
        pairs=tuple(pairs),
        profile=file_text(suggested(config.match.profile, made)),
    )


def suggested(profile: Profile, made: Sequence[Figures]) -> Profile:
    """Return the profile with what the figures of each kind of text suggest.

    The search has one number of look-ups, and exact search one distance, for both kinds: the most look-ups, and the
    least distance, that one of them needs.
    """
    if not made:
        return profile
    if profile.search == EXACT:
        return replace(profile, distance=min(one.suggestion.limit for one in made))
    limits: dict[str, Any] = {"short_limit" if one.kind == "short" else "limit": one.suggestion.limit for one in made}
    profile = replace(profile, probes=max(one.suggestion.lookups for one in made), **limits)
    if profile.far != PROFILES[profile.settings.profile].far:  # else the file does not say it
        most = max(profile.limit or 0, profile.short_limit or 0)
        profile = replace(profile, far=min(profile.far or 0, most))
    return profile


def _check(collected: Collected, options: Options) -> None:
    if len(collected.entries) < 2:  # noqa: PLR2004 - two make a pair
        count = "only one article" if len(collected.entries) else "no article"
        files = ", ".join(map(printable, options.files))
        raise UserError(f"{files}: {count} with words; calibrate needs two, and says more with thousands")


def _asked(entries: Columns, comparisons: int) -> I64:
    """Return the numbers of the articles to measure, rising."""
    everyone = np.arange(len(entries))
    whole = work(entries.scope_hashes, everyone)
    if whole <= comparisons:
        return everyone
    count = max(1, len(entries) * comparisons // whole)
    return np.sort(np.random.default_rng(SAMPLE_SEED).choice(everyone, count, replace=False))


def _labels(collected: Collected) -> Labels | None:
    if collected.originals is None:
        return None
    family = families(collected.entries.ids, collected.originals)
    return Labels(family, should_be_found(family))


def _notes(config: Config, collected: Collected, queries: I64) -> list[str]:
    """Return what a reader must know to understand the figures."""
    notes = []
    if not collected.whole:
        notes.append(f"only the first {collected.statuses.total():,} lines were read")
    if len(queries) < len(collected.entries):
        notes.append(
            f"a sample: {len(queries):,} articles drawn at random were compared with all before them; "
            f"counts are of these"
        )
    if config.match.window is not None:
        notes.append(f"the window of {config.match.window} is not applied: articles are compared with all before them")
    if config.match.recrawl != "duplicate":
        notes.append("re-crawls count as duplicates here, though the rules let them pass as updates")
    return notes


def _pairs(
    config: Config, options: Options, collected: Collected, edges: Sequence[Edge], copies: Copies
) -> list[ShownPair]:
    """Return pairs with their ids and passages, which are empty where a text can no longer be read."""
    width = FINGERPRINT_BITS if config.match.profile.search == EXACT else SIGNATURE_BITS
    numbers = {number for edge in edges for number in (edge.later, edge.earlier)}
    sources = {number: Where(*collected.where[number].tolist()) for number in numbers}
    fmt = input_format_of(config, MAX_LINE_BYTES)
    texts = texts_at(options.files, set(sources.values()), fmt, copies, options.form)
    pairs = []
    for edge in edges:
        earlier, later = (texts.get(sources[number], "") for number in (edge.earlier, edge.later))
        earlier_passage, later_passage = passages(earlier, later)
        pairs.append(
            ShownPair(
                kind=edge.kind.name.lower(),
                side=edge.side,
                earlier=collected.entries.ids[edge.earlier],
                later=collected.entries.ids[edge.later],
                distance=edge.distance,
                similarity=similarity(edge.distance, width),
                earlier_passage=earlier_passage,
                later_passage=later_passage,
                lengths=(len(earlier), len(later)),
            )
        )
    return pairs


def _edges(measured: Measured, rows: I64, kind: Status, signatures: U8, most: int) -> list[Edge]:
    """Return the pairs of one kind of text: in each list at most ``most``, those nearest to the edge first."""
    limit = measured.rules.reach(kind)
    step = measured.step_of(limit)
    judged = measured.judged(rows, step, limit)
    within = measured.judged(rows, -1, limit)
    denied = judged & _denied(measured, rows, step)
    lists = (
        (EdgeList.DUPLICATE, rows[judged], step, -1),
        (EdgeList.MISSED, rows[within & ~judged], -1, 1),
        (EdgeList.BEYOND, rows[~within], -1, 1),
        (EdgeList.DENIED, rows[denied], step, 1),
    )
    return [
        Edge(kind, side, *pair)
        for side, some, at, direction in lists
        for pair in islice(_ordered(measured, some, at, direction, signatures), most)
    ]


def _denied(measured: Measured, rows: I64, step: int) -> NDArray[np.bool_]:
    """Return which articles have a match of another family; none without labels."""
    if measured.labels is None:
        return np.zeros(len(rows), np.bool_)
    family = measured.labels.family
    other: NDArray[np.bool_] = family[measured.near.queries[rows]] != family[measured.near.matches[rows, step]]
    return other


def _ordered(
    measured: Measured, rows: I64, step: int, direction: int, signatures: U8
) -> Iterator[tuple[int, int, int]]:
    """Yield the pairs of these rows by rising (1) or falling (-1) distance, without repetitions."""
    near = measured.near
    rows = rows[near.distances[rows, step] != NOWHERE]
    seen: set[object] = set()
    for row in rows[np.argsort(direction * near.distances[rows, step].astype(np.int64), kind="stable")].tolist():
        later, earlier = int(near.queries[row]), int(near.matches[row, step])
        marks = {earlier, (signatures[earlier].tobytes(), signatures[later].tobytes())}
        if seen.isdisjoint(marks):
            yield later, earlier, int(near.distances[row, step])
        seen |= marks


def passages(earlier: str, later: str) -> tuple[str, str]:
    """Return a passage of each text, from a little before their first difference on."""
    one, other = " ".join(earlier.split()), " ".join(later.split())
    start = max(0, len(commonprefix((one, other))) - BEFORE)  # noqa: RUF071 - of characters
    return _passage(one, start), _passage(other, start)


def _passage(text: str, start: int) -> str:
    # If one text is the beginning of the other, show its end.
    start = max(0, min(start, len(text) - BEFORE))
    shown = text[start : start + SHOWN]
    return ("…" if start else "") + shown + ("…" if start + SHOWN < len(text) else "")
