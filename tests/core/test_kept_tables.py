"""Tables that are kept equal those that are made, and a store is asked for what they are made from."""

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from inspect import unwrap
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream_dedup.core.fingerprint.word_numbers import WordNumbers, packed_words

from stream_dedup.core import kept_tables
from stream_dedup.core.fingerprint import dictionary, points, weights, words
from stream_dedup.core.kept_tables import kept_arrays
from stream_dedup.core.scheme import idf_path
from stream_dedup.core.table_store import MadeFrom, TableStore, keep_tables_in, table_store
from stream_dedup.core.text import normalise
from tests.table_maker import TableMaker

SHAPES = st.sampled_from(((0,), (1,), (7,), (3, 5), (0, 4)))
TYPES = st.sampled_from(("<u1", "<u2", "<u4", "<i8", "<f8"))


class MemoryStore:
    """Keeps tables in memory, or refuses to."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.tables: dict[tuple[str, MadeFrom], memoryview] = {}
        self._refuses = refuses

    def find(self, kind: str, made_from: MadeFrom) -> memoryview | None:
        return self.tables.get((kind, made_from))

    def keep(self, kind: str, made_from: MadeFrom, parts: Sequence[bytes]) -> None:
        if self._refuses:
            raise OSError
        self.tables[kind, made_from] = memoryview(b"".join(parts))

    def alone(self, path: str) -> AbstractContextManager[None]:  # noqa: ARG002 - there is no other process
        return nullcontext()

    def note_compiling(self) -> None:
        pass


@pytest.fixture
def registered() -> Iterator[Callable[[TableStore | None], None]]:
    """Registers a store; the one before it is registered again after the test."""
    before = table_store()
    yield keep_tables_in
    keep_tables_in(before)


@given(st.lists(st.tuples(TYPES, SHAPES), max_size=5), st.integers(0, 2**32 - 1))
def test_arrays_are_kept_as_they_are(kinds: list[tuple[str, tuple[int, ...]]], seed: int) -> None:
    """Of every type and shape: the bytes have the same arrays, each at a multiple of a cache line."""
    random = np.random.default_rng(seed)
    arrays = {str(at): random.integers(0, 200, shape).astype(kind) for at, (kind, shape) in enumerate(kinds)}
    content = b"".join(kept_tables._content(arrays))
    found = kept_tables._arrays_in(memoryview(content))
    assert list(found) == list(arrays)
    begin = np.frombuffer(content, np.uint8).ctypes.data
    for name, one in arrays.items():
        assert (found[name].dtype, found[name].shape) == (one.dtype, one.shape)
        assert np.array_equal(found[name], one)
        assert one.size == 0 or (found[name].ctypes.data - begin) % kept_tables.ALIGN == 0


def test_a_table_is_made_once(registered: Callable[[TableStore | None], None]) -> None:
    """The second time it is that of the store; both cannot be written."""
    registered(MemoryStore())
    make = TableMaker()
    for _ in range(2):
        assert not make.kept()["one"].flags.writeable
    assert make.calls == 1
    make.kept("y")
    assert make.calls == 2


@pytest.mark.parametrize("store", [None, MemoryStore(refuses=True)])
def test_a_table_that_cannot_be_kept_is_made_each_time(
    store: MemoryStore | None, registered: Callable[[TableStore | None], None]
) -> None:
    """Without a store, and with one that cannot keep anything."""
    registered(store)
    make = TableMaker()
    for _ in range(2):
        assert not make.kept()["one"].flags.writeable
    assert make.calls == 2


def test_tables_depend_on_every_source() -> None:
    """Each file of the folders by which tables are made, and the file that lays out their bytes."""
    found = kept_tables._sources()
    for name in ("normalise.py", "unicode14.py", "points.py", "weights.py", "kept_tables.py"):
        assert sum(one.startswith(f"{name}\n") for one in found) == 1


def test_a_table_of_another_source_is_made_again(
    registered: Callable[[TableStore | None], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without source none is kept."""
    store = MemoryStore()
    registered(store)
    make = TableMaker()
    for calls, sources in enumerate((("one source",), ("another",), (), ()), 1):
        monkeypatch.setattr(kept_tables, "_sources", lambda sources=sources: sources)
        make.kept()
        assert make.calls == calls
    assert len(store.tables) == 2


def test_tables_depend_on_unicode(registered: Callable[[TableStore | None], None]) -> None:
    """Python's version of Unicode, numpy's version and what a table names are part of what it is made from."""
    store = MemoryStore()
    registered(store)
    kept_arrays("some", ("its own",), TableMaker())
    ((kind, made_from),) = store.tables
    assert kind == "some"
    assert {unicodedata.unidata_version, np.__version__, "its own"} < set(made_from)


@pytest.mark.parametrize(
    "kept",
    [points.code_point_tables, normalise._unit_kinds, normalise._marks, weights.damping],
)
def test_kept_tables_equal_those_that_are_made(
    kept: Callable[[], Any], registered: Callable[[TableStore | None], None]
) -> None:
    """Every element of every table of code points."""
    registered(MemoryStore())
    for once in (getattr(kept, "__wrapped__", kept),) * 2 + (kept,):
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
