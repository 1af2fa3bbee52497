"""What a worker does while nothing comes: how often each of its threads wakes up, and its processor time.

    python -m benchmarks.at_rest [--seconds S] [--clients NAMES]

A worker with two empty partitions runs in a process of its own, with each Kafka client. A wake-up is a voluntary switch
to another thread (``/proc``): the thread had waited, and will wait again. The first ``SETTLE_S`` do not count.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks.pipeline import CLIENTS, Bench
from benchmarks.stages import STOP_S
from stream_dedup.config.load import load_config
from stream_dedup.core.profiles import DEFAULT_PROFILE
from stream_dedup.dev.broker import BrokerSettings, find_broker

SETTLE_S = 8.0
LOOK_S = 0.1


def run_watched(flags: dict[str, Any], seconds: float, out: str) -> None:
    """Run a worker until it is stopped; write wake-ups and processor time a second, by thread."""
    from stream_dedup.worker.app import run_worker  # noqa: PLC0415 - in the worker's process alone

    threading.Thread(target=_watch, args=(seconds, out), name="watch", daemon=True).start()
    run_worker(load_config(None, flags, {}))


def _watch(seconds: float, out: str) -> None:
    while not any(thread.name == "committer" for thread in threading.enumerate()):
        time.sleep(LOOK_S)
    time.sleep(SETTLE_S)
    before, began = _now(), time.monotonic()
    time.sleep(seconds)
    after, took = _now(), time.monotonic() - began
    found = {
        name: [(now - then) / took for now, then in zip(after[name], before[name], strict=True)] for name in before
    }
    Path(out).write_text(json.dumps(found))


def _now() -> dict[str, list[float]]:
    """Return wake-ups and processor seconds of each thread so far."""
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    names[os.getpid()] = "source"
    found: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for task in Path("/proc/self/task").iterdir():
        name = names.get(int(task.name)) or (task / "comm").read_text().strip()
        if name == "watch":
            continue
        status = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
        found[name][0] += int(status["voluntary_ctxt_switches"])
        found[name][1] += int((task / "schedstat").read_text().split()[0]) / 1e9
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--profile", default=DEFAULT_PROFILE)
    parser.add_argument("--clients", default=",".join(CLIENTS), help="with commas")
    given = parser.parse_args()
    with find_broker(BrokerSettings()) as broker, tempfile.TemporaryDirectory(prefix="stream-dedup-bench-") as folder:
        for client in given.clients.split(","):
            bench, out = Bench(broker.bootstrap, "rest", given.profile), Path(folder) / f"{client}.json"
            arguments = (bench.worker_values(Path(folder), given.threads, client), given.seconds, str(out))
            worker = multiprocessing.get_context("spawn").Process(target=run_watched, args=arguments)
            worker.start()
            while not out.exists() and worker.is_alive():
                time.sleep(LOOK_S)
            os.kill(worker.pid or 0, signal.SIGTERM)
            worker.join(STOP_S)
            found: dict[str, list[float]] = json.loads(out.read_text())
            print(f"\n| {client}: thread | wake-ups a second | processor time, ms a second |\n| --- | ---: | ---: |")
            for name, (wakes, used) in sorted(found.items(), key=lambda item: -item[1][0]):
                print(f"| {name} | {wakes:.1f} | {used * 1e3:.2f} |")
            wakes, used = (sum(column) for column in zip(*found.values(), strict=True))
            print(f"| together | {wakes:.1f} | {used * 1e3:.2f} |", flush=True)


if __name__ == "__main__":
    main()
