"""A worker that harm can be done to: ``python -m benchmarks.harmed_worker CONFIG FOLDER VERSION``.

While FOLDER has a file ``stuck`` it keeps every batch that it has judged; while there is a file ``slow`` it keeps every
other transaction open for too long. Its fingerprinting processes end at some articles, as those of
``tests.worker.poisoned_worker``. With a VERSION it says that it is of another one.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import stream_dedup
from stream_dedup.config.load import load_config
from stream_dedup.worker.app import run_worker
from stream_dedup.worker.steps import Step, TrimStep
from tests.worker.poisoned_worker import poison_processes

STUCK, SLOW = "stuck", "slow"
LOOK_S = 0.1
TOO_LONG = 1.6
"""How long a slow transaction is open, in transaction time-outs."""


def main(config_path: str, folder: str, version: str) -> int:
    """Run the worker until it is stopped; return its exit code."""
    stream_dedup.__version__ = version or stream_dedup.__version__
    config = load_config(Path(config_path), {}, {})
    stuck, slow = Path(folder) / STUCK, Path(folder) / SLOW
    held_last = False

    def on_step(step: Step | TrimStep) -> None:
        nonlocal held_last
        while step is Step.JUDGED and stuck.exists():
            time.sleep(LOOK_S)
        if step is Step.SENT:
            held_last = slow.exists() and not held_last
            time.sleep(TOO_LONG * config.kafka.transaction_timeout_s * held_last)

    poison_processes()
    return run_worker(config, on_step)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
