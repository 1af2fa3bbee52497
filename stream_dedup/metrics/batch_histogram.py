"""A histogram that takes the values of a whole batch in one call.

``Histogram.observe`` of the Prometheus client takes one value, and a call for each article would cost more than all
other metrics together. This one counts with NumPy: a batch of 500 articles costs some 10 µs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Lock

import numpy as np
from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from stream_dedup.core.arrays import F64


class BatchHistogram(Collector):
    """A histogram without labels. Thread-safe."""

    def __init__(
        self,
        name: str,
        documentation: str,
        _labels: tuple[str, ...] = (),
        *,
        registry: CollectorRegistry,
        buckets: Sequence[float],
    ) -> None:
        """Register an empty histogram; ``buckets`` are upper bounds, rising and without the infinite one."""
        self._name, self._documentation = name, documentation
        self._bounds = np.array(buckets, np.float64)
        self._lock = Lock()
        self._counts = np.zeros(len(buckets) + 1, np.int64)
        self._sum = 0.0
        registry.register(self)

    def observe(self, values: F64 | Sequence[float]) -> None:
        """Count each of these values once."""
        numbers = np.asarray(values, np.float64)
        counts = np.bincount(np.searchsorted(self._bounds, numbers), minlength=len(self._counts))
        with self._lock:
            self._counts += counts
            self._sum += float(numbers.sum())

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Yield the histogram as it is now."""
        with self._lock:
            ends, total = np.cumsum(self._counts).tolist(), self._sum
        bounds = [*map(floatToGoString, self._bounds.tolist()), "+Inf"]
        yield HistogramMetricFamily(
            self._name, self._documentation, buckets=list(zip(bounds, ends, strict=True)), sum_value=total
        )
