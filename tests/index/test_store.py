"""RocksDB behind the index."""

from pathlib import Path

import pytest

from stream_dedup.index import IndexSettings
from stream_dedup.index.store import Store


def test_a_store_has_its_set_block_cache_after_opening_again(tmp_path: Path) -> None:
    """The cache has its share of the memory set now, not of that set when the folder was made."""
    for memory_mib, mib, create in ((192, 6, True), (320, 10, False)):
        settings = IndexSettings(memory_mib=memory_mib)
        store = Store(tmp_path / "data", settings, create=create, on_corrupt=pytest.fail)
        assert store._numbers("rocksdb.block-cache-capacity")[0] == mib << 20
        store.close()
