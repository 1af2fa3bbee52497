"""A crash between any two effects on an index folder: the index is the one before or the one after."""

from pathlib import Path

import pytest

from stream_dedup.errors import UserError
from stream_dedup.index import LogIndex
from tests.forks import CRASHED, forks
from tests.index.dying import STEP
from tests.logs import SCHEME


def next_offset_of_reader(path: Path) -> int:
    """What a reader finds; 0 where it finds no index."""
    try:
        index = LogIndex.read(path, scheme=SCHEME)
    except UserError as error:
        assert "there is none" in str(error)  # noqa: PT017 - one of two answers
        return 0
    with index:
        return index.next_offset


def next_offset_of_writer(path: Path) -> int:
    with LogIndex.open(path, scheme=SCHEME) as index:
        assert index.verify() == []
        return index.next_offset


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "first", "last"),
    [
        ("make", 0, 2),
        ("stage the first", 0, 2),
        ("give up the first", 0, 0),
        ("stage", 2, 3),
        ("give up", 2, 2),
        ("empty", 2, 0),
    ],
)
def test_a_crash_between_any_two_effects_leaves_one_index_or_the_other(
    tmp_path: Path, call: str, first: int, last: int
) -> None:
    """A reader and a writer find it whole, the writer removes left-over data, and no damage is reported."""
    deaths = forks().start("tests.index.dying:main", [call, str(tmp_path)], [0, 1, 2]).wait()
    assert deaths != CRASHED
    assert deaths > 8
    found = []
    for effects in range(1, deaths + 1, STEP):
        path = tmp_path / str(effects)
        read = next_offset_of_reader(path)
        found.append(next_offset_of_writer(path))
        assert read == found[-1]
        names = sorted(each.name for each in path.iterdir())
        assert {name for name in names if not name.startswith("data-")} - {"current.new"} == {"current"}
        marks = [sorted(each.name for each in data.iterdir() if each.suffix == "") for data in path.glob("data-*")]
        assert sum("committed" in mark for mark in marks) == 1
        # Of a folder that was made and not marked yet, or is no longer, nobody can say who made it: it is empty.
        assert sum(bool(mark) for mark in marks) == 1
    assert found == sorted(found, reverse=last < first)
    assert (found[0], found[-1]) == (first, last)
    assert set(found) == {first, last}
