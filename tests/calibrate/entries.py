"""Entries with signatures that are near each other by chance, and the definition of near as a plain loop."""

import numpy as np

from stream_dedup.calibrate.nearest import SignedEntries
from stream_dedup.core import probes
from stream_dedup.core.model import Status
from stream_dedup.core.rules import DIRECTED, Rules, Scheme


def directed_rules(tables: int = 4, **given: object) -> Rules:
    scheme = Scheme("test", 1, f'{{"tables":{tables}}}')
    values = {"search": DIRECTED, "distance": None, "probes": 16, "limit": 60, "short_limit": 60} | given
    return Rules(scheme, **values)  # type: ignore[arg-type]


def exact_rules(distance: int = 3, **given: object) -> Rules:
    return Rules(Scheme("test", 1, "{}"), distance=distance, **given)  # type: ignore[arg-type]


def some_entries(seed: int, count: int, *, tables: int = 4, flips: int = 60) -> SignedEntries:
    """Of each three two are copies of earlier ones with up to ``flips`` bits changed, in two groups."""
    random = np.random.default_rng(seed)
    signatures = random.integers(0, 256, (count, 32), np.uint8)
    for at in range(1, count):
        if at % 3:
            bits = np.unpackbits(signatures[random.integers(at)])
            bits[random.choice(256, random.integers(0, flips), replace=False)] ^= 1
            signatures[at] = np.packbits(bits)
    groups = random.integers(0, 2, count).astype(np.uint64) * np.uint64(0x9123_4567_89AB_CDEF)
    margins = random.integers(0, 256, (count, 8 * tables), np.uint8)
    return SignedEntries(np.full(count, Status.LONG, np.uint8), groups, signatures, margins)


def plain_match(entries: SignedEntries, rules: Rules, article: int) -> tuple[int, int] | None:
    """Distance and number of the match of one article, by the definition."""
    keys = probes.keys(entries.signatures, entries.groups)
    blocks = probes.blocks(keys.reshape(-1)).reshape(len(entries), -1)
    if rules.directed:
        plan = probes.directed(entries.margins[article : article + 1], rules.probes or 0)[0]
    else:
        plan = probes.exact_plan(rules.distance or 0)[0]
    near = set()
    for lookup in plan.tolist():
        table, value = lookup >> 16, blocks[article, lookup >> 16] ^ (lookup & 0xFFFF)
        listed = [other for other in range(article) if blocks[other, table] == value]
        for other in listed[-rules.bucket_limit :]:
            near.update(_near(entries, rules, article, other, table // 4))
    return min(near, default=None)


def _near(entries: SignedEntries, rules: Rules, article: int, other: int, word: int) -> list[tuple[int, int]]:
    if entries.groups[article] != entries.groups[other]:
        return []
    differing = np.bitwise_count(entries.signatures[article] ^ entries.signatures[other])
    if rules.directed and differing[8 * word : 8 * word + 8].sum() > probes.SIEVE_BITS:
        return []
    distance = int(differing.sum() if rules.directed else differing[:8].sum())
    return [(distance, other)] if distance <= rules.reach(Status.LONG) else []
