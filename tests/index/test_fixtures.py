"""Indexes of the format that the program writes are loaded, whoever wrote them."""

import shutil
from pathlib import Path

import pytest

from stream_dedup.audit.reference import plain_log
from stream_dedup.index import LogIndex
from tests.index.checks import check_standing, check_verdicts, covered_positions
from tests.index.make_fixture import FIXTURE, FIXTURES, LOGS, SCHEMES, check_library, log_of


def test_there_is_a_fixture_of_the_format() -> None:
    """And of no other."""
    assert [*FIXTURES.glob("v*")] == [FIXTURE]


@pytest.mark.parametrize("name", LOGS)
def test_a_log_index_is_loaded(tmp_path: Path, name: str) -> None:
    """It has stored runs, verifies and gives the verdicts of its log, whose entries have sketches or not."""
    shutil.copytree(FIXTURE / name, tmp_path / "log")
    index = LogIndex.open(tmp_path / "log", scheme=SCHEMES[name])
    assert index.stats().list_bytes > 0
    records = log_of(name)
    plain = plain_log(records)
    assert index.low_watermark == plain.low_watermark
    assert (index.low_watermark > 0) is (name == "log")
    check_standing(index, plain)
    rest = plain_log([record for record in records if record.offset >= plain.low_watermark])
    check_verdicts(index, rest, covered_positions(rest))
    assert index.verify() == []
    index.close()


def test_an_index_of_the_python_api_is_loaded(tmp_path: Path) -> None:
    """Every search finds what it found when the fixture was written."""
    shutil.copytree(FIXTURE / "library", tmp_path / "library")
    check_library(tmp_path / "library")
