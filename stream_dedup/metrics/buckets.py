"""Upper bounds of the histograms, each with its unit and the reason for the range."""

from __future__ import annotations

STAGE_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Seconds. One stage takes some ms; the target latency is between 0.05 and 0.25; 60 is the watchdog's limit."""
CANDIDATE_BUCKETS = (0.0, 1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16_384.0, 65_536.0)
"""Candidates of one article: 65536 is four full posting lists of the default bucket limit."""
DELAY_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0, 21_600.0, 86_400.0)
"""Seconds from the source timestamp to the commit: from the target latency to a backlog of a day."""
DISTANCE_BUCKETS = (
    0.0,
    1.0,
    2.0,
    3.0,
    4.0,
    6.0,
    8.0,
    11.0,
    16.0,
    24.0,
    32.0,
    40.0,
    48.0,
    56.0,
    64.0,
    80.0,
    96.0,
    128.0,
)
"""Bits: of the fingerprint up to 11 (the most in exact search), of the signature up to 128 (unrelated texts)."""
SIMILARITY_BUCKETS = (0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 0.99, 0.999, 1.0)
"""Estimated cosines: the limits of the profiles are between 0.6 and 0.9."""
