"""The valley of a histogram, between near-duplicates and unrelated articles.

If there are duplicates, the distances of articles to their nearest earlier entries make two hills: one at small
distances, and a higher one where the nearest entry is an unrelated article. The limit lies between the two. Rules:

* The counts are smoothed first (a moving mean): single bits have gaps by chance.
* The valley is the dip that is deepest below the lower one of its two shoulders.
* It must fall to half of that shoulder, and each side must hold enough articles; otherwise there is no valley. The
  limit of a flat valley is its middle, which is furthest from both hills.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import I64

WINDOW_SHARE = 50
"""The moving mean is over one 50th of all distances, rounded up to an odd number: 7 of 257, 3 of 65."""
MOST_OF_SHOULDER = 0.5
"""How high the bottom may be: half the lower hill. With less of a dip the hills are one."""
FLAT = 0.1
"""What counts as bottom: up to a tenth of the way from it to the lower shoulder."""
LEAST_ARTICLES = 10
"""Articles on each side: fewer make no hill."""
LEAST_SHARE = 0.005
"""And as a share of all: with a hundred thousand articles ten are stragglers."""


@dataclass(frozen=True, slots=True)
class Valley:
    """A flat bottom from distance ``low`` to ``high`` with so many ``articles``; ``limit`` is its middle."""

    low: int
    high: int
    limit: int
    articles: int


def find_valley(histogram: I64) -> Valley | None:
    """Return the valley of counts by distance, or None."""
    smooth = smoothed(histogram)
    # Lower shoulder of each distance: the lesser of the highest counts before and after it.
    left = np.maximum.accumulate(smooth)
    right = np.maximum.accumulate(smooth[::-1])[::-1]
    shoulder = np.minimum(left, right)
    before = np.cumsum(histogram)
    least = max(LEAST_ARTICLES, LEAST_SHARE * int(before[-1]))
    inside = (before >= least) & (before[-1] - before >= least)
    depth = np.where(inside, shoulder - smooth, -1.0)
    bottom = int(depth.argmax())
    if depth[bottom] <= 0 or smooth[bottom] > MOST_OF_SHOULDER * shoulder[bottom]:
        return None
    flat = inside & (smooth <= smooth[bottom] + FLAT * depth[bottom])
    low, high = _flat_range(flat, bottom)
    return Valley(low, high, (low + high) // 2, int(histogram[low : high + 1].sum()))


def smoothed(histogram: I64) -> NDArray[np.float64]:
    """Return the moving mean; at the ends it is over fewer counts."""
    window = np.ones(-(-len(histogram) // WINDOW_SHARE) | 1)
    sums = np.convolve(histogram, window, "same")
    return sums / np.convolve(np.ones(len(histogram)), window, "same")


def _flat_range(flat: NDArray[np.bool_], at: int) -> tuple[int, int]:
    """Return the first and the last of the adjacent distances at which ``flat`` is true."""
    breaks = np.flatnonzero(~flat)
    after = np.searchsorted(breaks, at)
    low = int(breaks[after - 1]) + 1 if after else 0
    high = int(breaks[after]) - 1 if after < len(breaks) else len(flat) - 1
    return low, high
