"""Every metric, declared once, with its unit, its meaning and what to do when it moves.

``DECLARATIONS`` is the list; the README's table and the tests are held against it. Rules:

* The registry is passed in; nothing here is global but the declarations.
* Labels are bounded: verdicts, stages, topics of the configuration, named reasons. Never an id,
  an offset or a message.
* Buckets are explicit: the program's own limits stand within them.
* Nothing here decides anything: a metric that cannot be set never changes a verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Literal, get_args

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from stream_dedup.core.arrays import U8
from stream_dedup.core.model import Judgement, Status, Verdict

PREFIX = "stream_dedup_"

Stage = Literal["poll", "decode_fingerprint", "append", "log_read", "apply", "judge", "transaction", "end_to_end"]
STAGES: tuple[Stage, ...] = get_args(Stage)
"""Steps of an article's way through a worker; end_to_end goes from the source's time stamp to the commit."""
VERDICTS = ("unique", "duplicate", "rejected")
KINDS = tuple(status.name.lower() for status in Status)
"""Kinds of text: by which features an entry was made."""
OUTCOMES = ("committed", "aborted", "unknown")

STAGE_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Seconds. A step alone takes some ms; 0.05 and 0.25 stand around the latency aimed at; 60 is the watchdog."""
CANDIDATE_BUCKETS = (0.0, 1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16_384.0, 65_536.0)
"""Entries compared for one article: 65536 is four full lists of the default bucket limit."""
MAX_REASONS = 32
"""Distinct reasons kept as labels; what comes beyond is counted as ``other``."""
MAX_REASON_CHARACTERS = 60
"""A reason's label is cut there."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """One metric: its name without prefix (a counter's without ``_total``) and how to read it."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    meaning: str
    when_it_moves: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def full_name(self) -> str:
        """Name as it stands in /metrics."""
        return f"{PREFIX}{self.name}{'_total' if self.kind == 'counter' else ''}"


DECLARATIONS = (
    Declaration(
        "articles",
        "counter",
        "articles",
        "verdicts given and committed",
        "Flat while lag grows: the worker is stuck, read its log. A jump of duplicates: a flood or a re-crawl.",
        ("verdict",),
    ),
    Declaration(
        "updates",
        "counter",
        "articles",
        "unique articles that are a new version of an earlier one with the same id",
        "Goes with re-crawls; 0 unless match.recrawl is update.",
    ),
    Declaration(
        "texts",
        "counter",
        "articles",
        "articles fingerprinted, by kind: long, short, exact (compared whole), featureless, rejected",
        "Mostly short ones where articles should come: the wrong text field, or pages cut at the source.",
        ("kind",),
    ),
    Declaration(
        "rejected",
        "counter",
        "articles",
        "rejected articles, by reason",
        "A rise: a producer's format changed; read the records in the topic of rejected ones.",
        ("reason",),
    ),
    Declaration(
        "stage_seconds",
        "histogram",
        "seconds",
        "time that one batch spent in a step; end_to_end: from the source's time stamp to the commit",
        "See which step grew: decode_fingerprint, more processes; append, transaction, the broker; judge, the index.",
        ("stage",),
        STAGE_BUCKETS,
    ),
    Declaration(
        "source_lag",
        "gauge",
        "articles",
        "articles of this worker's partitions that are not committed yet, by topic",
        "Growing: articles come faster than they leave; add partitions and workers.",
        ("topic",),
    ),
    Declaration(
        "log_lag",
        "gauge",
        "records",
        "log records that this worker has not applied yet",
        "Growing: this worker cannot follow the log; give it a faster disk or core.",
    ),
    Declaration(
        "log_records",
        "counter",
        "records",
        "log records applied, by kind",
        "Flat while articles come: the log cannot be read; look at the broker.",
        ("kind",),
    ),
    Declaration("lookups", "counter", "look-ups", "articles looked up in the index", "Goes with articles."),
    Declaration(
        "lists",
        "counter",
        "lists",
        "lists of the tables looked at: the probes of all articles",
        "Divided by lookups: what match.probes (or match.distance) makes of one article.",
    ),
    Declaration(
        "candidates_per_lookup",
        "histogram",
        "entries",
        "entries compared in one look-up, as a mean of each batch",
        "Near the bucket limit: a flood of like texts, or an index too big for its distance; set a window.",
        (),
        CANDIDATE_BUCKETS,
    ),
    Declaration(
        "index_entries",
        "gauge",
        "articles",
        "articles that the index holds",
        "Grows with the stream; only a window bounds it.",
    ),
    Declaration(
        "index_bytes",
        "gauge",
        "bytes",
        "size of the index on disk",
        "Near the disk's size: set a window, or give it a larger disk.",
    ),
    Declaration(
        "image_bytes",
        "gauge",
        "bytes",
        "memory that the image of the index takes",
        "At index.image_mib: what does not fit is looked up on disk, slower; give it more, or set a window.",
    ),
    Declaration(
        "inflight_batches",
        "gauge",
        "batches",
        "batches polled and not committed",
        "At its limit all the time: the worker is the bottleneck, see stage_seconds.",
    ),
    Declaration(
        "rebalances",
        "counter",
        "rebalances",
        "times that partitions were given to or taken from this worker",
        "Rising steadily: workers come and go, or one is too slow for its session time-out.",
    ),
    Declaration(
        "transactions",
        "counter",
        "transactions",
        "transactions by outcome; unknown: the broker went away in a commit",
        "Aborted or unknown ones now and then are harmless; many: the broker is in trouble.",
        ("outcome",),
    ),
    Declaration(
        "up_to_date",
        "gauge",
        "0 or 1",
        "1 once the log was read to its end and the worker joined its group",
        "0 for long after a start: the index is being rebuilt from the log; log_lag says how far.",
    ),
    Declaration(
        "build_info",
        "gauge",
        "1",
        "version of the program and scheme of the log, as labels",
        "Differs between workers of a group: finish the roll-out.",
        ("version", "scheme"),
    ),
)


class Metrics:
    """The metrics of one worker, on the registry given.

    Attributes bear the names of the declarations. Counters start at 0 for every label that is
    known beforehand, so that a rate over them is right from the first article on.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        """Make every metric."""
        self.registry = registry
        made = {declaration.name: _make(declaration, registry) for declaration in DECLARATIONS}
        counters = {name: metric for name, metric in made.items() if isinstance(metric, Counter)}
        gauges = {name: metric for name, metric in made.items() if isinstance(metric, Gauge)}
        histograms = {name: metric for name, metric in made.items() if isinstance(metric, Histogram)}
        self.articles = counters["articles"]
        self.updates = counters["updates"]
        self.texts = counters["texts"]
        self.rejected = counters["rejected"]
        self.stage_seconds = histograms["stage_seconds"]
        self.source_lag = gauges["source_lag"]
        self.log_lag = gauges["log_lag"]
        self.log_records = counters["log_records"]
        self.lookups = counters["lookups"]
        self.lists = counters["lists"]
        self.candidates_per_lookup = histograms["candidates_per_lookup"]
        self.index_entries = gauges["index_entries"]
        self.index_bytes = gauges["index_bytes"]
        self.image_bytes = gauges["image_bytes"]
        self.inflight_batches = gauges["inflight_batches"]
        self.rebalances = counters["rebalances"]
        self.transactions = counters["transactions"]
        self.up_to_date = gauges["up_to_date"]
        self.build_info = gauges["build_info"]
        self._reasons: set[str] = set()
        self._begin()

    def _begin(self) -> None:
        for verdict in VERDICTS:
            self.articles.labels(verdict)
        for kind in KINDS:
            self.texts.labels(kind)
        for stage in STAGES:
            self.stage_seconds.labels(stage)
        for outcome in OUTCOMES:
            self.transactions.labels(outcome)
        for kind in ("batch", "rules", "trim"):
            self.log_records.labels(kind)

    @contextmanager
    def stage(self, name: Stage) -> Iterator[None]:
        """Measure a step; it counts too when the step fails."""
        begun = perf_counter()
        try:
            yield
        finally:
            self.passed(name, perf_counter() - begun)

    def passed(self, stage: Stage, seconds: float) -> None:
        """A step took so long."""
        self.stage_seconds.labels(stage).observe(seconds)

    def count_texts(self, statuses: U8) -> None:
        """Count entries that were made, by kind."""
        for kind, count in zip(KINDS, np.bincount(statuses, minlength=len(KINDS)).tolist(), strict=True):
            self.texts.labels(kind).inc(count)

    def count_verdicts(self, judgements: Iterable[Judgement]) -> None:
        """Count the verdicts of a committed batch."""
        for judgement in judgements:
            self.articles.labels(str(judgement.verdict)).inc()
            if judgement.verdict is Verdict.UNIQUE and judgement.match is not None:
                self.updates.inc()
            if judgement.verdict is Verdict.REJECTED:
                self.count_rejected(judgement.reason or "")

    def count_rejected(self, reason: str) -> None:
        """Count a rejected article under its reason, what follows a colon left out."""
        label = reason.partition(":")[0].strip()[:MAX_REASON_CHARACTERS]
        if label not in self._reasons:
            if len(self._reasons) >= MAX_REASONS:
                label = "other"
            else:
                self._reasons.add(label)
        self.rejected.labels(label).inc()

    def count_lookups(self, lookups: int, lists: int, candidates: int) -> None:
        """Count a batch's look-ups, the lists looked at and the entries compared in them."""
        if lookups > 0:
            self.lookups.inc(lookups)
            self.lists.inc(lists)
            self.candidates_per_lookup.observe(candidates / lookups)

    def identify(self, version: str, scheme: str) -> None:
        """Say which version runs, on which scheme."""
        self.build_info.clear()
        self.build_info.labels(version, scheme).set(1)


def _make(declaration: Declaration, registry: CollectorRegistry) -> Counter | Gauge | Histogram:
    name, text = PREFIX + declaration.name, f"{declaration.meaning} ({declaration.unit})"
    if declaration.kind == "counter":
        return Counter(name, text, declaration.labels, registry=registry)
    if declaration.kind == "gauge":
        return Gauge(name, text, declaration.labels, registry=registry)
    return Histogram(name, text, declaration.labels, registry=registry, buckets=declaration.buckets)
