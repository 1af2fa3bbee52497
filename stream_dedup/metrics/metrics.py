"""Every metric, declared once with its kind, unit, meaning and the response to a change.

Rules:

* The registry is an argument: two workers in one process count separately.
* Labels are bounded: verdicts, stages, configured topics, codes of reasons. A label is never an id, an offset or a
  message.
* What is counted for each article is counted by one call for a whole batch.
* Buckets are explicit and include the program's own limits.
* A metric never changes a verdict.
"""

from __future__ import annotations

import math
import shutil
from collections import Counter as Tally
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.context_managers import Timer

from stream_dedup.core.arrays import F64, U8
from stream_dedup.core.model import OUTPUT_VERDICTS, Judgement, Status, Verdict
from stream_dedup.core.reasons import CODES, code_of
from stream_dedup.core.rules import Rules
from stream_dedup.index import IndexStats
from stream_dedup.metrics.declaration import BatchHistogram, Declaration, DeclaredMetrics

STAGE_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Seconds. One stage takes some ms; the target latency is between 0.05 and 0.25; 60 is the watchdog's limit."""
CANDIDATE_BUCKETS = (0.0, 1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16_384.0, 65_536.0)
"""Candidates of one article: 65536 is four full posting lists of the default bucket limit."""
DELAY_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0, 21_600.0, 86_400.0)
"""Seconds from the source timestamp to the commit: from the target latency to a backlog of a day."""
DISTANCE_BUCKETS = (
    0.0,
    1.0,
    2.0,
    3.0,
    4.0,
    6.0,
    8.0,
    11.0,
    16.0,
    24.0,
    32.0,
    40.0,
    48.0,
    56.0,
    64.0,
    80.0,
    96.0,
    128.0,
)
"""Bits: of the fingerprint up to 11 (the most in exact search), of the signature up to 128 (unrelated texts)."""
SIMILARITY_BUCKETS = (0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 0.99, 0.999, 1.0)
"""Estimated cosines: the limits of the profiles are between 0.6 and 0.9."""


Stage = Literal["poll", "decode_fingerprint", "append", "log_read", "apply", "judge", "transaction"]
STAGES: tuple[Stage, ...] = get_args(Stage)
"""Stages of a batch in a worker."""
VERDICTS = ("unique", "duplicate", "rejected")
KINDS = tuple(status.name.lower() for status in Status)
"""Kinds of text."""
RECORD_KINDS = ("batch", "rules", "trim", "withdrawal")
"""Kinds of log records."""
WAITING_CAUSES = ("registry_away", "unknown_schema")
OUTCOMES = ("committed", "aborted", "unknown")


class Metrics(DeclaredMetrics):
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
        "articles fingerprinted, by kind: long, short, exact (compared whole), featureless, rejected; and deletes",
        "Mostly short texts where articles are expected: the wrong text field, or pages truncated at the source.",
        labels={"kind": KINDS},
    )
    rejected = Declaration(
        Counter,
        "articles",
        "rejected articles, by code of the reason, as in the header dedup.reason.code",
        "A rise: the format of a producer changed; read the records in the rejected topic. Any defect: the native core "
        "panicked at an article; see the runbook.",
        labels={"reason": CODES},
    )
    stage_seconds = Declaration(
        Histogram,
        "seconds",
        "time that one batch spent in a stage",
        "See which stage grew. decode_fingerprint: add cores. append, transaction: the broker. judge: the index.",
        labels={"stage": STAGES},
        buckets=STAGE_BUCKETS,
    )
    end_to_end_seconds = Declaration(
        BatchHistogram,
        "seconds",
        "time of each article from its source timestamp to the commit of its verdict",
        "Grows with source_lag: add partitions and workers. Without a lag: the stage that grew in stage_seconds.",
        buckets=DELAY_BUCKETS,
    )
    match_distance = Declaration(
        BatchHistogram,
        "bits",
        "distance of each match: of the fingerprints in exact search, of the signatures in directed search",
        "Many close to the limit: unlike articles may match; see stream-dedup calibrate.",
        buckets=DISTANCE_BUCKETS,
    )
    match_similarity = Declaration(
        BatchHistogram,
        "cosine",
        "estimated similarity of each match, as in the header dedup.match.similarity",
        "Falling: copies are edited more, or unlike articles match; read some of the lowest, and calibrate.",
        buckets=SIMILARITY_BUCKETS,
    )
    fingerprint_threads = Declaration(
        Gauge,
        "threads",
        "threads that fingerprint",
        "Set by worker.threads.",
    )
    fingerprint_busy_seconds = Declaration(
        Counter,
        "seconds",
        "time in which threads fingerprinted articles, summed over the threads",
        "Its rate divided by fingerprint_threads is their use. Near 1: more threads and cores, or workers, are needed.",
    )
    source_lag = Declaration(
        Gauge,
        "articles",
        "articles of this worker's partitions that are not polled yet, by topic",
        "Growing: articles arrive faster than they are processed; add partitions and workers. Not moving: an open "
        "transaction holds articles back, or the worker is stuck; stream-dedup status says which.",
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
    log_span_seconds = Declaration(
        Gauge,
        "seconds",
        "log time from the oldest articles that the log still has to the newest; set where match.window is",
        "Far above window_seconds: nothing is trimmed; see log_clock_ahead_seconds, and input topics without a worker.",
    )
    window_seconds = Declaration(
        Gauge,
        "seconds",
        "window of the rules in force; 0 without one",
        "Changes with stream-dedup rules apply.",
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
        "Divided by lookups: the posting lists looked up for one article, set by probes or distance of the profile.",
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
    index_disk_free_bytes = Declaration(
        Gauge,
        "bytes",
        "free space of the file system of the index",
        "Falling towards 0: set a window, or use a larger disk. At 0 the worker ends with exit code 5.",
    )
    index_disk_bytes = Declaration(
        Gauge,
        "bytes",
        "size of the file system of the index",
        "Constant.",
    )
    index_unwritten_bytes = Declaration(
        Gauge,
        "bytes",
        "index entries in RocksDB's write buffers, not on disk yet",
        "Grows to the size of the buffers and falls when they are written. Stays at the top: the disk is too slow.",
    )
    index_cache_bytes = Declaration(
        Gauge,
        "bytes",
        "index blocks in RocksDB's block cache",
        "Up to a 32nd of index.memory_mib: usual.",
    )
    index_memory_bytes = Declaration(
        Gauge,
        "bytes",
        "posting lists and rows in memory",
        "At index.memory_mib: what does not fit is read from disk, which is slower; raise it, or set a window.",
    )
    inflight_batches = Declaration(
        Gauge,
        "batches",
        "batches polled and not committed, but those that wait for the schema registry",
        "Constantly at its limit: the worker is the bottleneck; see stage_seconds.",
    )
    waiting_partitions = Declaration(
        Gauge,
        "partitions",
        "partitions of this worker whose next record waits for the schema registry, by cause: registry_away, it does "
        "not answer; unknown_schema, it does not know the schema",
        "Not 0: nothing is lost, and nothing is judged of these partitions. registry_away: start the registry. "
        "unknown_schema: register the schema, or stream-dedup reject.",
        labels={"cause": WAITING_CAUSES},
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
        """Create every metric."""
        super().__init__(registry)
        self._of_stage = {stage: self.stage_seconds.labels(stage) for stage in STAGES}

    def stage(self, name: Stage) -> AbstractContextManager[object]:
        """Measure a stage, also where it fails."""
        return self._of_stage[name].time()

    def passed(self, stage: Stage, seconds: float) -> None:
        """Record the time of a stage."""
        self._of_stage[stage].observe(seconds)

    def count_texts(self, statuses: U8) -> None:
        """Count new entries, by kind."""
        for kind, count in zip(KINDS, np.bincount(statuses, minlength=len(KINDS)).tolist(), strict=True):
            self.texts.labels(kind).inc(count)

    def count_verdicts(self, judgements: Sequence[Judgement]) -> None:
        """Count the verdicts of a committed batch, the codes of its rejections, and its matches."""
        unique, rejected = Verdict.UNIQUE, Verdict.REJECTED  # once a batch: Python looks a member up by a function
        verdicts = Tally(judgement.verdict for judgement in judgements)
        for verdict in OUTPUT_VERDICTS:
            self.articles.labels(str(verdict)).inc(verdicts[verdict])
        reasons = (judgement.reason or "" for judgement in judgements if judgement.verdict is rejected)
        for code, count in Tally(map(code_of, reasons)).items():
            self.rejected.labels(code).inc(count)
        matched = [(judgement.verdict, judgement.match) for judgement in judgements if judgement.match is not None]
        self.updates.inc(sum(verdict is unique for verdict, _ in matched))
        self.match_distance.observe([match.distance for _, match in matched])
        self.match_similarity.observe([match.similarity for _, match in matched])

    def count_delays(self, seconds: F64) -> None:
        """Count the articles of a committed batch by the time from their source timestamps."""
        self.end_to_end_seconds.observe(np.maximum(seconds, 0))

    def fingerprinting(self) -> AbstractContextManager[object]:
        """Count the time in which a thread fingerprints."""
        return Timer(self.fingerprint_busy_seconds, "inc")  # type: ignore[no-untyped-call] # the client has no types here

    def count_lookups(self, lookups: int, lists: int, candidates: int) -> None:
        """Count the look-ups of a batch, its posting lists and its candidates."""
        if lookups > 0:
            self.lookups.inc(lookups)
            self.lists.inc(lists)
            self.candidates_per_lookup.observe(candidates / lookups)

    def show_index(self, stats: IndexStats, rules: Rules | None) -> None:
        """Set the gauges of an index and of the log that it has applied."""
        self.index_entries.set(stats.articles)
        self.index_numbers_used.set(stats.numbers_used)
        self.index_bytes.set(stats.bytes_on_disk)
        self.index_unwritten_bytes.set(stats.bytes_unwritten)
        self.index_cache_bytes.set(stats.bytes_block_cache)
        self.index_memory_bytes.set(stats.memory_bytes)
        window_ms = None if rules is None else rules.window_ms
        self.window_seconds.set((window_ms or 0) / 1000)
        self.log_span_seconds.set(0 if window_ms is None else stats.log_span_ms / 1000)

    def watch_process(self) -> None:
        """Add the metrics of this process."""
        ProcessCollector(registry=self.registry)

    def watch_disk(self, folder: Path) -> None:
        """Show size and free space of the file system of a folder, as they are at each scrape."""
        self.index_disk_bytes.set_function(lambda: disk_sizes(folder)[0])
        self.index_disk_free_bytes.set_function(lambda: disk_sizes(folder)[1])

    def identify(self, version: str, scheme: str) -> None:
        """Set the version of the program and the scheme."""
        self.build_info.clear()
        self.build_info.labels(version, scheme).set(1)


def disk_sizes(folder: Path) -> tuple[float, float]:
    """Return size and free space of a file system in bytes; NaN if the system does not report them."""
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return math.nan, math.nan
    return usage.total, usage.free
