"""The board of the HTTP service. A query has data as soon as a service is scraped, and one is asked."""

from __future__ import annotations

from grafana_foundation_sdk.builders import stat

from boards.grafana import Board, Panel, Query
from boards.promql import RANGE, quantile, rate

_PROGRAMS = 'route!~"/healthz|/readyz|/metrics"'
"""Requests of clients; those of probes and of Prometheus are no load."""

SERVICE = Board(
    "stream-dedup-service",
    "stream_dedup: Service",
    "The HTTP service: who asks, how fast it answers, what it refuses, and whether it is up to date.",
    (
        Panel(
            "Services",
            "Services that answer.",
            "none",
            (Query('count(up{job="stream-dedup-serve"} == 1)'),),
            4,
            stat.Panel,
        ),
        Panel(
            "Up to date",
            "Services at the end of the log, with a broker that answers.",
            "none",
            (Query("sum(stream_dedup_serve_up_to_date)"),),
            4,
            stat.Panel,
        ),
        Panel(
            "Requests",
            "A second, without those of probes and Prometheus.",
            "cps",
            (Query(rate("serve_requests_total", where=_PROGRAMS)),),
            4,
            stat.Panel,
        ),
        Panel(
            "Time of a check",
            "95 % are faster.",
            "s",
            (Query(quantile(0.95, "serve_request_seconds", where='route="/v1/check"')),),
            4,
            stat.Panel,
        ),
        Panel(
            "Articles in the index",
            "Of the service.",
            "none",
            (Query("max(stream_dedup_serve_index_entries)"),),
            4,
            stat.Panel,
        ),
        Panel("Clusters", "Of two or more articles.", "none", (Query("max(stream_dedup_clusters)"),), 4, stat.Panel),
        Panel(
            "Requests, by route",
            "A second.",
            "cps",
            (Query(f"{rate('serve_requests_total', 'route', _PROGRAMS)} > 0", "{{route}}"),),
        ),
        Panel(
            "Requests, by status",
            "A second.",
            "cps",
            (Query(rate("serve_requests_total", "status", _PROGRAMS), "{{status}}"),),
        ),
        Panel(
            "Time of requests",
            "From the head of a request to its answer, by route: 95 % are faster.",
            "s",
            (Query(quantile(0.95, "serve_request_seconds", "le, route", _PROGRAMS), "{{route}}"),),
        ),
        Panel(
            "Refused",
            "A second: 401 without the token, 413 too large, 422 faulty, 503 busy or not ready, 504 too late.",
            "cps",
            (Query(rate("serve_requests_total", "status", f'status=~"[45]..", {_PROGRAMS}'), "{{status}}"),),
        ),
        Panel(
            "Articles checked",
            "A second, by the verdict that they would have.",
            "cps",
            (Query(rate("serve_checked_total", "verdict"), "{{verdict}}"),),
        ),
        Panel(
            "Queue",
            "Articles of checks under way (at serve.queue_articles requests are refused), and open connections.",
            "none",
            (
                Query("stream_dedup_serve_articles_waiting", "{{instance}} articles"),
                Query("stream_dedup_serve_connections", "{{instance}} connections"),
            ),
        ),
        Panel(
            "Behind",
            "Log records that the index has not applied, and outputs that the clusters have not.",
            "none",
            (
                Query("stream_dedup_serve_log_lag", "{{instance}} log records"),
                Query("stream_dedup_clusters_lag", "{{instance}} outputs"),
            ),
        ),
        Panel(
            "Clusters follow and publish",
            "Records a second, and clusters that are not published yet.",
            "none",
            (
                Query(rate("clusters_outputs_total"), "outputs read"),
                Query(rate("clusters_published_total"), "clusters published"),
                Query("sum(stream_dedup_clusters_unpublished)", "clusters to be published"),
                Query(rate("clusters_failures_total"), "failures"),
            ),
        ),
        Panel(
            "Disk",
            "The index, and what is free.",
            "bytes",
            (
                Query("stream_dedup_serve_index_bytes", "{{instance}} index"),
                Query("stream_dedup_serve_disk_free_bytes", "{{instance}} free"),
                Query("stream_dedup_serve_disk_bytes", "{{instance}} size"),
            ),
        ),
        Panel(
            "Memory and processor time",
            "Bytes and cores.",
            "none",
            (
                Query('process_resident_memory_bytes{job="stream-dedup-serve"}', "{{instance}} bytes"),
                Query(f'rate(process_cpu_seconds_total{{job="stream-dedup-serve"}}[{RANGE}])', "{{instance}} cores"),
            ),
        ),
    ),
)
