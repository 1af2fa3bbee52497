"""``make demo``: an endless sample stream, a worker, and the pages of the service, until Ctrl-C.

1. Start a development broker, or use the one that the environment names.
2. Make topics under new names; start a worker and the service as a user would.
3. Send the sample stream (``stream``), print the address of the pages, and wait.
4. On Ctrl-C or SIGTERM end the service, the worker and the broker.

It leaves nothing behind: no topic, broker, process or folder.
"""

from __future__ import annotations

import signal
import socket
import sys
import tempfile
import uuid
from contextlib import ExitStack, closing
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType

from stream_dedup.cli import exit_code_of
from stream_dedup.cli.output import write_lines
from stream_dedup.config.load import load_config
from stream_dedup.config.model import ServeConfig
from stream_dedup.core.model import OUTPUT_VERDICTS
from stream_dedup.dev.broker import NoMachineryError, find_broker
from stream_dedup.dev.showing import DevProcess, Showing
from stream_dedup.dev.stream import SampleStream
from stream_dedup.errors import StreamDedupError, UnavailableError
from stream_dedup.exit_codes import EXIT_OK
from stream_dedup.extras import SERVE_PACKAGES, need_packages

DEMO_PAUSE_S = 0.15
"""Between two records, seconds: some six a second, of which a person can read the verdicts."""
WATCH_PROCESSES_S = 0.5


def main() -> int:
    """Run until a signal comes; return the exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    try:
        _run()
    except KeyboardInterrupt:
        write_lines("", "ended; nothing is left behind", err=True)
    except StreamDedupError as error:
        write_lines(*f"make demo: {error}".split("\n"), err=True)
        return exit_code_of(error)
    return EXIT_OK


def _stop(_number: int, _frame: FrameType | None) -> None:
    """End what is being done; a second signal changes nothing."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _run() -> None:
    need_packages("the service", "serve", *SERVE_PACKAGES)
    write_lines("Starting Kafka (the first time its image or its jars are fetched) …")
    try:
        broker = find_broker()
    except NoMachineryError as error:
        msg = f"{error}; make run shows the program without a broker"
        raise UnavailableError(msg) from error
    with broker, ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stream-dedup-demo-")))
        settings = _settings(folder, broker.bootstrap)
        showing = stack.enter_context(closing(Showing(load_config(settings))))
        write_lines("Starting a worker …")
        worker = stack.enter_context(DevProcess(["run", "--config", str(settings)], folder / "worker.log"))
        worker.wait_until_ready()
        showing.feed((record.value for record in SampleStream()), DEMO_PAUSE_S)
        write_lines("Starting the service …")
        service = stack.enter_context(DevProcess(["serve", "--config", str(settings)], folder / "serve.log"))
        service.wait_until_ready()
        write_lines("", f"The pages: http://{service.address()}/", "Ctrl-C ends everything.")
        _watch(worker, service)


def _settings(folder: Path, brokers: str) -> Path:
    name = f"demo-{uuid.uuid4().hex[:8]}"
    topics = "".join(f'{verdict} = "{name}-{verdict}"\n' for verdict in OUTPUT_VERDICTS)
    path = folder / "demo.toml"
    path.write_text(
        f'[kafka]\nbrokers = "{brokers}"\ngroup = "{name}"\n'
        f'[topics]\ninput = ["{name}-articles"]\n{topics}'
        '[match]\nrecrawl = "update"\n'
        f'[index]\npath = "{folder / "index"}"\n'
        '[metrics]\naddress = "127.0.0.1:0"\n'
        f'[serve]\naddress = "{_free_address()}"\ndata_dir = "{folder / "serve"}"\n',
        "utf-8",
    )
    return path


def _free_address() -> str:
    """Return the usual address of the service, or one of its host with any free port if that is taken."""
    usual = ServeConfig().address
    host, _, port = usual.rpartition(":")
    with closing(socket.socket()) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, int(port)))
        except OSError:
            return f"{host}:0"
    return usual


def _watch(*processes: DevProcess) -> None:
    """Wait for a signal.

    Raises:
        UnavailableError: a process has ended by itself.
    """
    never = SimpleQueue[None]()
    while all(process.running() for process in processes):
        try:
            never.get(timeout=WATCH_PROCESSES_S)
        except Empty:
            continue
    msg = "a process of the demonstration has ended by itself"
    raise UnavailableError(msg)


if __name__ == "__main__":
    sys.exit(main())
