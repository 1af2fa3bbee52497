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
from dataclasses import dataclass, fields, replace
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
        scheme = self.scheme.problems()
        if scheme:
            return scheme
        search: list[str] = []
        if self.search == EXACT:
            search = self._exact_problems()
        elif self.search == DIRECTED:
            search = self._directed_problems()
        return [problem for problem in (*self._common_problems(), *search) if problem]

    def to_json(self) -> bytes:
        """Canonical JSON.

        Raises:
            ValueError: the rules are invalid (``problems``).
        """
        problems = self.problems()
        if problems:
            raise ValueError(f"no rules: {'; '.join(problems)}")
        values = _values_of(self) | {"scheme": _values_of(self.scheme)}
        return json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def from_json(cls, raw: bytes) -> Rules:
        """Read canonical JSON; a field that is None by default may be missing: an older log has none.

        Raises:
            CorruptError: the bytes are not JSON, fields are unknown or missing, or the rules are invalid.
        """
        try:
            values: dict[str, Any] = json.loads(raw)
            _refuse_other_fields("rules record", values, cls)
            _refuse_other_fields("scheme in a rules record", values["scheme"], Scheme)
            scheme = Scheme(**values.pop("scheme"))
            rules = cls(scheme=scheme, **values)
        except (ValueError, TypeError, AttributeError) as error:
            raise CorruptError(f"rules record cannot be read: {error}") from error
        problems = rules.problems()
        if problems:
            raise CorruptError(f"rules record that says no rules: {'; '.join(problems)}")
        return rules

    def differences(self, other: Rules) -> list[str]:
        """Return lines ``name: mine here, theirs in the log`` for each rule that differs; not the revision.

        Schemes are compared first: rules of two schemes have nothing in common (``scheme_mismatch``).
        """
        names = [field.name for field in fields(self) if field.name not in {"scheme", "revision"}]
        pairs = ((name, getattr(self, name), getattr(other, name)) for name in names)
        return [
            f"{name}: {_word(mine)} here, {_word(theirs)} in the log" for name, mine, theirs in pairs if mine != theirs
        ]

    def takes_force_after(self, current: Rules | None) -> bool:
        """Whether this record changes the rules where ``current`` is in force."""
        return current is None or (self.revision == current.revision + 1 and self.scheme == current.scheme)

    def restates(self, current: Rules | None) -> bool:
        """Whether this record repeats the rules in force."""
        return self == current

    def next_revision(self, current: Rules) -> Rules:
        """Return these rules as the change that follows ``current``."""
        return replace(self, revision=current.revision + 1)

    def _common_problems(self) -> list[str]:
        window = self.window_ms
        return [
            _outside("revision", self.revision, 0, MAX_WINDOW_MS),
            _none_of("search", self.search, EXACT, DIRECTED),
            "" if window is None else _outside("window_ms", window, 1, MAX_WINDOW_MS),
            _outside("bucket_limit", self.bucket_limit, 1, MAX_BUCKET_LIMIT),
            "" if self.candidates is None else _outside("candidates", self.candidates, 1, MAX_CANDIDATES),
            _outside("copies", self.copies, 1, COPIES_LIMIT),
            _none_of("featureless", self.featureless, UNIQUE, REJECTED),
            _none_of("recrawl", self.recrawl, DUPLICATE, UPDATE),
            _no_flag("observe", self.observe),
        ]

    def _exact_problems(self) -> list[str]:
        tables = self.scheme.tables
        four = tables == BLOCKS_PER_WORD
        return [
            _outside("distance", self.distance, 0, greatest_distance(self.scheme.block_bits)),
            *(_given(name, getattr(self, name), EXACT) for name in SEARCH_RULES[1:]),
            "" if four else f"search {self.search!r}: takes a scheme of 4 tables, this one has {tables}",
        ]

    def _directed_problems(self) -> list[str]:
        return [
            _given("distance", self.distance, DIRECTED),
            _outside("probes", self.probes, 1, most_probes(self.scheme.tables, self.scheme.block_bits)),
            _outside("limit", self.limit, 0, SIGNATURE_BITS),
            _outside("short_limit", self.short_limit, 0, SIGNATURE_BITS),
            self._sketch_problem("min_equal", self.min_equal),
            self._sketch_problem("short_min_equal", self.short_min_equal),
            "" if self.certain is None else _outside("certain", self.certain, 0, SIGNATURE_BITS),
            self._form_problem(),
            self._far_problem(),
            self._sketch_problem("far_min_equal", self.far_min_equal),
            self._dominated_problem(),
        ]

    def _far_problem(self) -> str:
        if (self.far is None) is not (self.far_min_equal is None):
            return f"far {_word(self.far)}, far_min_equal {_word(self.far_min_equal)}: each takes the other"
        return "" if self.far is None else _outside("far", self.far, 0, SIGNATURE_BITS)

    def _dominated_problem(self) -> str:
        if self.dominated is None:
            return ""
        if not self.scheme.sketch_values:
            return f"dominated {_word(self.dominated)}: the scheme has no sketches"
        return _outside("dominated", self.dominated, 0, FINGERPRINT_BITS)

    def _form_problem(self) -> str:
        if self.form_limit is None:
            return ""
        if not self.scheme.form_bytes:
            return f"form_limit {_word(self.form_limit)}: the scheme has no forms"
        return _outside("form_limit", self.form_limit, 0, SIGNATURE_BITS)

    def _sketch_problem(self, name: str, value: int | None) -> str:
        if value is None:
            return ""
        values = self.scheme.sketch_values
        if value and not values:
            return f"{name} {_word(value)}: the scheme has no sketches"
        return _outside(name, value, 0, values)


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


def _word(value: object) -> str:
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _values_of(one: Rules | Scheme) -> dict[str, object]:
    return {field.name: getattr(one, field.name) for field in fields(one)}


def _refuse_other_fields(what: str, values: dict[str, Any], kind: type[Rules | Scheme]) -> None:
    known = {field.name: field.default is None for field in fields(kind)}
    if set(values) - set(known) or not all(name in values or may_lack for name, may_lack in known.items()):
        raise CorruptError(f"{what} with fields {sorted(values)}: expected {sorted(known)}")


def _outside(name: str, value: object, least: int, most: int) -> str:
    if isinstance(value, int) and is_whole(value) and least <= value <= most:
        return ""
    return f"{name} {_word(value)}: must be a whole number from {least} to {most}"


def _none_of(name: str, value: object, *allowed: str) -> str:
    return "" if value in allowed else f"{name} {value!r}: must be {' or '.join(allowed)}"


def _no_flag(name: str, value: object) -> str:
    return "" if isinstance(value, bool) else f"{name} {value!r}: must be true or false"


def _given(name: str, value: object, search: str) -> str:
    return "" if value is None else f"{name} {_word(value)}: says nothing in {search} search"


def _duration(ms: int) -> str:
    """Return a duration in the largest unit that divides it; in days from two days on."""
    fitting = (f"{ms // size}{unit}" for unit, size, least in _UNITS if ms % size == 0 and ms >= size * least)
    return next(fitting, f"{ms} ms")
