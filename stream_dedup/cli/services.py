"""``stream-dedup run`` and ``serve``: the worker, and the HTTP service."""

from __future__ import annotations

import click

from stream_dedup.cli.options import GROUP_FLAGS, JUDGING, config_options
from stream_dedup.config.model import Config
from stream_dedup.extras import SERVE_PACKAGES, need_packages


@click.command()
@config_options(*GROUP_FLAGS, "index", *JUDGING, "threads", "metrics")
@click.option(
    "--new-log",
    is_flag=True,
    help="Accept the log as it is, though the group's offsets or the index show a history that it lost; the index is "
    "kept aside.",
)
def run_command(config: Config, new_log: bool) -> int:
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


@click.command()
@config_options("brokers", "group", "input", "unique", "duplicate", "rejected", "address", "data_dir", "token_file")
def serve_command(config: Config) -> int:
    """Answer over HTTP what an article would be, as of now, and why.

    The service follows the log of a group into an index of its own and answers from it: the verdict on a text,
    its nearest articles, an explanation. It judges by the rules of the log and writes nothing to Kafka. Its
    folder may be deleted: it is built again from the log. Needs the extra: pip install 'stream-dedup[serve]'.

    By default only this machine reaches it. Any other --address needs a --token-file; serve.tls_cert and
    serve.tls_key make it HTTPS. docs/http-api.md describes the requests. On SIGTERM or Ctrl-C the service ends
    with exit code 0.

    \b
    Examples:
      stream-dedup serve --brokers kafka:9092 --group news
      stream-dedup serve --config worker.toml --address 0.0.0.0:8787 --token-file /run/secrets/token
    """  # noqa: D301 - \b keeps click from folding the examples
    need_packages("serve", "serve", *SERVE_PACKAGES)
    from stream_dedup.serve.run import run_service  # noqa: PLC0415 - loads the Kafka client and the HTTP server

    return run_service(config)
