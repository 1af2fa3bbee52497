"""A worker at full load, alone and beside ``serve``: part of ``python -m benchmarks.serve --beside``.

A source topic is filled beforehand, so that the worker always has work. In turns, in one run: the service is stopped
(SIGSTOP), follows the log and the outputs, and follows while clients check texts. Before a turn the service catches up
with what was logged while it was stopped. Throughput is source offsets committed over the time of the turn; processor
time is that of the worker.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import orjson

from benchmarks.processes import processor_s_of
from benchmarks.serve_clients import loaded
from benchmarks.texts import articles
from tests.forks import ForkedProcess
from tests.serve.comparing import Served, served
from tests.worker.pipeline import Keys, Pipeline, pipeline

TEXTS = 2_000
PARTITIONS = 2
PATIENT: Keys = {"session_timeout_s": 45, "transaction_timeout_s": 60}
"""The worker must not leave its group where the machine is busy."""
PRODUCED = 2_000
"""Records that are sent at once: the client keeps them in memory."""
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
