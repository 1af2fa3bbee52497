"""``stream-dedup audit``: every verdict recomputed from the log and compared with the outputs."""

from __future__ import annotations

import secrets
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from stream_dedup.audit.report import COUNT_KINDS, FAULT_KINDS, AuditReport
from stream_dedup.cli.options import FLAGS, OFFSET_DIGITS, WholeNumber, config_options
from stream_dedup.cli.output import ProgressLine, write_json, write_lines
from stream_dedup.config.keys import parse_duration_ms
from stream_dedup.config.model import Config
from stream_dedup.core.model import LogOffset
from stream_dedup.errors import EXIT_FOUND, EXIT_OK
from stream_dedup.terminal import table

if TYPE_CHECKING:
    from stream_dedup.audit.run import AuditOptions

SEED_BITS = 32
"""Short enough for a person to type."""


def _since(_ctx: click.Context, _param: click.Parameter, text: str | None) -> tuple[int | None, LogOffset | None]:
    """Return the time in ms, or the log offset."""
    if text is None:
        return None, None
    if text.isdecimal() and len(text) <= OFFSET_DIGITS:
        return None, LogOffset(int(text))
    with suppress(ValueError):
        return int(time.time() * 1000) - parse_duration_ms(text), None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.BadParameter(
            f"{text!r} is neither a log offset nor a duration (15m, 24h, 7d) nor an ISO time"
        ) from error
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000), None


@click.command()
@config_options(*FLAGS)
@click.option("--allow-repeats", is_flag=True, help="Accept equal outputs of one article, after offsets were set back.")
@click.option(
    "--since",
    callback=_since,
    metavar="WHEN",
    help="Only articles logged since an ISO time (UTC without a zone), a duration before now, or a log offset.",
)
@click.option("--sample", type=WholeNumber(min=1), metavar="N", help="Recompute the verdicts of N articles only.")
@click.option("--seed", type=int, help="Seed of the sample (default: a random one, which is printed).")
@click.option(
    "--texts",
    is_flag=True,
    help="Fingerprint the source records again, as far as they are kept, and compare them with log and outputs.",
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def command(
    config: Config,
    *,
    allow_repeats: bool,
    since: tuple[int | None, LogOffset | None],
    sample: int | None,
    seed: int | None,
    texts: bool,
    as_json: bool,
) -> int:
    """Recompute every verdict from the log, and compare it with the output topics.

    A plain loop over the log, which shares no code with the index, recomputes the verdicts. Exit code 0: no
    fault was found; 3: one was (docs/audit.md describes each kind). The audit can run beside workers:
    articles that they have not committed are counted as pending.

    The time grows with the square of the log: an article is compared with all articles before it, which takes about
    half a millisecond for 300,000 articles. For a long log, give --sample (N verdicts are recomputed; missing and
    repeated ones are still found everywhere) or --since.

    With --texts the audit also fingerprints the source records again: it finds entries that were made of another text,
    and outputs with another key or other headers. It needs the configuration of the workers.
    """
    from stream_dedup.audit.run import AuditOptions, run_audit  # noqa: PLC0415 - loads numpy
    from stream_dedup.kafka.clients import kafka_audit_ports  # noqa: PLC0415 - loads the Kafka client

    seed = secrets.randbits(SEED_BITS) if seed is None else seed
    options = AuditOptions(*since, sample, seed, allow_repeats, texts)
    with ProgressLine() as line, kafka_audit_ports(config) as ports:
        report = run_audit(config, options, ports, line.stage)
    if as_json:
        write_json(_values(report, options))
    else:
        write_lines(*_table(report, options))
    return EXIT_FOUND if report.faults else EXIT_OK


def _rows(report: AuditReport) -> list[tuple[str, int]]:
    head = [
        ("articles in the log", report.articles),
        ("verdicts recomputed", report.recomputed),
        ("output records", report.outputs),
        *([("texts compared", report.texts)] if report.texts else []),
    ]
    faults = [(kind, report.found[kind]) for kind in FAULT_KINDS]
    return head + faults + [(kind, report.found[kind]) for kind in COUNT_KINDS if report.found[kind]]


def _table(report: AuditReport, options: AuditOptions) -> list[str]:
    lines = table([(name, f"{count:,}") for name, count in _rows(report)])
    if options.sample is not None:
        lines.insert(0, f"sample of {options.sample}, drawn with --seed {options.seed}")
    for kind, examples in report.examples.items():
        more = report.found[kind] - len(examples)
        lines += ["", *(f"{kind}: {text}" for text in examples)] if examples else []
        lines += [f"{kind}: {more:,} more"] if examples and more else []
    return [*lines, "", "nothing is wrong" if not report.faults else f"{report.faults:,} faults"]


def _values(report: AuditReport, options: AuditOptions) -> dict[str, object]:
    values: dict[str, object] = {name.replace(" ", "_").replace("-", "_"): count for name, count in _rows(report)}
    values |= {"sample": options.sample, "seed": options.seed if options.sample is not None else None}
    values["examples"] = {kind: examples for kind, examples in report.examples.items() if examples}
    return values
