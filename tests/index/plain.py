"""Verdicts, standing and trims by definition: plain loops over a list of records, nothing shared with the index."""

import math
from dataclasses import dataclass
from functools import cache
from itertools import combinations

from stream_dedup.core.costs import COSTS
from stream_dedup.core.entry import Batch, LogRecord, Trim
from stream_dedup.core.model import Coordinates, Judgement, Match, Status, Verdict, log_position
from stream_dedup.core.probes import KEY_FACTORS, SIEVE_BITS
from stream_dedup.core.rules import Rules, Scheme


@dataclass
class Entry:
    position: int
    log_offset: int
    time: int
    coordinates: Coordinates
    status: int
    group: int
    signature: int
    keys: list[int]
    margins: bytes
    id: str
    topic: str
    reason: str


WORD = (1 << 64) - 1


def plain_keys(signature: int, group: int) -> list[int]:
    """Each word of the signature, XORed with the group times its factor."""
    factors = [int(factor) for factor in KEY_FACTORS]
    return [(signature >> 192 - 64 * word & WORD) ^ group * factors[word] & WORD for word in range(4)]


def block(keys: list[int], table: int) -> int:
    """16 bits of a key word."""
    return keys[table // 4] >> 48 - 16 * (table % 4) & 0xFFFF


def masks_within(bits: int) -> list[int]:
    return [mask for mask in range(1 << 16) if mask.bit_count() <= bits]


@cache
def plain_plan(margins: bytes, probes: int | None, distance: int | None) -> list[tuple[int, int]]:
    """(table, mask) of every look-up: all masks of k // 4 bits, or the cheapest of all with at most 3 bits."""
    if probes is None:
        return [(table, mask) for table in range(4) for mask in masks_within((distance or 0) // 4)]
    each = [nibble for byte in margins for nibble in (byte >> 4, byte & 15)]
    priced = []
    for table in range(len(each) // 16):
        costs = [int(COSTS[margin]) for margin in each[16 * table : 16 * table + 16]]
        for flipped in (bits for size in range(4) for bits in combinations(range(16), size)):
            mask = sum(1 << 15 - bit for bit in flipped)
            priced.append((sum(costs[bit] for bit in flipped), table, mask))
    return [(table, mask) for _, table, mask in sorted(priced)[:probes]]


def near_entries(entries: list[Entry], own: Entry, rules: Rules) -> list[tuple[int, int]]:
    """(distance, log position) of every entry near one's own, of those given in order of log position."""
    reach = rules.reach(Status(own.status))
    keys = plain_keys(own.signature, own.group)
    found = set()
    lists: dict[tuple[int, int], list[Entry]] = {}
    for entry in entries:
        if entry.position < own.position:
            for table in range(len(own.margins) // 8):
                lists.setdefault((table, block(entry.keys, table)), []).append(entry)
    for table, mask in plain_plan(own.margins, rules.probes, rules.distance):
        for entry in lists.get((table, block(keys, table) ^ mask), [])[-rules.bucket_limit :]:
            apart = (entry.keys[table // 4] ^ keys[table // 4]).bit_count()
            bits = (entry.signature ^ own.signature).bit_count()
            if not rules.directed:
                apart, bits = 0, ((entry.signature ^ own.signature) >> 192).bit_count()
            if entry.group == own.group and apart <= SIEVE_BITS and bits <= reach:
                found.add((bits, entry.position))
    return sorted(found)


def plain_near(
    entries: list[tuple[int, int]], fingerprint: int, position: int, distance: int, limit: int
) -> list[tuple[int, int]]:
    """The same for fingerprints: (distance, log position) of every near one among (fingerprint, log position) pairs."""
    rules = Rules(Scheme("simhash", 1, "{}"), distance=distance, bucket_limit=limit)
    return near_entries([_bare(*pair) for pair in entries], _bare(fingerprint, position), rules)


def _bare(fingerprint: int, position: int) -> Entry:
    whole = fingerprint << 192
    return Entry(position, 0, 0, Coordinates(bytes(16), 0, 0), 0, 0, whole, plain_keys(whole, 0), bytes(32), "", "", "")


class PlainLog:
    """A whole log in memory, read once; ``trims`` says whether trim records count."""

    def __init__(self, records: list[LogRecord], *, trims: bool = True) -> None:
        self.entries: dict[int, Entry] = {}
        self.covered: dict[tuple[bytes, int], dict[int, tuple[int, int]]] = {}
        self.rules: list[tuple[int, Rules]] = []
        self.void: list[int] = []
        self.times = {record.offset: record.time for record in records if isinstance(record.time, int)}
        self.floor = 0
        self._copies: list[tuple[int, int]] = []
        self._start = records[0].offset
        for record in records:
            if isinstance(record.payload, Batch):
                self._batch(record, record.payload)
            elif isinstance(record.payload, Rules):
                current = self.rules[-1][1] if self.rules else None
                if record.payload.takes_force_after(current) or record.payload == current:
                    self.rules.append((record.offset, record.payload))
            elif trims:
                self._trim(record.offset, record.payload)

    def standing(self, topic_id: bytes, partition: int, offset: int) -> int:
        """Log position, -1 where it does not stand, -2 where a batch covers it without an entry."""
        at = self.covered.get((topic_id, partition), {}).get(offset)
        return -1 if at is None else at[0]

    def judge(self, position: int) -> Judgement:
        own = self.entries[position]
        rules = [rules for offset, rules in self.rules if offset <= own.log_offset][-1]
        if own.status == Status.REJECTED:
            return Judgement(Verdict.REJECTED, reason=own.reason)
        if own.status == Status.FEATURELESS:
            rejected = rules.featureless == "rejected"
            return Judgement(Verdict.REJECTED, reason="text without words") if rejected else Judgement(Verdict.UNIQUE)
        listed = [e for _, e in sorted(self.entries.items()) if _is_signed(e) and e.log_offset >= self.floor]
        near = []
        for distance, at in near_entries(listed, own, rules):
            other = self.entries[at]
            expired = rules.window_ms is not None and own.time - other.time > rules.window_ms
            if not expired and other.coordinates != own.coordinates:
                near.append((distance, other))
        versions = [pair for pair in near if pair[1].id == own.id]
        if versions and rules.recrawl == "update":
            return Judgement(Verdict.UNIQUE, match=_match(own, *versions[0]))
        return Judgement(Verdict.DUPLICATE, match=_match(own, *near[0])) if near else Judgement(Verdict.UNIQUE)

    def _batch(self, record: LogRecord, batch: Batch) -> None:
        covered = self.covered.setdefault((batch.topic_id, batch.partition), {})
        offsets = batch.offsets.tolist()
        new = [offset for offset in range(offsets[0], offsets[-1] + 1) if offset not in covered]
        repeated = [covered[offset][1] for offset in offsets if offset in covered]
        if repeated:
            self._copies.append((min(repeated), record.offset))
        for offset in new:
            row = offsets.index(offset) if offset in offsets else None
            covered[offset] = (-2 if row is None else log_position(record.offset, row), record.offset)
            if row is not None:
                self._entry(record, batch, row)

    def _entry(self, record: LogRecord, batch: Batch, row: int) -> None:
        time = record.time if isinstance(record.time, int) else int(record.time[row])
        signature = batch.signatures[row].tobytes()
        position = log_position(record.offset, row)
        self.entries[position] = Entry(
            position,
            record.offset,
            time,
            batch.coordinates(row),
            int(batch.statuses[row]),
            int(batch.groups[row]),
            int.from_bytes(signature, "big"),
            plain_keys(int.from_bytes(signature, "big"), int(batch.groups[row])),
            batch.margins[row].tobytes(),
            batch.id(row),
            batch.topic,
            batch.reason(row),
        )

    def _trim(self, at: int, trim: Trim) -> None:
        gone = trim.before < max(self._start, self.floor)
        named = any(offset == trim.before for offset, _ in self.rules)
        straddled = any(first < trim.before <= copy for first, copy in self._copies)
        behind_void = any(trim.before < void for void in self.void)
        if not gone and (not named or straddled or behind_void):
            self.void.append(at)
            return
        self.floor = max(self.floor, trim.before)
        for covered in self.covered.values():
            time = 0
            for offset in sorted(covered):
                position, log_offset = covered[offset]
                # An offset without an entry goes with its record, or with the entry before it where times differ.
                time = self.entries[position].time if position >= 0 else self.times.get(log_offset, time)
                if log_offset < self.floor or time <= trim.horizon:
                    del covered[offset]


def _is_signed(entry: Entry) -> bool:
    return entry.status not in {Status.FEATURELESS, Status.REJECTED}


def _match(own: Entry, distance: int, other: Entry) -> Match:
    similarity = math.cos(math.pi * (own.signature ^ other.signature).bit_count() / 256)
    return Match(other.position, other.id, other.topic, other.coordinates, other.time, distance, similarity)
