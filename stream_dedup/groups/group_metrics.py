"""The metrics of what follows the outputs into groups, declared as those of a worker are (``metrics.metrics``)."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from stream_dedup.metrics.declaration import Declaration


class GroupMetrics:
    """The metrics of one follower of outputs, in the given registry. A follower that replaces it counts on."""

    groups = Declaration(
        Gauge,
        "groups",
        "groups of two or more articles in the store, counted once a minute",
        "Grows with the stream; groups.keep and match.window bound it.",
    )
    groups_following = Declaration(
        Gauge,
        "0 or 1",
        "1 while the output topics are followed",
        "0: no broker answers, or an error has ended the follower; its log says which. Groups stay as they were.",
    )
    groups_outputs = Declaration(
        Counter,
        "records",
        "records of the output topics that were read into the store",
        "Follows the articles of all workers. Constant while they commit: see groups_following.",
    )
    groups_lag = Declaration(
        Gauge,
        "records",
        "records of the output topics that are not in the store yet, markers of transactions among them",
        "Large after a start. Later, growing: outputs come faster than they are stored; give the store a faster disk.",
    )
    groups_published = Declaration(
        Counter,
        "records",
        "records committed to topics.groups, tombstones among them",
        "Constant 0 without topics.groups. Constant while groups_unpublished grows: its topic cannot be written.",
    )
    groups_unpublished = Declaration(
        Gauge,
        "groups",
        "groups that changed and are not published yet; 0 without topics.groups",
        "Large after the store was made again. Growing: groups change faster than they are published.",
    )
    groups_failures = Declaration(
        Counter,
        "failures",
        "failed steps of the follower; all but the one that ends it are tried again",
        "A few while a broker is away. Rising steadily: read the log of the service.",
    )

    def __init__(self, registry: CollectorRegistry) -> None:
        """Create every declared metric."""
        self.registry = registry
        for declaration in GROUP_DECLARATIONS:
            self.__dict__[declaration.name] = declaration.make(registry)


GROUP_DECLARATIONS: tuple[Declaration[Counter] | Declaration[Gauge], ...] = tuple(
    declared for declared in vars(GroupMetrics).values() if isinstance(declared, Declaration)
)
"""Every metric of a follower, in the order of declaration."""
