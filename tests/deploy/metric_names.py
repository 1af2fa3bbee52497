"""Names of metrics in queries, and those that there are."""

from __future__ import annotations

import re

from stream_dedup.metrics.metrics import DECLARATIONS, PROCESS_METRICS


def unknown_metrics(text: str) -> set[str]:
    """Return the metrics in a text that no worker has; a histogram is named by one of its three series."""
    known = {declared.full_name for declared in DECLARATIONS if declared.kind != "histogram"} | {*PROCESS_METRICS}
    histograms = [declared.full_name for declared in DECLARATIONS if declared.kind == "histogram"]
    known |= {f"{name}_{part}" for name in histograms for part in ("bucket", "sum", "count")}
    used = set(re.findall(r"\b(?:stream_dedup|process)_\w+", text))
    assert used
    return used - known
