"""The cost of a look-up of directed search."""

from __future__ import annotations

import numpy as np

COSTS = np.array([6, 17, 29, 41, 54, 67, 81, 96, 111, 128, 146, 165, 185, 206, 229, 253], np.int64)
"""Cost of flipping a bit, by its margin: 36 ln((1 - p) / p), where p is the probability that an edit flips the bit.
The sum of an edited copy is modelled as normal with a correlation of 0.85 to the article's own. Then p = F(-1.61 z),
where F is the normal distribution function and z = (margin + 0.5) / 8 is the sum in standard deviations."""
