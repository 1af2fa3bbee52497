"""Archives by Spark: the same entries, the same matches.

    python -m benchmarks.spark [--articles 3000] [--memory 4g]

The texts are from the folder that ``STREAM_DEDUP_DATA`` names: old and new revisions of Chinese articles
(``zh_revision_pairs``), so that many have a match, and then other articles (``zh_articles``). Spark runs on this
machine.

* **entries**: ``fingerprint`` writes Parquet; every row is compared with the entry that the core makes of the same
  record, byte by byte. ``seed`` enters the Parquet files into one log (in memory) and the text into another; the
  entries of both are compared.
* **matches**: ``near_duplicates`` of these entries as stored and in a random order; verdict, match, distance and
  similarity of every article are compared with those of the reference for a log in that order.

It ends with exit code 1 where anything differs.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.quality.data import check, revisions
from benchmarks.texts import articles, as_json
from stream_dedup.audit.reference import plain_log
from stream_dedup.config.effective import fingerprint_settings_of, input_format_of, rules_of
from stream_dedup.config.model import Config
from stream_dedup.core.columns import Columns, encode_columns
from stream_dedup.core.decode import RawRecord
from stream_dedup.core.entry import LogRecord, Payload, encode, make_batch
from stream_dedup.core.fingerprinter import EntryMaker
from stream_dedup.core.model import LogOffset
from stream_dedup.core.profiles import DEFAULT_PROFILE
from stream_dedup.dev.broker.jvm import find_java
from stream_dedup.extras import not_installed
from stream_dedup.seed.entry_rows import columns_of
from stream_dedup.spark import fingerprint, near_duplicates
from tests.seed.seeding import SeedWorld

SEED = 20261122
PROCESSES = 2
CONFIG = Config()


def main() -> int:
    options = _options()
    if find_java() is None:
        sys.exit(not_installed("benchmarks.spark", ["Java 17"], "apt install default-jre-headless"))
    check()
    with tempfile.TemporaryDirectory(prefix="stream-dedup-bench-") as folder:
        differing = compared(Path(folder), options)
    return 1 if differing else 0


def compared(folder: Path, options: argparse.Namespace) -> int:
    """Compare entries and matches; return how many differ."""
    pairs = revisions("zh")
    revised = list(chain.from_iterable(zip(pairs.old, pairs.new, strict=True)))
    texts = list(dict.fromkeys([*revised, *articles(options.articles)]))[: options.articles]
    values = [as_json(number, text) for number, text in enumerate(texts)]
    maker = EntryMaker(fingerprint_settings_of(CONFIG), input_format_of(CONFIG))
    wanted = maker([RawRecord(None, value, "") for value in values])
    with session(options.memory, folder) as spark:
        path = str(folder / "entries")
        text = folder / "articles.jsonl"
        fingerprint(lines(spark, text, values), CONFIG, keep=["place"]).write.parquet(path)
        entries = spark.read.parquet(path)
        stored = entries.orderBy("place").toArrow().combine_chunks().to_batches()
        made = Columns.concat([columns_of(batch, rules_of(CONFIG).scheme) for batch in stored])
        same = encode_columns(made) == encode_columns(wanted)
        print(f"{len(made):,} entries through Parquet: {'the same bytes' if same else 'DIFFERENT'} as the core's")
        seeded = seeded_alike(spark, path, text)
        differing = int(not same) + int(not seeded)
        order = list(range(len(values)))
        for name in ("as stored", "a random order"):
            differing += _matches(entries, wanted, order, name)
            random.Random(SEED).shuffle(order)
    return differing


def seeded_alike(spark: SparkSession, entries: str, text: Path) -> bool:
    """Seed the entries into one log and the text into another; return whether the logs have the same entries."""
    in_order = text.with_suffix(".parquet")
    spark.read.parquet(entries).orderBy("place").coalesce(1).write.parquet(str(in_order))
    logged = []
    for path in (next(in_order.glob("*.parquet")), text):
        world = SeedWorld()
        tally = world.seed_files(path, name="archive", config=world.config(profile=DEFAULT_PROFILE))
        logged.append(encode_columns(Columns.concat(world.batches())))
        print(f"seed {path.name}: {tally.entered:,} entered, {tally.rejected:,} rejected", flush=True)
    print(f"the logs have {'the same' if logged[0] == logged[1] else 'OTHER'} entries", flush=True)
    return logged[0] == logged[1]


def _matches(entries: DataFrame, wanted: Columns, order: Sequence[int], name: str) -> int:
    """Compare the matches of an order; return how many differ."""
    ordered = entries.withColumn("ordered", f.get(f.lit(np.array(order)), f.col("place")))
    rows = near_duplicates(ordered, "ordered", CONFIG).collect()
    found = {row.ordered: (row.verdict, row.reason, row.match, row.distance, row.similarity) for row in rows}
    reference = by_reference(wanted, order)
    differing = sum(found.get(place) != said for place, said in reference.items())
    duplicates = sum(said[0] == "duplicate" for said in reference.values())
    said = f"{len(reference):,} articles, {duplicates:,} duplicates by the reference, {differing:,} differ"
    print(f"{name}: {said}", flush=True)
    return differing


def by_reference(columns: Columns, order: Sequence[int]) -> dict[int, tuple[Any, ...]]:
    """The verdict of each article by its place in the order."""
    rows = np.argsort(np.asarray(order))
    batch = make_batch(columns.rows(rows), bytes(16), "articles", 0, range(len(rows)))
    log = plain_log([_record(0, rules_of(CONFIG)), _record(1, batch)])
    said = {}
    for at, judged in log.judgements():
        match = judged.match
        found = (match.coordinates.offset, match.distance, match.similarity) if match else (None, None, None)
        said[at] = (judged.verdict.value, judged.reason, *found)
    return said


def _record(offset: int, payload: Payload) -> LogRecord:
    return LogRecord(LogOffset(offset), offset, payload, encode(payload))


def lines(spark: SparkSession, path: Path, values: Sequence[bytes]) -> DataFrame:
    """Articles from a file of JSON Lines, with their places in it."""
    path.write_bytes(b"\n".join(values) + b"\n")
    place = f.substring(f.get_json_object("value", "$.id"), 2, 20).cast("int")
    return spark.read.text(str(path), lineSep="\n").withColumn("place", place)


@contextmanager
def session(memory: str, folder: Path) -> Iterator[SparkSession]:
    """Spark on this machine."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": memory,
        "spark.local.dir": str(folder),
        "spark.sql.shuffle.partitions": str(4 * PROCESSES),
    }
    spark = SparkSession.builder.master(f"local[{PROCESSES}]").config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--articles", type=int, default=3_000, help="articles compared (default 3000)")
    parser.add_argument("--memory", default="4g", help="memory of Spark's Java process (default 4g)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
