"""Queries that the boards are made of."""

from __future__ import annotations

from boards.grafana import Query

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
