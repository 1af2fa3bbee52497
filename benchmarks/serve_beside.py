"""A worker beside ``serve``: part of ``python -m benchmarks.serve``.

With ``--beside`` the worker is at full load.

A source topic is filled beforehand, so that the worker always has work. In turns, in one run: the service is stopped
(SIGSTOP), follows the log and the outputs, and follows while clients check texts. Before a turn the service catches up
with what was logged while it was stopped. Throughput is source offsets committed over the time of the turn; processor
time is that of the worker.

With ``--rate`` articles come at a steady rate, and one client asks for one thing after the other.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
import orjson

from benchmarks.processes import processor_s_of
from benchmarks.serve_clients import loaded
from benchmarks.texts import articles
from tests.forks import ForkedProcess
from tests.serve.clients import Client
from tests.serve.comparing import Served, served
from tests.worker.pipeline import Keys, Pipeline, pipeline

TEXTS = 2_000
PARTITIONS = 2
PATIENT: Keys = {"session_timeout_s": 45, "transaction_timeout_s": 60}
"""The worker must not leave its group where the machine is busy."""
PRODUCED = 2_000
"""Records that are sent at once: the client keeps them in memory."""
PRODUCE_S = 0.1
"""Between two calls of the producer."""
PAGES = ("/check", "/live", "/clusters", "/clusters/{id}", "/system")
ROUNDS = 3
CAUGHT_UP_S = 30.0
CAUGHT_UP_LAG = 20
"""Log records: a worker at full load is always some ahead."""
STOPPED, FOLLOWING, ASKED = "stopped", "following", "following and asked"


class Turn(NamedTuple):
    """What one turn showed."""

    articles_s: float
    worker_us: float
    """Processor time of the worker for an article."""
    service_share: float
    """Processor time of the service, in cores."""


class _Load(NamedTuple):
    """What the clients ask, and for how long a turn lasts."""

    texts: Sequence[str]
    seconds: float
    clients: int


def beside(bootstrap: str, folder: Path, count: int, seconds: float, clients: int) -> None:
    """Print a table of the turns."""
    keys: dict[str, Keys] = {"worker": {"threads": 2, "batch_records": 500}, "kafka": PATIENT}
    texts = articles(TEXTS)
    with pipeline(bootstrap, folder, "beside", partitions=PARTITIONS, **keys) as made:
        for begin in range(0, count, PRODUCED):
            made.produce((None, _record(number, texts)) for number in range(begin, min(begin + PRODUCED, count)))
        worker = made.start()
        with served(made) as service:
            turns: dict[str, list[Turn]] = {STOPPED: [], FOLLOWING: [], ASKED: []}
            for _ in range(ROUNDS):
                for way, found in turns.items():
                    found.append(_turn(made, worker, service, way, _Load(texts, seconds, clients)))
            left = sum(made.ends().values()) - sum(made.committed().values())
            _signal(service, signal.SIGCONT)
            service.stop()
        made.stop(worker)
    _print_turns(turns)
    if left <= 0:
        print("the worker ran out of articles: the last turns are too slow; give more with --beside-articles")


def at_rate(bootstrap: str, folder: Path, rate: int, seconds: float) -> None:
    """Print how long answers take while so many articles a second are judged."""
    texts, ends = articles(TEXTS), threading.Event()
    with pipeline(bootstrap, folder, "rate", partitions=PARTITIONS, worker={"threads": 2}, kafka=PATIENT) as made:
        producer = threading.Thread(target=_produce, args=(made, texts, rate, ends))
        producer.start()
        worker = made.start()
        try:
            with served(made) as service:
                time.sleep(seconds)
                print(f"\n{rate:,} articles a second\n\n| answer | number | p50, ms | p99, ms |")
                print("| --- | ---: | ---: | ---: |")
                with service.client() as client:
                    for name, method, path, body in _questions(client, texts):
                        _print_answers(name, _answered(client, method, path, body, seconds))
                _wait_caught_up(service)
                service.stop()
        finally:
            ends.set()
            producer.join()
        made.stop(worker)


def _produce(made: Pipeline, texts: Sequence[str], rate: int, ends: threading.Event) -> None:
    """Append articles until the end, some of them near earlier ones."""
    begun, number = time.monotonic(), 0
    while not ends.wait(PRODUCE_S):
        due = int((time.monotonic() - begun) * rate)
        made.produce((None, _record(one, texts)) for one in range(number, due))
        number = due


def _questions(client: Client, texts: Sequence[str]) -> Iterator[tuple[str, str, str, Any]]:
    """Yield what is asked: name, method, path and body."""
    for many in (1, 10, 500):
        body = {"articles": [{"text": text} for text in islice(cycle(texts), many)], "top": 5}
        yield f"check {many}", "POST", "/v1/check", body
    largest = client.call("GET", "/v1/clusters").json["clusters"][0]["id"]
    for path in ("/v1/clusters", "/v1/clusters/{id}", "/v1/verdicts", "/v1/status", *PAGES):
        yield path, "GET", path.format(id=quote(largest, safe="")), None


def _answered(client: Client, method: str, path: str, body: Any, seconds: float) -> list[float]:  # noqa: ANN401 - JSON
    times, until = list[float](), time.monotonic() + seconds
    while time.monotonic() < until:
        begun = time.perf_counter()
        answer = client.call(method, path, body)
        times.append(time.perf_counter() - begun)
        assert answer.status == HTTPStatus.OK, (path, answer.body)
    return times


def _print_answers(name: str, times: Sequence[float]) -> None:
    p50, p99 = np.percentile(times, [50, 99]) * 1e3
    print(f"| {name} | {len(times)} | {p50:.1f} | {p99:.1f} |", flush=True)


def _record(number: int, texts: Sequence[str]) -> bytes:
    return orjson.dumps({"id": str(number), "text": f"{number} {texts[number % len(texts)]}"})


def _turn(made: Pipeline, worker: ForkedProcess, service: Served, way: str, load: _Load) -> Turn:
    seconds = load.seconds
    _signal(service, signal.SIGCONT)
    _wait_caught_up(service)
    asking = threading.Thread(target=loaded, args=(service.port, load.texts, load.clients, 1, seconds + 2))
    if way == STOPPED:
        _signal(service, signal.SIGSTOP)
    elif way == ASKED:
        asking.start()
        time.sleep(1)  # the process of the clients starts
    assert service.process is not None
    begun, before = time.monotonic(), sum(made.committed().values())
    worker_s, service_s = processor_s_of(worker.pid), processor_s_of(service.process.pid)
    time.sleep(seconds)
    if worker.poll() is not None:
        raise SystemExit(made.log())
    lasted, judged = time.monotonic() - begun, sum(made.committed().values()) - before
    turn = Turn(
        judged / lasted,
        (processor_s_of(worker.pid) - worker_s) / max(judged, 1) * 1e6,
        (processor_s_of(service.process.pid) - service_s) / lasted,
    )
    if way == ASKED:
        asking.join()
    return turn


def _signal(service: Served, sent: signal.Signals) -> None:
    """Send a signal to the service."""
    assert service.process is not None
    os.kill(service.process.pid, sent)


def _wait_caught_up(service: Served) -> None:
    deadline = time.monotonic() + CAUGHT_UP_S
    with service.client() as client:
        while time.monotonic() < deadline:
            found = re.search(
                r"^stream_dedup_serve_log_lag ([0-9.e+]+)$", client.call("GET", "/metrics").body.decode(), re.MULTILINE
            )
            if found is not None and float(found[1]) <= CAUGHT_UP_LAG:
                return
            time.sleep(0.2)


def _print_turns(turns: dict[str, list[Turn]]) -> None:
    alone = median(turn.articles_s for turn in turns[STOPPED])
    print("\n| the service | articles/s | of those alone | each turn | worker, us an article | service, cores |")
    print("| --- | ---: | ---: | --- | ---: | ---: |")
    for way, found in turns.items():
        rate = median(turn.articles_s for turn in found)
        each = ", ".join(f"{turn.articles_s:,.0f}" for turn in found)
        used, share = median(turn.worker_us for turn in found), median(turn.service_share for turn in found)
        of_alone = rate / max(alone, 1e-9)
        print(f"| {way} | {rate:,.0f} | {of_alone:.2f} | {each} | {used:.0f} | {share:.2f} |", flush=True)
