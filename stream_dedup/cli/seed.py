"""``stream-dedup seed``: articles that were published already, entered into the log without output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stream_dedup.cli.options import GROUP_FLAGS, JUDGING, config_options, input_options
from stream_dedup.cli.output import ProgressLine, say, write_lines
from stream_dedup.cli.process import terminable
from stream_dedup.config.model import Config
from stream_dedup.errors import EXIT_FOUND, EXIT_OK

if TYPE_CHECKING:
    from stream_dedup.files.recognition import InputForm
    from stream_dedup.seed.seeding import SeedTally


@click.command()
@config_options(*GROUP_FLAGS, *JUDGING, "id_field", "text_field", "html", "threads")
@input_options()
@click.argument("files", nargs=-1, metavar="FILE...")
@click.option("--topic", metavar="TOPIC", help="Enter the articles of this topic, up to its present end.")
@click.option(
    "--name", metavar="NAME", help="Identity of the archive in FILE, instead of its first line (see docs/archives.md)."
)
def command(config: Config, files: tuple[str, ...], topic: str | None, name: str | None, *, form: InputForm) -> int:
    """Enter articles that were published already into the log, without output.

    From then on they are matches of the articles that workers judge. Reads FILEs as `filter` does (- is
    standard input), Parquet files that stream_dedup.spark.fingerprint wrote, or the committed records of a topic.
    Missing topics are created; an empty log begins with the rules of the configuration, and other rules than
    those in force are refused. Workers may be running.

    The same call again adds nothing, and a call that was interrupted goes on: the articles that are in the
    log are skipped. An archive is known by its first line: it may be moved, renamed or compressed, and may
    grow at its end. An article that was changed since it was entered is refused.

    Writes how many articles were entered, were in the log already, and were rejected as unreadable. Exit code 0:
    no article was rejected; 3: one was, which is logged with its reason.

    \b
    Examples:
      stream-dedup seed --brokers kafka:9092 --group news archive-2024.jsonl.gz archive-2025.jsonl.zst
      stream-dedup seed --config worker.toml --topic published
      pg_dump_articles | stream-dedup seed --config worker.toml --name articles-of-2023 -
    """  # noqa: D301 - \b keeps click from folding the examples
    from stream_dedup.seed.run import seed_files, seed_topic  # noqa: PLC0415 - loads the Kafka client

    if bool(files) == (topic is not None) or (name is not None and topic is not None):
        raise click.UsageError("name FILEs (- is standard input; --name for one of them), or a topic with --topic")
    with terminable(), ProgressLine() as line:

        def show(so_far: SeedTally) -> None:
            count = so_far.entered + so_far.present + so_far.rejected
            line.read(so_far.progress, count, f"articles: {_counts(so_far)}")

        if topic is not None:
            tally = seed_topic(config, topic, show, line.stage)
        else:
            tally = seed_files(config, files, name, form, show, line.stage)
    for example in tally.examples:
        say(f"rejected: {example}")
    if tally.unchecked:
        say(
            f"{tally.unchecked:,} of those that are already there have expired: the log no longer knows whether they "
            "were the same articles; give another archive that begins alike a --name of its own"
        )
    write_lines(_counts(tally))
    return EXIT_FOUND if tally.rejected else EXIT_OK


def _counts(tally: SeedTally) -> str:
    return f"{tally.entered:,} entered, {tally.present:,} already there, {tally.rejected:,} rejected"
