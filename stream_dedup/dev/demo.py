"""The two demonstrations: ``make run`` shows the main job on a sample, ``make demo`` the pages over an endless stream.

1. Start a development broker, or use the one that the environment names.
2. Make topics under new names.
3. Start a worker as a user would: ``stream-dedup run``; for the pages ``stream-dedup serve`` as well.
4. Send the sample, a few records a second, and print each verdict as it comes; or the endless stream, and print the
   address of the pages, until Ctrl-C.
5. End the worker with SIGTERM; recompute the verdicts of the sample with ``stream-dedup audit``, and print a summary.

On a machine without Docker and Java the first says so and shows the same stream with ``stream-dedup filter``. They
leave nothing behind: no topic, broker, process or folder.
"""

from __future__ import annotations

import json
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click

from stream_dedup.cli.output import write_lines
from stream_dedup.config.load import load_config
from stream_dedup.config.model import ServeConfig
from stream_dedup.core.headers import source_text
from stream_dedup.core.model import OUTPUT_VERDICTS, Verdict
from stream_dedup.dev.broker import NoMachineryError, find_broker
from stream_dedup.dev.broker.base import is_free
from stream_dedup.dev.showing import (
    PROGRAM,
    STARTING_KAFKA,
    CommittedOutput,
    DevProcess,
    Showing,
    ended,
    write_settings,
)
from stream_dedup.dev.stream import SampleStream
from stream_dedup.errors import EXIT_OK, EXIT_UNAVAILABLE, UnavailableError
from stream_dedup.extras import SERVE_PACKAGES, need_packages
from stream_dedup.folders import TemporaryFolder
from stream_dedup.terminal import shorten, visible

SAMPLE = Path(__file__).with_name("samples") / "articles.jsonl"
SETTINGS = """\
[input]
fields = { text = 1, html = 1 }
html_fields = ["html"]
[match]
recrawl = "update"
"""
"""The settings that differ from the defaults: pages are HTML, and an article crawled again is an update."""
PAUSE_S = 0.12
"""Between two records, seconds: a person can follow, and the whole sample takes seven seconds."""
VERDICT_LIMIT_S = 30.0
"""Seconds for the next verdict: some tens of milliseconds are usual."""
AUDIT_LIMIT_S = 60.0
"""Seconds for the audit of some sixty verdicts; about two are usual."""
TITLE_COLUMNS = 48
"""Columns of the text in the printed line; a Chinese character takes two."""
PAGES_PAUSE_S = 0.15
"""The same of the endless stream: some six a second, of which a person can read the verdicts."""
WATCH_PROCESSES_S = 0.5
PLAIN = "an article"
"""The sample's note on a record that needs no note."""
COLOURS = {Verdict.UNIQUE: "green", Verdict.DUPLICATE: "yellow", Verdict.REJECTED: "red"}


def main() -> int:
    """Show the stream; returns the exit code."""
    return ended("make run", _show_the_stream, "interrupted")


def main_of_pages() -> int:
    """Show the pages until a signal comes; returns the exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    return ended("make demo", _show_the_pages, "ended; nothing is left behind")


def _show_the_stream() -> int:
    settings = (f"    {line}" for line in SETTINGS.splitlines())
    write_lines("The profile is article; beside it is set:", "", *settings, "", STARTING_KAFKA)
    with TemporaryFolder() as folder:
        try:
            broker = find_broker()
        except NoMachineryError as error:
            write_lines(str(error), "The same stream through files instead:", "")
            return _through_files(folder)
        with broker:
            write_lines(f"Kafka answers at {broker.bootstrap}, {broker.description}.")
            return _through_kafka(broker.bootstrap, folder)


def _through_kafka(brokers: str, folder: Path) -> int:
    lines = SAMPLE.read_bytes().splitlines()
    settings = write_settings(folder, "sample", brokers, SETTINGS)
    flags = ["--config", str(settings)]
    with closing(Showing(load_config(settings))) as showing:
        write_lines("A worker: stream-dedup run " + " ".join(flags), "")
        with DevProcess(["run", *flags], folder / "worker.log") as worker:
            worker.wait_until_ready()
            showing.feed(lines, PAUSE_S)
            shown, delays = _show(showing.outputs(len(lines), VERDICT_LIMIT_S, worker.running))
            worker.end()
        _summary(shown)
        write_lines(f"From article to committed verdict: median {statistics.median(delays):.0f} ms.")
        return _audit(flags)


def _show(outputs: Iterator[CommittedOutput]) -> tuple[list[Verdict], list[int]]:
    """Write a line for each output as it comes; return verdicts, and milliseconds from articles to outputs."""
    shown, delays = [], []
    for output in outputs:
        write_output(output)
        shown.append(output.stamp.verdict)
        delays.append(output.time - output.stamp.timestamp)
    return shown, delays


def write_output(output: CommittedOutput) -> None:
    """Write a line: the verdict is in its colour, the record's own text without any colour codes."""
    stamp, match, record = output.stamp, output.stamp.match, _record(output.value)
    name = str(record.get("id", source_text(stamp.topic, stamp.coordinates)))
    if match is not None:
        detail = f"{'new version of' if stamp.update else '='} {match.id}, {match.distance} bits"
    else:
        detail = stamp.reason or shorten(str(record.get("text", record.get("html", ""))), TITLE_COLUMNS)
    note = str(record.get("what", PLAIN))
    click.secho(f"  {stamp.verdict:<10}", fg=COLOURS[stamp.verdict], nl=False)  # noqa: TID251 - our own words
    write_lines(f" {visible(name):<20} {detail}" + f"  ({note})" * (note != PLAIN))


def _record(value: bytes | None) -> dict[str, Any]:
    try:
        record = json.loads(value or b"null")
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def _summary(shown: list[Verdict]) -> None:
    counts = Counter(shown)
    numbers = ", ".join(f"{counts[verdict]} {verdict}" for verdict in OUTPUT_VERDICTS)
    write_lines("", f"{len(shown)} records: {numbers}.")


def _audit(flags: list[str]) -> int:
    command = [*PROGRAM, "audit", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=AUDIT_LIMIT_S, check=False)
    if done.returncode != EXIT_OK:
        write_lines(*(done.stdout + done.stderr).split("\n"))
        return EXIT_UNAVAILABLE if done.returncode < 0 else done.returncode
    write_lines("Audit: every verdict recomputed from the log; nothing missing, twice, wrong or self-matched.")
    return EXIT_OK


def _through_files(folder: Path) -> int:
    settings = folder / "demo.toml"
    settings.write_text(SETTINGS, "utf-8")
    subprocess.run([*PROGRAM, "filter", "--config", str(settings), str(SAMPLE)], check=False)
    return EXIT_OK


def _stop(_number: int, _frame: FrameType | None) -> None:
    """End what is being done; a second signal changes nothing."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _show_the_pages() -> NoReturn:
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
        showing.feed((record.value for record in SampleStream()), PAGES_PAUSE_S)
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
    sys.exit(main_of_pages() if sys.argv[1:] == ["pages"] else main())
