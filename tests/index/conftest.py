import pytest

from stream_dedup.index import image, row_column, stored_lists, tables


@pytest.fixture
def no_image(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of an index is held in memory: it opens in a fraction of the time, and its files are the same."""
    monkeypatch.setattr(image, "MIB", 0)


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces, portions and memory so small that a few entries go through every path; the image counts in 50 KB."""
    monkeypatch.setattr(stored_lists, "CHUNK_ENTRIES", 4)
    monkeypatch.setattr(row_column, "ROW_CHUNK", 4)
    monkeypatch.setattr(row_column, "_READ_CHUNKS", 3)
    monkeypatch.setattr(row_column, "IMAGE_CHUNK_BITS", 5)
    monkeypatch.setattr(image, "MIB", 50_000)
    monkeypatch.setattr(tables, "YOUNG_ENTRIES", 8)
