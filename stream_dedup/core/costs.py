"""What a look-up of directed search costs: the rank by which the plan orders look-ups."""

from __future__ import annotations

import numpy as np

COSTS = np.array([6, 17, 29, 41, 54, 67, 81, 96, 111, 128, 146, 165, 185, 206, 229, 253], np.int64)
"""Cost of flipping a bit of each margin: 36 times ln((1 - p) / p), p being the probability that the bit flips. An
edited copy's sum is taken as normal, correlated with the article's own by 0.85: then p = F(-1.61 z), F being
the normal distribution and z = (margin + 0.5) / 8 the sum in deviations."""

COST_SHIFT = 20
"""A look-up's rank is ``cost << 20 | table << 16 | mask``: plans are in rising order of it."""
LOOKUP_MASK = (1 << COST_SHIFT) - 1
"""The look-up in its rank."""
