"""The metrics of the service, declared as those of a worker are (``metrics.metrics``)."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from stream_dedup.index import IndexStats
from stream_dedup.metrics.declaration import Declaration, DeclaredMetrics
from stream_dedup.metrics.metrics import VERDICTS, disk_sizes

REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds. A check takes some ms; 30 is its limit."""


class ServeMetrics(DeclaredMetrics):
    """The metrics of one service, in the given registry."""

    serve_requests = Declaration(
        Counter,
        "requests",
        "requests answered, by route and status",
        "A rise of 401: a client without the token. 413, 422: a client with a fault. 503: the log is read after a "
        "start, or see serve_articles_waiting. Another 5xx: read the log of the service.",
        labels={"route": (), "status": ()},
    )
    serve_request_seconds = Declaration(
        Histogram,
        "seconds",
        "time from the head of a request to its answer, by route",
        "Grows with serve_articles_waiting: more clients than one service can answer; start another.",
        labels={"route": ()},
        buckets=REQUEST_BUCKETS,
    )
    serve_checked = Declaration(
        Counter,
        "articles",
        "articles checked, by the verdict that they would have",
        "Follows the clients.",
        labels={"verdict": VERDICTS},
    )
    serve_articles_waiting = Declaration(
        Gauge,
        "articles",
        "articles of checks under way",
        "Near serve.queue_articles: requests are refused with 503; start another service, or send fewer.",
    )
    serve_log_offset = Declaration(
        Gauge,
        "offset",
        "log offset before which the service has applied every record",
        "Constant while articles are logged: the log cannot be read; check the broker.",
    )
    serve_log_lag = Declaration(
        Gauge,
        "records",
        "log records that the service has not applied yet",
        "Growing: answers are behind the workers; give the service a faster disk or core.",
    )
    serve_index_entries = Declaration(
        Gauge,
        "articles",
        "articles in the index of the service",
        "Grows with the stream; only a window bounds it.",
    )
    serve_index_bytes = Declaration(
        Gauge,
        "bytes",
        "size of the index of the service on disk, without its clusters",
        "Near the size of the disk: set a window, or use a larger disk.",
    )
    serve_disk_free_bytes = Declaration(
        Gauge,
        "bytes",
        "free space of the file system of serve.data_dir",
        "Falling towards 0: set a window, or use a larger disk. At 0 the service ends with exit code 5.",
    )
    serve_disk_bytes = Declaration(
        Gauge,
        "bytes",
        "size of the file system of serve.data_dir",
        "Constant.",
    )
    serve_up_to_date = Declaration(
        Gauge,
        "0 or 1",
        "1 while the service has read the log to its end and the broker answers",
        "0 for a long time after a start: the index is being built from the log. Later: no broker answers.",
    )
    serve_connections = Declaration(
        Gauge,
        "connections",
        "connections that are open",
        "Near process_max_fds: idle or slow clients hold them; let a reverse proxy limit them.",
    )

    def __init__(self, registry: CollectorRegistry) -> None:
        """Create every declared metric, and those of the process."""
        super().__init__(registry)
        ProcessCollector(registry=registry)

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self.serve_requests.labels(route, str(status)).inc()
        self.serve_request_seconds.labels(route).observe(seconds)

    def show_index(self, stats: IndexStats) -> None:
        """Set the gauges of the index."""
        self.serve_index_entries.set(stats.articles)
        self.serve_index_bytes.set(stats.bytes_on_disk)

    def watch_disk(self, folder: Path) -> None:
        """Show size and free space of the file system of a folder, as they are at each scrape."""
        self.serve_disk_bytes.set_function(lambda: disk_sizes(folder)[0])
        self.serve_disk_free_bytes.set_function(lambda: disk_sizes(folder)[1])
