"""Runs all parts of ``calibrate`` in order, and makes the report.

1. Read and fingerprint every line (``reading``).
2. Choose the articles to measure: all, or a sample if all would take more than ``COMPARISONS`` comparisons. The
   sample is drawn with a fixed seed, so that a report can be made again.
3. Find their nearest earlier entries among all articles (``nearest``).
4. Make figures and pairs of them (``figures``, ``edge``), and read the texts of the pairs again.
5. Make the profile with the suggested settings.

The window of the rules is not applied (an article may be near any earlier one), and re-crawls count as duplicates.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from stream_dedup.calibrate import edge
from stream_dedup.calibrate.figures import Figures, Labels, Measured, ceiling, figures, lengths_for
from stream_dedup.calibrate.labels import families, should_be_found
from stream_dedup.calibrate.nearest import MeasuredSearch, SignedEntries, measure, work
from stream_dedup.calibrate.reading import Collected, Where, collect, texts_at
from stream_dedup.config.effective import input_format_of, rules_of
from stream_dedup.config.model import Config
from stream_dedup.config.profile_file import file_text
from stream_dedup.core.arrays import I64
from stream_dedup.core.fingerprint.simhash import similarity
from stream_dedup.core.model import Status
from stream_dedup.core.profiles import PROFILES, Profile
from stream_dedup.core.rules import EXACT, most_probes
from stream_dedup.core.text.paths import FieldPath
from stream_dedup.errors import UserError
from stream_dedup.files.inputs import AS_RECOGNISED, Copies, Progress, printable
from stream_dedup.files.lines import MAX_LINE_BYTES
from stream_dedup.files.recognition import InputForm

COMPARISONS = 2_000_000_000
"""Most comparisons of signatures: all of 63,000 articles, or 4,000 of a million."""
SAMPLE_SEED = 0


class Listener(Protocol):
    """Receives the progress."""

    def reading(self, lines: int, progress: Progress) -> None:
        """Take the number of lines fingerprinted so far."""

    def comparing(self, done: int, whole: int) -> None:
        """Take the number of comparisons made so far."""


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
    pairs: tuple[edge.ShownPair, ...]
    profile: str


def calibrate(config: Config, options: Options, listener: Listener) -> CalibrationReport:
    """Make the report.

    Raises:
        UserError: a file cannot be used, holds fewer than two articles, or no labels where they are named.
        StreamDedupError: fingerprinting failed.
    """
    with closing(Copies()) as copies:
        return _report(config, options, listener, copies)


def _report(config: Config, options: Options, listener: Listener, copies: Copies) -> CalibrationReport:
    begun = time.monotonic()
    rules = rules_of(config)
    collected = collect(config, options.files, options.original, listener.reading, copies, options.form)
    entries = collected.entries
    _check(collected, options)
    queries = _asked(entries, options.comparisons)
    search = MeasuredSearch(
        entries, rules, lengths_for(rules, most_probes(rules.scheme.tables, rules.scheme.block_bits))
    )
    near = measure(entries, search, queries, ceiling(rules), listener.comparing)
    measured = Measured(rules, search, near, _labels(collected))
    kinds = [kind for kind in (Status.LONG, Status.SHORT) if (entries.statuses[queries] == kind).any()]
    rows = {kind: np.flatnonzero(entries.statuses[queries] == kind) for kind in kinds}
    shower = _Shower(config, options, collected, measured, copies)
    shown = [one for kind in kinds for one in shower.pairs(kind, rows[kind])]
    exact = np.flatnonzero(entries.statuses[queries] == Status.EXACT)
    made = [figures(measured, rows[kind], kind, int((entries.statuses == kind).sum())) for kind in kinds]
    return CalibrationReport(
        files=tuple(map(printable, options.files)),
        scheme=rules.scheme.id,
        search=rules.search,
        probes=rules.probes,
        limits={kind.name.lower(): rules.reach(kind) for kind in kinds},
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
        pairs=tuple(shown),
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
        lines = collected.statuses.total()
        of = "in the only line" if lines == 1 else f"in {lines:,} lines"
        files = ", ".join(map(printable, options.files))
        msg = f"{files}: {count} with words {of}; calibrate needs two, and says more with thousands"
        raise UserError(msg)


def _asked(entries: SignedEntries, comparisons: int) -> I64:
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
    family = families(collected.ids, collected.originals)
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


@dataclass(frozen=True, slots=True)
class _Shower:
    """Makes the pairs at the edge, with passages of their texts."""

    config: Config
    options: Options
    collected: Collected
    measured: Measured
    copies: Copies

    def pairs(self, kind: Status, rows: I64) -> list[edge.ShownPair]:
        """Return the pairs of one kind of text."""
        lists = edge.at_edge(self.measured, rows, kind, self.collected.entries.signatures, self.options.pairs)
        texts = self._texts({number for pairs in lists.values() for pair in pairs for number in pair[:2]})
        return [self._show(pair, side, kind, texts) for side, pairs in lists.items() for pair in pairs]

    def _texts(self, numbers: set[int]) -> dict[int, str]:
        """Return the texts of these articles; empty for one that can no longer be read."""
        sources = {number: Where(*self.collected.where[number].tolist()) for number in numbers}
        texts = texts_at(
            self.options.files,
            set(sources.values()),
            input_format_of(self.config, MAX_LINE_BYTES),
            self.copies,
            self.options.form,
        )
        return {number: texts.get(source, "") for number, source in sources.items()}

    def _show(self, pair: edge.Edge, side: edge.EdgeList, kind: Status, texts: dict[int, str]) -> edge.ShownPair:
        """Return a pair with its passages."""
        earlier, later = texts[pair.earlier], texts[pair.later]
        passages = edge.passages(earlier, later)
        return edge.ShownPair(
            kind=kind.name.lower(),
            side=side,
            earlier=self.collected.ids[pair.earlier],
            later=self.collected.ids[pair.later],
            distance=pair.distance,
            similarity=similarity(pair.distance, self.measured.search.width),
            earlier_passage=passages[0],
            later_passage=passages[1],
            lengths=(len(earlier), len(later)),
        )
