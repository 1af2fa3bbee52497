"""A large archive: how fast `seed` is beside `filter`, and what is left of five kills.

    python -m benchmarks.seeding --articles 100000 --kills 5

The archive has the texts of `benchmarks.texts`, and one article that is near no other. In a first group it is seeded
without interruption, for the rate. In a second one `seed` is killed (SIGKILL) at random moments and called again; then
the article that is near no other is sent again through a worker, withdrawn, and sent once more. The index is rebuilt,
and the audit recomputes the verdicts. Ends with exit code 1 if anything is not as it must be.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from benchmarks.pipeline import measure_filter
from benchmarks.texts import SEED, articles, as_json, described
from stream_dedup.core.entry import Batch
from stream_dedup.dev.broker import BrokerSettings, find_broker
from stream_dedup.exit_codes import EXIT_OK
from stream_dedup.kafka.clients import connect_log
from tests.seed.small_batches import archive_lines
from tests.waiting import wait_until
from tests.worker.pipeline import Pipeline, pipeline, toml_of

RECORD_S = 600.0
"""For the log to grow."""
FILTERED = 6_000
"""Lines of the archive for the rate of `filter`."""


def start_seed(made: Pipeline, archive: Path) -> subprocess.Popen[bytes]:
    path = made.folder / "seed.toml"
    values = made.values("seed")
    values["worker"]["threads"] = os.cpu_count()
    path.write_text(toml_of(values), "utf-8")
    return subprocess.Popen([sys.executable, "-m", "stream_dedup", "seed", "--config", str(path), str(archive)])


def seeded_seconds(made: Pipeline, archive: Path) -> float:
    began = time.monotonic()
    assert start_seed(made, archive).wait() == EXIT_OK
    return time.monotonic() - began


def killed(made: Pipeline, archive: Path, count: int, kills: int) -> list[int]:
    """Seed the archive, with this many kills; return how many articles the log had at each."""
    rng, seen = random.Random(SEED), []
    with closing(connect_log(made.config())) as log:
        for kill in range(1, kills + 1):
            before = log.bounds()[1]
            seeding = start_seed(made, archive)
            more = rng.randint(1, max(1, count // 256 // (kills + 1)))
            wait_until(lambda least=before + more: log.bounds()[1] >= least, RECORD_S, f"kill {kill}")
            seeding.kill()
            seeding.wait()
            seen.append(len(entered(made)))
    assert start_seed(made, archive).wait() == EXIT_OK
    return seen


def entered(made: Pipeline) -> list[tuple[int, str]]:
    """Offset and id of every seeded entry, in the order of the log."""
    with closing(connect_log(made.config())) as log:
        batches = [record.payload for record in log.read_all(lambda *_: None) if isinstance(record.payload, Batch)]
    seeded = [batch for batch in batches if batch.seeded]
    return [(int(batch.offset(row)), batch.id(row)) for batch in seeded for row in range(len(batch))]


def verdicts(made: Pipeline, alone: str) -> list[str]:
    """Send an article of the archive through a worker, withdraw it, and send it again."""
    repost = json.loads(alone)["text"]
    worker = made.start()
    for name in ("before", "after"):
        made.produce([(None, json.dumps({"id": name, "text": repost}).encode())])
        made.wait_done(RECORD_S)
        assert made.run("withdraw", "old-0", name).returncode == EXIT_OK
    made.stop(worker)
    return [str(stamp.verdict) for _, stamp in sorted(made.stamps().items())]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--articles", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=5)
    given = parser.parse_args()
    values = [as_json(number, text) for number, text in enumerate(articles(given.articles - 1))]
    (alone,) = archive_lines(1)
    print(f"{given.articles} articles, {described()}, {os.cpu_count()} threads", flush=True)
    with find_broker(BrokerSettings()) as broker, tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        archive, one = folder / "archive.jsonl", folder / "one.jsonl"
        archive.write_bytes(b"\n".join([alone.encode(), *values]) + b"\n")
        one.write_bytes(values[0] + b"\n")
        filtered = measure_filter(folder, values[:FILTERED], os.cpu_count() or 1, "article")
        with pipeline(broker.bootstrap, folder, "rate") as made:
            rate = given.articles / (seeded_seconds(made, archive) - seeded_seconds(made, one))
        print(f"seed {rate:,.0f} articles/s, filter {filtered:,.0f}", flush=True)
        with pipeline(broker.bootstrap, folder, "killed") as made:
            return report(made, archive, alone, given)


def report(made: Pipeline, archive: Path, alone: str, given: argparse.Namespace) -> int:
    """Print what is left of the kills; return 0 if it is what must be."""
    seen = killed(made, archive, given.articles, given.kills)
    logged = entered(made)
    outputs = len(made.outputs())
    found = verdicts(made, alone)
    rebuilt = made.run("index", "rebuild").returncode
    audited = made.run("audit")
    print(f"killed when the log had {', '.join(f'{count:,}' for count in seen)} articles")
    print(f"in the log: {len(logged):,} entries of {len(set(logged)):,} articles; outputs before the worker: {outputs}")
    print(f"the article near no other, sent again: {found[0]}; after its withdrawal: {found[1]}")
    print(f"index rebuild: exit code {rebuilt}; audit: exit code {audited.returncode}\n{audited.stdout}")
    articles_right = min(logged) == (0, "old-0") and len({offset for offset, _ in logged}) == given.articles
    right = articles_right and len(set(logged)) == given.articles and not outputs and found == ["duplicate", "unique"]
    return 0 if right and rebuilt == audited.returncode == EXIT_OK else 1


if __name__ == "__main__":
    sys.exit(main())
