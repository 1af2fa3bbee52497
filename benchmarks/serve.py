"""The HTTP service under load, beside a bare look-up; and its checks beside the verdicts of a worker.

    python -m benchmarks.serve [--articles 1000000] [--clients 16] [--seconds 20] [--agree 3000] [--beside]
                               [--rate 1500]

A log of made articles (``benchmarks.stream``) is appended to a broker of its own, and the service builds its index from
it. Then clients in another process, each with one connection, send one text after the other (``benchmarks.texts``,
real ones with STREAM_DEDUP_DATA), one, ten and five hundred in each request. When the service has ended, its index is
opened and asked the same, without HTTP and threads: one article at a time, and as many as there are clients.

With ``--agree`` so many real articles are checked one by one, each before it is logged, and compared with what a worker
then says. Ends with exit code 1 where one differs.

With ``--beside`` a worker at full load is measured alone and beside the service, in turns:
``benchmarks.serve_beside``. With ``--rate`` a producer appends so many articles a second, a worker judges them, and one
client asks for checks, clusters, verdicts, status and pages.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import orjson

from benchmarks.made_log import MadeLog
from benchmarks.processes import processor_s_of
from benchmarks.serve_beside import at_rate, beside
from benchmarks.serve_clients import Load, loaded
from benchmarks.texts import articles
from stream_dedup.config.effective import fingerprint_settings_of
from stream_dedup.config.model import Config
from stream_dedup.core.columns import Columns
from stream_dedup.core.decode import RawRecord
from stream_dedup.core.fingerprinter import EntryMaker
from stream_dedup.dev.broker import BrokerSettings, find_broker
from stream_dedup.extras import SERVE_PACKAGES, need_packages
from stream_dedup.index import IndexSettings, LogIndex
from tests.serve.comparing import checked_and_judged, served
from tests.worker.mixture import records
from tests.worker.pipeline import pipeline

TEXTS = 2_000
MANY = (1, 10, 500)
"""Articles of a request; no more clients than the service admits at once."""
BARE_SECONDS = 5
MEMORY_MIB = 4096


def main() -> int:
    options = _options()
    need_packages("benchmarks.serve", "serve", *SERVE_PACKAGES)
    with (
        tempfile.TemporaryDirectory(prefix="stream-dedup-serve-") as folder,
        find_broker(BrokerSettings(), own=True) as broker,
    ):
        if options.articles:
            _load(broker.bootstrap, Path(folder), options)
        if options.beside:
            beside(broker.bootstrap, Path(folder), options.beside_articles, options.turn_seconds, options.clients)
        if options.rate:
            at_rate(broker.bootstrap, Path(folder), options.rate, options.seconds)
        return _agree(broker.bootstrap, Path(folder), options.agree) if options.agree else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--articles", type=int, default=1_000_000, help="articles in the index; 0: no load")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each load")
    parser.add_argument("--agree", type=int, default=0, help="articles that are compared with a worker")
    parser.add_argument("--beside", action="store_true", help="measure a worker alone and beside the service, too")
    parser.add_argument("--rate", type=int, default=0, help="articles a second beside which answers are timed, too")
    parser.add_argument("--beside-articles", type=int, default=300_000, help="articles that wait for that worker")
    parser.add_argument("--turn-seconds", type=float, default=8.0, help="of each turn of --beside")
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
                load = loaded(service.port, texts, clients, many, options.seconds)
                used = processor_s_of(service.process.pid) - before
                _print_load(f"{many} text{'s' * (many > 1)}", clients, load, used)
            service.stop()
        _print_bare(made.folder / "served" / "index", config, texts, options.clients)


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
