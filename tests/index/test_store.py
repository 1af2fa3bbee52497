"""RocksDB behind the index."""

from pathlib import Path

import pytest

from stream_dedup.index import IndexSettings
from stream_dedup.index.store import Store


def test_a_store_has_its_set_block_cache_after_opening_again(tmp_path: Path) -> None:
    """The cache has the size set now, not the size set when the folder was made."""
    for mib, create in ((3, True), (5, False)):
        settings = IndexSettings(block_cache_mib=mib)
        store = Store(tmp_path / "data", settings, create=create, on_corrupt=pytest.fail)
        assert store.number("rocksdb.block-cache-capacity") == mib << 20
        store.close()
