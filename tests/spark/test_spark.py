"""Spark makes the entries that the core makes, and finds the matches that the reference finds.

One test has all that needs Spark: its start takes longer than everything else here.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, DataType, DateType, IntegerType, LongType, StringType, StructField, StructType

from stream_dedup.audit.plain_near import PlainQuery, PlainSearch
from stream_dedup.audit.reference import plain_log
from stream_dedup.config.effective import fingerprint_settings_of, input_format_of, rules_of
from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config
from stream_dedup.core.columns import Columns, encode_columns
from stream_dedup.core.decode import RawRecord
from stream_dedup.core.entry import make_batch
from stream_dedup.core.fingerprinter import EntryMaker
from stream_dedup.core.model import Judgement, LogOffset, Match, Status, Widths
from stream_dedup.core.rules import DUPLICATE, REJECTED, UPDATE, Rules
from stream_dedup.errors import UserError
from stream_dedup.seed.entry_rows import ROWS_SCHEMA, batch_of, columns_of
from stream_dedup.spark import fingerprint, near_duplicates
from stream_dedup.spark.fingerprinting import check_articles, entries_of
from stream_dedup.spark.near import check_entries, judged, lists_of, near_pairs, sieved_pairs
from tests.logs import TOPIC, directed_rules, entries_batch, record, rules, scheme_of
from tests.random_logs import RandomEntries
from tests.spark.sessions import session

pytestmark = pytest.mark.spark
ARTICLES = 250
WAYS = {
    "k=3, long lists": rules(bucket_limit=3),
    "k=7, a window": rules(distance=7, window_ms=20_000),
    "directed, updates, no text without words": directed_rules(probes=16, recrawl=UPDATE, featureless=REJECTED),
    "directed, 16 tables, long lists, a window": directed_rules(tables=16, bucket_limit=5, window_ms=60_000),
    "k=5, few candidates, two copies": rules(distance=5, candidates=3, copies=2),
    "directed, sketches, few candidates, a window": directed_rules(
        scheme=scheme_of(8, 16), min_equal=12, short_min_equal=3, certain=2, candidates=4, window_ms=60_000
    ),
    "directed, forms": directed_rules(scheme=scheme_of(4, 24, form=True), min_equal=6, certain=2, form_limit=4),
    "directed, far entries": directed_rules(
        scheme=scheme_of(8, 16), short_min_equal=3, certain=2, far=4, far_min_equal=14, probes=16
    ),
    "directed, dominated articles": directed_rules(
        scheme=scheme_of(8, 16), min_equal=3, certain=40, far=60, far_min_equal=14, dominated=20, probes=16
    ),
}
SENTENCES = (
    "渡口的船今天早上开了，",
    "河水很急，船夫说明天再来。",
    "The ferry left this morning. ",
    "集市上的人比平时多，",
)


class Found(NamedTuple):
    """A verdict with all that belongs to it; the match is its place in the order."""

    id: str
    verdict: str
    reason: str | None = None
    match: int | None = None
    match_id: str | None = None
    distance: int | None = None
    similarity: float | None = None


def by_reference(columns: Columns, order: Sequence[int], times: Sequence[int], which: Rules) -> dict[int, Found]:
    """The verdict of each entry by its place in the order, where they were logged one by one in it."""
    records = [record(0, 0, which)]
    for row in np.argsort(order).tolist():
        one = make_batch(columns.rows(np.array([row])), TOPIC, "articles", 0, [order[row]])
        records.append(record(len(records), times[row], one))
    log = plain_log(records)
    ids = [columns.ids[row] for row in np.argsort(order).tolist()]
    return {log.entries.offset(at): _found(ids[at], judgement) for at, judgement in log.judgements()}


def by_spark(spark: SparkSession, columns: Columns, order: Sequence[int], times: Sequence[int], which: Rules) -> object:
    rows = batch_of(columns, which.scheme.id)
    rows = rows.append_column("place", pa.array(order)).append_column("at", pa.array(times))
    entries = spark.createDataFrame(pa.Table.from_batches([rows])).repartition(2)
    timed = None if which.window_ms is None else "at"
    return found_in(judged(entries, "place", which, timed).collect())


def found_in(rows: Sequence[object]) -> dict[int, Found]:
    return {row.place: Found(*(getattr(row, name) for name in Found._fields)) for row in rows}  # type: ignore[attr-defined]


def random_entries(rng: random.Random, which: Rules) -> Columns:
    draw = RandomEntries(rng, 12, *which.scheme.widths, which.scheme.form_bytes)
    return entries_batch(range(ARTICLES), [draw.draw() for _ in range(ARTICLES)], *which.scheme.widths)


def values(rng: random.Random) -> list[bytes | None]:
    """Records of articles, some near others, and records that cannot be read."""
    texts = ["".join(rng.choices(SENTENCES, k=rng.choice([2, 40]))) for _ in range(20)]
    texts += [text + rng.choice(SENTENCES) for text in rng.sample(texts, 10)]
    ids = [{"id": f"文 {at}"} if at % 3 else {} for at in range(len(texts))]
    articles = [json.dumps(one | {"text": text}).encode() for one, text in zip(ids, texts, strict=True)]
    return [*articles, b"{", b'{"text": "\xff"}', b'{"text": "..."}', b'{"id": "\\ud83d", "text": ""}', None]


def made_by_core(records: Sequence[bytes | None], keys: Sequence[bytes | None], config: Config) -> Columns:
    maker = EntryMaker(fingerprint_settings_of(config), input_format_of(config))
    return maker(
        [RawRecord(key, value, f"articles-0-{at}") for at, (key, value) in enumerate(zip(keys, records, strict=True))]
    )


@pytest.mark.timeout(600)
def test_spark_makes_the_same_entries_and_finds_the_same_matches(tmp_path: Path) -> None:
    """Entries through Parquet are those of the core, and matches those of the reference.

    In two orders, for both kinds of search, with long lists, windows, scopes, updates, bounds, copies, sketches, and
    text without words. An order
    in which two articles have one place is refused, and so is an article without a time under a window.
    """
    rng = random.Random(20261122)
    with session(tmp_path) as spark:
        for way, which in WAYS.items():
            columns = random_entries(rng, which)
            for order in (range(ARTICLES), rng.sample(range(5000), ARTICLES)):
                times = [
                    rng.randrange(0, 100_000, 1_000) for _ in order
                ]  # some pairs a window apart, to the millisecond
                wanted = by_reference(columns, order, times, which)
                assert (way, by_spark(spark, columns, order, times, which)) == (way, wanted)
        _test_articles(spark, tmp_path, rng)


def _test_articles(spark: SparkSession, folder: Path, rng: random.Random) -> None:
    config = Config()
    records = values(rng)
    keys = [f"key {at}".encode() if at % 5 == 0 else None for at in range(len(records))]
    wanted = made_by_core(records, keys, config)
    order = rng.sample(range(len(records)), len(records))
    rows = [("articles", 0, at, *both) for at, both in enumerate(zip(keys, records, strict=True))]
    articles = spark.createDataFrame(
        [(*row, place) for row, place in zip(rows, order, strict=True)],
        "topic string, partition int, offset bigint, key binary, value binary, place int",
    )
    # Parquet, and every row of it in the order of the records.
    path = str(folder / "entries")
    fingerprint(articles.repartition(3), config, keep=["place", "offset"]).write.parquet(path)
    entries = spark.read.parquet(path)
    stored = entries.orderBy("offset").toArrow().combine_chunks().to_batches()
    scheme = rules_of(config).scheme
    found = Columns.concat([columns_of(batch, scheme) for batch in stored])
    assert encode_columns(found) == encode_columns(wanted)
    # Matches.
    near = near_duplicates(entries, "place", config).collect()
    assert found_in(near) == by_reference(wanted, order, [0] * len(order), rules_of(config))
    # An order that is none.
    with pytest.raises(UserError, match="each article needs a position of its own"):
        near_duplicates(entries.withColumn("place", entries["place"] % 2), "place", config)
    # An article without a time.
    timed = entries.withColumn("at", f.nullif("place", f.lit(3)))
    with pytest.raises(UserError, match="the article with place = 3 has no at"):
        judged(timed, "place", rules(window_ms=5), "at")


def _found(identity: str, judgement: Judgement) -> Found:
    match: Match | None = judgement.match
    if match is None:
        return Found(identity, judgement.verdict.value, judgement.reason)
    place = match.coordinates.offset
    return Found(identity, judgement.verdict.value, None, place, match.id, match.distance, match.similarity)


def test_an_id_is_made_where_an_article_has_none() -> None:
    """Without an id, a key and a source, the checksum of the value is the id: the same on every machine."""
    config = Config()
    parts = fingerprint_settings_of(config), input_format_of(config), rules_of(config).scheme.id
    batch = pa.record_batch({"value": ['{"text": "The ferry left."}', None], "place": [7, 8]})
    made = pa.Table.from_batches(entries_of(*parts, ("place",), iter([batch])))
    checksums = [f"{checksum & (1 << 64) - 1:016x}" for checksum in made["checksum"].to_pylist()]
    assert (made["id"].to_pylist(), made["place"].to_pylist()) == (checksums, [7, 8])


@pytest.mark.parametrize("deletes", ["withdraw", "reject"])
@pytest.mark.parametrize("gone", [(b"k", None), (None, '{"id": "k", "text": "The ferry left.", "op": "d"}')])
def test_a_delete_ends_the_job(deletes: str, gone: tuple[bytes | None, str | None]) -> None:
    """Its entry would withdraw nothing. Where the configuration knows no deletes, it is a record as any other."""
    config = load_config(
        None, {"input": {"deletes": deletes, "delete_field": "op" if deletes == "withdraw" else None}}, {}
    )
    schema = StructType([StructField("key", BinaryType()), StructField("value", StringType())])
    articles = SimpleNamespace(schema=schema, mapInArrow=lambda entries, _: entries)
    entries = fingerprint(cast("DataFrame", articles), config)
    batch = pa.record_batch({"key": [None, gone[0]], "value": ['{"text": "The ferry left."}', gone[1]]})
    if deletes == "reject":
        assert next(entries(iter([batch]))).num_rows == batch.num_rows  # type: ignore[operator]
        return
    with pytest.raises(UserError, match=r"the record of k is a delete .* leave deletes out"):
        next(entries(iter([batch])))  # type: ignore[operator]


def test_an_executor_with_other_dictionaries_is_refused() -> None:
    """A process that would make entries of another scheme than the driver stops the job and names both schemes."""
    config = Config()
    work = fingerprint_settings_of(config), input_format_of(config), "article/1-00000000", ()
    batch = pa.record_batch({"value": ['{"text": "The ferry left."}']})
    with pytest.raises(UserError, match="the driver of article/1-00000000"):
        list(entries_of(*work, iter([batch])))


def test_unsigned_entries_are_in_no_list() -> None:
    """A rejected record and a text without words are in no posting list and look none up."""
    columns = Columns.blank(2, Widths())
    made = lists_of(replace(columns, statuses=np.array([1, 2], np.uint8)), rules())
    assert [column.to_pylist() for column in made[-2:]] == [[[], []], [[], []]]


@pytest.mark.parametrize("block_bits", [16, 20, 24])
def test_lists_and_look_ups_have_the_width_of_the_scheme(block_bits: int) -> None:
    """A list is the table and the value of its block; one's own lists are the cheapest look-ups of directed search."""
    which = directed_rules(scheme=scheme_of(8, block_bits=block_bits), probes=8)
    columns = random_entries(random.Random(1), which)
    keys, (lists, lookups) = lists_of(columns, which)[2], lists_of(columns, which)[-2:]
    assert any(lists.to_pylist())
    for of_words, own, asked in zip(*map(pa.Array.to_pylist, (keys, lists, lookups)), strict=True):
        words = [f"{word % 2**64:064b}" * 2 for word in of_words]
        starts = [(table, 16 * (table % 4)) for table in range(8)]
        values = [int(words[table // 4][start : start + block_bits], 2) for table, start in starts]
        assert own == asked
        assert own in ([], [table << block_bits | value for table, value in enumerate(values)])


@pytest.mark.parametrize("way", WAYS)
def test_pairs_of_a_batch_are_sieved_and_checked_as_by_the_reference(way: str) -> None:
    """Of all pairs, those that pass the sieve of the first word, and those that are near by their signatures."""
    which = replace(WAYS[way], window_ms=None, candidates=None, bucket_limit=16_384, recrawl=DUPLICATE)
    columns = random_entries(random.Random(3), which)
    words, sketch, keys, dominated, sure = (column.to_pylist() for column in lists_of(columns, which)[:5])
    records = [record(0, 0, which), record(1, 0, make_batch(columns, TOPIC, "articles", 0, range(ARTICLES)))]
    entries = plain_log(records).entries
    signed = np.flatnonzero(columns.statuses == Status.LONG).tolist()
    pairs = [(later, earlier) for later in signed for earlier in signed if earlier < later]
    later, earlier = ([pair[side] for pair in pairs] for side in (0, 1))
    statuses = pa.array([int(columns.statuses[at]) for at in later], pa.int8())
    batch = pa.record_batch(
        {
            "at": pa.array(range(len(pairs))),
            "status": statuses,
            "dominated": pa.array([dominated[at] for at in later], pa.int32()),
            "key": pa.array([keys[at][0] for at in later]),
            "once": pa.array([sure[at][0] for at in later]),
            "twice": pa.array([sure[at][1] for at in later]),
            "other_key": pa.array([keys[at][0] for at in earlier]),
            "words": pa.array([words[at] for at in later], pa.list_(pa.int64())),
            "sketch": pa.array([sketch[at] for at in later], pa.list_(pa.int64())),
            "other_words": pa.array([words[at] for at in earlier], pa.list_(pa.int64())),
            "other_sketch": pa.array([sketch[at] for at in earlier], pa.list_(pa.int64())),
        }
    )
    search = PlainSearch(entries, which.scheme)
    for name, made in (("sieve", sieved_pairs), ("check", near_pairs)):
        batches = iter([batch.slice(0, 700), batch.slice(700), batch.slice(0, 0)])
        found = pa.Table.from_batches(made(which, ("at",), batches))
        wanted = []
        for at, (mine, other) in enumerate(pairs):
            query = PlainQuery(mine, which, columns.margins[mine], LogOffset(0), lambda _: False)
            both = np.array([other])
            distances = (
                entries.signature_distances(mine, both) if which.directed else search._word_distances(mine, both)
            )
            checked = distances[0] <= search._reach(query) and search._confirmed(query, both, distances)[0]
            if search._sieved(query, both)[0, 0] if name == "sieve" else checked:
                wanted.append((at, int(distances[0]), int(entries.signature_distances(mine, both)[0])))
        assert 0 < len(wanted) < len(pairs)
        assert found["at"].to_pylist() == [at for at, *_ in wanted]
        if name == "check":
            assert list(zip(found["distance"].to_pylist(), found["whole"].to_pylist(), strict=True)) == [
                (distance, whole) for _, distance, whole in wanted
            ]


@pytest.mark.parametrize(
    ("columns", "keep", "reason"),
    [
        ({"text": StringType()}, [], "no column value"),
        ({"value": IntegerType()}, [], "column value is int"),
        ({"value": StringType(), "key": IntegerType()}, [], "column key is int"),
        ({"value": StringType(), "id": StringType()}, ["id"], "column id cannot be kept: the entries have"),
        ({"value": StringType()}, ["place"], "column place cannot be kept: the articles have only value"),
    ],
)
def test_articles_that_cannot_be_read_are_refused(
    columns: dict[str, StringType | IntegerType], keep: list[str], reason: str
) -> None:
    """Articles without a record, or with columns of other types, are refused before a job starts."""
    with pytest.raises(UserError, match=reason):
        check_articles(StructType([StructField(name, kind) for name, kind in columns.items()]), keep)


def test_entries_without_what_the_rules_need_are_refused() -> None:
    """A missing column is named, a window needs the column of the time, and the order a name of its own."""
    columns = StructType([StructField("place", LongType()), *from_arrow_schema(ROWS_SCHEMA)])
    with pytest.raises(UserError, match="column scheme is missing"):
        check_entries(StructType([one for one in columns if one.name != "scheme"]), "place", rules())
    with pytest.raises(UserError, match="name the column with the time"):
        check_entries(columns, "place", rules(window_ms=5))
    with pytest.raises(UserError, match="column id cannot be the order"):
        check_entries(columns, "id", rules())


@pytest.mark.parametrize("kind", [DateType(), StringType()])
def test_the_time_is_a_timestamp_or_a_number(kind: DataType) -> None:
    """Spark would end the job, or make a date of it that is none."""
    columns = StructType([StructField("place", LongType()), *from_arrow_schema(ROWS_SCHEMA)])
    check_entries(columns.add(StructField("ms", LongType())), "place", rules(window_ms=5), "ms")
    with pytest.raises(UserError, match=f"column at is {kind.simpleString()}: the time is a timestamp"):
        check_entries(columns.add(StructField("at", kind)), "place", rules(window_ms=5), "at")
