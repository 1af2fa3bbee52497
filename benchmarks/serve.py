"""The HTTP service under load, beside a bare look-up; and its checks beside the verdicts of a worker.

    python -m benchmarks.serve [--articles 1000000] [--clients 16] [--seconds 20] [--agree 3000] [--rate 1500]

A log of made articles (``benchmarks.stream``) is appended to a broker of its own, and the service builds its index from
it. Then clients in one thread of another process, each with one connection, send one text after the other
(``benchmarks.texts``, real ones with STREAM_DEDUP_DATA), one, ten and five hundred in each request. When the service
has ended, its index is opened and asked the same, without HTTP and threads: one article at a time, and as many as there
are clients.

With ``--agree`` so many real articles are checked one by one, each before it is logged, and compared with what a worker
then says. Ends with exit code 1 where one differs.

With ``--rate`` a producer appends so many articles a second, a worker judges them, and one
client asks for checks, clusters, verdicts, status and pages.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import selectors
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
import orjson

from benchmarks.pipeline import MadeLog
from benchmarks.processes import processor_s_of
from benchmarks.texts import articles
from stream_dedup.config.effective import fingerprint_settings_of
from stream_dedup.config.model import Config
from stream_dedup.core.columns import Columns
from stream_dedup.core.decode import RawRecord
from stream_dedup.core.fingerprinter import EntryMaker
from stream_dedup.dev.broker import BrokerSettings, find_broker
from stream_dedup.extras import SERVE_PACKAGES, need_packages
from stream_dedup.index import IndexSettings, LogIndex
from tests.serve.clients import Client
from tests.serve.comparing import checked_and_judged, served
from tests.worker.mixture import records
from tests.worker.pipeline import Keys, Pipeline, pipeline

TEXTS = 2_000
MANY = (1, 10, 500)
"""Articles of a request; no more clients than the service admits at once."""
BARE_SECONDS = 5
MEMORY_MIB = 4096
PARTITIONS = 2
PATIENT: Keys = {"session_timeout_s": 45, "transaction_timeout_s": 60}
"""The worker must not leave its group where the machine is busy."""
PRODUCE_S = 0.1
"""Between two calls of the producer."""
PAGES = ("/check", "/live", "/clusters", "/clusters/{id}", "/system")


class Load(NamedTuple):
    """What clients saw."""

    times: list[float]
    """Seconds of each request."""
    seconds: float
    articles: int


def main() -> int:
    options = _options()
    need_packages("benchmarks.serve", "serve", *SERVE_PACKAGES)
    with (
        tempfile.TemporaryDirectory(prefix="stream-dedup-serve-") as folder,
        find_broker(BrokerSettings(), own=True) as broker,
    ):
        if options.articles:
            _load(broker.bootstrap, Path(folder), options)
        if options.rate:
            _at_rate(broker.bootstrap, Path(folder), options.rate, options.seconds)
        return _agree(broker.bootstrap, Path(folder), options.agree) if options.agree else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--articles", type=int, default=1_000_000, help="articles in the index; 0: no load")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each load")
    parser.add_argument("--agree", type=int, default=0, help="articles that are compared with a worker")
    parser.add_argument("--rate", type=int, default=0, help="articles a second beside which answers are timed, too")
    return parser.parse_args()


def _load(bootstrap: str, folder: Path, options: argparse.Namespace) -> None:
    """Fill a log, serve it, load the service, and ask its index without it."""
    with pipeline(bootstrap, folder, "load", index={"memory_mib": MEMORY_MIB, "fold_entries": 131_072}) as made:
        config = made.config()
        made_log = MadeLog(config)
        made_log.begin()
        made_log.append(options.articles)
        texts = articles(TEXTS)
        began = time.monotonic()
        with served(made) as service:
            print(f"{options.articles:,} articles; index built in {time.monotonic() - began:.0f} s", flush=True)
            print("\n| request | clients | answers/s | articles/s | p50, ms | p99, ms | processor ms an article |")
            print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
            assert service.process is not None
            most = made.config().serve.queue_articles
            for clients, many in ((1, 1), *((min(options.clients, most // many), many) for many in MANY)):
                before = processor_s_of(service.process.pid)
                load = _loaded(service.port, texts, clients, many, options.seconds)
                used = processor_s_of(service.process.pid) - before
                _print_load(f"{many} text{'s' * (many > 1)}", clients, load, used)
            service.stop()
        _print_bare(made.folder / "served" / "index", config, texts, options.clients)


def _loaded(port: int, texts: Sequence[str], clients: int, many: int, seconds: float) -> Load:
    """Let clients in a process of their own send requests."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as process:
        return process.apply(_clients, (port, texts, clients, many, seconds))


class _Exchange:
    """One connection, with a request and its answer at a time."""

    def __init__(self, port: int, requests: Iterator[bytes]) -> None:
        self.connection = socket.create_connection(("127.0.0.1", port))
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._requests = requests
        self._answer = b""
        self._begun = 0.0

    def send(self) -> None:
        request = next(self._requests)
        self._answer, self._begun = b"", time.perf_counter()
        self.connection.sendall(request)

    def receive(self) -> float | None:
        """Take what has arrived; return the seconds of the request when its answer is whole."""
        self._answer += self.connection.recv(1 << 20)
        head, end, body = self._answer.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head) if end else None
        if length is None or len(body) < int(length[1]):
            return None
        assert head.startswith(b"HTTP/1.1 200 "), self._answer
        return time.perf_counter() - self._begun


def _clients(port: int, texts: Sequence[str], clients: int, many: int, seconds: float) -> Load:
    """Send requests that were made before, on all connections from one thread: the processor is the service's."""
    own = [list(_requests(texts[number::clients], many)) for number in range(clients)]
    exchanges = [_Exchange(port, cycle(requests)) for requests in own]
    times = list[float]()
    began = time.monotonic()
    with selectors.DefaultSelector() as selector:
        for one in exchanges:
            selector.register(one.connection, selectors.EVENT_READ, one)
            one.send()
        while selector.get_map():
            for key, _ in selector.select():
                if (taken := key.data.receive()) is not None:
                    times.append(taken)
                    if time.monotonic() - began < seconds:
                        key.data.send()
                    else:
                        selector.unregister(key.fileobj)
                        key.data.connection.close()
    return Load(times, time.monotonic() - began, many * len(times))


def _requests(texts: Sequence[str], many: int) -> Iterator[bytes]:
    for begin in range(0, len(texts), many):
        articles = [{"text": text} for text in islice(cycle(texts), begin, begin + many)]
        body = json.dumps({"articles": articles, "top": 5}).encode()
        head = f"POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}"
        yield f"{head}\r\nContent-Type: application/json\r\n\r\n".encode() + body


def _print_load(request: str, clients: int, load: Load, used_s: float) -> None:
    p50, p99 = np.percentile(load.times, [50, 99]) * 1e3
    print(
        f"| {request} | {clients} | {len(load.times) / load.seconds:,.0f} | {load.articles / load.seconds:,.0f} "
        f"| {p50:.1f} | {p99:.1f} | {used_s / load.articles * 1e3:.2f} |",
        flush=True,
    )


def _print_bare(path: Path, config: Config, texts: Sequence[str], clients: int) -> None:
    """Ask the index itself."""
    maker = EntryMaker(fingerprint_settings_of(config))
    maker.fingerprinter.warm()
    raw = [RawRecord(None, b'{"text": %s}' % orjson.dumps(text), "x") for text in texts]
    made: list[Columns] = []
    fingerprinting = _each_s(lambda at: made.append(maker([raw[at % len(raw)]])), BARE_SECONDS)
    columns = Columns.concat(made[: len(texts)])
    with LogIndex.read(path, scheme=None, settings=IndexSettings(memory_mib=MEMORY_MIB)) as index:
        now = time.time_ns() // 1_000_000
        print("\n| without HTTP and threads | p50, ms | p99, ms |\n| --- | ---: | ---: |")
        _print_each("fingerprint one text", fingerprinting)
        for many in (1, clients):
            parts = [columns.rows(slice(at, at + many)) for at in range(0, len(columns) - many, many)]
            times = _each_s(lambda at, parts=parts: index.check(parts[at % len(parts)], now, 5), BARE_SECONDS)  # type: ignore[misc] # the parts of this round
            _print_each(f"look up {many}, for each", [one / many for one in times])


def _each_s(work: Callable[[int], object], seconds: float) -> list[float]:
    times: list[float] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.perf_counter()
        work(len(times))
        times.append(time.perf_counter() - began)
    return times


def _print_each(what: str, times: Sequence[float]) -> None:
    p50, p99 = np.percentile(times, [50, 99]) * 1e3
    print(f"| {what} | {p50:.2f} | {p99:.2f} |", flush=True)


def _at_rate(bootstrap: str, folder: Path, rate: int, seconds: float) -> None:
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


def _agree(bootstrap: str, folder: Path, count: int) -> int:
    """Check each article before it is logged; return the exit code."""
    with pipeline(bootstrap, folder, "agree") as made:
        worker = made.start()
        began = time.monotonic()
        with served(made) as service:
            pairs = checked_and_judged(made, service, [value for _, value in records(count, 7)][:count])
        made.stop(worker)
    differing = [pair for pair in pairs if pair[0] != pair[1]]
    verdicts = {
        verdict: sum(judged.verdict == verdict for _, judged in pairs)
        for verdict in ("unique", "duplicate", "rejected")
    }
    print(
        f"\n{len(pairs):,} articles in {time.monotonic() - began:.0f} s: {verdicts}; {len(differing)} differ",
        flush=True,
    )
    for checked, judged in differing[:10]:
        print(f"checked {checked}\njudged  {judged}")
    return bool(differing)


if __name__ == "__main__":
    sys.exit(main())
