"""Panics of the native core, planted from outside: a look-up of a table that there is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from stream_dedup import _native
from stream_dedup.core.near import limits_of
from stream_dedup.core.probes import words
from stream_dedup.core.query import Articles, Near, Query
from stream_dedup.index.tables import Tables
from tests.definition import NOTHING_WITHDRAWN
from tests.logs import rules

NO_TABLE = 16
"""Tables are numbered to 15."""
SAID = "a defect in the native core: index out of bounds"


def planted_panic(fingerprint: int, when: Callable[[Query], bool] = lambda _: True) -> Any:  # noqa: ANN401 - a patch
    """Return a patch by which the native core panics when it looks up an article of this fingerprint."""
    near = Tables.near

    def planted(tables: Tables, query: Query) -> Near:
        chosen = np.flatnonzero(words(query.articles.signatures)[:, 0] == np.uint64(fingerprint))
        if len(chosen) and when(query):
            plan = np.repeat(query.plan, 1 if len(query.plan) == len(query) else len(query), axis=0)
            plan[chosen] = NO_TABLE << query.rules.scheme.block_bits
            query = replace(query, plan=plan)
        return near(tables, query)

    return patch.object(Tables, "near", planted)


def panic(native: _native.BlockTables) -> None:
    """Let the native core panic over these tables; raises PanicError."""
    zeros = np.zeros(1, np.int64)
    articles = Articles(
        statuses=zeros.astype(np.uint8),
        scope_hashes=zeros.astype(np.uint64),
        signatures=np.zeros(32, np.uint8),
        margins=np.zeros(32, np.uint8),
        sketches=np.empty(0, np.uint8),
        before=zeros + 1,
        times=zeros,
    )
    plan = np.array([NO_TABLE << 24], np.uint32)
    native.near(limits_of(rules()), articles, plan, 1, best=1, withdrawn=NOTHING_WITHDRAWN)


class PanickingTables:
    """Native tables of which one method panics; the others are theirs."""

    def __init__(self, native: _native.BlockTables, method: str) -> None:
        self._native = native
        self._method = method

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever they have
        if name == self._method:
            panic(self._native)
        return getattr(self._native, name)
