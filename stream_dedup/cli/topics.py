"""``stream-dedup topics create|check``: the topics that a worker needs."""

from __future__ import annotations

from contextlib import closing

import click

from stream_dedup.cli.options import config_options
from stream_dedup.cli.output import write_lines
from stream_dedup.config.model import Config
from stream_dedup.exit_codes import EXIT_FOUND, EXIT_OK

_TOPIC_FLAGS = ("brokers", "input", "unique", "duplicate", "rejected", "group")


@click.group()
def command() -> None:
    """Make or check the topics: articles, verdicts and the log.

    The log keeps everything, in one partition, with times set by the broker; output topics hold the
    largest article and its headers. A topic that exists is never changed.
    """


@command.command()
@config_options(*_TOPIC_FLAGS)
def create(config: Config) -> None:
    """Make the topics that are missing, with the right settings, and check the others.

    Exit code 2 when one that exists is wrong; the message has the command that mends it.
    """
    from stream_dedup.broker import topics  # noqa: PLC0415 - loads the Kafka client
    from stream_dedup.broker.client import make_admin  # noqa: PLC0415 - loads the Kafka client

    with closing(make_admin(config.kafka)) as admin:
        for name in topics.create_topics(admin, config):
            write_lines(f"made {name}")
        topics.ensure_topics(admin, config)
    write_lines("all topics are as they must be")


@command.command()
@config_options(*_TOPIC_FLAGS)
def check(config: Config) -> int:
    """Say what is wrong with the topics, and the command that mends each.

    Exit code 0: nothing; 3: something. Nothing is changed.
    """
    from stream_dedup.broker.client import make_admin  # noqa: PLC0415 - loads the Kafka client
    from stream_dedup.broker.topics import check_topics  # noqa: PLC0415 - loads the Kafka client

    with closing(make_admin(config.kafka)) as admin:
        problems = check_topics(admin, config)
    for problem in problems:
        write_lines(str(problem))
    if problems:
        return EXIT_FOUND
    write_lines("all topics are as they must be")
    return EXIT_OK
