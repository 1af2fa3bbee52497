"""Finds the match of each article of an archive, as the reference does for a log of the articles in a given order.

``audit.plain_near`` defines near; here are the steps of the join that follows it:

1. The order is checked: no two articles have the same position in it, because then neither would be earlier.
2. Each article is an event in every posting list that holds it, and in every one that it looks up. The core computes
   both (``core.probes``), in the Python processes of Spark. A posting list is the number
   ``table << block_bits | value of the block``, of which ``block_bits`` the scheme says.
3. In each list the events are counted in order. An article in a list has the number of those before it; a look-up has
   the number of articles that the list holds at the position of the look-up.
4. A look-up is joined with the newest N of these (N is the bucket limit), found by their numbers. Lists are cut into
   chunks of N, of which the newest N lie in two: a look-up meets at most 2 N articles, however long the list is.
5. Of a pair the scope hashes must be equal, the earlier one inside the window, and the sieve must pass the key
   words. Where the rules bound the candidates, the first of these pairs are left: by look-up, in one look-up the newest
   first.
6. The pairs are checked by the functions of the index. Of each article's near pairs the nearest is the
   match, the earliest of several; where the rules make a re-crawl an update, one of its own id first. An article with
   fewer near pairs than the rules ask for is no duplicate.

Cost: every article is sorted once for each of its lists and look-ups, 68 rows in all for a plan of 64 look-ups over
four tables; each row has some 60 bytes. Pairs of one list and scope hash go through Python, and those that are left
once more. The entries are read more than once: write them to Parquet first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import NumericType, StructType, TimestampNTZType, TimestampType

from stream_dedup.config.effective import rules_of
from stream_dedup.config.model import Config
from stream_dedup.core import probes
from stream_dedup.core.arrays import I64, U8, U64
from stream_dedup.core.columns import Columns
from stream_dedup.core.model import (
    BLOCKS_PER_WORD,
    SIGNATURE_BITS,
    SIGNATURE_BYTES,
    Status,
    Verdict,
    signed,
    similarity,
)
from stream_dedup.core.near import PairCheck, PairTexts
from stream_dedup.core.reasons import FEATURELESS_REASON
from stream_dedup.core.rules import REJECTED, UPDATE, Rules
from stream_dedup.errors import UserError
from stream_dedup.seed.entry_rows import ROWS_SCHEMA, columns_of
from stream_dedup.spark.fingerprinting import config_of, in_parts

DISTANCE_FIELDS = (pa.field("distance", pa.int32()), pa.field("whole", pa.int32()))
"""What the check adds to a near pair: the distance that is limited, and that of the signatures."""


def sieved_pairs(rules: Rules, keep: Sequence[str], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the columns ``keep`` of the pairs that pass the sieve.

    Each batch has, of the article, the status, the key word of the list and its two masks, and ``other_key``.
    """
    check = PairCheck(rules)
    for batch in batches:
        key, once, twice, other = (_words(batch.column(name), 1) for name in ("key", "once", "twice", "other_key"))
        met = check.meetings(_bytes(batch.column("status")), key, other, np.stack([once, twice], axis=2))
        yield batch.select(keep).filter(pa.array(met.passed[:, 0]))


def near_pairs(rules: Rules, keep: Sequence[str], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the columns ``keep`` of the near pairs, and their distances.

    Each batch has, of the article, the status, how far it is dominated, the words of signature and sketch, and
    ``other_words``, ``other_sketch``.
    """
    check, sketch_words = PairCheck(rules), rules.scheme.sketch_bytes // 8
    for batch in batches:
        article, entry = (
            PairTexts(
                _words(batch.column(f"{whose}words"), SIGNATURE_BYTES // 8),
                _words(batch.column(f"{whose}sketch"), sketch_words),
            )
            for whose in ("", "other_")
        )
        statuses, dominated = _bytes(batch.column("status")), _bytes(batch.column("dominated"))
        accounts = check.accounts(statuses, dominated, article, entry)
        near = batch.select(keep)
        for field, name in zip(DISTANCE_FIELDS, ("distance", "signature_distance"), strict=True):
            near = near.append_column(field, pa.array(accounts[name].astype(np.int32)))
        yield near.filter(pa.array(accounts["near"]))


def _words(column: pa.Array, each: int) -> U64:
    """Return the words of a column, or of its lists of so many words, a row for each."""
    words: I64 = (column.flatten() if pa.types.is_list(column.type) else column).to_numpy(zero_copy_only=False)
    return words.view(np.uint64).reshape(len(column), each)


def _bytes(column: pa.Array) -> U8:
    numbers: U8 = column.to_numpy(zero_copy_only=False).astype(np.uint8)
    return numbers


LISTS_SCHEMA = pa.schema(
    [
        pa.field("words", pa.list_(pa.int64())),
        pa.field("sketch", pa.list_(pa.int64())),
        pa.field("keys", pa.list_(pa.int64())),
        pa.field("dominated", pa.int32()),
        pa.field("sure", pa.list_(pa.int64())),
        pa.field("lists", pa.list_(pa.int32())),
        pa.field("lookups", pa.list_(pa.int32())),
    ]
)
"""Words of the signature and of the sketch, the keys of the tables, how far the article is dominated, the two masks of
each key for the sieve of directed search, the posting lists of the article, and its look-ups in the order of the plan.
An article without a signature has no list and looks none up."""
PART_ENTRIES = 2_000
"""Entries whose plans are made at once: 548 look-ups of each are 4 MB."""


def _with_lists_of(rules: Rules, keep: Sequence[str], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the columns ``keep`` and those of ``LISTS_SCHEMA`` of entries."""
    for entries in in_parts(batches, PART_ENTRIES):
        made = lists_of(columns_of(entries, rules.scheme), rules)
        yield pa.record_batch([*map(entries.column, keep), *made], names=[*keep, *LISTS_SCHEMA.names])


def lists_of(columns: Columns, rules: Rules) -> list[pa.Array]:
    """Return the columns of ``LISTS_SCHEMA`` for these entries."""
    words = probes.words(columns.signatures)
    keys = probes.keys(columns.signatures, columns.scope_hashes)[:, : columns.widths.tables // BLOCKS_PER_WORD]
    block_bits = rules.scheme.block_bits
    values = np.concatenate([probes.blocks(key, block_bits) for key in keys.T], axis=1).astype(np.int64)
    lists = np.arange(columns.widths.tables) << block_bits | values
    which, check = signed(columns.statuses), PairCheck(rules)
    return [
        _arrays(words.view(np.int64)),
        _arrays(probes.sketch_words(columns.sketches).view(np.int64)),
        _arrays(np.ascontiguousarray(keys).view(np.int64)),
        pa.array(check.dominated(columns.statuses, columns.margins).astype(np.int32)),
        _arrays(check.masks(columns.margins).reshape(len(columns), -1).view(np.int64)),
        _arrays(lists.astype(np.int32), which),
        _arrays(_lookups(columns, values, rules).astype(np.int32), which),
    ]


def _lookups(columns: Columns, values: I64, rules: Rules) -> I64:
    """Return the posting lists that each entry looks up, one row each."""
    plan = probes.plan_of(rules, columns.margins)
    plan = np.broadcast_to(plan, (len(columns), plan.shape[1])).astype(np.int64)
    # A look-up has its table above its mask, and the mask flips bits of the article's own block.
    return plan ^ np.take_along_axis(values, plan >> rules.scheme.block_bits, axis=1)


def _arrays(rows: NDArray[np.int64] | NDArray[np.int32], which: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return one list for each row; an empty one where the row is not chosen."""
    chosen = rows if which is None else rows[which]
    lengths = np.full(len(rows), rows.shape[1]) if which is None else which * rows.shape[1]
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(chosen.reshape(-1)))


_CHECKED = ("order", "id", "status", "dominated", "words", "sketch")
"""What the check needs of an article."""
_KEPT = ("id", "status", "reason", "scope_hash")
_FOUND = ("id", "verdict", "reason", "match", "match_id", "distance", "similarity")
"""Columns of the result beside the order."""
_TIMES = (TimestampType, TimestampNTZType, NumericType)
"""Types of columns of time."""


def near_duplicates(
    entries: DataFrame, order: str, config: Config | Path | str | None = None, *, time: str | None = None
) -> DataFrame:
    """Return the verdict of each article as of its position in the order, one row each.

    The columns: ``order`` under its own name, ``id``, ``verdict`` (unique, duplicate, rejected), ``reason`` of a
    rejection, and of a match ``match`` (its position in the order), ``match_id``, ``distance`` in bits and
    ``similarity``.
    A unique article with a match is an update of it.

    Args:
        entries: as ``fingerprint`` makes them, with the column of the order and that of the time.
        order: column that orders the articles, of any type that Spark sorts; no value twice, none null.
        config: configuration, or the path of its file; None: the defaults, and what the environment sets.
        time: column with the time of each article, a timestamp or milliseconds since 1970, none null; for a window
            only.

    Raises:
        UserError: a column is missing, two articles have the same position, or the rules have a window and no column
            has the time, or an article has none. Entries of another scheme end the job that reads the result.
            ``ConfigError`` where the configuration is invalid.
    """
    return judged(entries, order, rules_of(config_of(config)), time)


def judged(entries: DataFrame, order: str, rules: Rules, time: str | None = None) -> DataFrame:
    """Return what ``near_duplicates`` returns, under these rules.

    Raises:
        UserError: as there.
    """
    check_entries(entries.schema, order, rules, time)
    when = f.lit(0) if time is None else _milliseconds(entries, time)
    ordered = entries.select(_named(order).alias("order"), when.cast("bigint").alias("time"), *ROWS_SCHEMA.names)
    _refuse_ties(ordered, order)
    if rules.window_ms is not None:
        _refuse_no_time(ordered, order, time)
    articles = _with_lists(ordered, rules)
    matches = _matches(_pairs(_events(articles, rules.scheme.block_bits), rules), articles, rules)
    return _verdicts(articles, matches, rules).withColumnRenamed("order", order)


def check_entries(columns: StructType, order: str, rules: Rules, time: str | None = None) -> None:
    """Refuse entries without the columns that the rules need, or whose order has the name of a column of the result.

    Raises:
        UserError: a column is missing, or has such a name, or that of the time has another type.
    """
    names = columns.names
    if order in _FOUND:
        raise UserError(f"column {order} cannot be the order: the result has a column of that name; rename it first")
    if rules.window_ms is not None and time is None:
        raise UserError(
            "the rules have a window (match.window): name the column with the time of each article, time=..."
        )
    for name in (order, *([] if time is None else [time]), *ROWS_SCHEMA.names):
        if name not in names:
            raise UserError(f"column {name} is missing: the entries have {', '.join(names)}")
    if time is not None and not isinstance(columns[time].dataType, _TIMES):
        raise UserError(
            f"column {time} is {columns[time].dataType.simpleString()}: the time is a timestamp, or milliseconds since "
            "1970; cast it"
        )


def _refuse_ties(ordered: DataFrame, order: str) -> None:
    """Refuse an order in which two articles have the same position, or one has none.

    Raises:
        UserError: there is such an article.
    """
    wrong = ordered.groupBy("order").count().where((f.col("count") > 1) | f.col("order").isNull()).first()
    if wrong is not None:
        value, articles = wrong
        raise UserError(
            f"{articles} article(s) with {order} = {value}: each article needs a position of its own in the order; "
            "add a column that differs, by struct(...) for example"
        )


def _refuse_no_time(ordered: DataFrame, order: str, time: str | None) -> None:
    """Refuse articles without a time: they would be within no window.

    Raises:
        UserError: there is such an article.
    """
    wrong = ordered.where(f.col("time").isNull()).select("order").first()
    if wrong is not None:
        raise UserError(
            f"the article with {order} = {wrong[0]} has no {time}: under a window (match.window) each article needs "
            "its time"
        )


def _with_lists(ordered: DataFrame, rules: Rules) -> DataFrame:
    """Add the posting lists and look-ups of each article."""
    kept = ("order", "time", *_KEPT)
    fields = [*(ordered.schema[name] for name in kept), *from_arrow_schema(LISTS_SCHEMA).fields]
    return ordered.mapInArrow(partial(_with_lists_of, rules, kept), StructType(fields))


def _events(articles: DataFrame, block_bits: int) -> DataFrame:
    """Return what happens in each posting list, with ``before``: the articles that it held then."""
    held = _in_lists(articles, "lists", block_bits).withColumn("held", f.lit(1))
    lookups = _in_lists(articles, "lookups", block_bits).withColumn("held", f.lit(0))
    # A look-up (0) comes before the entry of its own article (1): no article is before itself.
    so_far = Window.partitionBy("list").orderBy("order", "held").rowsBetween(Window.unboundedPreceding, 0)
    return held.unionByName(lookups).withColumn("before", f.sum("held").over(so_far) - f.col("held"))


def _in_lists(articles: DataFrame, column: str, block_bits: int) -> DataFrame:
    """Return a row for each list in a column, with the key of its table and the masks of that key."""
    kept = ("order", "time", "status", "scope_hash")
    rows = articles.select(*kept, "keys", "sure", f.posexplode(column).alias("number", "list"))
    word = f.floor(f.shiftright("list", block_bits) / BLOCKS_PER_WORD).cast("int")
    masks = (f.get("sure", 2 * word).alias("once"), f.get("sure", 2 * word + 1).alias("twice"))
    return rows.select(*kept, "number", "list", f.get("keys", word).alias("key"), *masks)


def _pairs(events: DataFrame, rules: Rules) -> DataFrame:
    """Return each article (``order``) with its candidates (``match``)."""
    newest = rules.bucket_limit
    first, last = f.greatest(f.col("before") - newest, f.lit(0)), f.col("before") - 1
    chunks = f.array_distinct(f.array(_chunk(first, newest), _chunk(last, newest)))
    lookups = events.where("held = 0 and before > 0").withColumn("chunk", f.explode(chunks)).alias("a")
    held = events.where("held = 1").withColumn("chunk", _chunk(f.col("before"), newest)).alias("b")
    same_list = (f.col("a.list") == f.col("b.list")) & (f.col("a.chunk") == f.col("b.chunk"))
    age = f.col("a.before") - f.col("b.before")
    alike = f.col("a.scope_hash") == f.col("b.scope_hash")
    if rules.window_ms is not None:
        alike &= f.col("a.time") - f.col("b.time") <= rules.window_ms
    pairs = lookups.join(held, same_list & age.between(1, newest) & alike).select(
        f.col("a.order").alias("order"),
        f.col("b.order").alias("match"),
        f.struct(f.col("a.number"), age.alias("age")).alias("turn"),
        *(f.col(f"a.{name}").alias(name) for name in ("status", "key", "once", "twice")),
        f.col("b.key").alias("other_key"),
    )
    kept = ("order", "match", "turn")
    sieved = pairs.mapInArrow(partial(sieved_pairs, rules, kept), StructType([pairs.schema[name] for name in kept]))
    return _first(sieved, rules.candidates)


def _first(pairs: DataFrame, most: int | None) -> DataFrame:
    """Return the first ``most`` pairs of each article: by look-up, in one look-up the newest first, each pair once."""
    if most is None:
        return pairs.select("order", "match").distinct()
    once = pairs.groupBy("order", "match").agg(f.min("turn").alias("turn"))
    place = f.row_number().over(Window.partitionBy("order").orderBy("turn"))
    return once.withColumn("place", place).where(f.col("place") <= most).select("order", "match")


def _matches(pairs: DataFrame, articles: DataFrame, rules: Rules) -> DataFrame:
    """Return the match of each article that has one."""
    article = _prefixed(articles, "a_").withColumnRenamed("a_order", "order")
    other = _prefixed(articles, "b_").withColumnRenamed("b_order", "match")
    both = pairs.join(article, "order").join(other, "match")
    update = (f.col("a_id") == f.col("b_id")) & f.lit(rules.recrawl == UPDATE)
    both = both.select(
        "order",
        "match",
        f.col("b_id").alias("match_id"),
        (~update).alias("other"),
        *(f.col(f"a_{name}").alias(name) for name in ("status", "dominated", "words", "sketch")),
        *(f.col(f"b_{name}").alias(f"other_{name}") for name in ("words", "sketch")),
    )
    kept = ("order", "match", "match_id", "other")
    fields = [*(both.schema[name] for name in kept), *from_arrow_schema(pa.schema(DISTANCE_FIELDS)).fields]
    near = both.mapInArrow(partial(near_pairs, rules, kept), StructType(fields))
    ranked = f.struct("other", "distance", "match", "match_id", "whole")
    best = near.groupBy("order").agg(f.min(ranked).alias("best"), f.count("match").alias("copies"))
    counted = ~f.col("best.other") | (f.col("copies") >= rules.copies)
    found = best.where(counted).select("order", "best.*")
    return found.withColumn("similarity", _similarity(f.col("whole"))).drop("whole")


def _verdicts(articles: DataFrame, matches: DataFrame, rules: Rules) -> DataFrame:
    """Return the verdict of each article, by the rules of ``core.rules.judgement_of``."""
    rejected, featureless = f.col("status") == int(Status.REJECTED), f.col("status") == int(Status.FEATURELESS)
    refused = featureless & f.lit(rules.featureless == REJECTED)
    verdict = f.when(rejected | refused, Verdict.REJECTED.value).when(f.col("other"), Verdict.DUPLICATE.value)
    reason = f.when(rejected, f.col("reason")).when(refused, FEATURELESS_REASON)
    found = articles.select("order", "id", "status", "reason").join(matches, "order", "left")
    made = found.withColumns({"verdict": verdict.otherwise(Verdict.UNIQUE.value), "reason": reason})
    return made.select("order", *_FOUND)


def _similarity(bits: Column) -> Column:
    """Return the similarity at a distance of the signatures, with the numbers of the core."""
    return f.get(f.array(*(f.lit(similarity(distance)) for distance in range(SIGNATURE_BITS + 1))), bits)


def _milliseconds(entries: DataFrame, time: str) -> Column:
    kind = entries.schema[time].dataType
    if isinstance(kind, TimestampType | TimestampNTZType):
        return f.unix_millis(_named(time).cast("timestamp"))
    return _named(time)


def _prefixed(articles: DataFrame, prefix: str) -> DataFrame:
    """Return what the check needs of an article, under names with a prefix."""
    return articles.select(*(f.col(name).alias(prefix + name) for name in _CHECKED))


def _chunk(number: Column, size: int) -> Column:
    return f.floor(number / size)


def _named(name: str) -> Column:
    """Return the column of this name, whatever characters it has."""
    return f.col("`" + name.replace("`", "``") + "`")
