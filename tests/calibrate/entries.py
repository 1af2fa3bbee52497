"""Random entries, many of them near each other, and their matches as the reference gives them."""

import numpy as np

from stream_dedup.audit.plain_near import PlainQuery, PlainSearch
from stream_dedup.core.arrays import U8, U64
from stream_dedup.core.columns import Columns
from stream_dedup.core.model import LogOffset, Status
from stream_dedup.core.rules import DIRECTED, Rules
from tests.definition import plain_entries
from tests.logs import scheme_of

SKETCH_BYTES = 16


def directed_rules(tables: int = 4, block_bits: int = 16, **given: object) -> Rules:
    scheme = scheme_of(tables, SKETCH_BYTES, form=given.get("form_limit") is not None, block_bits=block_bits)
    values = {"search": DIRECTED, "distance": None, "probes": 16, "limit": 60, "short_limit": 60} | given
    return Rules(scheme, **values)  # type: ignore[arg-type]


def exact_rules(distance: int = 3, block_bits: int = 16, **given: object) -> Rules:
    return Rules(scheme_of(4, SKETCH_BYTES, block_bits=block_bits), distance=distance, **given)  # type: ignore[arg-type]


def some_entries(seed: int, count: int, *, tables: int = 4, flips: int = 60) -> Columns:
    """Two of every three entries are copies of earlier ones with fewer than ``flips`` bits changed, in two scopes.

    The end of a sketch, its form under rules with a limit for forms, has one of a few frames and one of a few numbers.
    """
    random = np.random.default_rng(seed)
    signatures = random.integers(0, 256, (count, 32), np.uint8)
    for at in range(1, count):
        if at % 3:
            bits = np.unpackbits(signatures[random.integers(at)])
            bits[random.choice(256, random.integers(0, flips), replace=False)] ^= 1
            signatures[at] = np.packbits(bits)
    scope_hashes = random.integers(0, 2, count).astype(np.uint64) * np.uint64(0x9123_4567_89AB_CDEF)
    margins = random.integers(0, 256, (count, 8 * tables), np.uint8)
    sketches = np.where(
        random.random((count, SKETCH_BYTES)) < random.random((count, 1)), 0xA7, margins[:, :SKETCH_BYTES]
    )
    sketches[:, -8:] = random.choice([0, 1, 1, 2], (count, 2)).astype("<u4").view(np.uint8)
    return entries_of(np.full(count, Status.LONG, np.uint8), scope_hashes, signatures, margins, sketches)


def entries_of(statuses: U8, scope_hashes: U64, signatures: U8, margins: U8, sketches: U8) -> Columns:
    """Entries of which nothing else counts."""
    return Columns.of(
        checksums=np.zeros(len(statuses), np.uint64),
        statuses=statuses,
        scope_hashes=scope_hashes,
        signatures=signatures,
        margins=margins,
        sketches=sketches,
        ids=[""] * len(statuses),
        reasons=[""] * len(statuses),
    )


def plain_matches(entries: Columns, rules: Rules) -> list[tuple[int, int] | None]:
    """Distance and number of each article's match, as the reference gives them."""
    none = np.empty(0, np.uint64)
    columns = plain_entries(
        entries.signatures, entries.scope_hashes, np.empty((0, 32), np.uint8), none, sketches=entries.sketches
    )
    search = PlainSearch(columns, rules.scheme)
    matches: list[tuple[int, int] | None] = []
    for article in range(len(entries)):
        query = PlainQuery(article, rules, entries.margins[article], LogOffset(0), lambda _: False)
        found = search.match(query)
        matches.append(None if found is None else (found.distance, found.entry))
        search.log_next()
    return matches
