"""Spark on this machine, with two Python processes."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

PROCESSES = 2


@contextmanager
def session(folder: Path) -> Iterator[SparkSession]:
    """A session that keeps its files in a folder; where there is no Java, the test is skipped."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("no Java is here, so Spark cannot run: install Java 17")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings: dict[str, bool | float | int | str | None] = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.adaptive.enabled": "false",  # planning small joins twice takes longer than the joins
    }
    builder = SparkSession.builder.master(f"local[{PROCESSES}]").appName("stream_dedup tests")
    started = builder.config(map=settings).getOrCreate()
    try:
        yield started
    finally:
        started.stop()
