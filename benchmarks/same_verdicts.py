"""Whether this checkout writes the bytes, and gives the verdicts, of an older one.

    python -m benchmarks.same_verdicts OLD_CHECKOUT [--articles N]

OLD_CHECKOUT is a clone of the older commit in which ``make setup`` was run. Each line of the report is one comparison:

* **filter**: for each profile and each file of texts (those of ``STREAM_DEDUP_DATA``, or the sample that comes with
  the program), the output of both, byte for byte.
* **golden**: the golden files of the older one are here, unchanged, to the byte: a key that is renamed differs.
* **log**: a worker of the older one judges N articles on a real broker, and both checkouts audit them. This one then
  opens its index folder, goes on in it with N more articles, and audits the whole.

The last two say that something differs where a scheme or a stored format has a new version.

Exit code 0: all are the same; 1: something differs.
"""

from __future__ import annotations

import argparse
import filecmp
import gzip
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.texts import articles, as_json
from stream_dedup.dev.broker import BrokerSettings, find_broker

PROFILES = ("article", "comment", "simhash")
FIELDS = ("text", "old", "new", "a", "b")
"""Fields of the data files that hold a text."""
GOLDEN = Path("tests/core/golden")
ARTICLES = 1_000
"""Articles that each worker judges: an audit compares each with all before it."""
RUN_LIMIT_S = 300.0
LOOK_S = 1.0
HERE = Path(__file__).resolve().parents[1]


class Checkout:
    """A checkout with its own environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._python = folder / ".venv" / "bin" / "python"
        if not self._python.exists():
            sys.exit(f"{folder}: has no .venv; run `make setup` there")

    def start(self, *arguments: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
        command = [str(self._python), "-m", "stream_dedup", *arguments]
        return subprocess.Popen(command, cwd=self.folder, stdout=stdout)

    def run(self, *arguments: str) -> tuple[int, bytes]:
        """Exit code and standard output of a command."""
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=RUN_LIMIT_S)
        return process.returncode, output


def compare_filter(old: Checkout, new: Checkout, folder: Path) -> Iterator[tuple[str, bool]]:
    for name, texts in corpora():
        path = folder / f"{name}.jsonl"
        path.write_bytes(b"\n".join(as_json(number, text) for number, text in enumerate(texts)) + b"\n")
        for profile in PROFILES:
            outputs = [checkout.run("filter", "--profile", profile, str(path)) for checkout in (old, new)]
            yield f"filter --profile {profile} {name}: {len(texts)} lines", outputs[0] == outputs[1]


def corpora() -> Iterator[tuple[str, list[str]]]:
    folder = os.environ.get("STREAM_DEDUP_DATA")
    if folder is None:
        yield "made", articles(2_000)
        return
    for file in sorted(Path(folder).glob("*.jsonl.gz")):
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        yield file.name.removesuffix(".jsonl.gz"), [row[field] for row in rows for field in FIELDS if field in row]


def compare_golden(old: Checkout, new: Checkout) -> Iterator[tuple[str, bool]]:
    for file in sorted((old.folder / GOLDEN).iterdir()):
        yield f"golden {file.name}", filecmp.cmp(file, new.folder / GOLDEN / file.name, shallow=False)


def compare_log(old: Checkout, new: Checkout, folder: Path, count: int) -> Iterator[tuple[str, bool]]:
    """One log: begun by the old checkout, continued by the new one in the same index folder."""
    texts = articles(count)
    edited = [text[: len(text) * 9 // 10] for text in texts]
    with find_broker(BrokerSettings()) as broker:
        group = _Group(broker.bootstrap, folder)
        group.topics(old)
        for checkout, part, name in ((old, texts, "old"), (new, edited, "new")):
            group.produce(old, name, part)
            yield f"a worker of the {name} checkout judges {len(part)} articles", group.work(checkout)
            for auditor, who in ((old, "old"), (new, "new"))[name == "new" :]:
                yield f"the {who} checkout audits {group.sent} articles", group.audit(auditor) == group.sent
            yield "the index is whole", new.run("index", "verify", *group.index)[0] == 0


class _Group:
    """A consumer group with its topics and one index folder."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        name = f"same-{uuid.uuid4().hex[:8]}"
        self.sent = 0
        self.index = ("--index", str(folder / name))
        self._folder = folder
        self._topic = f"{name}-articles"
        self._brokers = ("--brokers", bootstrap)
        roles = [part for role in ("unique", "duplicate", "rejected") for part in (f"--{role}", f"{name}-{role}")]
        self._flags = (*self._brokers, "--group", name, "--input", self._topic, *roles)

    def topics(self, checkout: Checkout) -> None:
        code, output = checkout.run("topics", "create", *self._flags)
        assert code == 0, output

    def produce(self, checkout: Checkout, name: str, texts: Sequence[str]) -> None:
        path = self._folder / f"{name}.produce.jsonl"
        path.write_bytes(b"\n".join(as_json(self.sent + number, text) for number, text in enumerate(texts)) + b"\n")
        code, output = checkout.run("produce", *self._brokers, "--topic", self._topic, str(path))
        assert code == 0, output
        self.sent += len(texts)

    def work(self, checkout: Checkout) -> bool:
        """Run a worker until all that was sent is judged; whether it was, and the worker ended in order."""
        worker = checkout.start(
            "run", *self._flags, *self.index, "--metrics", "off", "--log-level", "warning", stdout=subprocess.DEVNULL
        )
        deadline = time.monotonic() + RUN_LIMIT_S
        while self._judged(checkout) < self.sent and worker.poll() is None and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        worker.send_signal(signal.SIGTERM)
        return worker.wait(RUN_LIMIT_S) == 0 and self._judged(checkout) == self.sent

    def audit(self, checkout: Checkout) -> int:
        """How many verdicts an audit found right; -1 where it found a fault."""
        code, output = checkout.run("audit", *self._flags, "--json")
        return int(json.loads(output)["verdicts_recomputed"]) if code == 0 else -1

    def _judged(self, checkout: Checkout) -> int:
        _, output = checkout.run("audit", *self._flags, "--json", "--sample", "1")
        return int(json.loads(output)["output_records"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, metavar="OLD_CHECKOUT")
    parser.add_argument("--articles", type=int, default=ARTICLES, help="articles that each worker judges")
    given = parser.parse_args()
    old, new = Checkout(given.old.resolve()), Checkout(HERE)
    wrong = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for comparisons in (
            compare_golden(old, new),
            compare_filter(old, new, folder),
            compare_log(old, new, folder, given.articles),
        ):
            for name, same in comparisons:
                print(f"{'same' if same else 'DIFFERS'}  {name}", flush=True)
                wrong += not same
    print(f"{wrong} comparisons differ" if wrong else "all the same")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
