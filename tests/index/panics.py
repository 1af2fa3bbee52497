"""Panics of the native core, planted from outside: a look-up of a table that there is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from stream_dedup import _native
from stream_dedup.core.query import Query

NO_TABLE = 16
"""Tables are numbered to 15."""
SAID = "a defect in the native core: index out of bounds"


def planted_panic(fingerprint: int, when: Callable[[Query], bool] = lambda _: True) -> Any:  # noqa: ANN401 - a patch
    """Return a patch by which the native core panics when it looks up an article of this fingerprint."""
    made = Query.search

    def planted(query: Query) -> _native.Search:
        chosen = np.flatnonzero(query.words[:, 0] == np.uint64(fingerprint))
        if len(chosen) and when(query):
            plan = np.repeat(query.plan, 1 if len(query.plan) == len(query) else len(query), axis=0)
            plan[chosen] = NO_TABLE << query.block_bits
            query = replace(query, plan=plan)
        return made(query)

    return patch.object(Query, "search", planted)


def panic(native: _native.BlockTables) -> None:
    """Let the native core panic over these tables; raises PanicError."""
    search = _native.Search(
        keys=np.zeros(4, np.uint64),
        words=np.zeros(4, np.uint64),
        scope_hashes=np.zeros(1, np.uint64),
        before=np.ones(1, np.int64),
        reach=np.zeros(1, np.int64),
        plan=np.array([NO_TABLE << 24], np.uint32),
        lookups=1,
        directed=False,
        sieve=0,
        bucket_limit=1,
        best=1,
    )
    search.run(native)


class PanickingTables:
    """Native tables of which one method panics; the others are theirs."""

    def __init__(self, native: _native.BlockTables, method: str) -> None:
        self._native = native
        self._method = method

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever they have
        if name == self._method:
            panic(self._native)
        return getattr(self._native, name)
