"""What the boards show.

A query has data as soon as one worker has judged articles, rejected ones and duplicates; one of the service as soon as
a service is scraped, and one is asked.
"""

from __future__ import annotations

from boards.grafana import Board, Query, curves, heat_map, number

RANGE = "$__rate_interval"
"""The range of rates, as Grafana chooses it."""
ME = 'instance=~"$instance"'
"""The chosen workers."""


def rate(metric: str, by: str = "", where: str = "") -> str:
    """Return the rate of a counter, summed; ``by`` are labels that are kept, ``where`` selects series."""
    grouping = f" by ({by})" if by else ""
    return f"sum{grouping} (rate(stream_dedup_{metric}{{{where}}}[{RANGE}]))"


def quantile(part: float, metric: str, by: str = "le", where: str = "") -> str:
    """Return a quantile of a histogram: ``part`` of the values are below it."""
    return f"histogram_quantile({part}, {rate(f'{metric}_bucket', by, where)})"


def quantiles(metric: str) -> tuple[Query, ...]:
    """Return queries of the median and of two upper quantiles of a histogram."""
    return tuple(Query(quantile(part, metric), f"{part:.0%}") for part in (0.5, 0.95, 0.99))


def gauge(metric: str, legend: str = "{{instance}}") -> Query:
    """Return the query of a gauge of the chosen workers."""
    return Query(f"stream_dedup_{metric}{{{ME}}}", legend)


_ALL = rate("articles_total")


def _share(verdict: str) -> str:
    chosen = f'verdict="{verdict}"'
    return f"{rate('articles_total', where=chosen)} / {_ALL}"


OVERVIEW = Board(
    "stream-dedup-overview",
    "stream_dedup: Overview",
    "Is it working, how much is duplicate, how late are the verdicts?",
    (
        number("Workers", "Workers that answer.", "none", 'count(up{job="stream-dedup"} == 1)'),
        number(
            "Alerts",
            "Alerts that fire: see docs/runbook.md.",
            "none",
            'count(ALERTS{alertname=~"StreamDedup.*", alertstate="firing"}) or vector(0)',
        ),
        number("Articles", "Verdicts committed a second.", "cps", _ALL),
        number("Duplicates", "Part of all articles.", "percentunit", _share("duplicate")),
        number("Rejected", "Part of all articles.", "percentunit", _share("rejected")),
        number(
            "Delay",
            "From the source timestamp to the commit: 95 % of the articles are faster.",
            "s",
            quantile(0.95, "end_to_end_seconds"),
        ),
        curves("Verdicts", "Articles a second.", "cps", Query(rate("articles_total", "verdict"), "{{verdict}}")),
        curves(
            "Shares",
            "Part of all articles.",
            "percentunit",
            Query(_share("duplicate"), "duplicate"),
            Query(_share("rejected"), "rejected"),
        ),
        curves("Delay of articles", "From the source timestamp to the commit.", "s", *quantiles("end_to_end_seconds")),
        curves(
            "Lag",
            "Articles that no worker has polled yet, and batches in flight.",
            "none",
            Query("sum by (topic) (stream_dedup_source_lag)", "{{topic}}"),
            Query("sum(stream_dedup_inflight_batches)", "batches in flight"),
        ),
        curves(
            "Rejected, by code",
            "Articles a second; the code is the header dedup.reason.code.",
            "cps",
            Query(f"{rate('rejected_total', 'reason')} > 0", "{{reason}}"),
        ),
        curves(
            "Transactions and rebalances",
            "A second. Aborted or unknown transactions repeat articles; none is lost.",
            "cps",
            Query(rate("transactions_total", "outcome"), "{{outcome}}"),
            Query(rate("rebalances_total"), "rebalances"),
        ),
    ),
)

DETECTION = Board(
    "stream-dedup-detection",
    "stream_dedup: Detection",
    "What matches: distances, similarities, kinds of text, and what a look-up costs.",
    (
        heat_map(
            "Similarity of matches",
            "Estimated cosine. Many at the lower end: read some, and see stream-dedup calibrate.",
            "none",
            rate("match_similarity_bucket", "le"),
        ),
        heat_map(
            "Distance of matches",
            "Bits: of the signature in directed search, of the fingerprint in exact search.",
            "none",
            rate("match_distance_bucket", "le"),
        ),
        curves("Similarity, quantiles", "Estimated cosine.", "none", *quantiles("match_similarity")),
        curves("Distance, quantiles", "Bits.", "none", *quantiles("match_distance")),
        curves(
            "Kinds of text", "Articles fingerprinted a second.", "cps", Query(rate("texts_total", "kind"), "{{kind}}")
        ),
        curves(
            "Duplicates and updates",
            "A second. An update is a new version of an article with the same id.",
            "cps",
            Query(rate("articles_total", where='verdict="duplicate"'), "duplicates"),
            Query(rate("updates_total"), "updates"),
        ),
        curves(
            "Candidates of a look-up",
            "Entries compared for one article: the mean of each batch.",
            "none",
            *quantiles("candidates_per_lookup"),
        ),
        curves(
            "Posting lists of a look-up",
            "Set by probes or distance of the profile.",
            "none",
            Query(f"{rate('lists_total')} / {rate('lookups_total')}", "lists"),
        ),
        curves(
            "Articles in the index",
            "Only a window bounds it.",
            "none",
            Query("max(stream_dedup_index_entries)", "articles"),
        ),
        curves(
            "Window",
            "What the rules ask for (0: no window), and what the log holds.",
            "s",
            Query("max(stream_dedup_window_seconds)", "window"),
            Query("max(stream_dedup_log_span_seconds)", "log"),
        ),
    ),
)

WORKER = Board(
    "stream-dedup-worker",
    "stream_dedup: Worker",
    "Where the time and the space of a worker go.",
    (
        curves(
            "Stages",
            "Time of a batch in each stage: 95 % are faster. The stage that grew is the bottleneck.",
            "s",
            Query(quantile(0.95, "stage_seconds", "le, stage", ME), "{{stage}}"),
        ),
        curves(
            "Use of the fingerprinting threads",
            "Near 100 %: more threads and cores, or workers, are needed.",
            "percentunit",
            Query(
                f"{rate('fingerprint_busy_seconds_total', 'instance', ME)} "
                f"/ sum by (instance) (stream_dedup_fingerprint_threads{{{ME}}})",
                "{{instance}}",
            ),
        ),
        curves(
            "Queues",
            "Articles not polled, batches in flight, log records not applied.",
            "none",
            Query(f"sum by (instance) (stream_dedup_source_lag{{{ME}}})", "{{instance}} articles"),
            gauge("inflight_batches", "{{instance}} batches"),
            gauge("log_lag", "{{instance}} log records"),
        ),
        curves(
            "Partitions that wait",
            "For the schema registry: it does not answer, or does not know the schema. Above 0: see docs/runbook.md.",
            "none",
            gauge("waiting_partitions", "{{instance}} {{cause}}"),
        ),
        curves(
            "Log records applied",
            "A second, of all workers' articles.",
            "cps",
            Query(rate("log_records_total", "kind", ME), "{{kind}}"),
        ),
        curves("Index on disk", "Bytes in RocksDB's tables.", "bytes", gauge("index_bytes")),
        curves(
            "Disk of the index",
            "Free space, and the size.",
            "bytes",
            gauge("index_disk_free_bytes", "{{instance}} free"),
            gauge("index_disk_bytes", "{{instance}} size"),
        ),
        curves(
            "Memory of the index",
            "Posting lists and rows, RocksDB's block cache, and its write buffers: within index.memory_mib.",
            "bytes",
            gauge("index_memory_bytes", "{{instance}} lists and rows"),
            gauge("index_cache_bytes", "{{instance}} block cache"),
            gauge("index_unwritten_bytes", "{{instance}} write buffers"),
        ),
        curves(
            "Document numbers used",
            "From 7/8 on: stream-dedup index rebuild.",
            "percentunit",
            gauge("index_numbers_used"),
        ),
        curves(
            "Memory of the process",
            "Resident, in bytes.",
            "bytes",
            Query(f'process_resident_memory_bytes{{job="stream-dedup", {ME}}}', "{{instance}}"),
        ),
        curves(
            "Processor time of the process",
            "Cores.",
            "none",
            Query(f'rate(process_cpu_seconds_total{{job="stream-dedup", {ME}}}[{RANGE}])', "{{instance}}"),
        ),
        curves(
            "Age of the process",
            "Falls to 0 at each start.",
            "s",
            Query(f'time() - process_start_time_seconds{{job="stream-dedup", {ME}}}', "{{instance}}"),
        ),
        curves(
            "Panics",
            "Articles a second that were rejected because the native core panicked: 0.",
            "cps",
            Query(rate("rejected_total", "instance", f'{ME}, reason="defect"'), "{{instance}}"),
        ),
        curves(
            "Open files",
            "Of the process, and its limit.",
            "none",
            Query(f'process_open_fds{{job="stream-dedup", {ME}}}', "{{instance}} open"),
            Query(f'process_max_fds{{job="stream-dedup", {ME}}}', "{{instance}} limit"),
        ),
        curves(
            "Version",
            "Version and scheme of each worker; 1 where it is up to date.",
            "none",
            Query(
                f"stream_dedup_build_info{{{ME}}} * on (instance) group_left () stream_dedup_up_to_date{{{ME}}}",
                "{{instance}} {{version}} {{scheme}}",
            ),
        ),
    ),
    by_instance=True,
)

_PROGRAMS = 'route!~"/healthz|/readyz|/metrics"'
"""Requests of clients; those of probes and of Prometheus are no load."""

SERVICE = Board(
    "stream-dedup-service",
    "stream_dedup: Service",
    "The HTTP service: who asks, how fast it answers, what it refuses, and whether it is up to date.",
    (
        number("Services", "Services that answer.", "none", 'count(up{job="stream-dedup-serve"} == 1)'),
        number(
            "Up to date",
            "Services at the end of the log, with a broker that answers.",
            "none",
            "sum(stream_dedup_serve_up_to_date)",
        ),
        number(
            "Requests",
            "A second, without those of probes and Prometheus.",
            "cps",
            rate("serve_requests_total", where=_PROGRAMS),
        ),
        number(
            "Time of a check",
            "95 % are faster.",
            "s",
            quantile(0.95, "serve_request_seconds", where='route="/v1/check"'),
        ),
        number("Articles in the index", "Of the service.", "none", "max(stream_dedup_serve_index_entries)"),
        number("Clusters", "Of two or more articles.", "none", "max(stream_dedup_clusters)"),
        curves(
            "Requests, by route",
            "A second.",
            "cps",
            Query(f"{rate('serve_requests_total', 'route', _PROGRAMS)} > 0", "{{route}}"),
        ),
        curves(
            "Requests, by status",
            "A second.",
            "cps",
            Query(rate("serve_requests_total", "status", _PROGRAMS), "{{status}}"),
        ),
        curves(
            "Time of requests",
            "From the head of a request to its answer, by route: 95 % are faster.",
            "s",
            Query(quantile(0.95, "serve_request_seconds", "le, route", _PROGRAMS), "{{route}}"),
        ),
        curves(
            "Refused",
            "A second: 401 without the token, 413 too large, 422 faulty, 503 busy or not ready, 504 too late.",
            "cps",
            Query(rate("serve_requests_total", "status", f'status=~"[45]..", {_PROGRAMS}'), "{{status}}"),
        ),
        curves(
            "Articles checked",
            "A second, by the verdict that they would have.",
            "cps",
            Query(rate("serve_checked_total", "verdict"), "{{verdict}}"),
        ),
        curves(
            "Queue",
            "Articles of checks under way (at serve.queue_articles requests are refused), and open connections.",
            "none",
            Query("stream_dedup_serve_articles_waiting", "{{instance}} articles"),
            Query("stream_dedup_serve_connections", "{{instance}} connections"),
        ),
        curves(
            "Behind",
            "Log records that the index has not applied, and outputs that the clusters have not.",
            "none",
            Query("stream_dedup_serve_log_lag", "{{instance}} log records"),
            Query("stream_dedup_clusters_lag", "{{instance}} outputs"),
        ),
        curves(
            "Clusters follow and publish",
            "Records a second, and clusters that are not published yet.",
            "none",
            Query(rate("clusters_outputs_total"), "outputs read"),
            Query(rate("clusters_published_total"), "clusters published"),
            Query("sum(stream_dedup_clusters_unpublished)", "clusters to be published"),
            Query(rate("clusters_failures_total"), "failures"),
        ),
        curves(
            "Disk",
            "The index, and what is free.",
            "bytes",
            Query("stream_dedup_serve_index_bytes", "{{instance}} index"),
            Query("stream_dedup_serve_disk_free_bytes", "{{instance}} free"),
            Query("stream_dedup_serve_disk_bytes", "{{instance}} size"),
        ),
        curves(
            "Memory and processor time",
            "Bytes and cores.",
            "none",
            Query('process_resident_memory_bytes{job="stream-dedup-serve"}', "{{instance}} bytes"),
            Query(f'rate(process_cpu_seconds_total{{job="stream-dedup-serve"}}[{RANGE}])', "{{instance}} cores"),
        ),
    ),
)

BOARDS = (OVERVIEW, DETECTION, WORKER, SERVICE)
