"""Checks articles: from a request to the verdicts that they would have if they were logged next.

    1  make each article a source record
    2  fingerprint it in a thread, as a worker does (steps 2 and 3); those of small requests together (``_Batches``)
    3  judge all of them on the follower's thread, between two log records (step 6)
    4  make the answer

An article is made into the value of a source record and decoded as a worker decodes one, so it is rejected for the
same reasons. A text may therefore be any JSON value here: what is no text is rejected by the decoder.

At most ``serve.queue_articles`` articles are under way; a request beyond it is refused at once.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, NamedTuple, cast

import orjson
from pydantic import BaseModel, ConfigDict, Field, JsonValue, PlainValidator, WithJsonSchema, model_validator
from pydantic.config import JsonDict

from stream_dedup.config.effective import input_format_of
from stream_dedup.config.model import Config
from stream_dedup.core.columns import Columns
from stream_dedup.core.decode import InputFormat, RawRecord
from stream_dedup.core.logged_scheme import Scheme
from stream_dedup.core.model import Coordinates, Match, Status, signed
from stream_dedup.core.paths import FieldPath, NativePath, parse_path, with_value
from stream_dedup.core.reasons import code_of
from stream_dedup.core.rules import COPIES_LIMIT, Rules
from stream_dedup.errors import DefectError, StreamDedupError
from stream_dedup.index.judge import CheckedArticle
from stream_dedup.serve.clusters import ServiceClusters
from stream_dedup.serve.follower import Checked, LogFollower
from stream_dedup.serve.problems import JsonPath, ProblemError, busy, in_body, invalid, not_ready
from stream_dedup.serve.schemes import SchemeFingerprinter
from stream_dedup.serve.serve_metrics import ServeMetrics
from stream_dedup.threads import thread_count

log = logging.getLogger(__name__)


MAX_CHECKED = 500
"""Articles of one request."""
MAX_MEMBERS = 16
"""Members of an object of a request, known or not: an error takes some 10 microseconds, and a body has room for a
million."""
USUAL_TOP = 5
"""Nearest entries that an answer has where the request does not say how many."""

_Text = Annotated[Any, WithJsonSchema({"type": "string"})]


def _id_or_scope(value: Any) -> str | int | None:  # noqa: ANN401 - a JSON value
    """Return text; a number was made a text where the body was read (``name_paths``)."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, str | int)):
        raise ValueError("must be text or a number")
    return value


_ID_SCHEMA: JsonDict = {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]}
# Not a union: its errors name its types, which no request has.
_IdOrScope = Annotated[str | int | None, PlainValidator(_id_or_scope), WithJsonSchema(_ID_SCHEMA)]
_Fields = Annotated[dict[str, Any], WithJsonSchema({"type": "object", "additionalProperties": {"type": "string"}})]

_EXAMPLE: JsonDict = {"text": "渡口的船今天早上开了。", "id": "4711"}
_EXAMPLES: list[JsonValue] = [
    _EXAMPLE,
    {"articles": [_EXAMPLE, {"fields": {"title": "The ferry", "text": "It left this morning."}}], "top": 3},
]


class GivenObject(BaseModel):
    """An object of a request. Members that it does not know are errors, and many of them are one error."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _has_few_members(cls, values: Any) -> Any:  # noqa: ANN401 - as the framework passes it
        if isinstance(values, dict) and len(values) > MAX_MEMBERS:
            raise ValueError(f"an object of this form has at most {MAX_MEMBERS} members")
        return values


class GivenArticle(GivenObject):
    """An article: its text, or its fields by name, as they are in a source record."""

    text: _Text = Field(None, description="The text, for input.text_field.")
    fields: _Fields | None = Field(None, description="Other fields of the record, for input.fields.")
    id: _IdOrScope = Field(None, description="The article id; an earlier version of it is an update under recrawl.")
    scope: _IdOrScope = Field(None, description="The scope, for input.scope_field.")

    @property
    def is_given(self) -> bool:
        """Whether there is an article at all."""
        return bool({"text", "fields"} & self.model_fields_set)


class CheckRequest(GivenArticle):
    """One article, or several."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": _EXAMPLES})

    articles: list[GivenArticle] | None = Field(None, min_length=1, max_length=MAX_CHECKED)
    top: int = Field(USUAL_TOP, ge=0, le=COPIES_LIMIT, description="Nearest entries in the answer, for each article.")

    @model_validator(mode="after")
    def _has_one_form(self) -> CheckRequest:
        own = {"text", "fields", "id", "scope"} & self.model_fields_set
        if bool(own) == (self.articles is not None):
            raise ValueError("give one article (text or fields), or articles")
        return self

    @property
    def given(self) -> Mapping[JsonPath, GivenArticle]:
        """The articles in order, each with its place in the request."""
        return {(): self} if self.articles is None else {("articles", at): one for at, one in enumerate(self.articles)}


NOT_LOGGED = "(not logged)"
"""Id of an article that gives none; no logged article has it, for it is no topic, partition and offset."""


def refuse_unused(article: GivenArticle, at: JsonPath, fmt: InputFormat) -> None:
    """Refuse an article, at its place in the request, with what the records of the source topic do not have.

    Raises:
        ProblemError: it names the member.
    """
    given = article.model_fields_set
    if "scope" in given and fmt.scope_field is None:
        detail = "scope: the configuration has no input.scope_field"
        raise invalid(detail, in_body((*at, "scope"), detail))
    if "fields" in given and fmt.kind == "text":
        detail = "fields: the records are plain text (input.format)"
        raise invalid(detail, in_body((*at, "fields"), detail))


def raw_of(article: GivenArticle, fmt: InputFormat) -> RawRecord:
    """Return what the decoder gets of an article."""
    if fmt.kind == "text":
        text = article.text if isinstance(article.text, str) else None
        key = None if article.id is None else str(article.id).encode("utf-8", "backslashreplace")
        return RawRecord(key, None if text is None else text.encode("utf-8", "surrogatepass"), NOT_LOGGED)
    values: object = article.fields or {}
    fields = {"text": fmt.text_field, "id": fmt.id_field, "scope": fmt.scope_field}
    for name, field in fields.items():
        if name in article.model_fields_set and field is not None:
            values = with_value(values, parse_path(field).steps, getattr(article, name))
    return RawRecord(None, as_json(values), NOT_LOGGED)


def fields_of(texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of an article that has these texts, each at the path of a field."""
    fields: object = {}
    for name, text in texts.items():
        fields = with_value(fields, parse_path(name).steps, text)
    return cast("dict[str, Any]", fields)


def name_paths(fmt: InputFormat) -> list[NativePath]:
    """Return where requests have ids and scopes: a number there is the text that it is in a source record.

    Not where a text of the record is, too: a number is no text there.
    """
    texts = [parse_path(field) for field in fmt.text_fields]
    own = [parse_path(field) for field in (fmt.id_field, fmt.scope_field) if field is not None]
    own = [path for path in own if not any(map(path.is_in, texts))]
    paths = []
    for place in (("articles", None), ("a",), ("b",), ()):
        paths += [FieldPath(name, (*place, name)) for name in ("id", "scope")]
        paths += [FieldPath(path.name, (*place, "fields", *path.steps)) for path in own]
    return [path.native for path in paths]


def as_json(values: object) -> bytes:
    """Return JSON; half surrogates, which orjson refuses and texts may have, are escapes as in their records."""
    try:
        return orjson.dumps(values)
    except TypeError:  # orjson.JSONEncodeError
        return json.dumps(values).encode()


BATCHED_BYTES = 32 << 10
"""Bytes of the articles of a request that is judged together with others: they take some 2 ms of a thread."""
BATCHED_ARTICLES = 24
"""Articles of such a request."""
BATCH_BYTES = 256 << 10
"""Bytes of a batch of them."""


Clusters = Mapping[Coordinates, str | None]
"""Id of the cluster of each article, None where its output was not read yet."""


class Judged(NamedTuple):
    """Articles of a request that were judged."""

    columns: Columns
    """Entries of a batch."""
    checked: Checked
    """Of the articles of the request."""
    start: int
    """The row of the first of them."""
    clusters: Clusters


@dataclass(frozen=True, slots=True, eq=False)
class _WaitingCheck:
    """A request that is not judged yet."""

    records: Sequence[RawRecord]
    top: int
    judged: asyncio.Future[Judged]

    @property
    def size(self) -> int:
        """Bytes of its articles."""
        return sum(len(record.value or b"") for record in self.records)

    def take(self, columns: Columns, checked: Checked, start: int, clusters: Clusters) -> None:
        """Take the entries and verdicts that begin at a row."""
        rows = slice(start, start + len(self.records))
        if not self.judged.done():  # its client may have waited too long
            articles = [one._replace(nearest=one.nearest[: self.top]) for one in checked.articles[rows]]
            self.judged.set_result(Judged(columns, checked._replace(articles=articles), start, clusters))


class _Batches:
    """Fingerprints and judges requests: small ones that wait together go together. One event loop.

    To pass a request from thread to thread and back costs more than the work on it there.
    """

    def __init__(
        self, follower: LogFollower, fingerprinter: SchemeFingerprinter, clusters: ServiceClusters, threads: int
    ) -> None:
        """Half as many batches are under way as threads fingerprint: others need a processor, too."""
        self._follower = follower
        self._fingerprinter = fingerprinter
        self._clusters = clusters
        self._most = max(1, threads // 2)
        self._waiting: deque[_WaitingCheck] = deque()
        self._batches: set[asyncio.Task[None]] = set()

    async def judged(self, records: Sequence[RawRecord], top: int) -> Judged:
        """Return the entries that these records would have, and their verdicts, with ``top`` of the nearest entries.

        Raises:
            ProblemError: the configuration has no settings for the log's scheme, or the log changes.
        """
        request = _WaitingCheck(records, top, asyncio.get_running_loop().create_future())
        if len(records) <= BATCHED_ARTICLES and request.size <= BATCHED_BYTES:
            self._waiting.append(request)
            self._begin_batches()
            try:
                return await request.judged
            except asyncio.CancelledError:  # its client has waited too long, and others get its room
                with suppress(ValueError):
                    self._waiting.remove(request)
                raise
        task = asyncio.create_task(self._judge([request]))  # no request waits for another one's large articles
        try:
            return await request.judged
        finally:
            task.cancel()  # its client has waited too long; else it is done

    def _begin_batches(self) -> None:
        while len(self._batches) < self._most and (batch := self._next_batch()):
            task = asyncio.create_task(self._judge(batch))
            self._batches.add(task)
            task.add_done_callback(self._end_batch)

    def _next_batch(self) -> list[_WaitingCheck]:
        """Take requests that wait and fit together, at least one if there is one."""
        batch: list[_WaitingCheck] = []
        left = BATCH_BYTES
        while self._waiting and self._waiting[0].size <= left:
            request = self._waiting.popleft()
            if not request.judged.done():
                batch.append(request)
                left -= request.size
        return batch

    def _end_batch(self, task: asyncio.Task[None] | None) -> None:
        self._batches -= {task}
        self._begin_batches()

    async def _judge(self, requests: Sequence[_WaitingCheck]) -> None:
        """Give each request its entries and verdicts, or what went wrong."""
        try:
            entries = await self._fingerprinted([record for one in requests for record in one.records])
        except Exception as error:  # noqa: BLE001 - raised again where it is waited for
            if isinstance(error, DefectError) and len(requests) > 1:
                for one in requests:  # that one fails whose text the native core fails at
                    await self._judge([one])
            else:
                _fail(requests, error)
        else:
            await self._look_up(requests, *entries)

    async def _look_up(self, requests: Sequence[_WaitingCheck], columns: Columns, scheme: Scheme) -> None:
        try:
            most = max(one.top for one in requests)
            checked = await asyncio.wrap_future(self._follower.check(columns, scheme, most))
            self._end_batch(asyncio.current_task())  # the next one is fingerprinted meanwhile
            clusters = await self._clusters_of(checked)
        except Exception as error:  # noqa: BLE001 - as above
            _fail(requests, error)
            return
        start = 0
        for one in requests:
            one.take(columns, checked, start, clusters)
            start += len(one.records)

    async def _clusters_of(self, checked: Checked) -> Clusters:
        """Return the clusters of all entries of the answers, as far as their outputs were read and can be looked up.

        For the batch, not for each request: to open the store takes longer than all else on the way of a request.
        """
        store = self._clusters.store
        found = {match.coordinates for one in checked.articles for match in _matches_of(one)}
        if store is None or not found:
            return {}
        try:
            return await asyncio.to_thread(store.cluster_ids, found)
        except StreamDedupError as error:  # the verdicts need no clusters
            log.warning("an answer is without clusters: %s", error)
            return {}

    async def _fingerprinted(self, records: Sequence[RawRecord]) -> tuple[Columns, Scheme]:
        started = self._fingerprinter.get()
        try:
            return await asyncio.wrap_future(started.records.submit(records)), started.scheme
        except asyncio.CancelledError:
            raise not_ready(
                "the fingerprinting threads were closed: the log has another scheme now, or the service ends"
            ) from None


def _fail(requests: Iterable[_WaitingCheck], error: Exception) -> None:
    for request in requests:
        if not request.judged.done():
            request.judged.set_exception(error)


CHECKED_S = 30.0
"""Longest time of a check."""


class Checker:
    """Checks the articles of requests. One event loop."""

    def __init__(
        self,
        config: Config,
        follower: LogFollower,
        fingerprinter: SchemeFingerprinter,
        clusters: ServiceClusters,
        metrics: ServeMetrics,
    ) -> None:
        """Take the parts of the service."""
        self._follower = follower
        self._batches = _Batches(follower, fingerprinter, clusters, thread_count(config.serve.threads))
        self._metrics = metrics
        self._format = input_format_of(config)
        self._limit = config.serve.queue_articles
        self._waiting = 0

    async def check(self, articles: Mapping[JsonPath, GivenArticle], top: int) -> Json:
        """Return the answer for these articles of a request, with ``top`` of the nearest entries of each.

        Raises:
            ProblemError: there is no room, the log is not read yet, the articles took too long, or the configuration
                has no settings for the log's scheme, or has not what an article gives.
        """
        if not self._follower.position.ready:
            raise not_ready(self._follower.position.detail)
        if self._waiting + len(articles) > self._limit:
            raise busy(f"{self._waiting} articles are under way (serve.queue_articles {self._limit})")
        for at, article in articles.items():
            refuse_unused(article, at, self._format)
        records = [raw_of(article, self._format) for article in articles.values()]
        self._count(len(articles))
        try:
            async with asyncio.timeout(CHECKED_S):
                judged = await self._batches.judged(records, top)
        except TimeoutError:
            detail = f"the articles were not checked within {CHECKED_S:g} s"
            raise ProblemError(HTTPStatus.GATEWAY_TIMEOUT, "timeout", detail) from None
        finally:
            self._count(-len(articles))
        for one in judged.checked.articles:
            self._metrics.serve_checked.labels(str(one.judgement.verdict)).inc()
        return _check_values(judged)

    def _count(self, articles: int) -> None:
        self._waiting += articles
        self._metrics.serve_articles_waiting.set(self._waiting)


Json = dict[str, Any]


def _check_values(judged: Judged) -> Json:
    columns, checked, start, clusters = judged
    return {
        "log": {"id": checked.log_id, "offset": checked.offset, "time_ms": checked.time_ms},
        "rules": rules_values(checked.rules),
        "results": [_result(columns, row, one, clusters) for row, one in enumerate(checked.articles, start)],
    }


def rules_values(rules: Rules) -> Json:
    """Return what an answer says of the rules in force."""
    return {"revision": rules.revision, "scheme": rules.scheme.id, "observe": rules.observe}


def _matches_of(one: CheckedArticle) -> Iterable[Match]:
    return one.nearest if one.judgement.match is None else (one.judgement.match, *one.nearest)


def source_values(topic: str, at: Coordinates) -> Json:
    """Return where an article is in its source topic."""
    return {
        "topic": topic,
        "topic_id": str(uuid.UUID(bytes=at.topic_id)),
        "partition": at.partition,
        "offset": at.offset,
    }


def _result(columns: Columns, row: int, one: CheckedArticle, clusters: Clusters) -> Json:
    judgement = one.judgement
    status = Status(columns.statuses[row])
    is_signed = bool(signed(columns.statuses[row : row + 1])[0])
    is_rejected = judgement.reason is not None
    return {
        "verdict": str(judgement.verdict),
        "update": str(judgement.verdict) == "unique" and judgement.match is not None,
        "kind": status.name.lower(),
        "fingerprint": None if is_rejected else columns.signatures[row, :8].tobytes().hex(),
        "signature": columns.signatures[row].tobytes().hex() if is_signed else None,
        "copies": judgement.copies,
        "reason": judgement.reason,
        "reason_code": None if judgement.reason is None else code_of(judgement.reason),
        "match": None if judgement.match is None else _match_values(judgement.match, clusters),
        "nearest": [_match_values(match, clusters) for match in one.nearest],
    }


def _match_values(match: Match, clusters: Clusters) -> Json:
    return {
        "id": match.id,
        "source": source_values(match.topic, match.coordinates),
        "time_ms": match.time,
        "distance": match.distance,
        "similarity": round(match.similarity, 4),
        "cluster": clusters.get(match.coordinates),
    }
