"""Every metric, declared once with its kind, unit, meaning and the response to a change.

Rules:

* The registry is an argument: two workers in one process count separately.
* Labels are bounded: verdicts, stages, configured topics, named reasons. A label is never an id, an offset or a
  message.
* Buckets are explicit and include the program's own limits.
* A metric never changes a verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import Any, Generic, Literal, Self, TypeVar, get_args, overload

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from stream_dedup.core.arrays import U8
from stream_dedup.core.model import Judgement, Status, Verdict

_M = TypeVar("_M", Counter, Gauge, Histogram)

METRIC_PREFIX = "stream_dedup_"

Stage = Literal["poll", "decode_fingerprint", "append", "log_read", "apply", "judge", "transaction", "end_to_end"]
STAGES: tuple[Stage, ...] = get_args(Stage)
"""Stages of a batch in a worker; end_to_end is the time from the source timestamp to the commit."""
VERDICTS = ("unique", "duplicate", "rejected")
KINDS = tuple(status.name.lower() for status in Status)
"""Kinds of text."""
RECORD_KINDS = ("batch", "rules", "trim", "withdrawal")
"""Kinds of log records."""
OUTCOMES = ("committed", "aborted", "unknown")
RestartCause = Literal["late", "killed", "idle", "loading"]
RESTART_CAUSES: tuple[RestartCause, ...] = get_args(RestartCause)
"""How a fingerprinting process ended: at work, by the time limit or otherwise; without work; while it loaded."""
PoisonCode = Literal["late", "killed"]
POISON_CODES: tuple[PoisonCode, ...] = get_args(PoisonCode)
"""What an article did to its fingerprinting process: took longer than the limit, or had it killed twice."""

STAGE_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Seconds. One stage takes some ms; the target latency is between 0.05 and 0.25; 60 is the watchdog's limit."""
CANDIDATE_BUCKETS = (0.0, 1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16_384.0, 65_536.0)
"""Candidates of one article: 65536 is four full posting lists of the default bucket limit."""
MAX_REASONS = 32
"""Distinct reasons kept as labels; further ones are counted as ``other``."""
MAX_REASON_CHARACTERS = 60
"""The label of a reason is cut there."""


class Declaration(Generic[_M]):
    """One metric: a class attribute of ``Metrics`` that declares it, and the metric itself on an instance.

    The name of the attribute is the metric's, without the prefix and without a counter's ``_total``.
    """

    name: str

    def __init__(
        self,
        kind: type[_M],
        unit: str,
        meaning: str,
        when_it_moves: str,
        *,
        labels: Mapping[str, tuple[str, ...]] | None = None,
        buckets: tuple[float, ...] = (),
    ) -> None:
        """Declares a metric.

        Args:
            kind: Counter, Gauge or Histogram.
            unit: unit of its value.
            meaning: what the value is.
            when_it_moves: what a change means, and what to do.
            labels: by name, the values known beforehand: their series start at 0, so that a rate over them is correct
                from the first article on. None are known of a topic or a reason.
            buckets: upper bounds of a histogram's.
        """
        self._kind: type[_M] = kind
        self.unit, self.meaning, self.when_it_moves = unit, meaning, when_it_moves
        self.labels, self.buckets = dict(labels or {}), buckets

    def __set_name__(self, owner: type[object], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type[object]) -> Self: ...

    @overload
    def __get__(self, instance: Metrics, owner: type[object]) -> _M: ...

    def __get__(self, instance: Metrics | None, owner: type[object]) -> Self | _M:
        if instance is None:
            return self
        metric: _M = instance.__dict__[self.name]  # ``Metrics`` puts it there: Python then finds it without this call
        return metric

    @property
    def kind(self) -> str:
        """counter, gauge or histogram."""
        return str(self._kind.__name__).lower()

    @property
    def full_name(self) -> str:
        """The name in /metrics."""
        return f"{METRIC_PREFIX}{self.name}{'_total' if self.kind == 'counter' else ''}"

    def make(self, registry: CollectorRegistry) -> _M:
        """Creates the metric in a registry, with the series that are known beforehand."""
        more: dict[str, Any] = {"buckets": self.buckets} if self.buckets else {}
        about = f"{self.meaning} ({self.unit})"
        metric: _M = self._kind(METRIC_PREFIX + self.name, about, tuple(self.labels), registry=registry, **more)
        if len(self.labels) == 1:
            (values,) = self.labels.values()
            for value in values:
                metric.labels(value)
        return metric


class Metrics:
    """The metrics of one worker, in the given registry."""

    articles = Declaration(
        Counter,
        "articles",
        "verdicts committed",
        "Constant while the lag grows: the worker is stuck; read its log. A rise of duplicates: a flood or a re-crawl.",
        labels={"verdict": VERDICTS},
    )
    updates = Declaration(
        Counter,
        "articles",
        "unique articles that are a new version of an earlier article with the same id",
        "Follows re-crawls. 0 unless match.recrawl is update.",
    )
    texts = Declaration(
        Counter,
        "articles",
        "articles fingerprinted, by kind: long, short, exact (compared whole), featureless, rejected",
        "Mostly short texts where articles are expected: the wrong text field, or pages truncated at the source.",
        labels={"kind": KINDS},
    )
    rejected = Declaration(
        Counter,
        "articles",
        "rejected articles, by reason",
        "A rise: the format of a producer changed; read the records in the rejected topic.",
        labels={"reason": ()},
    )
    poisoned = Declaration(
        Counter,
        "articles",
        "articles rejected for what they did to their fingerprinting process, by code: late, killed",
        "late: see worker.article_limit_s. killed: memory ran out, or a library crashed; report the article.",
        labels={"code": POISON_CODES},
    )
    process_restarts = Declaration(
        Counter,
        "processes",
        "fingerprinting processes that ended and were replaced, by cause: late, killed, idle, loading",
        "Follows poisoned. killed or idle without poisoned articles: memory runs out; use fewer worker.processes.",
        labels={"cause": RESTART_CAUSES},
    )
    stage_seconds = Declaration(
        Histogram,
        "seconds",
        "time that one batch spent in a stage; end_to_end: from the source timestamp to the commit",
        "See which stage grew. decode_fingerprint: add processes. append, transaction: the broker. judge: the index.",
        labels={"stage": STAGES},
        buckets=STAGE_BUCKETS,
    )
    source_lag = Declaration(
        Gauge,
        "articles",
        "articles of this worker's partitions that are not committed yet, by topic",
        "Growing: articles arrive faster than they are processed; add partitions and workers.",
        labels={"topic": ()},
    )
    log_lag = Declaration(
        Gauge,
        "records",
        "log records that this worker has not applied yet",
        "Growing: this worker cannot keep up with the log; give it a faster disk or core.",
    )
    log_clock_ahead_seconds = Declaration(
        Gauge,
        "seconds",
        "time by which the newest log record is ahead of this machine's clock; set where match.window is",
        "Above worker.clock_allowance_s: nothing is trimmed. A broker's clock, or this machine's, is wrong.",
    )
    log_records = Declaration(
        Counter,
        "records",
        "log records applied, by kind",
        "Constant while articles arrive: the log cannot be read; check the broker.",
        labels={"kind": RECORD_KINDS},
    )
    lookups = Declaration(
        Counter,
        "look-ups",
        "articles looked up in the index",
        "Follows articles.",
    )
    lists = Declaration(
        Counter,
        "lists",
        "posting lists looked up for all articles",
        "Divided by lookups: the posting lists looked up for one article, set by match.probes or match.distance.",
    )
    candidates_per_lookup = Declaration(
        Histogram,
        "entries",
        "candidates compared for one article, as the mean of each batch",
        "Near the bucket limit: a flood of similar texts, or an index too large for its distance; set a window.",
        buckets=CANDIDATE_BUCKETS,
    )
    index_entries = Declaration(
        Gauge,
        "articles",
        "articles in the index",
        "Grows with the stream; only a window bounds it.",
    )
    index_numbers_used = Declaration(
        Gauge,
        "ratio",
        "part of the document numbers of the index that are used, 0 to 1",
        "From 7/8 on: with a window, run stream-dedup index rebuild; without one, begin a new group. At 1 it is full.",
    )
    index_bytes = Declaration(
        Gauge,
        "bytes",
        "size of the index on disk",
        "Near the size of the disk: set a window, or use a larger disk.",
    )
    image_bytes = Declaration(
        Gauge,
        "bytes",
        "memory of the image of the index",
        "At index.image_mib: the rest is looked up on disk, which is slower; raise it, or set a window.",
    )
    inflight_batches = Declaration(
        Gauge,
        "batches",
        "batches polled and not committed",
        "Constantly at its limit: the worker is the bottleneck; see stage_seconds.",
    )
    rebalances = Declaration(
        Counter,
        "rebalances",
        "assignments and revocations of partitions of this worker",
        "Rising steadily: workers come and go, or one is too slow for its session timeout.",
    )
    transactions = Declaration(
        Counter,
        "transactions",
        "transactions, by outcome; unknown: the broker was lost during a commit",
        "A few aborted or unknown transactions are harmless. Many: the broker has a problem.",
        labels={"outcome": OUTCOMES},
    )
    up_to_date = Declaration(
        Gauge,
        "0 or 1",
        "1 once the worker has read the log to its end and joined its group",
        "0 for a long time after a start: the index is being rebuilt from the log; log_lag shows the progress.",
    )
    build_info = Declaration(
        Gauge,
        "1",
        "version of the program and scheme of the log, as labels",
        "Differs between the workers of a group: finish the roll-out.",
        labels={"version": (), "scheme": ()},
    )

    def __init__(self, registry: CollectorRegistry) -> None:
        """Creates every declared metric."""
        self.registry = registry
        for declaration in DECLARATIONS:
            self.__dict__[declaration.name] = declaration.make(registry)
        self._reasons: set[str] = set()
        self._of_stage = {stage: self.stage_seconds.labels(stage) for stage in STAGES}

    @contextmanager
    def stage(self, name: Stage) -> Iterator[None]:
        """Measures a stage, also where it fails."""
        begun = perf_counter()
        try:
            yield
        finally:
            self.passed(name, perf_counter() - begun)

    def passed(self, stage: Stage, seconds: float) -> None:
        """Records the time of a stage."""
        self._of_stage[stage].observe(seconds)

    def count_texts(self, statuses: U8) -> None:
        """Counts new entries, by kind."""
        for kind, count in zip(KINDS, np.bincount(statuses, minlength=len(KINDS)).tolist(), strict=True):
            self.texts.labels(kind).inc(count)

    def count_verdicts(self, judgements: Iterable[Judgement]) -> None:
        """Counts the verdicts of a committed batch."""
        for judgement in judgements:
            self.articles.labels(str(judgement.verdict)).inc()
            if judgement.verdict is Verdict.UNIQUE and judgement.match is not None:
                self.updates.inc()
            if judgement.verdict is Verdict.REJECTED:
                self.count_rejected(judgement.reason or "")

    def count_rejected(self, reason: str) -> None:
        """Counts a rejected article under its reason, without the text after a colon."""
        label = reason.partition(":")[0].strip()[:MAX_REASON_CHARACTERS]
        if label not in self._reasons:
            if len(self._reasons) >= MAX_REASONS:
                label = "other"
            else:
                self._reasons.add(label)
        self.rejected.labels(label).inc()

    def count_poisoned(self, code: PoisonCode) -> None:
        """Counts an article that was rejected for what it did to its fingerprinting process."""
        self.poisoned.labels(code).inc()

    def count_restart(self, cause: RestartCause) -> None:
        """Counts a fingerprinting process that ended and is replaced."""
        self.process_restarts.labels(cause).inc()

    def count_lookups(self, lookups: int, lists: int, candidates: int) -> None:
        """Counts the look-ups of a batch, its posting lists and its candidates."""
        if lookups > 0:
            self.lookups.inc(lookups)
            self.lists.inc(lists)
            self.candidates_per_lookup.observe(candidates / lookups)

    def identify(self, version: str, scheme: str) -> None:
        """Sets the version of the program and the scheme."""
        self.build_info.clear()
        self.build_info.labels(version, scheme).set(1)


DECLARATIONS: tuple[Declaration[Counter] | Declaration[Gauge] | Declaration[Histogram], ...] = tuple(
    declared for declared in vars(Metrics).values() if isinstance(declared, Declaration)
)
"""Every metric, in the order of declaration: the README's table is generated from it."""
