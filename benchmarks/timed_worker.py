"""A worker whose stages are timed: processor time by stage and by thread, and the way of its batches."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

from stream_dedup.config.load import load_config

SINK = "sink"
"""In place of a module: the sink of the worker's client."""
STAGES = {
    "source: poll": ("worker.source", "BatchSource._fetch"),
    "source: make batches": ("worker.source", "BatchSource._polled_batch"),
    "engine: hand to the threads": ("threads", "FingerprintThreads.submit"),
    "engine: append": ("worker.engine", "Engine._append"),
    "engine: apply the log": ("index.log_index", "LogIndex.apply"),
    "engine: compare checksums": ("worker.engine", "Engine._check_values"),
    "engine: judge": ("index.log_index", "LogIndex.judge"),
    "threads: fingerprint": ("worker.decoding", "SourceEntryMaker.__call__"),
    "log tail: poll, decode": ("worker.log_tail", "LogTail._poll"),
    "topic watch: look up": ("worker.watches", "TopicWatch._look_up"),
    "committer: count": ("worker.committer", "Committer._done"),
    "committer: make outputs, send": (SINK, "send"),
    "committer: send offsets": (SINK, "send_offsets"),
    "committer: flush": (SINK, "flush"),
    "committer: commit": (SINK, "commit"),
}
"""Stages by name: module and attribute of the call."""
MOMENTS = (
    "polled",
    "fingerprinted",
    "topic looked up",
    "logged, read, judged",
    "transaction begun",
    "records and offsets sent",
    "acknowledged",
    "committed",
)
"""What a batch has reached, in order; the way begins with the append of its articles to their source topic."""
CLIENT_THREADS = ("kafka-io", "rdk:", "network-thread")
"""What names of threads have in them that a Kafka client starts."""


class Stages:
    """Counts from the moment that ``first`` articles are committed until ``last`` are."""

    def __init__(self, first: int, last: int) -> None:
        self._first, self._last = first, last
        self._committed = self._counted = 0
        self._local = threading.local()
        self._used: dict[str, float] = defaultdict(float)
        self._calls: dict[str, int] = defaultdict(int)
        self._begun: dict[str, float] = {}
        self._moments: dict[int, list[float]] = defaultdict(list)
        self._spent = [0.0] * len(MOMENTS)
        self.result: dict[str, Any] | None = None

    def timed(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return the call, timed as a stage: less the stages within it."""

        @wraps(call)
        def measured(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - of any call
            local = self._local
            outer, local.inner_s = getattr(local, "inner_s", 0.0), 0.0
            begun = time.thread_time()
            try:
                return call(*args, **kwargs)
            finally:
                used = time.thread_time() - begun
                self._used[name] += used - local.inner_s
                self._calls[name] += 1
                local.inner_s = outer + used

        return measured

    def mark(self, polled: Any, moment: int) -> None:  # noqa: ANN401 - a polled batch
        """Note that a batch has reached a moment, if it had not."""
        moments = self._moments[id(polled)]
        if len(moments) <= moment:
            moments += [time.time() * 1_000] * (moment + 1 - len(moments))

    def mark_all(self, polled: Sequence[Any], moment: int) -> None:
        """Note that some batches have reached a moment."""
        for batch in polled:
            self.mark(batch, moment)

    def done(self, batches: Sequence[Any]) -> None:
        """Count committed batches."""
        for batch in batches:
            polled = batch.polled
            self.mark(polled, len(MOMENTS) - 1)
            moments = self._moments.pop(id(polled))
            if self._begun and self.result is None:
                begin = sum(record.timestamp for record in polled.records) / len(polled.records)
                for number, (before, moment) in enumerate(zip([begin, *moments], moments, strict=False)):
                    self._spent[number] += (moment - before) * len(polled.records)
                self._counted += len(polled.records)
            self._committed += len(polled.records)
        if self._committed >= self._first and not self._begun:
            self._begun = self._now()
        if self._committed >= self._last and self.result is None:
            used = {name: seconds - self._begun.get(name, 0.0) for name, seconds in self._now().items()}
            times = [spent / max(self._counted, 1) for spent in self._spent]
            self.result = {"used": used, "times": times, "articles": self._counted}

    def _now(self) -> dict[str, float]:
        """Return seconds so far: of stages, of threads, of the clock; and calls."""
        names = {thread.native_id: thread.name for thread in threading.enumerate()}
        names[os.getpid()] = "source"
        used: dict[str, float] = defaultdict(float, {f"stage {name}": seconds for name, seconds in self._used.items()})
        used |= {f"calls {name}": float(calls) for name, calls in self._calls.items()}
        for task in Path("/proc/self/task").iterdir():
            name = names.get(int(task.name)) or (task / "comm").read_text().strip()
            name = name.partition("_")[0] if name.startswith("fingerprinting") else name
            used[f"thread {name}"] += int((task / "schedstat").read_text().split()[0]) / 1e9
        used["clock"] = time.monotonic()
        return used


def run_timed(flags: dict[str, Any], first: int, last: int, out: str) -> None:
    """Run a worker with its stages timed until it is stopped; write what was measured."""
    from stream_dedup.kafka.confluent.sink import ConfluentSink  # noqa: PLC0415 - as below
    from stream_dedup.kafka.kafka_python.sink import KafkaSink  # noqa: PLC0415 - as below
    from stream_dedup.worker.app import run_worker  # noqa: PLC0415 - in the worker's process alone

    stages, config = Stages(first, last), load_config(None, flags, {})
    sink = KafkaSink if config.kafka.client == "kafka-python" else ConfluentSink
    for name, (where, path) in STAGES.items():
        owner, _, attribute = path.rpartition(".")
        kind = sink if where == SINK else getattr(import_module(f"stream_dedup.{where}"), owner)
        setattr(kind, attribute, stages.timed(name, getattr(kind, attribute)))
    _mark_moments(stages, sink)
    run_worker(config)
    Path(out).write_text(json.dumps(stages.result))


def _mark_moments(stages: Stages, sink: type) -> None:
    from stream_dedup.worker.committer import Committer  # noqa: PLC0415 - as above
    from stream_dedup.worker.engine import Engine  # noqa: PLC0415 - as above

    def ready(_engine: Engine, pending: Any, **_: bool) -> None:  # noqa: ANN401 - a batch
        if pending.columns is not None and pending.columns.done():
            stages.mark(pending.polled, 1)

    of_transaction: list[Any] = []

    def begun(_committer: Committer, _assignment: object, batches: Sequence[Any]) -> None:
        of_transaction[:] = [batch.polled for batch in batches]
        stages.mark_all(of_transaction, 4)

    _before(Engine, "submit", lambda _engine, *batches: stages.mark_all(batches, 0))
    _before(Engine, "_is_appended", ready)
    _before(Engine, "_append", lambda _engine, pending, _columns: stages.mark(pending.polled, 2))
    _before(Committer, "submit", lambda _committer, batches: stages.mark_all([one.polled for one in batches], 3))
    _before(Committer, "_transact", begun)
    _before(sink, "flush", lambda _sink: stages.mark_all(of_transaction, 5))
    _before(sink, "commit", lambda _sink: stages.mark_all(of_transaction, 6))
    _before(Committer, "_done", lambda _committer, batches: stages.done(batches))


def _before(kind: type, name: str, note: Callable[..., object]) -> None:
    call = getattr(kind, name)

    def noting(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - of any call
        note(*args, **kwargs)
        return call(*args, **kwargs)

    setattr(kind, name, noting)
