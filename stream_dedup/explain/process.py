"""Explanations in a process of their own, which the limit of an article ends: ``pool.child`` runs it."""

from __future__ import annotations

from typing import Any, NamedTuple

from stream_dedup.core.fingerprint.fingerprinter import Fingerprinter
from stream_dedup.core.rules import Rules
from stream_dedup.core.scheme import FingerprintSettings
from stream_dedup.core.text.decode import Article
from stream_dedup.explain.explain import as_json, explain
from stream_dedup.explain.side import Side, side_of_texts


class Pair(NamedTuple):
    """Two articles, each with its text or as an entry of an index, and the rules in force."""

    a: Article | Side
    b: Article | Side
    rules: Rules


class ExplainRecipe(NamedTuple):
    """How the process explains; implements ``pool.process.ChildRecipe``."""

    settings: FingerprintSettings
    article_limit_s: float

    def maker(self) -> PairExplainer:
        """Return what explains pairs."""
        return PairExplainer(self.settings)


class PairExplainer:
    """Explains pairs, one after the other."""

    def __init__(self, settings: FingerprintSettings) -> None:
        """Load nothing yet."""
        self._maker = Fingerprinter(settings)

    def warm(self) -> None:
        """Load the dictionaries."""
        self._maker.features("渡口 ferry")

    def __call__(self, pair: Pair) -> dict[str, Any]:
        """Return the explanation, as ``stream-dedup explain --json`` writes it."""
        return as_json(explain(self._side("A", pair.a), self._side("B", pair.b), pair.rules))

    def _side(self, name: str, article: Article | Side) -> Side:
        return article if isinstance(article, Side) else side_of_texts(self._maker, name, article.texts, article.scope)
