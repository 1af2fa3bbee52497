"""What the rules ask of the lists for each article: its keys, its plan of look-ups, how far near reaches."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.model import Status
from stream_dedup.core.probes import directed, exact_plan, keys
from stream_dedup.core.rules import Rules
from stream_dedup.index.layout import I64, U64
from stream_dedup.index.scan import Asked


@dataclass(frozen=True, slots=True, eq=False)
class Articles:
    """Signed articles as columns: what asking takes of them."""

    statuses: NDArray[np.uint8]
    groups: U64
    signatures: NDArray[np.uint8]
    margins: NDArray[np.uint8]
    before: I64
    """First ordinal that does not exist for it."""
    times: I64
    """Log times, ms."""

    def of(self, chosen: I64) -> Articles:
        """Some of them."""
        return Articles(*(getattr(self, name)[chosen] for name in self.__slots__))


def asked_of(articles: Articles, rules: Rules, floor: int) -> Asked:
    """What these rules ask for these articles; entries before the ordinal ``floor`` do not exist."""
    reaches = np.array([0 if status is Status.REJECTED else rules.reach(status) for status in Status], np.int64)
    return Asked(
        keys=keys(articles.signatures, articles.groups),
        groups=articles.groups,
        before=articles.before,
        plan=directed(articles.margins, rules.probes or 1) if rules.directed else exact_plan(rules.distance or 0),
        directed=rules.directed,
        reach=reaches[articles.statuses],
        bucket_limit=rules.bucket_limit,
        floor=floor,
        oldest=None if rules.window_ms is None else articles.times - rules.window_ms,
    )


def part(asked: Asked, chosen: I64) -> Asked:
    """The same asked of some of the queries."""
    return replace(
        asked,
        keys=asked.keys[chosen],
        groups=asked.groups[chosen],
        before=asked.before[chosen],
        plan=asked.plan if len(asked.plan) == 1 else asked.plan[chosen],
        reach=asked.reach[chosen],
        oldest=None if asked.oldest is None else asked.oldest[chosen],
        own_ids=None if asked.own_ids is None else asked.own_ids[chosen],
    )
