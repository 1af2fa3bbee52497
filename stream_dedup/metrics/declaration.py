"""What a metric is declared as: kind, unit, meaning, the response to a change, labels and buckets.

``BatchHistogram`` takes the values of a whole batch in one call. ``Histogram.observe`` of the Prometheus client takes
one value, and a call for each article would cost more than all other metrics together. This one counts with NumPy: a
batch of 500 articles costs some 10 µs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, Generic, TypeVar

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
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


_M = TypeVar("_M", Counter, Gauge, Histogram, BatchHistogram)

METRIC_PREFIX = "stream_dedup_"
_KIND_NAMES = {Counter: "counter", Gauge: "gauge", Histogram: "histogram", BatchHistogram: "histogram"}


class Declaration(Generic[_M]):
    """One metric: a class attribute that declares it, and the metric itself on an instance.

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
        """Declare a metric.

        Args:
            kind: Counter, Gauge, Histogram or BatchHistogram.
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

    def __get__(self, instance: object, owner: type[object]) -> _M:
        """Say what type an instance has: Python finds the metric in the instance, and never calls this."""
        raise AttributeError(self.name)

    @property
    def kind(self) -> str:
        """counter, gauge or histogram."""
        return _KIND_NAMES[self._kind]

    @property
    def full_name(self) -> str:
        """The name in /metrics."""
        return f"{METRIC_PREFIX}{self.name}{'_total' if self.kind == 'counter' else ''}"

    def make(self, registry: CollectorRegistry) -> _M:
        """Create the metric in a registry, with the series that are known beforehand."""
        more: dict[str, Any] = {"buckets": self.buckets} if self.buckets else {}
        about = f"{self.meaning} ({self.unit})"
        metric: _M = self._kind(METRIC_PREFIX + self.name, about, tuple(self.labels), registry=registry, **more)
        if len(self.labels) == 1 and not isinstance(metric, BatchHistogram):
            (values,) = self.labels.values()
            for value in values:
                metric.labels(value)
        return metric


class DeclaredMetrics:
    """Has the metrics that its class declares, in the given registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Create every declared metric."""
        self.registry = registry
        for declaration in self.declarations():
            self.__dict__[declaration.name] = declaration.make(registry)

    @classmethod
    def declarations(cls) -> tuple[Declaration[Any], ...]:
        """Return the metrics in the order in which they are declared."""
        return tuple(declared for declared in vars(cls).values() if isinstance(declared, Declaration))
