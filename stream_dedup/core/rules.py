"""The scheme and the rules of a log.

The scheme names everything that an entry depends on; it never changes within a log. The rules say how
articles are judged. They may change: the rules in force at an article's log position apply to it. ``judgement_of``
derives the verdict of an entry from them, and is defined for every entry.

Every rules record has a revision. The first record of a log takes effect. A later one takes effect only if its
revision is the one in force plus 1, so of two concurrent changes the first takes effect and the second is void.
A record equal to the rules in force restates them: nothing changes, but the log may be cut before it, because the
rest begins with rules. Every other record is void.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from itertools import count
from typing import Any, NamedTuple

from stream_dedup.core.logged_scheme import Scheme, is_whole, value_text
from stream_dedup.core.model import (
    BLOCK_BITS,
    BLOCKS_PER_WORD,
    FINGERPRINT_BITS,
    SIGNATURE_BITS,
    Judgement,
    Match,
    Status,
    Verdict,
)
from stream_dedup.core.reasons import FEATURELESS_REASON
from stream_dedup.errors import CorruptError

EXACT, DIRECTED = "exact", "directed"
"""The two kinds of search."""
UNIQUE, REJECTED = Verdict.UNIQUE.value, Verdict.REJECTED.value
"""Verdicts that text without features may have."""
DUPLICATE, UPDATE = Verdict.DUPLICATE.value, "update"
"""What an article may be that is near an earlier article with its own id."""

MAX_EXACT_LOOKUPS = 2048
"""Look-ups; the most that exact search makes for one article: they bound the distance (``greatest_distance``)."""
MASK_BITS, WIDE_MASK_BITS = 3, 4
"""Most bits of a block that a look-up of directed search flips: of 16 bits, and of a wider block. An edit flips more
bits of a wider block: with 3 of 24 bits no plan, however long, finds 5 % of the articles edited by 20 to 30 %."""
MAX_BUCKET_LIMIT = 1 << 20
"""Entries; the largest bucket limit. A longer scan of one posting list is no look-up."""
MAX_CANDIDATES = 1 << 16
"""Candidates; the largest bound on those that are checked for one article: 1 MiB of memory notes which they are."""
COPIES_LIMIT = 32
"""Near earlier articles up to which the copies of an article are counted: what lies beyond is a flood, of any size."""
MAX_WINDOW_MS = 1 << 53
"""285,000 years in ms: the largest whole number that every JSON reader keeps exactly."""

CLASSIC_DISTANCE = 3
"""Bits; k of SimHash as it was published for web pages (Manku 2007)."""
BUCKET_LIMIT = 16_384
"""Entries; the default bucket limit: the length of a posting list when 2**30 articles are spread evenly."""
CANDIDATES = 1024
"""Candidates; the default bound of a new log: ordinary articles have fewer, those of a flood have any number."""

FOR_EVER = "for ever"
"""The window of rules that have none."""
_UNITS = (("d", 86_400_000, 2), ("h", 3_600_000, 1), ("m", 60_000, 1), ("s", 1000, 1))
_NOT_IN_CONFIGURATION = frozenset(("scheme", "revision", "window_ms"))


def mask_bits(block_bits: int) -> int:
    """Return the most bits of a block that a look-up of directed search flips."""
    return MASK_BITS if block_bits == BLOCK_BITS else WIDE_MASK_BITS


def masks_within(most: int, block_bits: int) -> int:
    """Return the number of masks of a block that flip at most this many bits; 0 for a number below 0."""
    return sum(math.comb(block_bits, bits) for bits in range(most + 1))


def most_probes(tables: int, block_bits: int) -> int:
    """Return how many look-ups directed search can make: 697 a table with 16 bits, 6,196 with 20, 12,951 with 24."""
    return tables * masks_within(mask_bits(block_bits), block_bits)


def exact_radii(k: int, block_bits: int) -> tuple[int, ...]:
    """Return how many bits of each of the four blocks exact search flips at most; -1: it reads none of the table.

    ``probes`` has the proof that these find every fingerprint within k bits.
    """
    if block_bits == BLOCK_BITS:
        return (k // BLOCKS_PER_WORD,) * BLOCKS_PER_WORD
    return k // 2, -1, (k - 1) // 2, -1


@cache
def greatest_distance(block_bits: int) -> int:
    """Return the largest k of exact search in bits: a larger one takes more than ``MAX_EXACT_LOOKUPS`` look-ups."""
    lookups = (sum(masks_within(most, block_bits) for most in exact_radii(k, block_bits)) for k in count(1))
    return next(k for k, most in enumerate(lookups) if most > MAX_EXACT_LOOKUPS)


@cache
def exact_steps(block_bits: int) -> tuple[int, ...]:
    """Return, of each plan that exact search has at this width, the greatest k that it serves, rising."""
    every = range(greatest_distance(block_bits) + 1)
    return tuple(k for k in every if exact_radii(k, block_bits) != exact_radii(k + 1, block_bits))


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRules:
    """The search and its limits, which a profile has, too: ``Rules`` says what each means."""

    search: str = EXACT
    distance: int | None = CLASSIC_DISTANCE
    probes: int | None = None
    limit: int | None = None
    short_limit: int | None = None
    min_equal: int | None = None
    short_min_equal: int | None = None
    certain: int | None = None
    form_limit: int | None = None
    far: int | None = None
    far_min_equal: int | None = None
    dominated: int | None = None
    bucket_limit: int = BUCKET_LIMIT
    candidates: int | None = None


SEARCH_RULES = tuple(
    field.name for field in fields(SearchRules) if field.name not in {"search", "bucket_limit", "candidates"}
)
"""The fields of rules that are None where the search has no use for them: ``distance`` is that of exact search."""


@dataclass(frozen=True, slots=True)
class Rules(SearchRules):
    """How articles are judged from a log position on.

    Exact search: ``distance`` is k, in bits of the fingerprint; ``probes`` and the limits are None.
    Directed search: ``probes`` is the number of look-ups for each article. Two articles are near within ``limit`` bits
    of the signature, short texts within ``short_limit``. Beyond ``certain`` bits (None: at any distance) at least
    ``min_equal`` values of their sketches must be equal too, of short texts ``short_min_equal``; None or 0: sketches
    are not compared. Beyond ``far`` bits at least ``far_min_equal`` values must be equal of both kinds; None: the
    numbers are the same at every distance. Texts of one form that differ in their numbers are near within
    ``form_limit`` bits only; None: forms are not compared. ``distance`` is None.

    A long text is *dominated* if at most ``dominated`` bits of its fingerprint have a margin below 4
    (``probes.FIRM_MARGIN``); None: no text is. One feature then decides most bits, and different texts of that feature
    have nearly one signature. So sketches are compared at every distance: none is within ``certain``. With at most half
    as many such bits it is strongly dominated, and every distance is beyond ``far``, too. Whether the earlier text is
    dominated is not asked.

    ``window_ms`` is how long an article is remembered, in ms of log time; None: for ever. ``bucket_limit`` is
    the number of newest entries that are compared in each posting list. Of those that pass the sieve the first
    ``candidates`` are checked, in the order of the plan, and in each posting list the newest first; None: all of them.
    An article is a duplicate from ``copies`` near earlier articles on. ``featureless`` is the verdict of text without
    features, ``unique`` or ``rejected``. ``recrawl`` applies to an article near an earlier one with its own id:
    ``duplicate``, or ``update``, which is a unique article with the earlier version as its match. With ``observe``
    every output record goes to the topic of unique records, with the verdict in its headers.
    """

    scheme: Scheme
    revision: int = 1
    window_ms: int | None = None
    copies: int = 1
    featureless: str = UNIQUE
    recrawl: str = DUPLICATE
    observe: bool = False

    @property
    def directed(self) -> bool:
        """Whether the search is directed; otherwise it is exact."""
        return self.search == DIRECTED

    def reach(self, status: Status) -> int:
        """Return the greatest distance, in bits, at which a signed entry of this status is near another.

        The distance is that of the signatures in directed search, of the fingerprints in exact search. An exact text
        is near equal texts only.
        """
        if status is Status.EXACT:
            return 0
        if not self.directed:
            return self.distance or 0
        return (self.short_limit if status is Status.SHORT else self.limit) or 0

    def least_equal(self, status: Status) -> int:
        """Return how many values of its sketch must at least be equal to another's for an entry of this status.

        That is above ``certain_bits``; beyond ``far_bits`` it may be more. 0: sketches are not compared, as for an
        exact text, which is near equal texts only, and in exact search.
        """
        if status is Status.EXACT or not self.directed:
            return 0
        return (self.short_min_equal if status is Status.SHORT else self.min_equal) or 0

    @property
    def sieves_sure_bits(self) -> bool:
        """Whether the sieve compares the surest bits of a word, and not the whole word."""
        return self.directed and self.scheme.sketch_bytes > 0

    @property
    def certain_bits(self) -> int:
        """Distance of signatures up to which they decide alone; -1 if they never do."""
        return -1 if self.certain is None else self.certain

    @property
    def far_bits(self) -> int:
        """Distance of signatures beyond which ``far_min_equal`` values of the sketches must be equal."""
        return SIGNATURE_BITS if self.far is None else self.far

    @property
    def form_bits(self) -> int:
        """Distance of signatures up to which texts of one form are near though their numbers differ."""
        return SIGNATURE_BITS if self.form_limit is None else self.form_limit

    def problems(self) -> list[str]:
        """Return why these rules are invalid, each as ``name value: reason``; nothing if they are valid."""
        if problems := self.scheme.problems():
            return problems
        problems = [
            *_none_of("search", self.search, EXACT, DIRECTED),
            *_none_of("featureless", self.featureless, UNIQUE, REJECTED),
            *_none_of("recrawl", self.recrawl, DUPLICATE, UPDATE),
            *_none_of("observe", self.observe, *(True, False)),
        ]
        if problems:
            return problems
        needed = {"revision", "bucket_limit", "copies"}
        needed |= {"probes", "limit", "short_limit"} if self.directed else {"distance"}
        for name, allowed in self._ranges().items():
            value = getattr(self, name)
            if value is None and name not in needed:
                continue
            if allowed is None:
                unused = f"not used in {self.search} search under this scheme; remove it"
                problems.append(f"{name} {value_text(value)}: {unused}")
            elif not is_whole(value) or not allowed[0] <= value <= allowed[1]:
                problems.append(f"{name} {value_text(value)}: must be a whole number from {allowed[0]} to {allowed[1]}")
        if self.directed and (self.far is None) is not (self.far_min_equal is None):
            far = f"far {value_text(self.far)}, far_min_equal {value_text(self.far_min_equal)}"
            problems.append(f"{far}: set both, or none of them")
        if not self.directed and self.scheme.tables != BLOCKS_PER_WORD:
            problems.append(f"search 'exact': needs a scheme of 4 tables, this one has {self.scheme.tables}")
        return problems

    def to_json(self) -> bytes:
        """Canonical JSON.

        Raises:
            ValueError: the rules are invalid (``problems``).
        """
        if problems := self.problems():
            raise ValueError(f"invalid rules: {'; '.join(problems)}")
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def from_json(cls, raw: bytes) -> Rules:
        """Read canonical JSON.

        Raises:
            CorruptError: the bytes are not what ``to_json`` returns, or the rules are invalid.
        """
        try:
            values: dict[str, Any] = json.loads(raw)
            rules = cls(**values | {"scheme": Scheme(**values["scheme"])})
            problems = rules.problems()
            if not problems and rules.to_json() != raw:
                problems = ["not canonical JSON of all rules"]
        except (ValueError, TypeError, KeyError) as error:
            raise CorruptError(f"rules record cannot be read: {error}") from error
        if problems:
            raise CorruptError(f"rules record with invalid rules: {'; '.join(problems)}")
        return rules

    def differences(self, other: Rules) -> list[str]:
        """Return lines ``name: mine here, theirs in the log`` for each rule that differs; not the revision.

        Schemes are compared first: rules of two schemes have nothing in common (``scheme_mismatch``).
        """
        here, there = rule_values(self), rule_values(other)
        return [
            f"{name}: {value} here, {there[name]} in the log" for name, value in here.items() if value != there[name]
        ]

    def takes_force_after(self, current: Rules | None) -> bool:
        """Whether this record changes the rules where ``current`` is in force."""
        return current is None or (self.revision == current.revision + 1 and self.scheme == current.scheme)

    def next_revision(self, current: Rules) -> Rules:
        """Return these rules as the change that follows ``current``."""
        return replace(self, revision=current.revision + 1)

    def _ranges(self) -> dict[str, tuple[int, int] | None]:
        """Return the least and the greatest value of each number; None of one that search and scheme do not use."""
        scheme, bits = self.scheme, (0, SIGNATURE_BITS)
        ranges: dict[str, tuple[int, int] | None] = {
            "revision": (0, MAX_WINDOW_MS),
            "window_ms": (1, MAX_WINDOW_MS),
            "copies": (1, COPIES_LIMIT),
            "bucket_limit": (1, MAX_BUCKET_LIMIT),
            "candidates": (1, MAX_CANDIDATES),
            **dict.fromkeys(SEARCH_RULES),
        }
        if not self.directed:
            return ranges | {"distance": (0, greatest_distance(scheme.block_bits))}
        ranges["probes"] = (1, most_probes(scheme.tables, scheme.block_bits))
        ranges |= dict.fromkeys(("limit", "short_limit", "certain", "far"), bits)
        ranges |= dict.fromkeys(("min_equal", "short_min_equal", "far_min_equal"), (0, scheme.sketch_values))
        if scheme.form_bytes:
            ranges["form_limit"] = bits
        if scheme.sketch_values:
            ranges["dominated"] = (0, FINGERPRINT_BITS)
        return ranges


def rule_values(rules: Rules) -> dict[str, str]:
    """Return each rule except scheme and revision, in the form of the configuration."""
    names = [field.name for field in fields(rules) if field.name not in _NOT_IN_CONFIGURATION]
    window = FOR_EVER if rules.window_ms is None else _duration(rules.window_ms)
    return {name: value_text(getattr(rules, name)) for name in names} | {"window": window}


def rule_changes(before: Rules, now: Rules) -> list[str]:
    """Return ``name: old -> new`` for each rule that differs; scheme and revision are left out."""
    old, new = rule_values(before), rule_values(now)
    return [f"{name}: {old[name]} -> {new[name]}" for name in old if old[name] != new[name]]


class NearEntries(NamedTuple):
    """The earlier entries that are near an entry.

    ``match`` is the nearest, among equally near ones the earliest. With ``update`` it is the nearest earlier version of
    the same article, and the rules let updates pass. ``copies`` is how many there are, up to ``COPIES_LIMIT``.
    """

    match: Match
    copies: int = 1
    update: bool = False


def judgement_of(status: Status, rules: Rules, near: NearEntries | None, reason: str) -> Judgement:
    """Return the verdict of one entry.

    Args:
        status: the kind of the entry.
        rules: the rules in force at its log position.
        near: the earlier entries that are near it; None if no entry is.
        reason: why the record was rejected, if it was.
    """
    if status is Status.DELETE:
        return Judgement(Verdict.DELETE)
    if status is Status.REJECTED:
        return Judgement(Verdict.REJECTED, reason=reason)
    if status is Status.FEATURELESS:
        if rules.featureless == REJECTED:
            return Judgement(Verdict.REJECTED, reason=FEATURELESS_REASON)
        return Judgement(Verdict.UNIQUE)
    return Judgement(Verdict.UNIQUE) if near is None else _beside(near, rules)


def _beside(near: NearEntries, rules: Rules) -> Judgement:
    """Return the verdict of an entry that is near others."""
    if near.update:
        return Judgement(Verdict.UNIQUE, match=near.match, copies=near.copies)
    if near.copies < rules.copies:
        return Judgement(Verdict.UNIQUE, copies=near.copies)
    return Judgement(Verdict.DUPLICATE, match=near.match, copies=near.copies)


def _none_of(name: str, value: object, *allowed: object) -> list[str]:
    if any(value == one and isinstance(value, bool) is isinstance(one, bool) for one in allowed):  # 1 is no flag
        return []
    return [f"{name} {value!r}: must be {' or '.join(map(value_text, allowed))}"]


def _duration(ms: int) -> str:
    """Return a duration in the largest unit that divides it; in days from two days on."""
    fitting = (f"{ms // size}{unit}" for unit, size, least in _UNITS if ms % size == 0 and ms >= size * least)
    return next(fitting, f"{ms} ms")
