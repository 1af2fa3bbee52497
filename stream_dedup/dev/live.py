"""``make demo``: an endless sample stream, a worker, and the pages of the service, until Ctrl-C.

1. Start a development broker, or use the one that the environment names.
2. Make topics under new names; start a worker and the service as a user would.
3. Send the sample stream (``stream``), print the address of the pages, and wait.
4. On Ctrl-C or SIGTERM end the service, the worker and the broker.

It leaves nothing behind: no topic, broker, process or folder.
"""

from __future__ import annotations

import signal
import sys
import time
from contextlib import ExitStack, closing
from types import FrameType
from typing import NoReturn

from stream_dedup.cli.output import write_lines
from stream_dedup.config.load import load_config
from stream_dedup.config.model import ServeConfig
from stream_dedup.dev.broker import NoMachineryError, find_broker
from stream_dedup.dev.broker.base import is_free
from stream_dedup.dev.showing import STARTING_KAFKA, DevProcess, Showing, ended, write_settings
from stream_dedup.dev.stream import SampleStream
from stream_dedup.errors import UnavailableError
from stream_dedup.extras import SERVE_PACKAGES, need_packages
from stream_dedup.folders import TemporaryFolder

DEMO_PAUSE_S = 0.15
"""Between two records, seconds: some six a second, of which a person can read the verdicts."""
WATCH_PROCESSES_S = 0.5


def main() -> int:
    """Run until a signal comes; return the exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    return ended("make demo", _run, "ended; nothing is left behind")


def _stop(_number: int, _frame: FrameType | None) -> None:
    """End what is being done; a second signal changes nothing."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _run() -> NoReturn:
    need_packages("the service", "serve", *SERVE_PACKAGES)
    write_lines(STARTING_KAFKA)
    try:
        broker = find_broker()
    except NoMachineryError as error:
        raise UnavailableError(f"{error}; make run shows the program without a broker") from error
    with broker, ExitStack() as stack:
        folder = stack.enter_context(TemporaryFolder())
        serve = f'[serve]\naddress = "{_free_address()}"\ndata_dir = "{folder / "serve"}"\n'
        settings = write_settings(folder, "demo", broker.bootstrap, '[match]\nrecrawl = "update"\n' + serve)
        showing = stack.enter_context(closing(Showing(load_config(settings))))
        write_lines("Starting a worker …")
        worker = stack.enter_context(DevProcess(["run", "--config", str(settings)], folder / "worker.log"))
        worker.wait_until_ready()
        showing.feed((record.value for record in SampleStream()), DEMO_PAUSE_S)
        write_lines("Starting the service …")
        service = stack.enter_context(DevProcess(["serve", "--config", str(settings)], folder / "serve.log"))
        service.wait_until_ready()
        write_lines("", f"The pages: http://{service.address()}/", "Ctrl-C ends everything.")
        while worker.running() and service.running():
            time.sleep(WATCH_PROCESSES_S)
        raise UnavailableError("a process of the demonstration has ended by itself")


def _free_address() -> str:
    """Return the usual address of the service, or one of its host with any free port if that is taken."""
    host, _, port = ServeConfig().address.rpartition(":")
    return f"{host}:{port if is_free(int(port), host) else 0}"


if __name__ == "__main__":
    sys.exit(main())
