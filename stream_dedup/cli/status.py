"""``stream-dedup status``: the state of a group, from its brokers alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from stream_dedup.cli.options import GROUP_FLAGS, JUDGING, Seconds, config_options
from stream_dedup.cli.output import ProgressLine, say, write_json, write_lines
from stream_dedup.config.effective import rules_of
from stream_dedup.config.model import Config
from stream_dedup.errors import EXIT_FOUND, EXIT_OK, EXIT_UNAVAILABLE, RefusedError, UnavailableError

if TYPE_CHECKING:
    from stream_dedup.status.snapshot import Snapshot

_NO_ANSWER = (UnavailableError, RefusedError)
"""Errors after which another report may have an answer. Refused is a read of what a trim has just cut off the log."""


@click.command()
@config_options(*GROUP_FLAGS, *JUDGING)
@click.option("--watch", is_flag=True, help="Show the state again and again, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON; with --watch, one object on each line.")
@click.option(
    "--interval",
    type=Seconds(min=0.1),
    default=3.0,
    metavar="SECONDS",
    help="Time between two snapshots, from which the rates are computed (default: 3).",
)
@click.option("--no-rules", is_flag=True, help="Do not read the log for its rules, which takes long for a long log.")
def command(config: Config, *, watch: bool, as_json: bool, interval: float, no_rules: bool) -> int:
    """Show workers, partitions and their lag, rates, the log, the rules in force, and what is wrong.

    Everything comes from the brokers; no worker needs to answer. The rules in force stand in the log, which is read
    once for them from its beginning (--no-rules leaves that out); --watch then reads what is appended.

    Exit code 0: nothing is wrong; 3: something is, and each line beginning with `wrong` names it and the remedy.
    A note, such as a worker without a partition, does not change the exit code. With --watch, the exit code is that
    of the last refresh.
    """
    code = EXIT_OK
    with suppress(KeyboardInterrupt):
        for seen in _snapshots(config, interval, watch=watch, with_rules=not no_rules):
            if watch and not as_json:
                click.clear()  # where there is a terminal
            if isinstance(seen, tuple):
                code = _show(config, *seen, as_json=as_json)
            else:
                code = _show_error(seen, as_json=as_json)
    return code


def _snapshots(
    config: Config, interval: float, *, watch: bool, with_rules: bool
) -> Iterator[tuple[Snapshot | None, Snapshot] | UnavailableError | RefusedError]:
    """Yield the second snapshot with the first; with ``watch`` each with the one before, and errors, without end."""
    from stream_dedup.status.reading import StatusReader  # noqa: PLC0415 - loads the Kafka client

    while True:
        try:
            with ProgressLine() as line, StatusReader(config, with_rules=with_rules, progress=line.count) as reader:
                before, now = None, reader.read()
                line.close()
                while True:
                    if watch or before is not None:
                        yield before, now
                    if not watch and before is not None:
                        return
                    time.sleep(interval)
                    before, now = now, reader.read()
        except _NO_ANSWER as error:
            if not watch:
                raise
            yield error
            time.sleep(interval)


def _show(config: Config, before: Snapshot | None, now: Snapshot, *, as_json: bool) -> int:
    """Write a snapshot, the rates since the one before, and what is wrong; return the exit code."""
    from stream_dedup.status.findings import find  # noqa: PLC0415 - as the other modules of status
    from stream_dedup.status.snapshot import Rates  # noqa: PLC0415
    from stream_dedup.status.text import lines_of, values_of  # noqa: PLC0415

    rates = None if before is None else Rates.between(before, now)
    findings = find(now, before, rules_of(config))
    if as_json:
        write_json(values_of(now, rates, findings))
    else:
        write_lines(*lines_of(now, rates, findings))
    return EXIT_OK if all(finding.is_note for finding in findings) else EXIT_FOUND


def _show_error(error: UnavailableError | RefusedError, *, as_json: bool) -> int:
    if as_json:
        write_json({"error": str(error)})
    else:
        say(f"error: {error}")
    return EXIT_UNAVAILABLE
