"""Tables that are kept equal those that are made, and damage to them is noticed."""

import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from inspect import unwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.core import kept_tables
from stream_dedup.core.fingerprint import dictionary, points, weights, words
from stream_dedup.core.fingerprint.word_numbers import WordNumbers, packed_words
from stream_dedup.core.kept_files import keep
from stream_dedup.core.kept_tables import TableArrays, kept_arrays
from stream_dedup.core.scheme import idf_path
from stream_dedup.core.text import clean, normalise
from tests.small_disk import small_disk

SHAPES = st.sampled_from(((0,), (1,), (7,), (3, 5), (0, 4)))
TYPES = st.sampled_from(("<u1", "<u2", "<u4", "<i8", "<f8"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which tables are kept."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return tmp_path


class Maker:
    """Makes arrays, and counts how often."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> TableArrays:
        self.calls += 1
        return {"one": np.arange(1000), "two": np.ones((3, 4))}

    def kept(self, made_from: str = "x") -> TableArrays:
        """The arrays, kept or made."""
        found = kept_arrays("some_table", (made_from,), self)
        assert found["one"].tolist() == list(range(1000))
        assert found["two"].tolist() == [[1.0] * 4] * 3
        return found


def file_in(folder: Path) -> Path:
    (found,) = folder.rglob("some_table-*.kept")
    return found


@given(st.lists(st.tuples(TYPES, SHAPES), max_size=5), st.integers(0, 2**32 - 1))
def test_arrays_are_kept_as_they_are(kinds: list[tuple[str, tuple[int, ...]]], seed: int) -> None:
    """Of every type and shape: the content of the file has the same arrays."""
    random = np.random.default_rng(seed)
    arrays = {str(at): random.integers(0, 200, shape).astype(kind) for at, (kind, shape) in enumerate(kinds)}
    path = keep("kept_test", "0" * 16, kept_tables._content(arrays))
    try:
        found = kept_tables._mapped(path)
    finally:
        path.unlink()
    assert list(found) == list(arrays)
    for name, one in arrays.items():
        assert (found[name].dtype, found[name].shape) == (one.dtype, one.shape)
        assert np.array_equal(found[name], one)


def test_a_table_is_made_once(folder: Path) -> None:
    """The second time it is mapped; both cannot be written."""
    make = Maker()
    for _ in range(2):
        assert not make.kept()["one"].flags.writeable
    assert make.calls == 1
    assert file_in(folder).stat().st_size > 8000


@pytest.mark.parametrize("damage", ["nothing", "half", "a byte", "another end", "no file"])
def test_a_damaged_table_is_made_again(damage: str, folder: Path) -> None:
    """Cut short, to nothing too, with another byte, or gone: made again, and kept."""
    make = Maker()
    make.kept()
    path = file_in(folder)
    whole = path.read_bytes()
    middle, last = len(whole) // 2, len(whole) - 1
    at = middle if damage == "a byte" else last
    path.unlink()
    if damage != "no file":
        other = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        path.write_bytes({"nothing": b"", "half": whole[:middle]}.get(damage, other))
    make.kept()
    assert make.calls == 2
    assert file_in(folder).read_bytes() == whole
    make.kept()
    assert make.calls == 2


def test_a_table_made_from_something_else_is_made_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another file that it is read from, another version of Unicode or of a source; the older file is removed."""
    make = Maker()
    make.kept()
    make.kept("y")
    assert make.calls == 2
    for changed in (("source of something else",), ()):
        monkeypatch.setattr(kept_tables, "_sources", lambda changed=changed: changed)
        make.kept("y")
    assert make.calls == 4
    assert file_in(folder).is_file()


def test_tables_depend_on_unicode_and_every_source() -> None:
    """Python's version of Unicode and each file of the two folders are part of what a table is made from."""
    found = kept_tables._sources()
    assert unicodedata.unidata_version in found
    for name in ("normalise.py", "unicode14.py", "points.py", "weights.py", "kept_tables.py"):
        assert sum(one.startswith(f"{name}\n") for one in found) == 1


def test_a_folder_that_cannot_be_written(folder: Path) -> None:
    """What is there is mapped; what is not is made each time."""
    with small_disk(folder) as disk, pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMBA_CACHE_DIR", str(disk.folder))
        make = Maker()
        make.kept()
        disk.set_writable(False)
        make.kept()
        assert make.calls == 1
        make.kept("y")
        make.kept("y")
        assert make.calls == 3


def test_a_full_disk(folder: Path) -> None:
    """A table is made and nothing is left of its file; once there is room, it is kept."""
    with small_disk(folder) as disk, pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMBA_CACHE_DIR", str(disk.folder))
        disk.fill()
        make = Maker()
        make.kept()
        assert not list(disk.folder.rglob("some_table*"))
        disk.free()
        make.kept()
        make.kept()
        assert make.calls == 2


def test_processes_at_once(folder: Path) -> None:
    """Those that make a table at the same time all have it, and one file is left."""
    make = Maker()
    with ThreadPoolExecutor(4) as pool:
        for _ in pool.map(lambda _: make.kept(), range(16)):
            pass
    assert len(list(folder.rglob("*some_table*"))) == 1


@pytest.mark.parametrize(
    "kept",
    [points.code_point_tables, clean._unit_traits, normalise._unit_kinds, normalise._marks, weights.damping],
)
def test_kept_tables_equal_those_that_are_made(kept: Callable[[], Any], folder: Path) -> None:
    """Every element of every table of code points."""
    assert folder.is_dir()
    for once in (getattr(kept, "__wrapped__", kept), kept):
        found, expected = once(), unwrap(kept)()
        pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
        for one, other in pairs:
            assert one.dtype == other.dtype
            assert np.array_equal(one, other)


@pytest.mark.parametrize("marked", [False, True])
def test_kept_tables_of_long_text_equal_those_that_are_made(marked: bool) -> None:
    """The same with and without marks."""
    for kept in (normalise.plain_points, words._kinds):
        made = unwrap(kept)(marked=marked)
        assert np.array_equal(kept(marked=marked), made)
        assert kept(marked=marked).dtype == made.dtype


def test_the_kept_dictionary_equals_the_one_that_is_read() -> None:
    """Every array and number of it."""
    kept, made = dictionary.jieba_dictionary(), dictionary._loaded(dictionary.LEAST_SLOTS)
    for name, one in made._asdict().items():
        assert np.array_equal(getattr(kept, name), one), name
        assert type(getattr(kept, name)) is type(one)


def test_the_kept_idf_table_equals_the_one_that_is_read() -> None:
    """Every word of it; words that are not in it are not found."""
    kept, made = weights.idf_table(), weights.parse_idf(idf_path().read_bytes().decode())
    assert kept[1:] == made[1:]
    assert dict(kept.values) == made.values
    assert kept.values.get("没有这个词") is None


@given(st.dictionaries(st.text(), st.integers(-(2**63), 2**63 - 1)), st.text())
def test_numbers_of_words(numbers: dict[str, int], other: str) -> None:
    """Of any words: a word has its number, and another word has none."""
    found = WordNumbers(packed_words(numbers))
    assert dict(found) == numbers
    assert len(found) == len(numbers)
    assert found.get(other) == numbers.get(other)
