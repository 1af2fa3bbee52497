"""``make run``: shows the main job on a sample stream.

1. Start a development broker, or use the one that the environment names.
2. Make topics under new names.
3. Start a worker as a user would: ``stream-dedup run``.
4. Send the sample, a few records a second; print each verdict as it comes.
5. End the worker with SIGTERM, recompute every verdict with ``stream-dedup audit``, and print a summary.

On a machine without Docker and Java it says so and shows the same stream with ``stream-dedup filter``. It leaves
nothing behind: no topic, broker, process or folder.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from stream_dedup.cli import exit_code_of
from stream_dedup.cli.output import write_lines
from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config
from stream_dedup.core.model import OUTPUT_VERDICTS, Verdict
from stream_dedup.dev.showing import PROGRAM, DevProcess
from stream_dedup.errors import StreamDedupError
from stream_dedup.exit_codes import EXIT_OK, EXIT_UNAVAILABLE
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
PLAIN = "an article"
"""The sample's note on a record that needs no note."""
COLOURS = {Verdict.UNIQUE: "green", Verdict.DUPLICATE: "yellow", Verdict.REJECTED: "red"}


@dataclass(frozen=True, slots=True)
class ShownVerdict:
    """A verdict as it is printed."""

    verdict: Verdict
    id: str
    text: str
    note: str
    detail: str

    def write(self) -> None:
        """Write the line: the verdict in its colour, then the record's own text without any colour codes."""
        click.secho(f"  {self.verdict:<10}", fg=COLOURS[self.verdict], nl=False)  # noqa: TID251 - our own words
        parts = [self.detail or shorten(self.text, TITLE_COLUMNS), f"({self.note})" if self.note else ""]
        write_lines(f" {visible(self.id):<20} " + "  ".join(part for part in parts if part))


def main() -> int:
    """Show the stream; returns the exit code."""
    try:
        return _show_the_stream()
    except StreamDedupError as error:
        write_lines(*f"make run: {error}".split("\n"), err=True)
        return exit_code_of(error)
    except KeyboardInterrupt:
        write_lines("", "interrupted", err=True)
        return EXIT_OK


def _show_the_stream() -> int:
    from stream_dedup.dev.broker import NoMachineryError, find_broker  # noqa: PLC0415 - loads the Kafka client

    settings = (f"    {line}" for line in SETTINGS.splitlines())
    write_lines("The profile is article; beside it is set:", "", *settings, "")
    write_lines("Starting Kafka (the first time its image or its jars are fetched) …")
    try:
        broker = find_broker()
    except NoMachineryError as error:
        write_lines(str(error), "The same stream through files instead:", "")
        with tempfile.TemporaryDirectory(prefix="stream-dedup-demo-") as folder:
            return _through_files(_settings(Path(folder)))
    with broker:
        write_lines(f"Kafka answers at {broker.bootstrap}, {broker.description}.")
        return _through_kafka(broker.bootstrap)


def _through_kafka(brokers: str) -> int:
    from stream_dedup.dev.showing import Showing  # noqa: PLC0415 - loads the Kafka client

    lines = SAMPLE.read_bytes().splitlines()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stream-dedup-demo-")))
        flags = _flags(brokers, folder)
        showing = stack.enter_context(closing(Showing(_config(flags))))
        write_lines("A worker: stream-dedup run " + " ".join(flags), "")
        with DevProcess(["run", *flags], folder / "worker.log") as worker:
            worker.wait_until_ready()
            showing.feed(lines, PAUSE_S)
            shown, delays = _show(showing.outputs(len(lines), VERDICT_LIMIT_S, worker.running))
            worker.end()
        _summary(shown)
        write_lines(f"From article to committed verdict: median {statistics.median(delays):.0f} ms.")
        return _audit(flags)


def _flags(brokers: str, folder: Path) -> list[str]:
    name = f"sample-{uuid.uuid4().hex[:8]}"
    flags = ["--brokers", brokers, "--group", name, "--input", f"{name}-articles"]
    for verdict in OUTPUT_VERDICTS:
        flags += [f"--{verdict}", f"{name}-{verdict}"]
    flags += ["--index", str(folder / "index"), "--metrics", "127.0.0.1:0"]
    return [*flags, "--config", str(_settings(folder))]


def _settings(folder: Path) -> Path:
    path = folder / "demo.toml"
    path.write_text(SETTINGS, "utf-8")
    return path


def _config(flags: list[str]) -> Config:
    given = dict(zip(flags[::2], flags[1::2], strict=True))
    topics: dict[str, Any] = {str(verdict): given[f"--{verdict}"] for verdict in OUTPUT_VERDICTS}
    topics["input"] = [given["--input"]]
    return load_config(
        Path(given["--config"]), {"kafka": {"brokers": given["--brokers"], "group": given["--group"]}, "topics": topics}
    )


def _show(outputs: Iterator[Any]) -> tuple[list[ShownVerdict], list[int]]:
    shown, delays = [], []
    for output in outputs:
        stamp = output.stamp
        match = _match(stamp.verdict, stamp.match.id, stamp.match.distance) if stamp.match else ""
        record = _record(output.value)
        fallback = f"{stamp.topic.rpartition('-')[2]}-{stamp.coordinates.partition}-{stamp.coordinates.offset}"
        shown.append(_shown(stamp.verdict, record, fallback, match or stamp.reason or ""))
        delays.append(output.time - stamp.timestamp)
        shown[-1].write()
    return shown, delays


def _match(verdict: Verdict, name: str, distance: int) -> str:
    return f"{'new version of' if verdict is Verdict.UNIQUE else '='} {name}, {distance} bits"


def _shown(verdict: Verdict, record: dict[str, Any], fallback: str, detail: str) -> ShownVerdict:
    return ShownVerdict(
        verdict=verdict,
        id=str(record.get("id", fallback)),
        text=str(record.get("text", record.get("html", ""))).strip(),
        note="" if record.get("what") == PLAIN else str(record.get("what", "")),
        detail=detail,
    )


def _record(value: bytes | None) -> dict[str, Any]:
    try:
        record = json.loads(value or b"null")
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def _summary(shown: list[ShownVerdict]) -> None:
    counts = Counter(one.verdict for one in shown)
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


def _through_files(settings: Path) -> int:
    command = [*PROGRAM, "filter", "--config", str(settings), str(SAMPLE)]
    shown = []
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None  # noqa: S101 - asked for one line above
        for number, line in enumerate(process.stdout, 1):
            shown.append(_filtered(json.loads(line), f"line {number}"))
            shown[-1].write()
    _summary(shown)
    return EXIT_OK


def _filtered(record: dict[str, Any], fallback: str) -> ShownVerdict:
    dedup = record["dedup"]
    match = dedup.get("match")
    verdict = Verdict(dedup["verdict"])
    detail = _match(verdict, match["id"], match["distance"]) if match else dedup.get("reason", "")
    original = _record(dedup["line"].encode()) if "line" in dedup else record
    return _shown(verdict, original, fallback, detail)


if __name__ == "__main__":
    sys.exit(main())
