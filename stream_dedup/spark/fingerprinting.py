"""Makes a DataFrame of log entries from a DataFrame of articles.

The record of an article is its column ``value``, as Kafka's source for Spark and ``spark.read.text`` give it; columns
of other names make one by ``to_json(struct("id", "text"))``. The configuration says how a record is read
(``input.*``), so the entries are the same as those of the same records in a topic or a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, StringType, StructType

from stream_dedup.config.effective import fingerprint_settings_of, input_format_of
from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config
from stream_dedup.core.decode import InputFormat, RawRecord
from stream_dedup.core.fingerprinter import EntryMaker, checksum
from stream_dedup.core.model import Status
from stream_dedup.core.scheme import FingerprintSettings, scheme_of
from stream_dedup.errors import UserError
from stream_dedup.registry.values import is_framed
from stream_dedup.seed.entry_rows import ROWS_SCHEMA, batch_of

PART_ROWS = 500
"""Articles fingerprinted at once, as many as the worker polls: their texts and sums fit into some MB."""
SOURCE_COLUMNS = ("topic", "partition", "offset")
"""Columns of Kafka's source, which make the id of an article without one."""


def fingerprint(
    articles: DataFrame, config: Config | Path | str | None = None, *, keep: Sequence[str] = ()
) -> DataFrame:
    """Return the log entries of these articles, one row each (``seed.entry_rows`` describes the columns).

    A record that is a delete (``input.deletes``) is no article, and ends the job.

    An article without an id in its value has the content of the column ``key``, if there is one, as its id, else
    topic-partition-offset of the columns of these names, else the checksum of its value.

    Args:
        articles: ``value`` (text or bytes) is the record of an article; null is rejected, as a tombstone is.
        config: configuration, or the path of its file; None: the defaults, and what the environment sets.
        keep: columns that the entries get too, the one with the order of the articles for example.

    Raises:
        UserError: a column is missing, of another type or has the name of a column of the entries; a package or its
            data are missing. ``ConfigError`` where the configuration is invalid.
    """
    config = config_of(config)
    if is_framed(config):
        raise UserError(
            f"input.format = {config.input.format!r}: archives are JSON; give their configuration input.format json"
        )
    check_articles(articles.schema, keep)
    settings = fingerprint_settings_of(config)
    fmt = input_format_of(config, deletes=True)
    fields = [*from_arrow_schema(ROWS_SCHEMA).fields, *(articles.schema[name] for name in keep)]
    entries = partial(entries_of, settings, fmt, scheme_of(settings).id, tuple(keep))
    return articles.mapInArrow(entries, StructType(fields))


def config_of(config: Config | Path | str | None) -> Config:
    """Return the configuration, read from its file if it is a path.

    Raises:
        ConfigError: the configuration is invalid.
    """
    if isinstance(config, Config):
        return config
    return load_config(None if config is None else Path(config))


def entries_of(
    settings: FingerprintSettings,
    fmt: InputFormat,
    scheme_id: str,
    keep: Sequence[str],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Yield the entries of Arrow batches of articles; sent with each task, and called once for each partition."""
    for articles in in_parts(batches, PART_ROWS):
        columns = _maker(settings, fmt, scheme_id)(_records(articles))
        deletes = np.flatnonzero(columns.statuses == Status.DELETE)
        if len(deletes):
            raise UserError(
                f"the record of {columns.ids[int(deletes[0])]} is a delete (input.deletes), and Spark makes entries of "
                "articles: leave deletes out, or enter their topic with stream-dedup seed --topic"
            )
        entries = batch_of(columns, scheme_id)
        for name in keep:
            entries = entries.append_column(name, articles.column(name))
        yield entries


def in_parts(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield batches in parts of so many rows."""
    for batch in batches:
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


@cache
def _maker(settings: FingerprintSettings, fmt: InputFormat, scheme_id: str) -> EntryMaker:
    """Return what makes entries in this process, made once: Spark uses a Python process for many tasks.

    It works in the thread of the task, for Spark shares out the work.

    Raises:
        UserError: this machine's dictionaries are not those of the driver, or are missing.
    """
    own = scheme_of(settings).id
    if own != scheme_id:
        raise UserError(
            f"this executor makes entries of the scheme {own}, the driver of {scheme_id}: "
            "install the same versions of stream_dedup and its packages on both"
        )
    maker = EntryMaker(settings, fmt)
    maker.fingerprinter.warm()
    return maker


def _records(articles: pa.RecordBatch) -> list[RawRecord]:
    names = articles.schema.names
    values = _bytes_of(articles.column("value"))
    keys = _bytes_of(articles.column("key")) if "key" in names else [None] * len(values)
    if set(SOURCE_COLUMNS) <= set(names):
        sources = zip(*(articles.column(name).to_pylist() for name in SOURCE_COLUMNS), strict=True)
        fallbacks = ["{}-{}-{}".format(*source) for source in sources]
    else:
        fallbacks = [f"{checksum(value):016x}" for value in values]
    return list(map(RawRecord, keys, values, fallbacks))


def _bytes_of(column: pa.Array) -> list[bytes | None]:
    values: list[bytes | None] = column.cast(pa.binary()).to_pylist()
    return values


def check_articles(schema: StructType, keep: Sequence[str]) -> None:
    """Refuse articles whose columns cannot be read.

    Raises:
        UserError: they cannot.
    """
    if "value" not in schema.names:
        raise UserError(
            'the articles have no column value: make one, by to_json(struct("id", "text")).alias("value") for example'
        )
    for name in {"value", "key"} & set(schema.names):
        kind = schema[name].dataType
        if not isinstance(kind, BinaryType | StringType):
            raise UserError(f"column {name} is {kind.simpleString()}: cast it to string or binary")
    for name in keep:
        if name in ROWS_SCHEMA.names:
            raise UserError(f"column {name} cannot be kept: the entries have a column of that name; rename it first")
        if name not in schema.names:
            raise UserError(f"column {name} cannot be kept: the articles have only {', '.join(schema.names)}")
