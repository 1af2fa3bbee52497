"""Whether the verdicts are right, and what they cost, beside the best peers: ``python -m benchmarks.quality``."""
