"""The generator of random logs that the tests of every level share: index, reference, worker.

All draws come from one seed, which a failing test prints: it is a parameter of the test, or a value that Hypothesis
names. A log has sources with gaps, batches in order, copies with other boundaries, clusters of near
signatures, several scopes and kinds of text, ids that come again, changes of rules (void ones too), trims (void ones
too), posting lists longer than the bucket limit, and, where asked for, log times that run backwards. A log of an odd
seed has withdrawals, seeded batches, bounds on candidates and numbers of copies, too, and every other one of these has
deletes: one of an even seed is the log that it was before these were known.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

from stream_dedup.core.entry import Basis, Forgotten, LogRecord, Payload, Trim, Withdrawal
from stream_dedup.core.logged_scheme import Scheme
from stream_dedup.core.model import (
    FINGERPRINT_BITS,
    FORM_BYTES,
    SIGNATURE_BITS,
    LogOffset,
    SourceOffset,
    Status,
    log_position,
    scope_hash_of,
)
from stream_dedup.core.rules import DIRECTED, Rules, greatest_distance
from tests.logs import (
    DELETING_SCHEME,
    OTHER_TOPIC,
    SCHEME,
    START_TIME,
    TOPIC,
    Entry,
    delete_of,
    entries_batch,
    record,
    scheme_of,
)

IDS = 6
"""Ids that come again."""
DELETES = 0.05
"""Of so many entries of a log with deletes one is a delete."""
KEY_BITS = (16, 16, 20, 24)
"""Bits of a block, as random logs have them."""
SOURCES = [(TOPIC, 0), (TOPIC, 1), (OTHER_TOPIC, 0), (OTHER_TOPIC, 1)]
FINGERPRINT_START = SIGNATURE_BITS - FINGERPRINT_BITS
"""Lowest bit of the fingerprint in the signature as a whole number."""


class RandomEntries:
    """Draws entries around a few centres, so that many are near each other."""

    def __init__(
        self, rng: random.Random, centres: int, tables: int, sketch_bytes: int = 0, form_bytes: int = 0
    ) -> None:
        self._rng = rng
        self._tables = tables
        self._centres = [rng.getrandbits(SIGNATURE_BITS) for _ in range(centres)]
        # Some centres share their first block with others without being near: long lists of unrelated entries.
        rest = SIGNATURE_BITS - 16
        self._centres += [centre >> rest << rest | rng.getrandbits(rest) for centre in self._centres[: centres // 2]]
        self._scopes: list[str | None] = rng.choice([[None], [None], [None, "a", "b"]])
        self._kinds = rng.choice([[Status.LONG], [Status.LONG, Status.LONG, Status.SHORT, Status.EXACT]])
        # Draws of their own: with sketches and without the rest of a log is the same.
        self._sketch_rng = random.Random(self._centres[0])
        self._sketch = self._sketch_rng.randbytes(sketch_bytes - form_bytes)
        self._half = form_bytes // 2
        self.deletes: random.Random | None = None
        """Draws the deletes among the entries; None: there are none."""

    def draw(self) -> Entry:
        """Draw an entry; one in ten has no signature."""
        rng = self._rng
        if self.deletes is not None and self.deletes.random() < DELETES:
            return delete_of(f"article {self.deletes.randrange(IDS)}")
        kind = rng.random()
        if kind < 0.1:
            return Entry(0, status=Status.REJECTED if kind < 0.05 else Status.FEATURELESS)
        flipped = self._flips()
        signature = rng.choice(self._centres) ^ sum(1 << bit for bit in flipped)
        status, scope = rng.choice(self._kinds), rng.choice(self._scopes)
        identity = f"article {rng.randrange(IDS)}" if rng.random() < 0.5 else None
        margins, sketch = self._margins(flipped), self._sketch_near_the_usual() + self._form()
        return Entry(signature, margins, scope_hash_of(status, scope), status, identity, sketch)

    def fingerprint(self) -> int:
        """Draw a fingerprint near a centre's."""
        flipped = {bit for bit in self._flips() if bit >= FINGERPRINT_START}
        return (self._rng.choice(self._centres) ^ sum(1 << bit for bit in flipped)) >> FINGERPRINT_START

    def _sketch_near_the_usual(self) -> bytes:
        """None, some, or most of the values are those that most entries have."""
        rng = self._sketch_rng
        share = rng.choice([0, 0.1, 0.3, 1])
        masks = bytes(rng.choice([0x0F, 0xF0, 0xFF]) if rng.random() < share else 0 for _ in self._sketch)
        others = rng.randbytes(len(masks))
        return bytes(own ^ other & mask for own, other, mask in zip(self._sketch, others, masks, strict=True))

    def _form(self) -> bytes:
        """Of few frames and numbers, so that many texts of one form differ in their numbers; frame 0 is none."""
        halves = (self._sketch_rng.choice([0, 1, 2, 1 << 31]) for _ in range(2)) if self._half else ()
        return b"".join(half.to_bytes(self._half, "little") for half in halves)

    def _flips(self) -> set[int]:
        """Bits that differ from a centre: anywhere, in the first word, or in one block; 0 is the lowest of the 256."""
        rng = self._rng
        word = (FINGERPRINT_START, FINGERPRINT_BITS)
        low, size = rng.choice([(0, SIGNATURE_BITS), word, word, (16 * rng.randrange(16), 16)])
        most = rng.choice([0, 1, 4, 13, 25])
        return {low + rng.randrange(size) for _ in range(rng.randint(0, most))}

    def _margins(self, flipped: set[int]) -> str:
        """Mostly small where a bit was flipped; of few values, so that costs are often equal."""
        rng = self._rng
        usual = rng.choice(["f", "37f", "0123456789abcdef"])
        digits = rng.choices(usual, k=16 * self._tables)
        for bit in flipped:
            position = SIGNATURE_BITS - 1 - bit
            if position < len(digits) and rng.random() < 0.8:
                digits[position] = rng.choice("001")
        return "".join(digits)


@dataclass
class RandomLog:
    """A log that grows by a step at a time, as workers would write it.

    ``append_*`` are the steps of a test that says what comes next; ``grow`` draws the steps too. ``step`` is a usual
    time between two records, in ms of log time. With ``seeds`` some batches are seeded ones.
    """

    rng: random.Random
    tables: int = 4
    centres: int = 6
    most_rows: int = 12
    step: int = 700
    runs_back: bool = False
    scheme: Scheme = SCHEME
    time: int = START_TIME
    seeds: bool = False
    records: list[LogRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._entries = RandomEntries(
            self.rng, self.centres, self.tables, self.scheme.sketch_bytes, self.scheme.form_bytes
        )
        if self.scheme.deletes:
            self._entries.deletes = random.Random(f"deletes {self.centres} {self.most_rows}")
        self._offsets: dict[tuple[bytes, int], list[int]] = {source: [] for source in SOURCES}
        self._drawn: dict[tuple[bytes, int], list[Entry]] = {source: [] for source in SOURCES}
        self._logged = dict.fromkeys(SOURCES, 0)

    def append_rules(self, **changes: Any) -> int:  # noqa: ANN401 - fields of Rules
        """Append rules; returns the offset of the record."""
        return self._append(Rules(self.scheme, **changes))

    def append_trim(self, before: int, horizon: int, basis: Basis | None = None) -> None:
        """Append a trim; by default it forgets nothing, and its author knew the rules in force and the whole log."""
        basis = basis or Basis(self.revision, LogOffset(self.end), ())
        self._append(Trim(LogOffset(before), horizon, basis))

    def append_withdrawal(self) -> None:
        """Withdraw some entries, of recent records mostly; some positions hold no entry, or none yet."""
        rng = self.rng
        recent = [each.offset for each in self.records[-8:]]
        offsets = [rng.choice(recent) for _ in range(2)] + [
            rng.randrange(self.end + 2) for _ in range(rng.randrange(3))
        ]
        positions = {log_position(offset, rng.randrange(self.most_rows)) for offset in offsets}
        self._append(Withdrawal(tuple(sorted(positions))))

    @property
    def revision(self) -> int:
        """That of the rules in force."""
        rules = None
        for each in self.records:
            if isinstance(each.payload, Rules) and each.payload.takes_force_after(rules):
                rules = each.payload
        return 0 if rules is None else rules.revision

    @property
    def end(self) -> int:
        """The log offset after the last record."""
        return self.records[-1].offset + 1 if self.records else 0

    def logged_before(self, source: tuple[bytes, int]) -> int:
        """The offset after the last one that was logged of a source."""
        logged = self._logged[source]
        return self._offsets[source][logged - 1] + 1 if logged else 0

    def append_articles(self) -> None:
        """Append the next articles of some source."""
        source = self.rng.choice(SOURCES)
        self._append_batch(source, self._logged[source])

    def append_copy(self, reach: int | None = None) -> None:
        """Log articles of some source again, with other boundaries, perhaps with new ones behind them.

        The copy begins among the last ``reach`` logged articles, by default anywhere.
        """
        source = self.rng.choice(SOURCES)
        logged = self._logged[source]
        if logged:
            self._append_batch(source, self.rng.randrange(max(0, logged - (reach or logged)), logged))

    def append_batch(self, *, copies: bool = True) -> None:
        """Append new articles, or now and then a copy of recent ones."""
        if copies and self.rng.random() < 0.25:
            self.append_copy(2 * self.most_rows)
        else:
            self.append_articles()

    def _append_batch(self, source: tuple[bytes, int], first: int) -> None:
        after = first + self.rng.randint(1, self.most_rows)
        offsets, drawn = self._offsets[source], self._drawn[source]
        while len(offsets) < after:
            gap = self.rng.choice([1, 1, 1, 2])  # transaction markers
            offsets.append((offsets[-1] if offsets else -1) + gap)
            drawn.append(self._entries.draw())
        self._logged[source] = max(self._logged[source], after)
        part = slice(first, after)
        batch = entries_batch(offsets[part], drawn[part], *self.scheme.widths, topic_id=source[0], partition=source[1])
        # Every other batch says up to where its author had read: no verdict depends on it.
        if len(self.records) % 2:
            batch = replace(batch, read_to=LogOffset(self.end), seeded=self.seeds and self.rng.random() < 0.3)
        self._append(batch)

    def _append(self, payload: Payload) -> int:
        self.time += self.step * self.rng.choice([0, 0, 1, 1, 4, 4, -1 if self.runs_back else 1])
        gap = self.rng.choice([1, 1, 2])  # the log has transaction markers too
        offset = self.records[-1].offset + gap if self.records else 0
        self.records.append(record(offset, self.time, payload))
        return offset


@dataclass
class RandomSteps:
    """Draws every step of a random log: rules, batches, copies and trims.

    ``shrinking`` lets windows only shrink: one that grows reaches behind what a trim was right to remove. With
    ``bounds`` rules bound the candidates, ask for more than one copy and compare sketches, as it draws.
    """

    log: RandomLog
    trims: bool = True
    copies: bool = True
    shrinking: bool = False
    withdrawals: bool = False
    bounds: random.Random | None = None

    def __post_init__(self) -> None:
        self._rng = self.log.rng
        self._rules = self._draw_rules(1)
        self._anchors = [self.log._append(self._rules)]
        self._forgotten = dict.fromkeys(SOURCES, 0)

    def grow(self) -> list[LogRecord]:
        """Draw some steps and return the records."""
        steps = [self.log.append_articles] * 12 + [self._change_rules] * 3
        steps += [self.log.append_copy] * 4 * self.copies + [self._trim] * 2 * self.trims
        steps += [self.log.append_withdrawal] * 3 * self.withdrawals
        for _ in range(self._rng.randint(5, 60)):
            self._rng.choice(steps)()
        return self.log.records

    def _draw_rules(self, revision: int) -> Rules:
        rng, step = self._rng, self.log.step
        windows: list[int | None] = [None, 2 * step, 10 * step, 30 * step]
        if self.shrinking:
            most = 30 * step if revision == 1 else self._rules.window_ms or 0
            windows = [window for window in (2 * step, 10 * step, 30 * step) if window <= most]
        rules = Rules(
            scheme=self.log.scheme,
            revision=revision,
            distance=min(rng.randint(0, 11), greatest_distance(self.log.scheme.block_bits)),
            window_ms=rng.choice(windows),
            bucket_limit=rng.choice([1, 2, 3, 5, 10, 16_384]),
            featureless=rng.choice(["unique", "rejected"]),
            recrawl=rng.choice(["duplicate", "update"]),
            observe=rng.random() < 0.1,
        )
        if self.bounds is not None:
            rules = replace(
                rules, candidates=self.bounds.choice([None, 1, 3, 20]), copies=self.bounds.choice([1, 1, 2, 3])
            )
        if self.log.tables == 4 and rng.random() < 0.4:
            return rules
        return replace(rules, **self._draw_directed(), **self._draw_least_equal())

    def _draw_directed(self) -> dict[str, Any]:
        rng = self._rng
        return {
            "search": DIRECTED,
            "distance": None,
            "probes": rng.choice([1, 3, self.log.tables, 16, 64, 300, 2_788]),
            "limit": rng.choice([0, 4, 10, 20, 40, 90]),
            "short_limit": rng.choice([0, 4, 10, 20]),
        }

    def _draw_least_equal(self) -> dict[str, Any]:
        values = self.log.scheme.sketch_values
        if self.bounds is None or not values:
            return {}
        least = [None, 0, 1, values // 4, values // 2, values]
        far = self.bounds.choice([None, 0, 6, 20, 60])
        return {
            "far": far,
            "far_min_equal": None if far is None else self.bounds.choice(least[1:]),
            "min_equal": self.bounds.choice(least),
            "short_min_equal": self.bounds.choice(least),
            "certain": self.bounds.choice([None, 0, 4, 20]),
            "dominated": self.bounds.choice([None, 0, 20, 40]),
            "form_limit": self.bounds.choice([None, 0, 4, 12]) if self.log.scheme.form_bytes else None,
        }

    def _change_rules(self) -> None:
        """Append the rules again, a void change, or new rules."""
        rng, kind = self._rng, self._rng.random()
        if kind >= 0.6:
            self._rules = self._draw_rules(self._rules.revision + 1)
        if 0.4 <= kind < 0.6:
            void = replace(self._draw_rules(2), revision=rng.choice([0, self._rules.revision + 2]))
            self._anchors.append(self.log._append(void))
        else:
            self._anchors.append(self.log._append(self._rules))

    def _trim(self) -> None:
        rng, records = self._rng, self.log.records
        anywhere = rng.randrange(records[-1].offset + 2)
        before = rng.choice(self._anchors[-3:]) if rng.random() < 0.8 else anywhere
        horizon = self.log.time - rng.randint(-1, 30) * self.log.step
        self.log.append_trim(before, horizon, self._draw_basis() if rng.random() < 0.7 else None)

    def _draw_basis(self) -> Basis:
        """Mostly what an honest author would say; now and then of other rules, of an older log, or not all."""
        rng = self._rng
        for source in SOURCES:
            logged = self.log.logged_before(source)
            if rng.random() < 0.4 and logged:
                self._forgotten[source] = max(self._forgotten[source], rng.randint(0, logged))
        listed = {source: before for source, before in self._forgotten.items() if before and rng.random() < 0.97}
        forgotten = [Forgotten(*source, SourceOffset(before)) for source, before in sorted(listed.items())]
        revision = self._rules.revision - (rng.random() < 0.1)
        read_to = self.log.end if rng.random() < 0.7 else rng.randrange(self.log.end)
        return Basis(revision, LogOffset(read_to), tuple(forgotten))


def random_log(
    seed: int, *, trims: bool = True, copies: bool = True, shrinking: bool = False, runs_back: bool = True
) -> list[LogRecord]:
    """A log of which every step is drawn."""
    rng = random.Random(seed)
    tables, centres = rng.choice([4, 4, 8, 16]), rng.randint(1, 4)
    withdrawals = seed % 2 == 1
    bounds = random.Random(f"bounds of {seed}") if withdrawals else None
    sketch_bytes = bounds.choice([0, 8, 16, 32]) if bounds else 0
    form, block_bits = sketch_bytes > FORM_BYTES and seed % 4 == 1, random.Random(f"keys of {seed}").choice(KEY_BITS)
    scheme = scheme_of(tables, sketch_bytes, form=form, block_bits=block_bits, deletes=seed % 4 == 3)
    log = RandomLog(rng, tables, centres, most_rows=8, step=100, runs_back=runs_back, scheme=scheme, time=1_000_000)
    log.seeds = withdrawals
    return RandomSteps(log, trims, copies, shrinking, withdrawals, bounds).grow()


def stepwise_log(
    seed: int,
    *,
    tables: int | None = None,
    sketch_bytes: int = 0,
    form: bool = False,
    centres: int = 6,
    most_rows: int = 12,
    deletes: bool = False,
) -> RandomLog:
    """An empty log whose steps the test chooses; with a number of ``tables``, of a scheme that has them."""
    usual = DELETING_SCHEME if deletes else SCHEME
    scheme = usual if tables is None else scheme_of(tables, sketch_bytes, form=form)
    return RandomLog(random.Random(seed), tables or 4, centres, most_rows, scheme=scheme)
