"""Indexes of the current format are loaded; one of another format says how to go on."""

import json
import shutil
from pathlib import Path

import pytest

from stream_dedup import Index
from stream_dedup.audit.reference import plain_log
from stream_dedup.errors import CorruptError
from stream_dedup.index import LogIndex
from stream_dedup.index.layout import INDEX_FORMAT_VERSION
from tests.index.checks import check_standing, check_verdicts, covered_positions
from tests.index.make_fixture import FIXTURES, LOGS, SCHEMES, check_library, log_of
from tests.index.trees import tree
from tests.logs import SCHEME

VERSIONS = ["v5"]


def test_there_is_a_fixture_of_each_version() -> None:
    """The current version is among those that are loaded."""
    assert sorted(folder.name for folder in FIXTURES.glob("v*")) == VERSIONS
    assert f"v{INDEX_FORMAT_VERSION}" == VERSIONS[-1]


@pytest.mark.parametrize("name", ["log", "library"])
def test_an_index_of_an_earlier_format_is_refused(tmp_path: Path, name: str) -> None:
    """It is built again, and not translated. It is not touched."""
    path = Path(shutil.copytree(FIXTURES / VERSIONS[-1] / name, tmp_path / name))
    pointer = json.loads((path / "current").read_text())
    (path / "current").write_text(json.dumps(pointer | {"format": 4}))
    before = tree(path / "data-1")
    with pytest.raises(CorruptError, match=r"format version 4, this program knows 5: open it with the release"):
        LogIndex.open(path, scheme=SCHEME) if name == "log" else Index(path)
    assert tree(path / "data-1") == before
    assert {file.name for file in path.iterdir()} - {"owner"} == {"current", "data-1"}


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_log_index_of_this_version_is_loaded(tmp_path: Path, version: str, name: str) -> None:
    """It has stored runs, verifies and gives the verdicts of its log, whose entries have sketches or not."""
    shutil.copytree(FIXTURES / version / name, tmp_path / "log")
    index = LogIndex.open(tmp_path / "log", scheme=SCHEMES[name])
    assert index.stats().list_bytes > 0
    records = log_of(version, name)
    plain = plain_log(records)
    assert index.low_watermark == plain.low_watermark
    assert (index.low_watermark > 0) is (name == "log")
    check_standing(index, plain)
    rest = plain_log([record for record in records if record.offset >= plain.low_watermark])
    check_verdicts(index, rest, covered_positions(rest))
    assert index.verify() == []
    index.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_an_index_of_the_python_api_is_loaded(tmp_path: Path, version: str) -> None:
    """Every search finds what it found when the fixture was written."""
    shutil.copytree(FIXTURES / version / "library", tmp_path / "library")
    check_library(tmp_path / "library", version)
