"""Names of metrics in queries, and those that there are."""

from __future__ import annotations

import re
from typing import Any

from stream_dedup.clusters.follow import ClusterMetrics
from stream_dedup.metrics.metrics import Metrics
from stream_dedup.serve.serve_metrics import ServeMetrics

PROCESS_METRICS = (
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_virtual_memory_bytes",
)
"""The standard metrics of a process, which the Prometheus client reads from /proc. The start time shows a worker that
starts again and again."""
_DECLARED: tuple[Any, ...] = (*Metrics.declarations(), *ServeMetrics.declarations(), *ClusterMetrics.declarations())
_LABEL = re.compile(r'\b(\w+)(?:=~|!~|!=|=)"')
_SELECTOR = re.compile(r"\b((?:stream_dedup|process)_\w+)\{([^}]*)\}")
_SCRAPED = {"instance", "job"}
"""Labels that Prometheus adds."""


def unknown_metrics(text: str) -> set[str]:
    """Return the metrics in a text that nobody has; a histogram is named by one of its three series."""
    used = set(re.findall(r"\b(?:stream_dedup|process)_\w+", text))
    assert used
    return used - set(_labels())


def unknown_labels(text: str) -> set[str]:
    """Return the labels, as ``metric{label}``, by which a text selects series of metrics that do not have them."""
    known = _labels()
    return {
        f"{metric}{{{label}}}"
        for metric, selector in _SELECTOR.findall(text)
        for label in _LABEL.findall(selector)
        if label not in known.get(metric, set()) | _SCRAPED
    }


def _labels() -> dict[str, set[str]]:
    """Return the labels of each metric by its name."""
    found: dict[str, set[str]] = {name: set() for name in PROCESS_METRICS}
    for declared in _DECLARED:
        labels = set(declared.labels)
        if declared.kind == "histogram":
            found |= {f"{declared.full_name}_{part}": labels for part in ("sum", "count")}
            found[f"{declared.full_name}_bucket"] = labels | {"le"}
        else:
            found[declared.full_name] = labels
    return found
