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
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from stream_dedup.cli.output import write_lines
from stream_dedup.config.load import load_config
from stream_dedup.core.model import OUTPUT_VERDICTS, Verdict
from stream_dedup.dev.broker import NoMachineryError, find_broker
from stream_dedup.dev.showing import (
    PROGRAM,
    STARTING_KAFKA,
    CommittedOutput,
    DevProcess,
    Showing,
    ended,
    write_settings,
)
from stream_dedup.errors import EXIT_OK, EXIT_UNAVAILABLE
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
PLAIN = "an article"
"""The sample's note on a record that needs no note."""
COLOURS = {Verdict.UNIQUE: "green", Verdict.DUPLICATE: "yellow", Verdict.REJECTED: "red"}


def write_verdict(verdict: Verdict, record: dict[str, Any], fallback: str, detail: str) -> Verdict:
    """Write a line, and return the verdict: it is in its colour, the record's own text without any colour codes.

    ``fallback`` stands for an id that the record does not have, ``detail`` for its text.
    """
    note = str(record.get("what", ""))
    text = str(record.get("text", record.get("html", ""))).strip()
    click.secho(f"  {verdict:<10}", fg=COLOURS[verdict], nl=False)  # noqa: TID251 - our own words
    parts = [detail or shorten(text, TITLE_COLUMNS), f"({note})" if note and note != PLAIN else ""]
    write_lines(f" {visible(str(record.get('id', fallback))):<20} " + "  ".join(part for part in parts if part))
    return verdict


def main() -> int:
    """Show the stream; returns the exit code."""
    return ended("make run", _show_the_stream, "interrupted")


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
    shown, delays = [], []
    for output in outputs:
        stamp = output.stamp
        match = _match(stamp.verdict, stamp.match.id, stamp.match.distance) if stamp.match else ""
        fallback = f"{stamp.topic.rpartition('-')[2]}-{stamp.coordinates.partition}-{stamp.coordinates.offset}"
        shown.append(write_verdict(stamp.verdict, _record(output.value), fallback, match or stamp.reason or ""))
        delays.append(output.time - stamp.timestamp)
    return shown, delays


def _match(verdict: Verdict, name: str, distance: int) -> str:
    return f"{'new version of' if verdict is Verdict.UNIQUE else '='} {name}, {distance} bits"


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
    command = [*PROGRAM, "filter", "--config", str(settings), str(SAMPLE)]
    shown = []
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None  # noqa: S101 - asked for one line above
        for number, line in enumerate(process.stdout, 1):
            shown.append(_write_filtered(json.loads(line), f"line {number}"))
    _summary(shown)
    return EXIT_OK


def _write_filtered(record: dict[str, Any], fallback: str) -> Verdict:
    dedup = record["dedup"]
    match = dedup.get("match")
    verdict = Verdict(dedup["verdict"])
    detail = _match(verdict, match["id"], match["distance"]) if match else dedup.get("reason", "")
    original = _record(dedup["line"].encode()) if "line" in dedup else record
    return write_verdict(verdict, original, fallback, detail)


if __name__ == "__main__":
    sys.exit(main())
