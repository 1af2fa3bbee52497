"""Indexes of the current format are loaded; one of an earlier format says how to go on."""

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from stream_dedup import Index
from stream_dedup.audit.reference import plain_log
from stream_dedup.errors import CorruptError
from stream_dedup.index import LogIndex
from stream_dedup.index.layout import INDEX_FORMAT_VERSION
from tests.index.checks import check_standing, check_verdicts, covered_positions
from tests.index.make_fixture import FIXTURES, LOGS, SCHEMES, check_library, log_of, open_old
from tests.logs import SCHEME

VERSIONS = ["v2"]


def test_there_is_a_fixture_of_each_version() -> None:
    """The current version is among those that are loaded."""
    assert sorted(folder.name for folder in FIXTURES.glob("v*")) == ["v1", *VERSIONS]
    assert f"v{INDEX_FORMAT_VERSION}" == VERSIONS[-1]


@pytest.mark.parametrize("kind", ["log", "tables"])
def test_an_index_of_format_1_is_refused(tmp_path: Path, kind: str) -> None:
    """It is a cache of the log: built again, and not translated. It is not touched."""
    shutil.copytree(FIXTURES / "v1" / kind, tmp_path / kind)
    with pytest.raises(CorruptError, match=r"format version 1, this program knows 2: open it with the release"):
        LogIndex.open(tmp_path / kind, scheme=SCHEME) if kind == "log" else Index(tmp_path / kind)
    assert {path.name for path in (tmp_path / kind).iterdir()} - {"owner"} == {"current", "data-1"}


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_log_index_of_this_version_is_loaded(tmp_path: Path, version: str, name: str) -> None:
    """It verifies and gives the verdicts of its log, whose entries have sketches or not."""
    shutil.copytree(FIXTURES / version / name, tmp_path / "log")
    index = LogIndex.open(tmp_path / "log", scheme=SCHEMES[name])
    records = log_of(version, name)
    plain = plain_log(records)
    assert index.low_watermark == plain.low_watermark
    assert (index.low_watermark > 0) is (name == "log")
    check_standing(index, plain)
    rest = plain_log([record for record in records if record.offset >= plain.low_watermark])
    check_verdicts(index, rest, covered_positions(rest))
    assert index.verify() == []
    index.close()


@pytest.mark.parametrize("kind", ["tables", "library"])
@pytest.mark.parametrize("version", VERSIONS)
def test_an_index_of_the_python_api_is_loaded(tmp_path: Path, version: str, kind: str) -> None:
    """Every search finds what it found when the fixture was written."""
    shutil.copytree(FIXTURES / version / kind, tmp_path / kind)
    with closing(open_old(tmp_path / kind)) as index:
        check_library(index)
