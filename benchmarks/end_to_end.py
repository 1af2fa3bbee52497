"""A worker with each Kafka client beside a plain consumer and a copy loop; and its latency from 5 to 90 % of full load.

    python -m benchmarks.end_to_end [--articles N] [--plain N] [--turns T]
    python -m benchmarks.end_to_end --sweep [--seconds S] [--picture]

Each turn takes the same real articles through three ways with each client, on one broker, from topics that were filled
beforehand:

* a worker;
* a copy loop of one process, which does what a worker does without fingerprint, log and index: it polls up to 500
  records of one partition, sends each on with a header, and commits them with the source offsets in one transaction. It
  goes through the worker's own ports: what the adapters cost is in it;
* what one writes without this program: as many processes as the worker has threads, each a consumer (kafka-python) that
  cuts with jieba, fingerprints and looks up with the simhash package (k=3), and sends on.

Articles a second are those between the first and the last output. Processor time of an article is that of all
processes of the contender over the outputs in the meantime; the broker is not part of it. It says less about an idle
machine than the articles a second, and does not depend on what else the machine does.

The sweep feeds a running worker at shares of its full load, one after the other, and takes the time from the append
of an article to its source topic to the append of its output. Full load is what the worker does while the producer
works beside it on the same machine: it is fed at its rate of the turns first, which is more than both can do. A copy
loop with the same client is fed the same articles a second. The first ``WARM_UP_S`` of each share do not count.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count, islice
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
from kafka import TopicPartition
from kafka.admin import NewTopic

from benchmarks.pipeline import (
    CLIENTS,
    LOOK_S,
    PARTITIONS,
    PATIENCE_S,
    Bench,
    end_worker,
    rate_of,
    source_time,
    start_worker,
)
from benchmarks.processes import processor_s_of
from benchmarks.texts import articles, as_json
from stream_dedup.config.model import Config
from stream_dedup.core.headers import SOURCE_TIMESTAMP
from stream_dedup.core.model import SourceOffset
from stream_dedup.core.profiles import DEFAULT_PROFILE
from stream_dedup.dev.broker import BrokerSettings, find_broker
from stream_dedup.extras import need_packages
from stream_dedup.kafka.clients import worker_ports
from stream_dedup.kafka.connection import make_admin, make_consumer, make_producer
from stream_dedup.kafka.fingerprint_log import KafkaLog
from stream_dedup.ports import CommittedOffset, Output, Partition

PLAIN = "plain consumer"
COPY = "copy loop, "
"""Before the name of its client."""
POLL_S = 0.1
SHARES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9)
WARM_UP_S = 4.0
LIVE_S = 20.0
"""How long a worker is fed more than it can do."""
STARTED = 2_000
"""Articles that a worker is through before anything is measured: its code and tables are loaded then."""
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "latency.svg"


class Measured(NamedTuple):
    """One contender in one turn."""

    rate: float
    """Articles a second."""
    processor_us: float
    """Processor time of an article, µs."""


class Latency(NamedTuple):
    """Append to append at one share of full load, ms."""

    name: str
    """Of a worker's client, or of a copy loop's with ``COPY`` before it."""
    share: float
    p50: float
    p99: float


def plain_consumer(config: Config, source: str, number: int, unique: str, duplicate: str) -> None:
    """What one writes without this program: jieba, the simhash package, its index, at least once."""
    import jieba  # noqa: PLC0415 - in the child alone
    from simhash import Simhash, SimhashIndex  # noqa: PLC0415 - as above

    logging.getLogger("simhash").setLevel(logging.ERROR)
    index = SimhashIndex([], k=3)
    consumer = make_consumer(
        config.kafka, group_id=f"{config.kafka.group}-plain", max_poll_records=50, auto_offset_reset="earliest"
    )
    consumer.assign([TopicPartition(source, number)])  # its own partition at once: no rebalance counts against it
    producer = make_producer(config.kafka, linger_ms=5)
    while True:
        for records in consumer.poll(100).values():
            for record in records:
                article = json.loads(record.value)
                counts: dict[str, float] = {}
                for word in jieba.cut(article["text"]):
                    counts[word] = counts.get(word, 0.0) + 1.0
                fingerprint = Simhash(counts)
                near = index.get_near_dups(fingerprint)
                index.add(article["id"], fingerprint)
                producer.send(duplicate if near else unique, value=record.value, key=record.key)
        consumer.commit_async()


def copy_for_ever(config: Config, partitions: int) -> None:
    """Copy the source topic to the topic for unique articles until the process is killed."""
    (source,), target = config.topics.input, config.topics.unique
    with closing(make_admin(config.kafka)) as admin:
        admin.create_topics([NewTopic(config.log_topic, 1, 1)])  # not used: ports have a log
    ports = worker_ports(config, f"{config.kafka.group}-{uuid.uuid4()}", KafkaLog(config.kafka, config.log_topic))
    ports.sink.renew()
    ports.source.join([source])
    while (membership := ports.source.membership()) is None:
        ports.source.poll(POLL_S)
    for number in range(partitions):
        ports.source.begin(Partition(source, number), CommittedOffset(SourceOffset(0), None))
    while True:
        for partition, polled in ports.source.poll(POLL_S).items():
            ports.sink.begin()
            now = time.time_ns() // 1_000_000
            outputs = []
            for record in polled:
                headers = [("dedup.verdict", b"unique"), (SOURCE_TIMESTAMP, str(record.timestamp).encode())]
                outputs.append(Output(target, record.key, record.value, headers, now))
            ports.sink.send(outputs)
            end = SourceOffset(polled[-1].offset + 1)
            ports.sink.send_offsets({partition: CommittedOffset(end, None)}, membership)
            ports.sink.flush()
            ports.sink.commit()


def measure(bench: Bench, pids: Callable[[], Sequence[int]], expected: int) -> Measured:
    """Wait until so many outputs are there; return what the processes took from the first one seen on."""
    at = [TopicPartition(topic, number) for topic in bench.outputs for number in range(PARTITIONS)]
    deadline = time.monotonic() + PATIENCE_S
    began: tuple[int, float, float] | None = None
    with closing(make_consumer(bench.config.kafka)) as consumer:
        while time.monotonic() < deadline:
            ends = consumer.end_offsets(at)
            done, now, used = sum(ends.values()), time.monotonic(), sum(map(processor_s_of, pids()))
            if done and began is None:
                began = done, now, used
            if began is not None and done >= expected:
                return Measured((done - began[0]) / (now - began[1]), (used - began[2]) * 1e6 / (done - began[0]))
            time.sleep(LOOK_S)
    raise TimeoutError(f"{done} of {expected} outputs within {PATIENCE_S:g} s")


def measure_plain(bootstrap: str, values: list[bytes], given: argparse.Namespace) -> Measured:
    """One turn of the plain consumer."""
    bench = Bench(bootstrap, "plain", given.profile)
    bench.feed(values)
    context = multiprocessing.get_context("spawn")
    children = [
        context.Process(
            target=plain_consumer, args=(bench.config, bench.source, number, *bench.outputs[:2]), daemon=True
        )
        for number in range(given.threads)
    ]
    for child in children:
        child.start()
    try:
        return measure(bench, lambda: [child.pid or 0 for child in children], len(values))
    finally:
        for child in children:
            child.kill()
            child.join()


def measure_other(bootstrap: str, name: str, values: list[bytes], given: argparse.Namespace) -> Measured:
    """One turn of a worker or of a copy loop."""
    bench = Bench(bootstrap, "turn", given.profile)
    bench.feed(values)
    with _running(bench, name, given.threads) as pid:
        return measure(bench, lambda: [pid], len(values))


@contextmanager
def _running(bench: Bench, name: str, threads: int) -> Iterator[int]:
    """Run the worker or the copy loop of this name; give its process."""
    client = name.removeprefix(COPY)
    if client != name:
        config = bench.config.model_copy(update={"kafka": bench.config.kafka.model_copy(update={"client": client})})
        copying = multiprocessing.get_context("spawn").Process(
            target=copy_for_ever, args=(config, PARTITIONS), daemon=True
        )
        copying.start()
        try:
            yield copying.pid or 0
        finally:
            copying.kill()
            copying.join()
        return
    with tempfile.TemporaryDirectory(prefix="stream-dedup-bench-") as folder:
        worker = start_worker(bench, Path(folder), threads, client)
        try:
            yield worker.pid
        finally:
            end_worker(worker)


def take_turns(bootstrap: str, given: argparse.Namespace) -> dict[str, list[Measured]]:
    """Print and return the figures of each contender."""
    values = [as_json(number, text) for number, text in enumerate(articles(given.articles))]
    some = values[:: max(1, len(values) // given.plain)][: given.plain]  # of the same kind
    clients = given.clients.split(",")
    turns: dict[str, list[Measured]] = {name: [] for name in (PLAIN, *clients, *(COPY + one for one in clients))}
    for number in range(given.turns):
        for name, taken in turns.items():
            one = (
                measure_plain(bootstrap, some, given)
                if name == PLAIN
                else measure_other(bootstrap, name, values, given)
            )
            taken.append(one)
            print(f"turn {number}, {name}: {one.rate:,.0f} articles/s, {one.processor_us:,.0f} µs each", flush=True)
    mean_kb = sum(map(len, values)) / len(values) / 1000
    print(f"\n{len(values)} articles of {mean_kb:.1f} kB, {given.threads} threads, profile {given.profile}\n")
    print("| | articles/s | of the plain consumer's | by turn | of the copy loop's | processor time, µs | of plain's |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, taken in turns.items():
        rates = _ratios(taken, turns[PLAIN])
        share = "" if COPY + name not in turns else f"{median(_ratios(taken, turns[COPY + name])):.2f}"
        costs = median(plain.processor_us / one.processor_us for one, plain in zip(taken, turns[PLAIN], strict=True))
        rate, cost = median(one.rate for one in taken), median(one.processor_us for one in taken)
        beside = f"{median(rates):.1f} × | {rates[0]:.1f} to {rates[-1]:.1f} | {share}"
        print(f"| {name} | {rate:,.0f} | {beside} | {cost:,.0f} | 1/{costs:.1f} |")
    return turns


def _ratios(taken: Sequence[Measured], others: Sequence[Measured]) -> list[float]:
    """Return the rates beside those of the same turns of others, sorted."""
    return sorted(one.rate / other.rate for one, other in zip(taken, others, strict=True))


def live_rate(bootstrap: str, client: str, above: float, given: argparse.Namespace) -> float:
    """Return the articles a second of a worker while a producer appends ``above`` a second, more than it can do."""
    bench = Bench(bootstrap, "live", given.profile)
    number = int(above * LIVE_S)
    values = [as_json(at, text) for at, text in enumerate(articles(number + STARTED))]
    with _running(bench, client, given.threads):
        bench.feed(values[:STARTED])
        bench.drain(STARTED)
        begun = time.time() * 1000
        bench.feed(values[STARTED:], above)
        fed = time.time() * 1000
        records = bench.drain(len(values))
    return rate_of([one for one in records if begun + WARM_UP_S * 1000 < one.timestamp < fed])


def sweep(bootstrap: str, name: str, full: float, given: argparse.Namespace) -> Iterator[Latency]:
    """Print and yield the latencies of one worker or copy loop, share by share."""
    bench = Bench(bootstrap, "sweep", given.profile)
    counts = [int(full * share * given.seconds) for share in SHARES]
    values = (as_json(at, text) for at, text in zip(count(), articles(sum(counts) + STARTED), strict=False))
    with _running(bench, name, given.threads):
        bench.feed(list(islice(values, STARTED)))
        bench.drain(STARTED)
        spans = []
        fed = STARTED
        for share, number in zip(SHARES, counts, strict=True):
            part = list(islice(values, number))
            began = time.time() * 1000
            bench.feed(part, full * share)
            fed += number
            spans.append((share, began + WARM_UP_S * 1000, time.time() * 1000))
            bench.wait_for(fed)
        records = bench.drain(fed)
    times = np.array([(source_time(record), record.timestamp) for record in records], np.float64)
    for share, first, last in spans:
        own = times[(times[:, 0] >= first) & (times[:, 0] <= last)]
        if len(own):
            p50, p99 = np.percentile(own[:, 1] - own[:, 0], [50, 99])
            rate = len(own) * 1000 / (last - first)
            print(f"| {name} | {share:.0%} | {rate:,.0f} | {p50:.0f} | {p99:.0f} |", flush=True)
            yield Latency(name, share, float(p50), float(p99))


def draw(figures: Sequence[Latency]) -> None:
    """Draw p50 and p99 over the share of full load, a colour for each client."""
    import matplotlib as mpl  # noqa: PLC0415 - takes long to load
    from matplotlib.figure import Figure  # noqa: PLC0415 - as above

    # Text stays text, and the same figures make the same bytes.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "latency", "font.size": 9}):
        picture = Figure(figsize=(7, 4), layout="constrained")
        axes = picture.subplots()
        for number, name in enumerate(dict.fromkeys(one.name for one in figures)):
            own = [one for one in figures if one.name == name]
            shares = [one.share * 100 for one in own]
            axes.plot(shares, [one.p50 for one in own], "-", color=f"C{number}", marker=".", label=f"{name}, p50")
            axes.plot(shares, [one.p99 for one in own], "--", color=f"C{number}", marker=".", label=f"{name}, p99")
        axes.set(title="Latency, append to append", xlabel="% of full load", ylabel="ms", yscale="log")
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize=8)
        picture.savefig(PICTURE, metadata={"Date": None})


def main() -> None:
    given = _options()
    need_packages("benchmarks.end_to_end", "bench", "simhash")
    with find_broker(BrokerSettings()) as broker:
        clients = given.clients.split(",")
        turns = take_turns(broker.bootstrap, given)
        if given.sweep:
            of_clients: list[tuple[str, float]] = []
            for client in clients:
                alone = median(one.rate for one in turns[client])
                full = live_rate(broker.bootstrap, client, alone, given)
                print(f"{client}: {full:,.0f} articles/s with the producer beside it, {full / alone:.2f} of that alone")
                of_clients += [(client, full), (COPY + client, full)]
            print("\n| client | % of full load | articles/s | p50, ms | p99, ms |\n| --- | ---: | ---: | ---: | ---: |")
            figures = [one for name, rate in of_clients for one in sweep(broker.bootstrap, name, rate, given)]
            if given.picture:
                draw(figures)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--articles", type=int, default=12_000, help="articles through a worker")
    parser.add_argument("--plain", type=int, default=1_500, help="articles through the plain consumer")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument(
        "--threads",
        type=int,
        default=multiprocessing.cpu_count(),
        help="of a worker; processes of the plain consumer",
    )
    parser.add_argument("--profile", default=DEFAULT_PROFILE)
    parser.add_argument("--clients", default=",".join(CLIENTS), help="with commas")
    parser.add_argument("--sweep", action="store_true", help="also the latency at shares of full load")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each share, the warm-up included")
    parser.add_argument("--picture", action="store_true", help="with --sweep: draw docs/images/latency.svg")
    return parser.parse_args()


if __name__ == "__main__":
    main()
