"""Opening a store: the folders and files that are refused, damage, and who may read."""

from __future__ import annotations

import random
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from stream_dedup.clusters.model import Window, cluster_id_of
from stream_dedup.clusters.schema import CLUSTERS_FILE, CLUSTERS_FORMAT_VERSION
from stream_dedup.clusters.store import ClusterStore
from stream_dedup.errors import CorruptError, RefusedError, UnavailableError, UserError
from tests.clusters.checking import NOW_MS, refuse_other_answers
from tests.clusters.outputs import LOG_ID, OTHER_LOG_ID, at, outputs_of, random_log, size_of

THREADS = 4


def made(folder: Path) -> Path:
    """A store with some clusters, closed."""
    with closing(ClusterStore.open(folder, LOG_ID)) as store:
        store.apply(outputs_of(random_log(random.Random(4), 200)), {})
    return folder


def test_a_store_is_opened_again_as_it_was(tmp_path: Path) -> None:
    made(tmp_path / "clusters")
    with closing(ClusterStore.open(tmp_path / "clusters", LOG_ID)) as store:
        refuse_other_answers(store, random_log(random.Random(4), 200))


def test_the_store_of_another_log_is_refused(tmp_path: Path) -> None:
    """The error names both logs and the remedy; the store is left as it is."""
    made(tmp_path)
    with pytest.raises(RefusedError, match=r"belongs to log 74686520-.*is now 6f662061-.*delete the folder"):
        ClusterStore.open(tmp_path, OTHER_LOG_ID)
    with closing(ClusterStore.open(tmp_path, LOG_ID)) as store:
        assert size_of(store)[0] == 200


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    with (
        closing(ClusterStore.open(tmp_path, LOG_ID)),
        pytest.raises(UserError, match=r"cluster store .* is open in this process already"),
    ):
        ClusterStore.open(tmp_path, LOG_ID)


def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "novel.txt").write_text("chapter 1")
    with pytest.raises(UserError, match=r"is not a cluster store: unexpected file novel\.txt"):
        ClusterStore.open(tmp_path, LOG_ID)
    assert [file.name for file in tmp_path.iterdir()] == ["novel.txt"]


def test_the_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    """Its bytes do not change."""
    with closing(sqlite3.connect(tmp_path / CLUSTERS_FILE)) as other:
        other.execute("CREATE TABLE novel (chapter TEXT)")
    before = (tmp_path / CLUSTERS_FILE).read_bytes()
    with pytest.raises(UserError, match="a database of another program"):
        ClusterStore.open(tmp_path, LOG_ID)
    assert (tmp_path / CLUSTERS_FILE).read_bytes() == before


def test_another_format_names_the_remedy(tmp_path: Path) -> None:
    made(tmp_path)
    with closing(sqlite3.connect(tmp_path / CLUSTERS_FILE)) as connection:
        connection.execute(f"PRAGMA user_version = {CLUSTERS_FORMAT_VERSION + 1}")
    with pytest.raises(UserError, match="has format 5, and this program reads format 4; delete the folder"):
        ClusterStore.open(tmp_path, LOG_ID)


def test_a_store_of_another_format_that_was_killed_stays_as_it_is(tmp_path: Path) -> None:
    """What it had committed is in its write-ahead log, which is not merged into the file and deleted."""
    made(tmp_path / "made")
    with closing(sqlite3.connect(tmp_path / "made" / CLUSTERS_FILE)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA user_version = {CLUSTERS_FORMAT_VERSION + 1}")
        connection.commit()
        shutil.copytree(tmp_path / "made", tmp_path / "killed")
    files = [tmp_path / "killed" / name for name in (CLUSTERS_FILE, f"{CLUSTERS_FILE}-wal")]
    before = [file.read_bytes() for file in files]
    with pytest.raises(UserError, match="has format 5, and this program reads format 4"):
        ClusterStore.open(tmp_path / "killed", LOG_ID)
    assert [file.read_bytes() for file in files] == before


def test_a_file_that_is_no_database_is_damage(tmp_path: Path) -> None:
    (tmp_path / CLUSTERS_FILE).write_bytes(b"x" * 5_000)
    with pytest.raises(CorruptError, match="delete the folder: the clusters are built from the output topics again"):
        ClusterStore.open(tmp_path, LOG_ID)


def test_an_empty_file_is_a_store_that_was_not_begun(tmp_path: Path) -> None:
    """A process was killed between making the file and its tables."""
    (tmp_path / CLUSTERS_FILE).touch()
    with closing(ClusterStore.open(tmp_path, LOG_ID)) as store:
        assert size_of(store) == (0, 0)


@pytest.mark.parametrize("seed", range(6))
def test_damaged_pages_are_named(tmp_path: Path, seed: int) -> None:
    """Pages overwritten anywhere: each question is answered, or an error says what to do; none is another error."""
    rng = random.Random(seed)
    file = made(tmp_path) / CLUSTERS_FILE
    damaged = bytearray(file.read_bytes())
    for _ in range(len(damaged) // 4_096 // 2):
        page = rng.randrange(1, len(damaged) // 4_096) * 4_096
        damaged[page : page + 64] = rng.randbytes(64)
    file.write_bytes(damaged)
    with pytest.raises(CorruptError, match=r"is damaged: .*; delete the folder"):
        use(tmp_path)


def use(folder: Path) -> None:
    """Ask for everything that a store has, and add to it."""
    with closing(ClusterStore.open(folder, LOG_ID)) as store:
        for offset in range(100):
            store.cluster(cluster_id_of(at(offset)), NOW_MS)
        store.latest(200)
        store.apply(outputs_of(random_log(random.Random(7), 400)), {})


def test_many_threads_read_while_one_writes(tmp_path: Path) -> None:
    """Every answer is of one state: the members of the largest cluster are as many as its size says."""
    log = random_log(random.Random(6), 3_000, unique=0.01)
    with closing(ClusterStore.open(tmp_path, LOG_ID)) as store, ThreadPoolExecutor(THREADS) as threads:
        done = False

        def read() -> int:
            count = 0
            while not done or not count:
                for cluster in store.largest(Window.ALL, 1, NOW_MS):
                    assert cluster.counts[Window.HOUR] == cluster.size
                    assert sum(size for _, size in store.growth(cluster.id, Window.HOUR, NOW_MS)) >= cluster.size
                    count += 1
            return count

        readers = [threads.submit(read) for _ in range(THREADS)]
        for begin in range(0, len(log), 20):
            store.apply(outputs_of(log[begin : begin + 20]), {})
        done = True
        assert all(reader.result() > 0 for reader in readers)


def test_a_closed_store_answers_nothing(tmp_path: Path) -> None:
    store = ClusterStore.open(tmp_path, LOG_ID)
    store.latest(1)
    store.close()
    with pytest.raises(UnavailableError, match="closed"):
        store.latest(1)


def test_a_page_that_no_page_named(tmp_path: Path) -> None:
    with closing(ClusterStore.open(made(tmp_path), LOG_ID)) as store:
        for after in ("", "x", "1", "1.", "1.x", "1.2.3", "9" * 30 + ".1", "1.2 "):
            with pytest.raises(UserError, match="where a page begins"):
                store.members(cluster_id_of(at(0)), 5, after)
