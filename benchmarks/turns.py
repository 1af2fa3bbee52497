"""Contenders on the same texts, taking turns: a noisy minute of the machine meets all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from stream_dedup.threads import chunks

Work = Callable[[Sequence[str]], None]


def in_chunks(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the texts as a worker hands them to a process."""
    for part in chunks(list(map(_size, texts))):
        yield texts[part]


@cache
def _size(text: str) -> int:
    """Return the bytes of a text, which a worker knows before it decodes the text: counted once, in the first turn."""
    return len(text.encode("utf-8", "surrogatepass"))


def microseconds(
    contenders: dict[str, Work],
    texts: Sequence[str],
    turns: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Microseconds a text of each contender's turns, after one turn that loads dictionaries and meets the words.

    ``clock``: seconds, of the wall or of the processor; the latter are those of all threads of this process.
    """
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(turns + 1):
        for name, work in contenders.items():
            start = clock()
            work(texts)
            if turn:
                times[name].append((clock() - start) * 1e6 / len(texts))
    return times
