"""``stream-dedup produce``: JSON Lines into a topic."""

from __future__ import annotations

import click

from stream_dedup.cli.options import OneField, config_options, input_options
from stream_dedup.cli.output import write_lines
from stream_dedup.cli.progress import ProgressLine
from stream_dedup.config.model import Config
from stream_dedup.core.text.paths import FieldPath
from stream_dedup.errors import UserError
from stream_dedup.files.output_file import STDOUT, STREAM, refuse_inputs_as_outputs
from stream_dedup.files.recognition import InputForm


@click.command()
@config_options("brokers")
@click.option("--topic", metavar="TOPIC", help="Topic of the records (default: the first input topic).")
@click.option(
    "--key-field",
    metavar="FIELD",
    type=OneField(),
    help="Field whose text or number becomes the record key; records without it have no key.",
)
@input_options()
@click.argument("files", nargs=-1, metavar="[FILE]...")
def command(
    config: Config, topic: str | None, key_field: FieldPath | None, files: tuple[str, ...], *, form: InputForm
) -> None:
    """Send each line of FILEs, or of standard input (- or none), as one record.

    FILEs may be compressed with gzip, zstd, xz or bzip2. The value is the line without its line end and without a
    byte order mark, otherwise byte for byte; it need not be JSON. Blank lines are skipped. A JSON array, CSV or TSV
    with a header, or Parquet is read as `filter` reads it, and each record is sent as a JSON object. When the command
    exits with code 0, the broker has acknowledged all records.

    \b
    Example:
      stream-dedup produce --brokers kafka:9092 --topic articles articles.jsonl
    """  # noqa: D301 - \b keeps click from folding the example
    from stream_dedup.broker.produce import produce_lines  # noqa: PLC0415 - loads the Kafka client
    from stream_dedup.files.inputs import check_inputs, whole_lines  # noqa: PLC0415 - loads the core

    inputs = files or (STREAM,)
    check_inputs(inputs, form, of_records=False)
    refuse_inputs_as_outputs([STDOUT], inputs)
    name = topic or config.topics.input[0]
    if name in config.topics.patterns:
        msg = f"topics.input begins with the pattern {name}; name the topic with --topic"
        raise UserError(msg)
    with ProgressLine() as progress:

        def show(count: int) -> None:
            progress.show(lambda elapsed: f"{count:,} records sent ({count / elapsed:,.0f}/s)")

        sent = produce_lines(config, name, whole_lines(inputs, form), key_field, show)
    write_lines(f"{sent} records sent to {name}")
