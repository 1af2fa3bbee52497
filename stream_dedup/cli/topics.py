"""``stream-dedup topics create|check``: the topics of a worker."""

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
    """Create or check the topics: input, output and the log.

    The log has one partition, unlimited retention and timestamps set by the broker; output topics accept the
    largest record with its headers. An existing topic is never changed.
    """


@command.command()
@config_options(*_TOPIC_FLAGS)
def create(config: Config) -> None:
    """Create missing topics with the correct settings, and check the others.

    Exit code 2: an existing topic has a wrong setting; the error contains the command to correct it. Exit
    code 4: the group has committed offsets, but its log is gone or empty; no topic is created.
    """
    from stream_dedup.broker import topics  # noqa: PLC0415 - loads the Kafka client
    from stream_dedup.broker.client import make_admin  # noqa: PLC0415 - loads the Kafka client
    from stream_dedup.broker.lost_log import refuse_lost_log  # noqa: PLC0415 - loads the Kafka client

    with closing(make_admin(config.kafka)) as admin:
        refuse_lost_log(admin, config)
        for name in topics.create_topics(admin, config):
            write_lines(f"created {name}")
    write_lines("all topics have the correct settings")


@command.command()
@config_options(*_TOPIC_FLAGS)
def check(config: Config) -> int:
    """Report topics with wrong settings, and the command to correct each.

    Exit code 0: all settings are correct; 3: one is wrong. A warning, such as a log with one replica on a
    cluster, does not change the exit code. No topic is changed.
    """
    from stream_dedup.broker.client import make_admin  # noqa: PLC0415 - loads the Kafka client
    from stream_dedup.broker.topics import check_topics  # noqa: PLC0415 - loads the Kafka client

    with closing(make_admin(config.kafka)) as admin:
        problems = check_topics(admin, config)
    for problem in problems:
        write_lines(f"warning: {problem}" if problem.is_warning else str(problem))
    if not all(problem.is_warning for problem in problems):
        return EXIT_FOUND
    write_lines("all topics have the correct settings")
    return EXIT_OK
