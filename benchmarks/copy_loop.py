"""A transactional copy loop with each Kafka client, in turns.

    python -m benchmarks.copy_loop [--records N] [--bytes SIZE] [--turns T]

The loop is what a worker does without fingerprint, log and index: poll up to 500 records of one partition, send each
on with a header, and commit them with the source offsets in one transaction. It goes through the worker's own ports:
what the adapters cost is in it. Each turn is a process of its own on the same broker; the clients take turns, so that a
noisy minute of the machine meets both. Counted from the first commit to the last: records a second, and processor time
of the process, the threads of the client included.
"""

from __future__ import annotations

import argparse
import random
import time
import uuid
from collections.abc import Generator
from contextlib import closing
from statistics import median
from typing import NamedTuple

from kafka.admin import NewTopic

from benchmarks.processes import in_new_process
from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config
from stream_dedup.core.headers import SOURCE_TIMESTAMP
from stream_dedup.core.model import SourceOffset
from stream_dedup.dev.broker import BrokerSettings, find_broker
from stream_dedup.extras import need_packages
from stream_dedup.kafka.clients import worker_log, worker_ports
from stream_dedup.kafka.connection import make_admin, make_producer
from stream_dedup.ports import CommittedOffset, Output, Partition, WorkerPorts

CLIENTS = ("kafka-python", "confluent")
POLL_S = 0.1
HEADERS = [("dedup.verdict", b"unique")]


class Turn(NamedTuple):
    """What one turn took."""

    records: int
    seconds: float
    processor_s: float
    transactions: int

    @property
    def rate(self) -> float:
        """Records a second."""
        return self.records / self.seconds

    @property
    def processor_us(self) -> float:
        """Processor time of a record, µs."""
        return self.processor_s * 1e6 / self.records


def config_of(bootstrap: str, client: str, source: str, target: str) -> Config:
    group = f"copy-{uuid.uuid4().hex[:8]}"
    kafka = {"brokers": bootstrap, "client": client, "group": group}
    return load_config(None, {"kafka": kafka, "topics": {"input": [source], "unique": target}}, {})


def copy(bootstrap: str, client: str, source: str, target: str, records: int) -> Turn:
    """Copy so many records."""
    config = config_of(bootstrap, client, source, target)
    copied = transactions = begun = 0
    started = processor = 0.0
    copying = copy_for_ever(config, 1)
    while copied < records:
        copied += next(copying)
        transactions += 1
        if not begun:
            begun, started, processor = copied, time.monotonic(), time.process_time()
    turn = Turn(copied - begun, time.monotonic() - started, time.process_time() - processor, transactions)
    copying.close()
    return turn


def copy_without_end(bootstrap: str, client: str, source: str, partitions: int, target: str) -> None:
    """Copy all partitions of a topic until the process is killed."""
    for _ in copy_for_ever(config_of(bootstrap, client, source, target), partitions):
        continue


def copy_for_ever(config: Config, partitions: int) -> Generator[int, None, None]:
    """Copy the source topic to the topic for unique articles; yield the number of records of each transaction."""
    (source,), target = config.topics.input, config.topics.unique
    with closing(make_admin(config.kafka)) as admin:
        admin.create_topics([NewTopic(config.log_topic, 1, 1)])  # not used: ports have a log
    ports = worker_ports(config, f"{config.kafka.group}-{uuid.uuid4()}", worker_log(config))
    try:
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
                    headers = [*HEADERS, (SOURCE_TIMESTAMP, str(record.timestamp).encode())]
                    outputs.append(Output(target, record.key, record.value, headers, now))
                ports.sink.send(outputs)
                end = SourceOffset(polled[-1].offset + 1)
                ports.sink.send_offsets({partition: CommittedOffset(end, None)}, membership)
                ports.sink.flush()
                ports.sink.commit()
                yield len(polled)
    finally:
        close(ports)


def close(ports: WorkerPorts) -> None:
    for port in (ports.sink, ports.source, ports.log, ports.offsets, ports.watch_offsets):
        port.close()


def fill(bootstrap: str, source: str, target: str, records: int, size: int) -> None:
    """Make both topics, and records that do not compress."""
    config, rng = config_of(bootstrap, CLIENTS[0], source, target), random.Random(1)
    with closing(make_admin(config.kafka)) as admin:
        admin.create_topics([NewTopic(topic, 1, 1) for topic in (source, target)])
        admin.wait_for_topics([source, target])
    with closing(make_producer(config.kafka, linger_ms=5, batch_size=256 << 10)) as producer:
        for number in range(records):
            producer.send(source, key=str(number).encode(), value=rng.randbytes(size), partition=0)
        producer.flush(120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=30_000)
    parser.add_argument("--bytes", type=int, default=300)
    parser.add_argument("--turns", type=int, default=5)
    given = parser.parse_args()
    need_packages("benchmarks.copy_loop", "confluent", "confluent_kafka")
    turns: dict[str, list[Turn]] = {client: [] for client in CLIENTS}
    source, target = f"copy-{uuid.uuid4().hex[:8]}-articles", f"copy-{uuid.uuid4().hex[:8]}-unique"
    with find_broker(BrokerSettings()) as broker:
        fill(broker.bootstrap, source, target, given.records, given.bytes)
        for number in range(given.turns):
            for client in CLIENTS:
                turn = in_new_process(copy, broker.bootstrap, client, source, target, given.records)
                turns[client].append(turn)
                print(
                    f"turn {number}, {client}: {turn.rate:,.0f} records/s, {turn.processor_us:.0f} µs of a core each, "
                    f"{turn.transactions} transactions",
                    flush=True,
                )
    print(f"\n{given.records} records of {given.bytes} bytes, median of {given.turns} turns\n")
    print("| client | records/s | processor time of a record |\n| --- | ---: | ---: |")
    for client, taken in turns.items():
        rate, cost = median(one.rate for one in taken), median(one.processor_us for one in taken)
        print(f"| {client} | {rate:,.0f} | {cost:.0f} µs |")
    ratios = [
        (one.rate / other.rate, one.processor_us / other.processor_us)
        for other, one in zip(*turns.values(), strict=True)
    ]
    rates, costs = sorted(ratio for ratio, _ in ratios), sorted(ratio for _, ratio in ratios)
    print(
        f"\nconfluent beside kafka-python, by turn: {median(rates):.1f} times the records a second "
        f"({rates[0]:.1f} to {rates[-1]:.1f}), "
        f"at {median(costs):.2f} of the processor time ({costs[0]:.2f} to {costs[-1]:.2f})"
    )


if __name__ == "__main__":
    main()
