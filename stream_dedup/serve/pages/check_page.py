"""The page Check: what a text would be as of now, what it is near, and why."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import zip_longest
from typing import Any, NamedTuple
from uuid import UUID

from stream_dedup.clusters.model import ClusteredArticle, parse_cluster_id
from stream_dedup.core.decode import InputFormat
from stream_dedup.core.model import FINGERPRINT_BITS, SIGNATURE_BITS, Coordinates, SourceOffset, Status, Verdict
from stream_dedup.core.near import Forms
from stream_dedup.explain.explain import Explanation
from stream_dedup.explain.side import Side
from stream_dedup.serve.checking import GivenArticle, Json, fields_of
from stream_dedup.serve.pages.backend import LATE_TEXT, ArticleText, PageBackend
from stream_dedup.serve.pages.clusters_page import stored_clusters
from stream_dedup.serve.pages.shown_text import ComparedTexts, ShownArticle, compared
from stream_dedup.serve.problems import ProblemError
from stream_dedup.serve.reading import TextAbsence

SHOWN_NEAREST = 10
"""Nearest entries that the page lists."""
TEXT_WITHIN_S = 4.0
"""Longest wait for the text of the other article."""
SURE_MARGIN = 4
"""Margins below it are drawn as unsure: a quarter of their range."""
FIELD_PREFIX = "field."
"""Begins the names of the inputs of the text fields of a record."""


@dataclass(frozen=True, slots=True)
class CheckForm:
    """What the form holds."""

    texts: Mapping[str, str] = field(default_factory=dict)
    """The text of each field of ``InputFormat.text_fields``."""
    id: str = ""
    scope: str = ""
    beside: int = 0
    """Which of the nearest is shown beside the text."""

    @classmethod
    def of(cls, values: Mapping[str, str], fmt: InputFormat) -> CheckForm:
        """Return what was sent."""
        beside = values.get("beside", "0")
        return cls(
            {name: _lines(values.get(FIELD_PREFIX + name, "")) for name in fmt.text_fields},
            values.get("id", "").strip(),
            values.get("scope", "").strip() if fmt.scope_field is not None else "",
            int(beside) if beside in set(map(str, range(SHOWN_NEAREST))) else 0,
        )

    def article(self, fmt: InputFormat) -> GivenArticle:
        """Return the article to check; what was left empty is not given."""
        values: dict[str, Any] = {}
        if fmt.fields:
            values["fields"] = fields_of({name: text for name, text in self.texts.items() if text})
        else:
            values["text"] = self.texts[fmt.text_field]
        if self.id:
            values["id"] = self.id
        if self.scope:
            values["scope"] = self.scope
        return GivenArticle(**values)


@dataclass(frozen=True, slots=True)
class PairStep:
    """One step of the verdict on a pair: whether it holds, and its numbers."""

    name: str
    """Ends the keys of its strings: ``step.NAME`` and ``step.NAME.said``."""
    holds: bool
    values: Mapping[str, Any] = field(default_factory=dict)


class BitPair(NamedTuple):
    """One bit of two signatures."""

    a: int
    b: int
    margin: int | None
    """Of B; None where the scheme keeps no margin of this bit."""

    @property
    def differs(self) -> bool:
        """Whether the two bits differ."""
        return self.a != self.b

    @property
    def unsure(self) -> bool:
        """Whether B's bit is likely to turn over in an edited copy."""
        return self.margin is not None and self.margin < SURE_MARGIN


@dataclass(frozen=True, slots=True)
class Beside:
    """The other article, beside the text."""

    number: int
    """Which of the nearest it is."""
    other: ArticleText
    compared: ComparedTexts | None
    """Its text and yours; None without its text."""
    explanation: Explanation | None

    @property
    def steps(self) -> Sequence[PairStep]:
        """The conditions of the verdict; none without an explanation."""
        return () if self.explanation is None else steps(self.explanation)

    @property
    def bits(self) -> Sequence[BitPair]:
        """The bits of both signatures; none without an explanation."""
        return () if self.explanation is None else bit_pairs(self.explanation.a, self.explanation.b)


@dataclass(frozen=True, slots=True)
class CheckView:
    """What the page shows."""

    form: CheckForm
    result: Mapping[str, Any] | None = None
    """Of ``POST /v1/check``."""
    log: Mapping[str, Any] | None = None
    beside: Beside | None = None
    problem: ProblemError | None = None
    yours: ShownArticle | None = None
    """The text itself, where there is a result."""
    absence: TextAbsence | None = None
    """Why the text of the article that was asked for is not in the form."""

    @property
    def status(self) -> int:
        """The status of the answer."""
        return int(HTTPStatus.OK if self.problem is None else self.problem.status)


async def checked(backend: PageBackend, form: CheckForm) -> CheckView:
    """Return the page for a text."""
    try:
        article = form.article(backend.format)
        answer = await backend.check(article, SHOWN_NEAREST)
        result = answer["results"][0]
        yours = await backend.shown(tuple(form.texts.values()))
        beside = await _beside(backend, form, article, result["nearest"], yours) if result["nearest"] else None
    except ProblemError as problem:
        return CheckView(form, problem=problem)
    return CheckView(form, result, answer["log"], beside, yours=yours)


async def prefilled(backend: PageBackend, article: str) -> CheckView:
    """Return the page for an article of the stream, named by its coordinates: each of its fields, and its scope.

    The output of the article names its topic. An address does not: the service may read other topics, too.
    """
    at = parse_cluster_id(article)
    known = None if at is None else await asyncio.to_thread(_known, backend, at)
    if at is None or known is None:
        return CheckView(CheckForm(dict.fromkeys(backend.format.text_fields, "")))
    found = (await backend.texts([(known.topic, at)], TEXT_WITHIN_S)).get(at, LATE_TEXT)
    if found.article is None:
        return CheckView(CheckForm(dict.fromkeys(backend.format.text_fields, "")), absence=found.absence)
    texts = dict(zip(backend.format.text_fields, found.article.texts, strict=True))
    return await checked(backend, CheckForm(texts, scope=found.article.scope or ""))


def _known(backend: PageBackend, at: Coordinates) -> ClusteredArticle | None:
    return stored_clusters(backend.clusters().store, lambda store: store.article(at), None)


async def _beside(
    backend: PageBackend, form: CheckForm, article: GivenArticle, nearest: Sequence[Json], yours: ShownArticle
) -> Beside:
    number = min(form.beside, len(nearest) - 1)
    source = nearest[number]["source"]
    explanation = await backend.compare(article, source)
    at = Coordinates(UUID(source["topic_id"]).bytes, source["partition"], SourceOffset(source["offset"]))
    other = (await backend.texts([(source["topic"], at)], TEXT_WITHIN_S)).get(at, LATE_TEXT)
    return Beside(number, other, None if other.shown is None else compared(other.shown.text, yours.text), explanation)


def steps(pair: Explanation) -> list[PairStep]:
    """Return the conditions under which the later article is a duplicate of the earlier one, and whether they hold.

    Both are of one kind and one scope: the index lists no others.
    """
    account, rules, status = pair.account, pair.rules, pair.b.status
    if status is Status.EXACT:
        return [PairStep("equal", account.within)]
    values = {"distance": account.distance, "of": SIGNATURE_BITS if rules.directed else FINGERPRINT_BITS}
    rank = None if pair.finder is None else pair.finder.lookup
    found = [
        PairStep("distance", account.within, values | {"limit": rules.reach(status)}),
        PairStep("lookup", pair.found, {"rank": rank, "plan": pair.probes}),
    ]
    if account.form is Forms.OTHER_NUMBERS:
        limits = {"distance": account.distance, "limit": rules.form_bits}
        found.append(PairStep("form", account.form_holds, limits))
    if account.least_equal and not account.certain:
        counts = {"equal": account.equal, "of": rules.scheme.sketch_values, "least": account.least_equal}
        found.append(PairStep("sketch", account.enough, counts))
    if rules.copies > 1:
        found.append(PairStep("copies", pair.verdict is Verdict.DUPLICATE, {"copies": rules.copies}))
    return found


def bit_pairs(a: Side, b: Side) -> list[BitPair]:
    """Return the bits of the signatures of two sides, in order."""
    return [BitPair(*bits) for bits in zip_longest(a.bits, b.bits, b.bit_margins)]


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n")
