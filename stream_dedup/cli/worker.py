"""``stream-dedup run``: the worker."""

from __future__ import annotations

import click

from stream_dedup.cli.options import JUDGING, config_options
from stream_dedup.config.model import Config


@click.command()
@config_options(
    "brokers",
    "input",
    "unique",
    "duplicate",
    "rejected",
    "group",
    "index",
    *JUDGING,
    "threads",
    "metrics",
)
@click.option(
    "--new-log",
    is_flag=True,
    help="Accept the log as it is, though the group's offsets or the index show a history that it lost; the index is "
    "kept aside.",
)
def command(config: Config, new_log: bool) -> int:
    """Run a worker: read articles from Kafka and write their verdicts to Kafka.

    The worker sends each record once, unchanged, to the topic of its verdict, with `dedup.*` headers that
    explain the verdict. It creates missing topics. Start as many workers of one group as there are input
    partitions, each with its own --index folder.

    On SIGTERM or Ctrl-C the worker finishes the batches in progress and exits with code 0.

    \b
    Examples:
      stream-dedup run --brokers kafka:9092
      stream-dedup run --config worker.toml --index /var/lib/stream-dedup --metrics 0.0.0.0:9464
    """  # noqa: D301 - \b keeps click from folding the examples
    from stream_dedup.worker.app import run_worker  # noqa: PLC0415 - loads the Kafka client

    return run_worker(config, new_log=new_log)
