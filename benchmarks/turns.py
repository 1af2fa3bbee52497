"""Contenders on the same texts, taking turns: a noisy minute of the machine meets all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

CHUNK_TEXTS = 64
"""Texts in one call: what the worker hands to a process at once."""

Work = Callable[[Sequence[str]], None]


def microseconds(contenders: dict[str, Work], texts: Sequence[str], turns: int) -> dict[str, list[float]]:
    """Microseconds a text of each contender's turns, after one turn that loads dictionaries and meets the words."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(turns + 1):
        for name, work in contenders.items():
            start = time.perf_counter()
            work(texts)
            if turn:
                times[name].append((time.perf_counter() - start) * 1e6 / len(texts))
    return times
