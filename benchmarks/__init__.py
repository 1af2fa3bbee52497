"""Benchmarks: each module is a script, ``python -m benchmarks.NAME``."""

from stream_dedup.dev.scripts import say_errors

say_errors()
