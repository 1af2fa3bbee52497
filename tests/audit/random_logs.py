"""Logs drawn from a seed.

Sources with gaps, batches in order, copies with other boundaries, clusters of near signatures, several groups and kinds
of text, ids that come again, changes of rules (void ones too), trims (void ones too), times that run back now
and then, lists with small limits.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from stream_dedup.core.entry import LogRecord, Payload, Trim, encode
from stream_dedup.core.model import FINGERPRINT_BITS, SIGNATURE_BITS, Status, group_of
from stream_dedup.core.rules import DIRECTED, Rules
from tests.audit.logs import OTHER_TOPIC, TOPIC, Entry, scheme_of, written

SOURCES = [(TOPIC, 0), (TOPIC, 1), (OTHER_TOPIC, 0)]
SOURCE_OFFSETS = 60

Source = tuple[bytes, int]


@dataclass
class RandomLog:
    """Makes a log; every draw comes from one generator."""

    draw: random.Random
    trims: bool = True
    copies: bool = True
    shrinking: bool = False
    records: list[LogRecord] = field(default_factory=list)
    time: int = 1_000_000
    anchors: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        draw = self.draw
        self.tables = draw.choice([4, 4, 8, 16])
        self.centres = [draw.getrandbits(SIGNATURE_BITS) for _ in range(draw.randint(1, 4))]
        self.scopes: list[str | None] = draw.choice([[None], [None], [None, "a", "b"]])
        self.kinds: list[Status] = draw.choice([[Status.LONG], [Status.LONG, Status.SHORT, Status.EXACT]])
        self.readable = {
            source: [offset for offset in range(SOURCE_OFFSETS) if draw.random() < draw.choice([0.6, 1.0])]
            for source in SOURCES
        }
        self.entries: dict[tuple[Source, int], Entry] = {}
        self.done = dict.fromkeys(SOURCES, 0)
        self.rules = self._random_rules(1)
        self.add(self.rules)

    def add(self, payload: Payload) -> None:
        self.time += self.draw.choice([0, 1, 100, 100, 400, 400, -100])
        offset = len(self.records)
        if isinstance(payload, Rules):
            self.anchors.append(offset)
        self.records.append(LogRecord(offset, self.time, payload, encode(payload)))

    def _random_rules(self, revision: int) -> Rules:
        draw = self.draw
        windows = [None, 200, 1_000, 3_000]
        if self.shrinking:
            # A window that grows later reaches behind what a trim was right to forget.
            most = 3_000 if revision == 1 else self.rules.window_ms or 0
            windows = [window for window in (200, 1_000, 3_000) if window <= most]
        rules = Rules(
            scheme=scheme_of(self.tables),
            revision=revision,
            distance=draw.randint(0, 11),
            window_ms=draw.choice(windows),
            bucket_limit=draw.choice([1, 2, 3, 5, 10, 16_384]),
            featureless=draw.choice(["unique", "rejected"]),
            recrawl=draw.choice(["duplicate", "update"]),
            observe=draw.random() < 0.1,
        )
        return rules if self.tables == 4 and draw.random() < 0.4 else self._directed(rules)

    def _directed(self, rules: Rules) -> Rules:
        draw = self.draw
        return replace(
            rules,
            search=DIRECTED,
            distance=None,
            probes=draw.choice([1, 3, self.tables, 16, 64, 300, 2_788]),
            limit=draw.choice([0, 4, 10, 20, 40, 90]),
            short_limit=draw.choice([0, 4, 10, 20]),
        )

    def entry(self, source: Source, offset: int) -> Entry:
        """What stands at these coordinates, the same each time they come."""
        key = (source, offset)
        if key not in self.entries:
            self.entries[key] = self._random_entry()
        return self.entries[key]

    def _random_entry(self) -> Entry:
        draw = self.draw
        kind = draw.random()
        if kind < 0.1:
            return Entry(0, status=Status.REJECTED if kind < 0.05 else Status.FEATURELESS)
        flipped = self._flips()
        signature = draw.choice(self.centres) ^ sum(1 << bit for bit in flipped)
        status, scope = draw.choice(self.kinds), draw.choice(self.scopes)
        identity = f"article {draw.randrange(6)}" if draw.random() < 0.5 else None
        return Entry(signature, self._margins(flipped), group_of(status, scope), status, identity)

    def _flips(self) -> set[int]:
        """Bits that differ from a centre: anywhere, in the first word, or in one block; 0 is the lowest of the 256."""
        draw = self.draw
        low, size = draw.choice(
            [(0, 256), (192, FINGERPRINT_BITS), (192, FINGERPRINT_BITS), (16 * draw.randrange(16), 16)]
        )
        most = draw.choice([0, 1, 4, 13, 25])
        return {low + draw.randrange(size) for _ in range(draw.randint(0, most))}

    def _margins(self, flipped: set[int]) -> str:
        """Small ones where a bit was flipped, most of the time; of few values, so that costs are often equal."""
        draw = self.draw
        usual = draw.choice(["f", "37f", "0123456789abcdef"])
        digits = [draw.choice(usual) for _ in range(16 * self.tables)]
        for bit in flipped:
            position = SIGNATURE_BITS - 1 - bit
            if position < len(digits) and draw.random() < 0.8:
                digits[position] = draw.choice("001")
        return "".join(digits)

    def add_batch(self, start: int, stop: int, source: Source) -> None:
        offsets = self.readable[source][start:stop]
        if offsets:
            entries = [self.entry(source, offset) for offset in offsets]
            self.add(written(offsets, entries, self.tables, topic_id=source[0], partition=source[1]))

    def next_articles(self) -> None:
        source = self.draw.choice(SOURCES)
        start = self.done[source]
        self.done[source] = min(start + self.draw.randint(1, 8), len(self.readable[source]))
        self.add_batch(start, self.done[source], source)

    def copy(self) -> None:
        """What was logged before, with other boundaries; perhaps more behind it."""
        source = self.draw.choice(SOURCES)
        if not self.copies or not self.done[source]:
            return
        start = self.draw.randrange(self.done[source])
        stop = start + self.draw.randint(1, 10)
        self.done[source] = max(self.done[source], min(stop, len(self.readable[source])))
        self.add_batch(start, stop, source)

    def change_rules(self) -> None:
        kind = self.draw.random()
        if kind < 0.4:
            self.add(self.rules)
        elif kind < 0.6:
            self.add(replace(self._random_rules(2), revision=self.draw.choice([0, self.rules.revision + 2])))
        else:
            self.rules = self._random_rules(self.rules.revision + 1)
            self.add(self.rules)

    def trim(self) -> None:
        if self.trims:
            anywhere = self.draw.randrange(len(self.records) + 1)
            before = self.draw.choice(self.anchors[-3:]) if self.draw.random() < 0.8 else anywhere
            self.add(Trim(before, self.time - self.draw.randint(-100, 3_000)))

    def grow(self) -> list[LogRecord]:
        steps = [self.next_articles] * 12 + [self.copy] * 4 + [self.change_rules] * 3 + [self.trim] * 2
        for _ in range(self.draw.randint(5, 60)):
            self.draw.choice(steps)()
        return self.records


def random_log(seed: int, *, trims: bool = True, copies: bool = True, window: bool = False) -> list[LogRecord]:
    return RandomLog(random.Random(seed), trims=trims, copies=copies, shrinking=window).grow()
