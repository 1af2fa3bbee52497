"""A worker that harm can be done to: ``python -m benchmarks.harmed_worker CONFIG FOLDER VERSION``.

While FOLDER has a file ``stuck`` it keeps every batch that it has judged; while there is a file ``slow`` it keeps every
other transaction open for too long. Its native core panics at texts with ``PANICKING``. With a VERSION it says
that it is of another one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from copy import copy
from pathlib import Path

from stream_dedup.config.load import load_config
from stream_dedup.core.columns import Columns
from stream_dedup.core.decode import RawRecord
from stream_dedup.core.fingerprinter import EntryMaker, Fingerprinter
from stream_dedup.worker import Step, app
from tests.core.panics import panicking_reader

STUCK, SLOW = "stuck", "slow"
PANICKING = "panic in the core"
LOOK_S = 0.1
TOO_LONG = 1.6
"""How long a slow transaction is open, in transaction time-outs."""


def main(config_path: str, folder: str, version: str) -> int:
    """Run the worker until it is stopped; return its exit code."""
    app.__version__ = version or app.__version__
    config = load_config(Path(config_path), {}, {})
    stuck, slow = Path(folder) / STUCK, Path(folder) / SLOW
    held_last = False

    def on_step(step: Step) -> None:
        nonlocal held_last
        while step is Step.JUDGED and stuck.exists():
            time.sleep(LOOK_S)
        if step is Step.SENT:
            held_last = slow.exists() and not held_last
            time.sleep(TOO_LONG * config.kafka.transaction_timeout_s * held_last)

    EntryMaker.__call__ = _panicking_maker()
    return app.run_worker(config, on_step)


def _panicking_maker() -> Callable[[EntryMaker, Sequence[RawRecord]], Columns]:
    """Return what makes entries, and those of some records by a reader that panics at them."""
    make = EntryMaker.__call__

    def made(maker: EntryMaker, records: Sequence[RawRecord]) -> Columns:
        if not any(PANICKING.encode() in (record.value or b"") for record in records):
            return make(maker, records)
        hostile = copy(maker)
        hostile.fingerprinter = Fingerprinter(maker.fingerprinter.settings)
        hostile.fingerprinter._native = panicking_reader(maker.fingerprinter.settings)  # noqa: SLF001 - planted
        return Columns.concat(
            [make(hostile if PANICKING.encode() in (one.value or b"") else maker, [one]) for one in records]
        )

    return made


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
