from collections.abc import Iterator

import pytest

from stream_dedup.index import chains, row_column, tables
from tests.index.run_cases import set_small_runs


@pytest.fixture
def no_image(monkeypatch: pytest.MonkeyPatch) -> None:
    """No rows are held in memory."""
    monkeypatch.setattr(tables, "MIB", 0)


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Portions, runs and memory so small that a few entries go through every path; the image counts in 50 KB."""
    monkeypatch.setattr(row_column, "ROW_CHUNK", 4)
    monkeypatch.setattr(row_column, "_READ_CHUNKS", 3)
    monkeypatch.setattr(row_column, "IMAGE_CHUNK_BITS", 5)
    monkeypatch.setattr(tables, "MIB", 50_000)
    monkeypatch.setattr(chains, "FANOUT", 3)
    monkeypatch.setattr(tables, "MERGE_PACE", 8)
    monkeypatch.setattr(tables, "STEP_ENTRIES", 4)
    monkeypatch.setattr(chains, "FILE_FOLDS", 1)
    monkeypatch.setattr(tables, "YOUNG_ENTRIES", 8)
    monkeypatch.setattr(tables, "RECENT_ENTRIES", 3)


@pytest.fixture(scope="module")
def small_runs() -> Iterator[None]:
    """Runs of a few entries are files, which are merged and removed in many steps."""
    with pytest.MonkeyPatch.context() as patch:
        set_small_runs(patch.setattr)
        yield
