"""``stream-dedup reject``: records whose schema the registry does not know."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from stream_dedup.cli.options import OFFSET_DIGITS, config_options
from stream_dedup.cli.output import write_json, write_lines
from stream_dedup.cli.progress import ProgressLine
from stream_dedup.config.model import Config
from stream_dedup.exit_codes import EXIT_FOUND, EXIT_OK

if TYPE_CHECKING:
    from stream_dedup.broker.rejections import Outcome

_PLACE = re.compile(rf"(.+)-(\d{{1,9}})-(\d{{1,{OFFSET_DIGITS}}})")


@click.command()
@config_options("brokers", "group", "input")
@click.argument("places", nargs=-1, required=True, metavar="TOPIC-PARTITION-OFFSET...")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def command(config: Config, places: tuple[str, ...], as_json: bool) -> int:
    """Reject records whose schema the schema registry does not know, so that their partitions go on.

    A worker holds a partition at such a record; its log names the record. The rejection is logged, and counts for every
    worker; the record goes to the topic of rejected records, once. A record that the log has already stays as it is.
    Needs the configuration of the workers. Workers may be running.

    Exit code 0: every record is rejected; 3: one was judged meanwhile.

    \b
    Example:
      stream-dedup reject --config worker.toml articles-0-1042
    """  # noqa: D301 - \b keeps click from folding the example
    from stream_dedup.broker.rejections import RecordPlace, connected_reject  # noqa: PLC0415 - loads the Kafka client
    from stream_dedup.core.model import SourceOffset  # noqa: PLC0415 - as above
    from stream_dedup.ports import Partition  # noqa: PLC0415 - as above

    named = []
    for text in dict.fromkeys(places):
        match = _PLACE.fullmatch(text)
        if match is None:
            msg = f"{text!r} is no record: name it as topic-partition-offset, as the worker's log does"
            raise click.UsageError(msg)
        named.append(RecordPlace(Partition(match[1], int(match[2])), SourceOffset(int(match[3]))))
    with ProgressLine() as line:
        done = connected_reject(
            config, named, lambda stage, done, total: line.show(lambda _elapsed: f"{done:,} of {total:,} {stage}")
        )
    if as_json:
        write_json([{"source": str(one.place), "reason": one.reason, "logged_before": one.was_logged} for one in done])
    else:
        write_lines(*map(_line, done))
    return EXIT_OK if all(one.reason is not None for one in done) else EXIT_FOUND


def _line(done: Outcome) -> str:
    if done.reason is None:
        return f"{done.place}: not rejected: the log has the article, or had it"
    return f"{done.place}: rejected{' before' if done.was_logged else ''}: {done.reason}"
