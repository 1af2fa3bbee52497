"""Clients of the HTTP service, in a process of their own."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Sequence
from itertools import cycle, islice
from typing import NamedTuple

from tests.serve.clients import Client


class Load(NamedTuple):
    """What clients saw."""

    times: list[float]
    """Seconds of each request."""
    seconds: float
    articles: int


def loaded(port: int, texts: Sequence[str], clients: int, many: int, seconds: float) -> Load:
    """Let clients in a process of their own send requests."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as process:
        return process.apply(_clients, (port, texts, clients, many, seconds))


def _clients(port: int, texts: Sequence[str], clients: int, many: int, seconds: float) -> Load:
    times: list[list[float]] = [[] for _ in range(clients)]
    until = time.monotonic() + seconds

    def run(number: int) -> None:
        own = cycle(texts[number::clients])
        with Client(port) as client:
            while time.monotonic() < until:
                body = {"articles": [{"text": text} for text in islice(own, many)], "top": 5}
                began = time.perf_counter()
                answer = client.call("POST", "/v1/check", body)
                times[number].append(time.perf_counter() - began)
                assert answer.status == 200, answer.body

    threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    every = [one for own in times for one in own]
    return Load(every, time.monotonic() - began, many * len(every))
