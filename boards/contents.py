"""What the boards show. A query has data as soon as one worker has judged articles, rejected ones and duplicates."""

from __future__ import annotations

from grafana_foundation_sdk.builders import heatmap, stat

from boards.grafana import Board, Panel, Query
from boards.promql import ME, RANGE, gauge, quantile, quantiles, rate
from boards.service import SERVICE

_ALL = rate("articles_total")


def _share(verdict: str) -> str:
    chosen = f'verdict="{verdict}"'
    return f"{rate('articles_total', where=chosen)} / {_ALL}"


OVERVIEW = Board(
    "stream-dedup-overview",
    "stream_dedup: Overview",
    "Is it working, how much is duplicate, how late are the verdicts?",
    (
        Panel("Workers", "Workers that answer.", "none", (Query('count(up{job="stream-dedup"} == 1)'),), 4, stat.Panel),
        Panel(
            "Alerts",
            "Alerts that fire: see docs/runbook.md.",
            "none",
            (Query('count(ALERTS{alertname=~"StreamDedup.*", alertstate="firing"}) or vector(0)'),),
            4,
            stat.Panel,
        ),
        Panel("Articles", "Verdicts committed a second.", "cps", (Query(_ALL),), 4, stat.Panel),
        Panel("Duplicates", "Part of all articles.", "percentunit", (Query(_share("duplicate")),), 4, stat.Panel),
        Panel("Rejected", "Part of all articles.", "percentunit", (Query(_share("rejected")),), 4, stat.Panel),
        Panel(
            "Delay",
            "From the source timestamp to the commit: 95 % of the articles are faster.",
            "s",
            (Query(quantile(0.95, "end_to_end_seconds")),),
            4,
            stat.Panel,
        ),
        Panel("Verdicts", "Articles a second.", "cps", (Query(rate("articles_total", "verdict"), "{{verdict}}"),)),
        Panel(
            "Shares",
            "Part of all articles.",
            "percentunit",
            (Query(_share("duplicate"), "duplicate"), Query(_share("rejected"), "rejected")),
        ),
        Panel("Delay of articles", "From the source timestamp to the commit.", "s", quantiles("end_to_end_seconds")),
        Panel(
            "Lag",
            "Articles that no worker has polled yet, and batches in flight.",
            "none",
            (
                Query("sum by (topic) (stream_dedup_source_lag)", "{{topic}}"),
                Query("sum(stream_dedup_inflight_batches)", "batches in flight"),
            ),
        ),
        Panel(
            "Rejected, by code",
            "Articles a second; the code is the header dedup.reason.code.",
            "cps",
            (Query(f"{rate('rejected_total', 'reason')} > 0", "{{reason}}"),),
        ),
        Panel(
            "Transactions and rebalances",
            "A second. Aborted or unknown transactions repeat articles; none is lost.",
            "cps",
            (
                Query(rate("transactions_total", "outcome"), "{{outcome}}"),
                Query(rate("rebalances_total"), "rebalances"),
            ),
        ),
    ),
)

DETECTION = Board(
    "stream-dedup-detection",
    "stream_dedup: Detection",
    "What matches: distances, similarities, kinds of text, and what a look-up costs.",
    (
        Panel(
            "Similarity of matches",
            "Estimated cosine. Many at the lower end: read some, and see stream-dedup calibrate.",
            "none",
            (Query(rate("match_similarity_bucket", "le"), "{{le}}"),),
            kind=heatmap.Panel,
        ),
        Panel(
            "Distance of matches",
            "Bits: of the signature in directed search, of the fingerprint in exact search.",
            "none",
            (Query(rate("match_distance_bucket", "le"), "{{le}}"),),
            kind=heatmap.Panel,
        ),
        Panel("Similarity, quantiles", "Estimated cosine.", "none", quantiles("match_similarity")),
        Panel("Distance, quantiles", "Bits.", "none", quantiles("match_distance")),
        Panel(
            "Kinds of text",
            "Articles fingerprinted a second.",
            "cps",
            (Query(rate("texts_total", "kind"), "{{kind}}"),),
        ),
        Panel(
            "Duplicates and updates",
            "A second. An update is a new version of an article with the same id.",
            "cps",
            (
                Query(rate("articles_total", where='verdict="duplicate"'), "duplicates"),
                Query(rate("updates_total"), "updates"),
            ),
        ),
        Panel(
            "Candidates of a look-up",
            "Entries compared for one article: the mean of each batch.",
            "none",
            quantiles("candidates_per_lookup"),
        ),
        Panel(
            "Posting lists of a look-up",
            "Set by probes or distance of the profile.",
            "none",
            (Query(f"{rate('lists_total')} / {rate('lookups_total')}", "lists"),),
        ),
        Panel(
            "Articles in the index",
            "Only a window bounds it.",
            "none",
            (Query("max(stream_dedup_index_entries)", "articles"),),
        ),
        Panel(
            "Window",
            "What the rules ask for (0: no window), and what the log holds.",
            "s",
            (
                Query("max(stream_dedup_window_seconds)", "window"),
                Query("max(stream_dedup_log_span_seconds)", "log"),
            ),
        ),
    ),
)

WORKER = Board(
    "stream-dedup-worker",
    "stream_dedup: Worker",
    "Where the time and the space of a worker go.",
    (
        Panel(
            "Stages",
            "Time of a batch in each stage: 95 % are faster. The stage that grew is the bottleneck.",
            "s",
            (Query(quantile(0.95, "stage_seconds", "le, stage", ME), "{{stage}}"),),
        ),
        Panel(
            "Use of the fingerprinting threads",
            "Near 100 %: more threads and cores, or workers, are needed.",
            "percentunit",
            (
                Query(
                    f"{rate('fingerprint_busy_seconds_total', 'instance', ME)} "
                    f"/ sum by (instance) (stream_dedup_fingerprint_threads{{{ME}}})",
                    "{{instance}}",
                ),
            ),
        ),
        Panel(
            "Queues",
            "Articles not polled, batches in flight, log records not applied.",
            "none",
            (
                Query(f"sum by (instance) (stream_dedup_source_lag{{{ME}}})", "{{instance}} articles"),
                gauge("inflight_batches", "{{instance}} batches"),
                gauge("log_lag", "{{instance}} log records"),
            ),
        ),
        Panel(
            "Partitions that wait",
            "For the schema registry: it does not answer, or does not know the schema. Above 0: see docs/runbook.md.",
            "none",
            (gauge("waiting_partitions", "{{instance}} {{cause}}"),),
        ),
        Panel(
            "Log records applied",
            "A second, of all workers' articles.",
            "cps",
            (Query(rate("log_records_total", "kind", ME), "{{kind}}"),),
        ),
        Panel("Index on disk", "Bytes in RocksDB's tables.", "bytes", (gauge("index_bytes"),)),
        Panel(
            "Disk of the index",
            "Free space, and the size.",
            "bytes",
            (gauge("index_disk_free_bytes", "{{instance}} free"), gauge("index_disk_bytes", "{{instance}} size")),
        ),
        Panel(
            "Memory of the index",
            "Posting lists and rows, RocksDB's block cache, and its write buffers: within index.memory_mib.",
            "bytes",
            (
                gauge("index_memory_bytes", "{{instance}} lists and rows"),
                gauge("index_cache_bytes", "{{instance}} block cache"),
                gauge("index_unwritten_bytes", "{{instance}} write buffers"),
            ),
        ),
        Panel(
            "Document numbers used",
            "From 7/8 on: stream-dedup index rebuild.",
            "percentunit",
            (gauge("index_numbers_used"),),
        ),
        Panel(
            "Memory of the process",
            "Resident, in bytes.",
            "bytes",
            (Query(f'process_resident_memory_bytes{{job="stream-dedup", {ME}}}', "{{instance}}"),),
        ),
        Panel(
            "Processor time of the process",
            "Cores.",
            "none",
            (Query(f'rate(process_cpu_seconds_total{{job="stream-dedup", {ME}}}[{RANGE}])', "{{instance}}"),),
        ),
        Panel(
            "Age of the process",
            "Falls to 0 at each start.",
            "s",
            (Query(f'time() - process_start_time_seconds{{job="stream-dedup", {ME}}}', "{{instance}}"),),
        ),
        Panel(
            "Panics",
            "Articles a second that were rejected because the native core panicked: 0.",
            "cps",
            (Query(rate("rejected_total", "instance", f'{ME}, reason="defect"'), "{{instance}}"),),
        ),
        Panel(
            "Open files",
            "Of the process, and its limit.",
            "none",
            (
                Query(f'process_open_fds{{job="stream-dedup", {ME}}}', "{{instance}} open"),
                Query(f'process_max_fds{{job="stream-dedup", {ME}}}', "{{instance}} limit"),
            ),
        ),
        Panel(
            "Version",
            "Version and scheme of each worker; 1 where it is up to date.",
            "none",
            (
                Query(
                    f"stream_dedup_build_info{{{ME}}} * on (instance) group_left () stream_dedup_up_to_date{{{ME}}}",
                    "{{instance}} {{version}} {{scheme}}",
                ),
            ),
        ),
    ),
    by_instance=True,
)

BOARDS = (OVERVIEW, DETECTION, WORKER, SERVICE)
