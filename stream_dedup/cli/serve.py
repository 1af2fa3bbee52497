"""``stream-dedup serve``: the HTTP service."""

from __future__ import annotations

import click

from stream_dedup.cli.options import config_options
from stream_dedup.config.model import Config
from stream_dedup.extras import SERVE_PACKAGES, need_packages


@click.command()
@config_options("brokers", "group", "input", "unique", "duplicate", "rejected", "address", "data_dir", "token_file")
def command(config: Config) -> int:
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
