"""Rows of Parquet as JSON objects, in the order of the columns. pyarrow, of the extra ``[parquet]``, is loaded here.

A value becomes what ``json_values`` says; a time zone that this machine does not know becomes UTC. A struct and a map
are objects.

A row with a value that none of this holds (a year after 9999, text that is not UTF-8, a map whose keys are structs) is
rejected with a reason and with its other columns, so that it can be found.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO, Any

from stream_dedup.core.reasons import NOT_ROW
from stream_dedup.errors import UserError
from stream_dedup.extras import need_packages
from stream_dedup.files.lines import MAX_LINE_BYTES, AnyLine, Numbered, too_long, unread
from stream_dedup.json_values import json_of

BATCH_ROWS = 64
"""Rows in memory at once: with articles of a megabyte, as much as a batch of lines."""
_BUFFER_BYTES = 1 << 20
"""Bytes of each column that are read at once."""
_VALUE = "a value that JSON does not have"
_UNMADE = (ValueError, OverflowError, TypeError)
"""What such a value is where it is made."""


def opened(file: IO[bytes], name: str) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return a Parquet file.

    Raises:
        UserError: it cannot be read, or pyarrow is not installed.
    """
    need_packages(f"input {name} (Parquet)", "parquet", "pyarrow")
    import pyarrow as pa  # noqa: PLC0415 - an extra
    from pyarrow import parquet  # noqa: PLC0415 - an extra

    try:
        return parquet.ParquetFile(file, buffer_size=_BUFFER_BYTES)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(name, error) from error


def unreadable(name: str, error: Exception) -> UserError:
    """Return the error for a damaged file."""
    return UserError(f"input {name}: no readable Parquet ({error}); write it again")


def rows(file: IO[bytes], name: str, report: Callable[[float], None] = lambda _: None) -> Iterator[Numbered]:
    """Yield each row with its number, from 1.

    Args:
        file: at any position.
        name: of the input, for messages.
        report: called with the share of the rows that are read.

    Raises:
        UserError: the file is damaged, or has two columns of one name.
    """
    parquet_file = opened(file, name)
    import pyarrow as pa  # noqa: PLC0415 - an extra

    schema = parquet_file.schema_arrow
    twice = [column for column, count in Counter(schema.names).items() if count > 1]
    if twice:
        raise UserError(f"input {name}: it has more than one column {', '.join(twice)}; rename them")
    target = pa.schema([pa.field(field.name, _target(field.type)) for field in schema])
    number = 0
    try:
        for batch in parquet_file.iter_batches(batch_size=BATCH_ROWS):
            plain = batch if target == schema else batch.cast(target, safe=False)
            for line in _lines(plain):
                number += 1
                yield number, line
            report(number / parquet_file.metadata.num_rows)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(name, error) from error


def _lines(batch: Any) -> Iterator[AnyLine]:  # noqa: ANN401 - as above
    """Yield the rows of a batch; one at a time if some of them cannot be made."""
    try:
        objects = [json_of(row) for row in _values(batch)]
    except _UNMADE:
        if batch.num_rows == 1:
            yield unread(_other_columns(batch), NOT_ROW.format(problem=_VALUE))
            return
        for at in range(batch.num_rows):
            yield from _lines(batch.slice(at, 1))
    else:
        yield from (one if len(one) <= MAX_LINE_BYTES else too_long(one, len(one)) for one in objects)


def _other_columns(row: Any) -> bytes:  # noqa: ANN401 - as above
    """Return the columns of a row that can be made."""
    others: dict[str, Any] = {}
    for name in row.schema.names:
        with suppress(*_UNMADE):
            (value,) = _values(row.select([name]))
            json_of(value)
            others |= value
    return json_of(others)


def _values(batch: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - as above
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of equal keys of a map, the last one counts, as in JSON
        made: list[dict[str, Any]] = batch.to_pylist(maps_as_pydicts="lossy")
    return made


def _target(column: Any) -> Any:  # noqa: ANN401 - as above
    """Return the type of a column without nanoseconds and unknown time zones, which Python does not have."""
    import pyarrow as pa  # noqa: PLC0415 - an extra

    types = pa.types
    made = column
    if types.is_timestamp(column):
        made = pa.timestamp("us" if column.unit == "ns" else column.unit, _known_zone(column.tz))
    elif types.is_time64(column):
        made = pa.time64("us")
    elif types.is_duration(column) and column.unit == "ns":
        made = pa.duration("us")
    elif types.is_list(column) or types.is_large_list(column):
        make = pa.list_ if types.is_list(column) else pa.large_list
        made = make(_target(column.value_type))
    elif types.is_struct(column):
        made = pa.struct([pa.field(field.name, _target(field.type)) for field in column])
    elif types.is_map(column):
        made = pa.map_(column.key_type, _target(column.item_type))
    return made


def _known_zone(name: str | None) -> str | None:
    import pyarrow as pa  # noqa: PLC0415 - an extra

    try:
        pa.lib.string_to_tzinfo(name or "UTC")
    except (LookupError, ValueError):
        return "UTC"
    return name
