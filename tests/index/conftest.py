import pytest

from tests.index.small import small_chunks


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Portions and chunks so small that a few entries go through every path."""
    small_chunks(monkeypatch.setattr)
