"""The page Check: what a text would be as of now, what it is near, and why."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from uuid import UUID

import numpy as np

from stream_dedup.clusters import ClusteredArticle, parse_cluster_id
from stream_dedup.core.decode import InputFormat
from stream_dedup.core.model import FINGERPRINT_BITS, SIGNATURE_BITS, Coordinates, SourceOffset, Status, Verdict
from stream_dedup.core.near import Account, Forms, PairCheck
from stream_dedup.core.probes import pack_margins
from stream_dedup.core.rules import Rules
from stream_dedup.serve.checking import GivenArticle, fields_of
from stream_dedup.serve.pages.backend import ArticleText, PageBackend, ShownSource
from stream_dedup.serve.pages.charts import BitDrawing, bit_drawing
from stream_dedup.serve.pages.clusters_page import stored_clusters
from stream_dedup.serve.pages.shown_text import ComparedTexts, Piece, ShownArticle, compared, pieces, shown_fields
from stream_dedup.serve.problems import ProblemError
from stream_dedup.serve.reading import TextAbsence

SHOWN_NEAREST = 10
"""Nearest entries that the page lists."""
TEXT_WITHIN_S = 4.0
"""Longest wait for the text of the other article."""
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

    @property
    def text(self) -> str:
        """The texts of all fields, as they are shown and compared."""
        return shown_fields(tuple(self.texts.values()))

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


@dataclass(frozen=True, slots=True)
class NearRow:
    """One of the nearest entries."""

    id: str
    source: ShownSource
    time_ms: int
    distance: int
    similarity: float
    cluster_id: str | None
    """None: its output was not read."""


@dataclass(frozen=True, slots=True)
class Beside:
    """The other article, beside the text."""

    number: int
    row: NearRow
    absence: TextAbsence | None
    compared: ComparedTexts | None
    is_explained: bool
    steps: Sequence[PairStep]
    bits: BitDrawing | None
    is_cut: bool
    source: Sequence[Piece] = ()
    """The other text with its markup; none where it has no markup."""


@dataclass(frozen=True, slots=True)
class CheckView:
    """What the page shows."""

    form: CheckForm
    result: Mapping[str, Any] | None = None
    log: Mapping[str, Any] | None = None
    nearest: Sequence[NearRow] = ()
    beside: Beside | None = None
    problem: ProblemError | None = None
    shown: Sequence[Piece] = ()
    """The text itself, where there is nothing beside it."""
    source: Sequence[Piece] = ()
    """The text with its markup; none where it has no markup."""
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
        rows = [_near_row(one) for one in result["nearest"]]
        yours = ShownArticle.of(form.text, await backend.readable(tuple(form.texts.values())))
        beside = await _beside(backend, form, article, rows, yours) if rows else None
    except ProblemError as problem:
        return CheckView(form, problem=problem)
    return CheckView(form, result, answer["log"], rows, beside, shown=pieces(yours.text), source=yours.source)


async def prefilled(backend: PageBackend, article: str) -> CheckView:
    """Return the page for an article of the stream, named by its coordinates: each of its fields, and its scope.

    The output of the article names its topic. An address does not: the service may read other topics, too.
    """
    at = parse_cluster_id(article)
    known = None if at is None else await asyncio.to_thread(_known, backend, at)
    if at is None or known is None:
        return CheckView(CheckForm(dict.fromkeys(backend.format.text_fields, "")))
    source = ShownSource(known.topic, at)
    found = (await backend.texts([source], TEXT_WITHIN_S)).get(at, _LATE)
    if found.text is None:
        return CheckView(CheckForm(dict.fromkeys(backend.format.text_fields, "")), absence=found.absence)
    texts = dict(zip(backend.format.text_fields, found.fields, strict=True))
    return await checked(backend, CheckForm(texts, scope=found.scope or ""))


def _known(backend: PageBackend, at: Coordinates) -> ClusteredArticle | None:
    return stored_clusters(backend.clusters().store, lambda store: store.article(at), None)


_LATE = ArticleText(None, TextAbsence.NO_BROKER)


def _near_row(one: Mapping[str, Any]) -> NearRow:
    at = one["source"]
    coordinates = Coordinates(UUID(at["topic_id"]).bytes, at["partition"], SourceOffset(at["offset"]))
    source = ShownSource(at["topic"], coordinates)
    return NearRow(one["id"], source, one["time_ms"], one["distance"], one["similarity"], one["cluster"])


async def _beside(
    backend: PageBackend, form: CheckForm, article: GivenArticle, rows: Sequence[NearRow], yours: ShownArticle
) -> Beside | None:
    number = min(form.beside, len(rows) - 1)
    row = rows[number]
    pair, rules = await backend.compare(article, row.source), backend.position().rules
    at = row.source.coordinates
    texts = await backend.texts([row.source], TEXT_WITHIN_S)
    found = texts.get(at, _LATE)
    other = None if found.text is None else ShownArticle.of(found.text, found.readable)
    return Beside(
        number=number,
        row=row,
        absence=found.absence,
        compared=None if other is None else compared(other.text, yours.text),
        is_explained=pair is not None,
        steps=() if pair is None or rules is None else steps(pair, rules),
        bits=None if pair is None else bit_drawing(pair["a"], pair["b"]),
        is_cut=yours.is_cut or (other is not None and other.is_cut),
        source=() if other is None else other.source,
    )


def steps(pair: Mapping[str, Any], rules: Rules) -> list[PairStep]:
    """Return the conditions under which the later article is a duplicate of the earlier one, and whether they hold.

    Both are of one kind and one scope: the index lists no others.
    """
    status = Status[pair["b"]["kind"].upper()]
    account = _account(pair, status, rules)
    if status is Status.EXACT:
        return [PairStep("equal", account.within)]
    values = {"distance": account.distance, "of": SIGNATURE_BITS if rules.directed else FINGERPRINT_BITS}
    rank = None if pair["finder"] is None else pair["finder"]["lookup"]
    found = [
        PairStep("distance", account.within, values | {"limit": rules.reach(status)}),
        PairStep("lookup", pair["found"], {"rank": rank, "plan": pair["lookups"]}),
    ]
    if account.form is Forms.OTHER_NUMBERS:
        limits = {"distance": account.distance, "limit": rules.form_bits}
        found.append(PairStep("form", account.form_holds, limits))
    if account.least_equal and not account.certain:
        counts = {"equal": account.equal, "of": rules.scheme.sketch_values, "least": account.least_equal}
        found.append(PairStep("sketch", account.enough, counts))
    if rules.copies > 1:
        found.append(PairStep("copies", pair["verdict"] == Verdict.DUPLICATE, {"copies": rules.copies}))
    return found


def _account(pair: Mapping[str, Any], status: Status, rules: Rules) -> Account:
    """Return the account of a pair as it is explained: the later article and the earlier one."""
    later, earlier = (
        (bytes.fromhex(side["signature"]), bytes.fromhex(side["sketch"])) for side in (pair["b"], pair["a"])
    )
    margins = pack_margins(np.array(pair["b"]["margins"], np.uint8))
    return PairCheck(rules).account(status, margins, later, earlier)


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n")
