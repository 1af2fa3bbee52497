"""How much a run tests: samples by default, everything where STREAM_DEDUP_TESTS is ``full`` (``make test-full``).

A sample is the same in every run and holds the first and the last of what it is drawn from.
"""

import os
import sys
from collections.abc import Sequence
from typing import TypeVar

import hypothesis

FULL = os.environ.get("STREAM_DEDUP_TESTS") == "full"
SAMPLED_EXAMPLES = 10
"""A full run draws this many times the Hypothesis examples of a sample."""

T = TypeVar("T")


def examples(full: int) -> hypothesis.settings:
    """Return the settings of a property test that draws ``full`` examples in a full run."""
    return hypothesis.settings(max_examples=full if FULL else max(1, full // SAMPLED_EXAMPLES))


def sampled(values: Sequence[T], count: int) -> Sequence[T]:
    """Return all values in a full run, otherwise ``count`` of them (at least two) at even distances."""
    if FULL or len(values) <= count:
        return values
    return [values[at * (len(values) - 1) // (count - 1)] for at in range(count)]


def code_points() -> list[int]:
    """Return every code point in a full run, otherwise one in 16 of most planes, and few of the empty ones."""
    step, planes = (1, 1) if FULL else (16, 256)
    return [
        *range(0x3400),
        *range(0x3400, 0xD800, step),
        *range(0xD800, 0xE000),
        *range(0xE000, 0xF900, step),
        *range(0xF900, 0x10000),
        *range(0x10000, 0x1D400, step),
        *range(0x1D400, 0x20000),
        *range(0x20000, 0xE0000, planes),
        *range(0xE0000, 0xE0200),
        *range(0xE0200, sys.maxunicode + 1, planes),
    ]
