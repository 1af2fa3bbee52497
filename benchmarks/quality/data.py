"""Labelled real text from the folder ``STREAM_DEDUP_DATA``, and the exact Jaccard similarity of two texts."""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.reference.normalise import normalise

VARIABLE = "STREAM_DEDUP_DATA"
FILES = ("zh_articles", "zh_revision_pairs", "en_revision_pairs", "zh_comments", "zh_comment_pairs", "en_comments")
LANGUAGES = ("zh", "en")
NAMES = {"zh": "Chinese", "en": "English"}
SAMPLE = 4_000
"""Comments compared with each other: 8 million pairs."""
SAMPLE_SEED = 1

ARTICLE_SHINGLE, COMMENT_SHINGLE = 5, 3
"""Characters of a shingle."""
REALLY_NEAR = 0.3
"""Exact Jaccard similarity from which two texts of different pairs are left out: nobody would call it an error."""


class Revisions(NamedTuple):
    """Pairs of revisions of one article, and the share of each that was edited."""

    old: list[str]
    new: list[str]
    change: list[float]


class CommentPairs(NamedTuple):
    """Pairs of comments, and their Jaccard similarity over three characters."""

    a: list[str]
    b: list[str]
    jaccard: list[float]


class Similarity:
    """Exact Jaccard similarity of normalised texts, each pair computed once."""

    def __init__(self, left: Sequence[str], right: Sequence[str], shingle: int) -> None:
        self._texts, self._shingle = (left, right), shingle
        self._shingles: tuple[dict[int, frozenset[str]], ...] = ({}, {})
        self._known: dict[tuple[int, int], float] = {}

    def of(self, left: int, right: int) -> float:
        pair = left, right
        if pair not in self._known:
            self._known[pair] = jaccard(self._of(0, left), self._of(1, right))
        return self._known[pair]

    def unlike(self, pairs: Sequence[tuple[int, int]]) -> int:
        """How many of the pairs are not really near: false ones. Texts of the same letters and digits are near."""
        return sum(self.of(left, right) < REALLY_NEAR and not self._same_letters(left, right) for left, right in pairs)

    def _same_letters(self, left: int, right: int) -> bool:
        """Whether two texts have the same letters and digits, where runs of one letter count once."""
        one, other = (
            [letter for letter, _ in groupby(filter(str.isalnum, normalise(texts[at])))]
            for texts, at in zip(self._texts, (left, right), strict=True)
        )
        return one == other

    def _of(self, side: int, at: int) -> frozenset[str]:
        known = self._shingles[side]
        if at not in known:
            known[at] = frozenset(shingles(self._texts[side][at], self._shingle))
        return known[at]


def check() -> None:
    """End with a clear line where the texts are not there."""
    if VARIABLE not in os.environ:
        sys.exit(f"{VARIABLE} is not set: name the folder of {', '.join(FILES)} (.jsonl.gz)")
    missing = [name for name in FILES if not _path(name).is_file()]
    if missing:
        sys.exit(f"{VARIABLE} {os.environ[VARIABLE]}: no {', '.join(missing)} (.jsonl.gz) there")


@cache
def revisions(language: str) -> Revisions:
    rows = _rows(f"{language}_revision_pairs")
    return Revisions(*([row[name] for row in rows] for name in ("old", "new", "change")))


@cache
def comment_pairs() -> CommentPairs:
    rows = _rows("zh_comment_pairs")
    return CommentPairs(*([row[name] for row in rows] for name in ("a", "b", "char3_jaccard")))


@cache
def articles() -> list[str]:
    return [row["text"] for row in _rows("zh_articles")]


@cache
def comments(language: str) -> list[str]:
    """Comments of which no two are the same when normalised."""
    distinct = {normalise(row["text"]): row["text"] for row in _rows(f"{language}_comments")}
    return list(distinct.values())


@cache
def sample() -> list[str]:
    """Some of the Chinese comments."""
    every = comments("zh")
    order = np.random.default_rng(SAMPLE_SEED).permutation(len(every))[:SAMPLE]
    return [every[at] for at in order.tolist()]


def shingles(text: str, size: int) -> list[str]:
    """Every run of so many characters of the normalised text; of a shorter one the text itself."""
    plain = normalise(text)
    return [plain[at : at + size] for at in range(len(plain) - size + 1)] or [plain]


def jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    common = len(a & b)
    return common / (len(a) + len(b) - common)


def _path(name: str) -> Path:
    return Path(os.environ[VARIABLE]) / f"{name}.jsonl.gz"


def _rows(name: str) -> list[dict[str, Any]]:
    with gzip.open(_path(name), "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
