"""The log of a group, filled with made articles on a broker: what a large index is built from."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from dataclasses import replace

from benchmarks.stream import Stream
from stream_dedup.config.effective import rules_of
from stream_dedup.config.model import Config
from stream_dedup.kafka.clients import connect_log

BATCH = 500
"""Articles a log record."""
TELL_S = 60.0


class MadeLog:
    """The log of a configuration's group, with articles of ``benchmarks.stream`` under its rules."""

    def __init__(self, config: Config, batch: int = BATCH) -> None:
        """The topic of the log is there, and empty; ``batch``: articles a log record."""
        self._batch = batch
        self._config = config
        self._rules = rules_of(config)
        scheme = self._rules.scheme
        self._stream = Stream(batch, scheme.tables, scheme.sketch_bytes)

    def begin(self) -> None:
        """Append the rules."""
        with closing(connect_log(self._config)) as log:
            log.append_now(replace(self._rules, revision=1))

    def append(self, articles: int, rate: float = 0.0) -> None:
        """Append articles, at so many a second where a rate is given; what is done is told now and then."""
        began = told = time.monotonic()
        with closing(connect_log(self._config)) as log:
            for done in range(0, articles, self._batch):
                if rate:
                    time.sleep(max(0.0, began + done / rate - time.monotonic()))
                log.append_soon(self._stream.batch())
                if time.monotonic() - told > TELL_S:
                    told = time.monotonic()
                    print(f"log: {done:,} of {articles:,} articles, {told - began:.0f} s", file=sys.stderr, flush=True)
            log.wait_for_appends()
