"""Near pairs as this program finds them: through the whole index, by entries as a worker makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.api import PORTION, open_library, records_of
from stream_dedup.core.fingerprinter import Fingerprinter, Fingerprints
from stream_dedup.core.model import TABLE_MARGIN_BYTES, Status, scope_hash_of, signed
from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.rules import EXACT, Rules
from stream_dedup.core.scheme import FingerprintSettings, scheme_of
from stream_dedup.folders import TemporaryFolder
from stream_dedup.index import LogIndex

Tables = Literal[4, 8, 16]
MOST_TABLES: Tables = 16

Pairs = NDArray[np.int64]
"""Shape (n, 2): who asked, what was found."""


class Way(NamedTuple):
    """One way to search."""

    name: str
    profile: str
    tables: Tables = 4
    probes: int | None = None
    k: int | None = None

    def rules(self, seed: int) -> Rules:
        """The profile's own where nothing else is said."""
        profile = PROFILES[self.profile]
        scheme = scheme_of(settings_of(self.profile, seed, self.tables))
        if profile.search == EXACT:
            return Rules(scheme, search=EXACT, distance=self.k)
        rules = Rules(scheme, **profile.rules)
        return replace(rules, probes=self.probes) if self.probes else rules


class Entries(NamedTuple):
    """Entries of those texts that have features, and which texts they are."""

    number: int
    """Texts, those without features among them."""
    texts: NDArray[np.int64]
    scope_hashes: NDArray[np.uint64]
    made: Fingerprints

    def of_tables(self, tables: Tables) -> Entries:
        """The entries under a scheme of fewer tables: the margins of later blocks are not kept."""
        margins = np.ascontiguousarray(self.made.margins[:, : tables * TABLE_MARGIN_BYTES])
        return self._replace(made=self.made._replace(margins=margins))


class Maker:
    """Makes entries of one profile and seed, for any number of tables."""

    def __init__(self, profile: str, seed: int, tables: Tables = MOST_TABLES) -> None:
        self._fingerprinter = Fingerprinter(settings_of(profile, seed, tables))

    def entries(self, texts: Sequence[str], scopes: Sequence[str] | None = None) -> Entries:
        """Entries of texts, each compared with those of its scope only; one scope for all where none are given."""
        every = self._fingerprinter.fingerprint(texts)
        rows = np.flatnonzero(signed(every.statuses))
        made = rows_of(every, rows)
        of = [None] * len(rows) if scopes is None else [scopes[row] for row in rows.tolist()]
        scope_hashes = [
            scope_hash_of(Status(status), scope) for status, scope in zip(made.statuses.tolist(), of, strict=True)
        ]
        return Entries(len(texts), rows, np.array(scope_hashes, np.uint64), made)


def rows_of(made: Fingerprints, rows: NDArray[np.int64] | slice) -> Fingerprints:
    return Fingerprints(*(column[rows] for column in made))


def joined(parts: Sequence[Entries]) -> Entries:
    """The entries of some lists of texts as of one list."""
    starts = np.cumsum([0, *(part.number for part in parts)]).tolist()
    texts = [part.texts + start for part, start in zip(parts, starts, strict=False)]
    made = Fingerprints(*map(np.concatenate, zip(*(part.made for part in parts), strict=True)))
    return Entries(starts[-1], np.concatenate(texts), np.concatenate([part.scope_hashes for part in parts]), made)


def settings_of(profile: str, seed: int, tables: Tables) -> FingerprintSettings:
    return replace(PROFILES[profile].settings, seed=seed, tables=tables)


def found(held: Entries, asking: Entries, ways: Sequence[Way], seed: int) -> dict[str, Pairs]:
    """By way: pairs of an asking text and a text held that is near it; all texts are held before one asks."""
    every: dict[str, Pairs] = {}
    for tables in sorted({way.tables for way in ways}):
        cut, asked = held.of_tables(tables), asking.of_tables(tables)
        scheme = scheme_of(settings_of(ways[0].profile, seed, tables))
        with TemporaryFolder() as folder, open_library(folder, scheme) as index:
            _append(index, cut)
            every |= {way.name: _search(index, cut, asked, way.rules(seed)) for way in ways if way.tables == tables}
    return every


def _append(index: LogIndex, held: Entries) -> None:
    for some in _portions(held):
        ids = [str(text) for text in held.texts[some].tolist()]
        index.apply(records_of(index, rows_of(held.made, some), held.scope_hashes[some], ids))


def _search(index: LogIndex, held: Entries, asking: Entries, rules: Rules) -> Pairs:
    parts = [np.empty((0, 2), np.int64)]
    for some in _portions(asking):
        near = index.near(rows_of(asking.made, some), asking.scope_hashes[some], rules)
        parts.append(np.column_stack((asking.texts[some][near.queries], held.texts[near.doc_numbers])))
    return np.concatenate(parts)


def _portions(entries: Entries) -> list[slice]:
    return [slice(start, start + PORTION) for start in range(0, len(entries.texts), PORTION)]
