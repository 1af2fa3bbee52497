"""A worker on a large index under a steady load, beside one on an empty index.

    python -m benchmarks.large_index [--articles 1000000] [--minutes 2] [--rate R] [--characters 300] [--memory MIB]
                                     [--threads T] [--folder DIR]

On a broker of its own, first with a log of so many made articles (``benchmarks.stream``), then with an empty one:

1. The worker is started and builds its index from the log. It is stopped.
2. A backlog waits; the worker is started again and catches up: *alone*. The time from its start to its first output is
   that of the interpreter, of opening the index and of joining the group.
3. Articles are fed at that rate beside it, which is more than both together can do: *full rate*.
4. Articles are fed steadily for so many minutes, at half of the full rate with the large index (or at ``--rate``); the
   rate is the same with the empty index.

Articles have so many characters of lines of ``benchmarks.texts``, in a new mixture; one in five is an earlier one with
a line more. Each minute is a line of the table:

* latency: append time of the output minus append time of the article; median, 99 %, longest.
* longest gap: the longest time between two appends of outputs. A batch that waits for the index shows here.
* memory: of the worker's process, and of the files that it has mapped.
* processor time an article: of the worker.

The worker, the broker, the producer and the reader of the outputs share the cores: compare the two indexes, not the
figures with those of another benchmark.

How long it takes, and what it needs, with 40 million and 15 minutes on a quiet machine: some 55 minutes, 30 GB of disk
and 12 GB of memory.

    python -m benchmarks.large_index --articles 40000000 --minutes 15
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Self

import numpy as np
from kafka import TopicPartition

from benchmarks.pipeline import PARTITIONS, Bench, MadeLog, end_worker, source_time, start_worker
from benchmarks.processes import memory_of, processor_s_of
from benchmarks.texts import articles as texts
from benchmarks.texts import as_json, described
from stream_dedup.core.arrays import I64
from stream_dedup.core.profiles import DEFAULT_PROFILE
from stream_dedup.dev.broker import BrokerSettings, find_broker
from stream_dedup.kafka.connection import make_admin, make_consumer
from stream_dedup.kafka.topics import ensure_topics

FIRST = 100
"""Articles that show that a worker runs."""
BACKLOG = 20_000
LIVE_S = 20.0
WARM_UP_S = 5.0
"""Of a load, not counted."""
MINUTE_S = 60.0
NEAR_SHARE = 0.2
RECENT = 1_000
"""Articles of which later ones are made."""
MEMORY_VARIABLE = "STREAM_DEDUP_INDEX__MEMORY_MIB"


class Outputs:
    """The outputs of a worker as they come: append times and latencies in milliseconds."""

    def __init__(self, bench: Bench, worker: subprocess.Popen[bytes]) -> None:
        """Read from the first output on."""
        self._consumer = make_consumer(bench.config.kafka)
        partitions = [TopicPartition(topic, number) for topic in bench.outputs for number in range(PARTITIONS)]
        self._consumer.assign(partitions)
        self._consumer.seek_to_beginning(*partitions)
        self.worker = worker
        self.count = 0

    def read(self, until: Callable[[], bool]) -> I64:
        """Read until a condition holds, looked at twice a second at least; shape (n, 2), by append time.

        Raises:
            SystemExit: the worker has ended; it has said why.
        """
        found: list[tuple[int, int]] = []
        while not until():
            if self.worker.poll() is not None:
                sys.exit(f"the worker ended with exit code {self.worker.returncode}")
            for records in self._consumer.poll(500).values():
                found += [(record.timestamp, record.timestamp - source_time(record)) for record in records]
                self.count += len(records)
        appended = np.array(found, np.int64).reshape(-1, 2)
        return appended[np.argsort(appended[:, 0], kind="stable")]

    def read_to(self, count: int) -> I64:
        """Read until there were so many."""
        return self.read(lambda: self.count >= count)

    def close(self) -> None:
        self._consumer.close()


class Loaded:
    """A worker on an index of so many articles, and the articles that it is fed."""

    def __init__(self, bootstrap: str, folder: Path, options: argparse.Namespace, held: int) -> None:
        self._bench = Bench(bootstrap, f"of-{held}", DEFAULT_PROFILE)
        self._folder = folder
        self._options = options
        self._held = held
        self._fed = 0

    def build(self) -> None:
        """Fill the log, and let a worker build its index (step 1)."""
        with closing(make_admin(self._bench.config.kafka)) as admin:
            ensure_topics(admin, self._bench.config)
        began = time.monotonic()
        if self._held:
            made_log = MadeLog(self._bench.config)
            made_log.begin()
            made_log.append(self._held)
        filled = time.monotonic()
        print(f"\nindex of {self._held:,} articles: log filled in {filled - began:.0f} s", flush=True)
        with closing(self._started()) as outputs:
            self._feed_now(FIRST)
            outputs.read_to(self._fed)
            print(f"index built, first outputs after {time.monotonic() - filled:.0f} s", flush=True)
            end_worker(outputs.worker)

    def run(self, rate: float | None) -> float:
        """Load a worker (steps 2 to 4); returns the rate of step 4."""
        self._feed_now(BACKLOG)
        began, clock_ms = time.monotonic(), time.time_ns() // 1_000_000
        with closing(self._started()) as outputs:
            first = outputs.read_to(self._fed - BACKLOG + 1)
            print(f"started and opened: first output after {time.monotonic() - began:.1f} s", flush=True)
            appended = np.concatenate((first, outputs.read_to(self._fed)))
            alone = _rate_of(appended[appended[:, 0] > clock_ms], WARM_UP_S)
            full = self._full_rate(outputs, alone)
            print(f"articles/s: {alone:,.0f} alone, {full:,.0f} at full rate beside the producer", flush=True)
            self._steady(outputs, rate or full / 2)
            end_worker(outputs.worker)
        return rate or full / 2

    def _full_rate(self, outputs: Outputs, rate: float) -> float:
        """Feed at a rate; return the articles a second while it was fed."""
        with _Feeding(self._bench, self._values(int(rate * LIVE_S)), rate) as feeding:
            appended = outputs.read(feeding.is_done)
        outputs.read_to(self._fed)
        return _rate_of(appended, WARM_UP_S)

    def _steady(self, outputs: Outputs, rate: float) -> None:
        """Feed at a rate, and print each minute."""
        print(f"fed at {rate:,.0f} articles/s\n\n{HEAD}", flush=True)
        pid = outputs.worker.pid
        every: list[I64] = []
        with _Feeding(self._bench, self._values(int(rate * MINUTE_S * self._options.minutes)), rate) as feeding:
            minute = 0
            while not feeding.is_done():
                minute += 1
                used, until = processor_s_of(pid), time.monotonic() + MINUTE_S
                appended = outputs.read(lambda until=until: feeding.is_done() or time.monotonic() > until)  # type: ignore[misc]
                if len(appended) > 1:
                    _print_minute(str(minute), appended, pid, processor_s_of(pid) - used)
                    every.append(appended)
        every.append(outputs.read_to(self._fed))
        _print_minute("all", np.concatenate(every), pid, None)

    def _started(self) -> Outputs:
        return Outputs(self._bench, start_worker(self._bench, self._folder, self._options.threads))

    def _feed_now(self, count: int) -> None:
        self._bench.feed(made_articles(*self._values(count)))

    def _values(self, count: int) -> tuple[int, int, int]:
        """Number of the first article to be fed, how many, and their characters."""
        self._fed += count
        return self._fed - count, count, self._options.characters


class _Feeding:
    """A process that feeds articles at a rate; it ends with the block."""

    def __init__(self, bench: Bench, values: tuple[int, int, int], rate: float) -> None:
        self._process = multiprocessing.get_context("spawn").Process(target=_feed, args=(bench, values, rate))

    def is_done(self) -> bool:
        """Whether all was fed.

        Raises:
            SystemExit: it failed; it has said why.
        """
        if self._process.exitcode:
            sys.exit(f"the producer ended with exit code {self._process.exitcode}")
        return self._process.exitcode is not None

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.kill()
        self._process.join()


def main() -> None:
    options = _options()
    if options.memory is not None:
        os.environ[MEMORY_VARIABLE] = str(options.memory)
    print(f"{options.threads} threads, articles of {options.characters} characters, {described()}", flush=True)
    rate = options.rate
    with tempfile.TemporaryDirectory(prefix="stream-dedup-large-", dir=options.folder) as temporary:
        folder = Path(temporary)
        with find_broker(BrokerSettings(data=folder / "broker"), own=True) as broker:
            for held in (options.articles, 0):
                loaded = Loaded(broker.bootstrap, folder, options, held)
                loaded.build()
                rate = loaded.run(rate)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--articles", type=int, default=1_000_000, help="articles in the large index")
    parser.add_argument("--minutes", type=float, default=2.0, help="of the steady load, for each index")
    parser.add_argument("--rate", type=float, help="articles a second of the steady load")
    parser.add_argument("--characters", type=int, default=300, help="of an article")
    parser.add_argument("--memory", type=int, help="MiB of the index (index.memory_mib)")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="fingerprinting threads")
    parser.add_argument("--folder", type=Path, help="where log and index are made, on a disk with room for both")
    return parser.parse_args()


def made_articles(first: int, count: int, characters: int) -> Iterator[bytes]:
    """Values of articles that nobody has seen, but for one in five; the same for the same arguments."""
    lines = [line.strip() for text in texts(2_000) for line in text.splitlines() if line.strip()]
    rng = random.Random(first)
    recent: deque[str] = deque(maxlen=RECENT)
    for number in range(first, first + count):
        if recent and rng.random() < NEAR_SHARE:
            text = f"{rng.choice(recent)}\n{rng.choice(lines)[: characters // 10]}"
        else:
            text = ""
            while len(text) < characters:
                text = f"{text}{rng.choice(lines)}\n"
            text = text[:characters]
            recent.append(text)
        yield as_json(number, text)


def _feed(bench: Bench, values: tuple[int, int, int], rate: float) -> None:
    bench.feed(made_articles(*values), rate)


def _rate_of(appended: I64, without_s: float) -> float:
    """Articles a second, without the first seconds if a quarter of the articles came later.

    Raises:
        SystemExit: there are none.
    """
    if len(appended) < 2:
        sys.exit("no outputs came while articles were fed: the machine is too busy, try again later")
    times = appended[:, 0]
    late = times[times >= times[0] + without_s * 1_000]
    times = late if len(late) > len(times) // 4 else times
    return float((len(times) - 1) * 1_000 / max(times[-1] - times[0], 1))


HEAD = (
    "| minute | articles/s | p50, ms | p99, ms | longest, ms | longest gap, ms | memory, MiB: of the worker | mapped "
    "| processor µs an article |\n| ---: |" + " ---: |" * 8
)


def _print_minute(minute: str, appended: I64, pid: int, used_s: float | None) -> None:
    times, delays = appended.T
    p50, p99 = np.percentile(delays, [50, 99])
    memory = memory_of(pid)
    each = "" if used_s is None else f"{used_s / len(appended) * 1e6:.0f}"
    print(
        f"| {minute} | {_rate_of(appended, 0):,.0f} | {p50:.0f} | {p99:.0f} | {delays.max()} | {np.diff(times).max()} "
        f"| {memory.anonymous:,.0f} | {memory.files:,.0f} | {each} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
