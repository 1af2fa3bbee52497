"""A worker that kills or stops itself when it reaches a step for the n-th time.

    python -m tests.worker.dying_worker CONFIG STEP N [--new-log] [MODULE.CONSTANT=NUMBER ...]

Steps are those of ``stream_dedup.worker.Step``; N of 0 never ends it;
N below 0 stops it (SIGSTOP) the -N-th time, until the test continues it.
A constant of the program is another number in this process, so that a test need not wait for long intervals.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from pathlib import Path

from stream_dedup.cli import exit_code_of
from stream_dedup.cli.logs import set_up_logging
from stream_dedup.config.load import load_config
from stream_dedup.errors import StreamDedupError
from stream_dedup.worker import Step
from stream_dedup.worker.app import run_worker

_STEPS: dict[str, Step] = {step.value: step for step in Step}


def main(path: str, step: str, times: str, *flags: str) -> int:
    wanted, left = _STEPS[step], abs(int(times))
    how = signal.SIGKILL if int(times) > 0 else signal.SIGSTOP
    lock = threading.Lock()

    def on_step(reached: Step) -> None:
        nonlocal left
        if reached is not wanted:
            return
        with lock:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), how)

    for name, _, number in (flag.partition("=") for flag in flags if "=" in flag):
        module, _, constant = name.rpartition(".")
        setattr(importlib.import_module(module), constant, float(number))
    config = load_config(Path(path))
    set_up_logging(config.log_level)
    try:
        return run_worker(config, on_step, new_log="--new-log" in flags)
    except StreamDedupError as error:
        print(error, file=sys.stderr)  # noqa: T201 - as the command line does
        return exit_code_of(error)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
